"""PgBouncer between the daemon and PostgreSQL: session mode works, and the others are refused in one sentence."""

import os
import pwd
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from backends import open_conditions_store, open_folders_store, open_visit_store
from backends.base import ConfigurationRefused, ReadOnly
from backends.conditions import ConditionsStore
from backends.folders.base import FoldersStore
from backends.postgresql import PostgresqlStore
from daemon.core.configuration import load_config
from daemon.core.configuration.database import look_at_readers, look_beside
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.processes import triggerlog
from tests.support.servers import installed, needs, server_folder
from tests.support.visits import visits_config

GROUP = group_of()
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def behind(postgresql_dsn: str, mode: str) -> Iterator[str]:
    """The DSN through a pooler."""
    with installed():
        needs("pgbouncer", "pgbouncer", PATH)
    server = Path(parse_qs(urlsplit(postgresql_dsn).query)["host"][0])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with server_folder() as folder:
        file = folder / "pgbouncer.ini"
        file.write_text(
            f"[databases]\npostgres = host={server} port=5432 user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
            f"pool_mode = {mode}\n"
        )
        file.chmod(0o644)
        # It does not run as root, and the server's socket is for its own account.
        owner = pwd.getpwuid(server.stat().st_uid).pw_name
        log = (folder / "log").open("wb")
        command = ["pgbouncer", *(["-u", owner] if os.geteuid() == 0 else []), str(file)]
        process = subprocess.Popen(command, env={"PATH": PATH}, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not _listens(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()
            process.wait()
            log.close()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.fixture
async def store(behind: str, schema: str) -> AsyncIterator[PostgresqlStore]:
    async with AsyncExitStack() as stack:
        store = PostgresqlStore(
            DatabaseConfig(dsn=behind, schema=schema),
            logger="main",
            groups=by_group(GROUP),
            layouts={"bpm": Layout.ROWS},
        )
        stack.push_async_callback(store.close)
        yield store


@pytest.mark.parametrize("mode", ["transaction", "statement"], indirect=True)
async def test_a_pooler_that_shares_sessions_is_refused_by_a_check_and_at_a_start(
    store: PostgresqlStore, behind: str, schema: str
) -> None:
    reader = PostgresqlStore(
        DatabaseConfig(dsn=behind, schema=schema),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout.ROWS},
        read_only=ReadOnly(connections=1, give_up_s=30),
    )
    for call in (store.facts, store.check, store.open, reader.facts):
        with pytest.raises(ConfigurationRefused) as refused:
            await call()
        assert not refused.value.is_away
        assert str(refused.value).startswith("postgresql://postgres@127.0.0.1:")
        assert str(refused.value).endswith(
            " leads through a pooler that shares sessions of the server among connections (transaction or statement"
            " mode), where neither locks nor settings last; set its pool_mode to session, or name the server itself"
        )


def configuration(folder: Path, dsn: str, more: str) -> Path:
    file = folder / "beam.toml"
    group = '[[groups]]\nname = "bpm"\ncount = 3\nchannels = [{ name = "x" }]\n'
    file.write_text(f'state_dir = "{folder}"\n{group}[database]\ndsn = "{dsn}"\n{more}')
    return file


SHARES = "leads through a pooler that shares sessions of the server among connections"


@pytest.mark.parametrize("mode", ["transaction"], indirect=True)
@pytest.mark.parametrize("opens", [open_conditions_store, open_folders_store])
async def test_conditions_and_folders_refuse_it_too(
    behind: str, schema: str, tmp_path: Path, opens: Callable[..., ConditionsStore | FoldersStore]
) -> None:
    store = opens(DatabaseConfig(dsn=behind), schema=schema, state_dir=tmp_path, connections=1)
    for call in (store.check, store.create):
        with pytest.raises(ConfigurationRefused, match=SHARES):
            await call()
    await store.close()


@pytest.mark.parametrize("mode", ["transaction", "statement"], indirect=True)
async def test_visits_and_who_reads_them_refuse_it_too(behind: str, schema: str, tmp_path: Path) -> None:
    config, visits = DatabaseConfig(dsn=behind), visits_config(schema, {"index_mode": "partitioned"})
    store = open_visit_store(config, visits, state_dir=tmp_path)
    reader = open_visit_store(config, visits, state_dir=tmp_path, read_only=ReadOnly(connections=1, give_up_s=30))
    for call in (store.check, store.create, reader.connect):
        with pytest.raises(ConfigurationRefused, match=SHARES):
            await call()
    await reader.close()
    await store.close()


@pytest.mark.parametrize("mode", ["transaction"], indirect=True)
async def test_the_check_of_a_configuration_finds_it_wherever_it_is(
    behind: str, postgresql_dsn: str, tmp_path: Path
) -> None:
    served = "[conditions]\nserve = true\n[folders]\nserve = true\n[visits]\nstart = true\n"
    beside = await look_beside(load_config(configuration(tmp_path, behind, served)))
    assert [line.partition(":")[0] for line in beside] == ["conditions.schema", "folders.schema", "visits.schema"]
    assert all(SHARES in line for line in beside)
    (problem,) = await look_at_readers(
        load_config(configuration(tmp_path, postgresql_dsn, f'[readers]\ndsn = "{behind}"'))
    )
    assert (problem.field, SHARES in problem.problem) == ("readers.dsn", True)
    assert problem.fix.startswith("set its pool_mode to session")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["session"], indirect=True)
def test_the_terminal_finds_the_tables_through_it_and_does_what_the_user_has_set(behind: str, tmp_path: Path) -> None:
    file = configuration(tmp_path, behind, 'schema = "beam"\n')
    own = tmp_path / "it's mine"
    own.write_text("\\set answer 42\n")
    done = triggerlog("psql", str(file), "-At", "-c", "SHOW search_path", PSQLRC=str(own))
    assert (done.returncode, done.stdout, done.stderr) == (0, "beam,public\n", "")
    done = triggerlog("psql", str(file), "-At", "-c", "\\echo :answer", PSQLRC=str(own))
    assert done.stdout == "42\n"
    done = triggerlog("psql", "--program", "pg_dump", str(file), "--schema-only", "--schema", "pg_catalog")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["session"], indirect=True)
async def test_a_pooler_that_gives_each_connection_a_session_is_used(store: PostgresqlStore) -> None:
    assert await store.check()
    await store.open()
    times = 1_700_000_000_000_000_000 + np.arange(30) * 1_000_000
    await store.commit(batch_of(GROUP, 1, readings_of(GROUP, np.arange(30), times, np.random.default_rng(1))))
    position = await store.position("bpm")
    assert position is not None
    assert position.sequence == 1
    assert await store.check() == []
