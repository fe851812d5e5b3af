"""daemon.tools.commands.database: PostgreSQL's programs on the database of a configuration, a daemon there or not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.kinds import KINDS
from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.core.configuration import load_config
from daemon.tools.commands.database import _environment
from schemas.checking.dsn import Backend
from tests.support.processes import (
    GROUP,
    LISTENERS,
    Running,
    here,
    running,
    running_daemon,
    triggerlog,
    until,
)

pytestmark = pytest.mark.slow

INSTRUMENTS = "SELECT name, instruments FROM groups"
FOREVER = "SELECT pg_sleep(600)"


def asked(file: Path, *options: str) -> str:
    """What psql says to a question."""
    done = triggerlog("psql", *options, str(file), "-At", "-c", INSTRUMENTS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sleeps(file: Path) -> bool:
    """Whether a session is at FOREVER."""
    count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = '" + FOREVER + "'"
    return triggerlog("psql", str(file), "-At", "-c", count).stdout == "1\n"


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a daemon that ran and ended."""
    with running_daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        assert asked(daemon.file) == "bpm|12\n"
    return daemon.file


@pytest.fixture
def server(left_behind: Path) -> Iterator[EmbeddedPostgresql]:
    """The server of that daemon: it runs neither before the test nor after it."""
    server = EmbeddedPostgresql(left_behind.parent / "state")
    assert server.pid is None
    yield server
    assert server.pid is None


@pytest.fixture
def session(left_behind: Path, server: EmbeddedPostgresql) -> Iterator[Running]:
    """A session of psql that has started the server, and goes on."""
    with running("psql", str(left_behind), "-At", "-c", "SELECT 'session'", "-c", FOREVER) as session:
        session.until_said("session")
        assert server.pid is not None
        yield session


def test_without_a_daemon_the_server_runs_for_the_session(left_behind: Path, server: EmbeddedPostgresql) -> None:
    assert asked(left_behind) == "bpm|12\n"
    assert server.pid is None


def test_the_exit_code_is_that_of_psql(left_behind: Path, server: EmbeddedPostgresql) -> None:
    wrong = triggerlog("psql", str(left_behind), "-v", "ON_ERROR_STOP=1", "-c", "SELECT nothing FROM nowhere")
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (1, 'ERROR:  relation "nowhere" does not exist')
    assert triggerlog("psql", str(left_behind), "-f", "/nonexistent.sql").returncode == 1
    assert triggerlog("psql", str(left_behind), "-v", "ON_ERROR_STOP=1", "-f", "/dev/null").returncode == 0
    assert server.pid is None


def test_a_session_that_is_ended_stops_the_server(session: Running, server: EmbeddedPostgresql) -> None:
    assert session.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert server.pid is None


def test_ctrl_c_is_for_psql(left_behind: Path, server: EmbeddedPostgresql) -> None:
    """A terminal sends SIGINT to all processes in its foreground."""
    command = [sys.executable, "-m", "daemon", "psql", str(left_behind), "-c", FOREVER]
    session = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until(lambda: server.found() and sleeps(left_behind), "the statement runs")
        os.killpg(session.pid, signal.SIGINT)
        _, failed = session.communicate(timeout=60)
    finally:
        session.terminate()
        session.wait()
    assert (session.returncode, failed) == (1, "Cancel request sent\nERROR:  canceling statement due to user request\n")
    assert server.pid is None


def test_a_daemon_that_starts_meanwhile_keeps_the_server(
    session: Running, left_behind: Path, server: EmbeddedPostgresql
) -> None:
    started = server.pid
    with running_daemon(left_behind.parent) as daemon:
        assert session.end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert server.pid == started
        assert asked(daemon.file) == "bpm|12\n"


def test_a_dump_is_restored_into_an_empty_folder(left_behind: Path, tmp_path: Path) -> None:
    dump, file = tmp_path / "beam.dump", tmp_path / "beam.toml"
    done = triggerlog("psql", "--program", "pg_dump", str(left_behind), "--format=custom", f"--file={dump}")
    assert done.returncode == 0, done.stderr
    file.write_text(GROUP + LISTENERS.format(api=0))
    refused = triggerlog("psql", str(file), "-c", INSTRUMENTS)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"triggerlog: no PostgreSQL is under {tmp_path / 'state'}; the first start of the daemon makes it\n"
    )
    done = triggerlog("psql", "--program", "pg_restore", str(file), str(dump))
    assert done.returncode == 0, done.stderr
    assert asked(file) == "bpm|12\n"


@pytest.mark.parametrize(
    ("dsn", "client"),
    [
        ("mysql://logger:s3cret@db:3307", "`mariadb -h db -P 3307 -u logger -p beam`"),
        (
            "mariadb://lo%20gger@localhost?unix_socket=/run/my.sock",
            "`mariadb --socket /run/my.sock -u 'lo gger' -p beam`",
        ),
        (
            "mongodb://logger:s3cret@a,b:27018/?tls=true",
            "`mongosh 'mongodb://logger@a,b:27018/?tls=true'`, then `use beam`",
        ),
    ],
)
def test_psql_names_the_client_of_another_database(tmp_path: Path, dsn: str, client: str) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(f'{GROUP}[database]\ndsn = "{dsn}"\nschema = "beam"\n')
    said = here("psql", str(file)).stderr.strip()
    assert said == f"triggerlog: {file} names no PostgreSQL; open its database with {client}"


def test_a_password_in_the_dsn_is_on_no_command_line(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(f'{GROUP}[database]\ndsn = "postgresql://logger:s3cret@db/beam"\n')
    loaded = load_config(file)
    with (
        KINDS[Backend.POSTGRESQL].implementation().terminal_of(loaded.config.database, tmp_path, "psql") as (command, _)
    ):
        assert command[1:] == ["--dbname", "postgresql://logger@db/beam"]
    assert _environment(loaded)["PGPASSWORD"] == "s3cret"
