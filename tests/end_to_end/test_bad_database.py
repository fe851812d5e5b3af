"""A database that cannot be used: one clear line, from `check-config` and at the start."""

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.core.configuration import load_config
from daemon.core.configuration.database import store_of
from tests.support.processes import (
    GROUP,
    LISTENERS,
    Daemon,
    free_port,
    here,
    running,
    running_daemon,
    triggerlog,
    until,
)
from tests.support.servers import server_folder

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{folder}/state"
{top}
[[groups]]
name = "bpm"
count = 3
channels = [{{ name = "x" }}]
[[sources]]
kind = "tcp"
port = 0
[api]
port = 0
[database]
dsn = "{dsn}"
schema = "{schema}"
{database}
"""


def execute(dsn: str, *statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


def configured(folder: Path, dsn: str, schema: str, *, top: str = "", database: str = "") -> Path:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=folder, dsn=dsn, schema=schema, top=top, database=database))
    return file


def refusal(file: Path, *, ends: bool = False) -> str:
    """The one line in which both refuse, without any password; a daemon takes readings and waits, or it `ends`."""
    checked = here("check-config", str(file))
    assert checked.returncode == 1, checked
    (line,) = checked.stderr.splitlines()
    if ends:
        started = triggerlog("run", str(file), "--log-level", "error")
        assert started.returncode == 1, started
        assert started.stderr.splitlines() == [f"triggerlog: {line}"]
        said = f"{started.stdout}{started.stderr}"
    else:
        with running("run", str(file)) as run:
            run.until_said(re.escape(f"readings are kept in the journal: {line}"))
            run.until_said("taking readings into the journal")
            assert run.end() == 0
            said = run.said
    assert "s3cret" not in f"{checked.stdout}{checked.stderr}{said}"
    return line


@pytest.fixture
def guest(postgresql_dsn: str, schema: str) -> str:
    """The DSN of a role that may log in and nothing else."""
    name = f"guest_{schema}"
    execute(postgresql_dsn, f"DROP ROLE IF EXISTS {name}", f"CREATE ROLE {name} LOGIN")
    return postgresql_dsn.replace("postgres@", f"{name}@")


def test_a_role_without_the_right_to_create_tables(tmp_path: Path, guest: str, schema: str) -> None:
    line = refusal(configured(tmp_path, guest, schema))
    assert line.startswith("database.dsn: postgresql://guest_")
    assert f"may not create schema '{schema}'" in line
    assert line.endswith("let an administrator run what `triggerlog schema FILE` prints, with the rights at its end")


def test_a_login_that_is_refused(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    line = refusal(configured(tmp_path, postgresql_dsn.replace("postgres@", "nobody:s3cret@"), schema))
    assert line.startswith("database.dsn: postgresql://nobody@")
    assert 'role "nobody" does not exist (28000); correct the user in `dsn`' in line


def test_a_database_that_is_not_there(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    line = refusal(configured(tmp_path, postgresql_dsn.replace("/postgres?", "/elsewhere?"), schema))
    assert 'database "elsewhere" does not exist (3D000); create it there' in line


def test_tables_that_do_not_fit(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    made = here("schema", str(configured(tmp_path, postgresql_dsn, schema)))
    execute(postgresql_dsn, made.stdout)
    line = refusal(configured(tmp_path, postgresql_dsn, schema, top='logger = "other"'), ends=True)
    assert line.startswith(f"database: group 'bpm' in schema '{schema}': it is written by logger 'triggerlog', this is")


def test_a_dsn_that_the_driver_does_not_take(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    line = refusal(configured(tmp_path, f"{postgresql_dsn}&sslmode=maybe", schema), ends=True)
    assert line.startswith("database.dsn: `dsn` in [database] cannot be used: ")


def test_a_password_with_an_at_sign(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    line = refusal(configured(tmp_path, "postgresql://me:s3cret@word@127.0.0.1:5432/beam", schema), ends=True)
    assert line == (
        "database.dsn: has more than one @ before the name of its database; in a user or a password write @ as %40"
    )


@pytest.fixture
def latin(postgresql_dsn: str, schema: str) -> Iterator[str]:
    """The DSN of a database that has few characters."""
    execute(postgresql_dsn, f"CREATE DATABASE latin_{schema} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    yield postgresql_dsn.replace("/postgres?", f"/latin_{schema}?")
    execute(postgresql_dsn, f"DROP DATABASE latin_{schema} WITH (FORCE)")


def test_a_mark_that_the_database_cannot_store_is_refused_at_once(tmp_path: Path, latin: str, schema: str) -> None:
    file = configured(tmp_path, latin, schema)
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        until(lambda: daemon.status()["store"]["available"], "the database answers")
        done = here("mark", str(file), "50 Ω", "--daemon", daemon.api)
        assert done.returncode == 1, done
        assert "has no equivalent in encoding" in done.stderr
        assert "; write it with characters that the database has" in done.stderr
        assert here("mark", str(file), "50 °", "--daemon", daemon.api).returncode == 0
        assert run.end() == 0


def test_a_unit_that_the_database_cannot_store(tmp_path: Path, latin: str, schema: str) -> None:
    file = configured(tmp_path, latin, schema)
    with_unit = file.read_text().replace('{ name = "x" }', '{ name = "x", unit = "UNIT" }')
    file.write_text(with_unit.replace("UNIT", "°"))
    assert "to create" in checked(file).stdout
    file.write_text(with_unit.replace("UNIT", "Ω"))
    line = refusal(file)
    assert line.startswith("database.dsn: postgresql://postgres@")
    assert (
        ": 'Ω', of channel 'x' of group 'bpm', cannot be stored in a database whose encoding is LATIN1; write it"
        in line
    )


BESIDE = """
[conditions]
serve = true
port = 0
schema = "{schema}_conditions"
[folders]
serve = true
schema = "{schema}_folders"
"""


def check_beside(file: Path, schema: str) -> list[str]:
    """See that a check names the sections that the login has no right for, and that a daemon says the same."""
    file.write_text(file.read_text() + BESIDE.format(schema=schema))
    done = here("check-config", str(file))
    assert done.returncode == 1, done
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["conditions.schema", "folders.schema"], lines
    with running("run", str(file)) as run:
        run.until_said(re.escape(f"folders cannot be opened, and are tried again: {lines[1].partition(': ')[2]}"))
    return lines


def test_schemas_beside_the_readings_that_may_not_be_made(
    tmp_path: Path, postgresql_dsn: str, guest: str, schema: str
) -> None:
    execute(postgresql_dsn, f"CREATE SCHEMA {schema} AUTHORIZATION guest_{schema}")
    lines = check_beside(configured(tmp_path, guest, schema), schema)
    for line, of in zip(lines, ("conditions", "folders"), strict=True):
        assert f"may not create schema '{schema}_{of}' in database 'postgres'; let an administrator run" in line


def test_databases_beside_the_readings_that_may_not_be_made(tmp_path: Path, mariadb: "Mariadb", schema: str) -> None:
    mariadb.execute(f"CREATE USER weak_{schema}@'%'; GRANT ALL ON {schema}.* TO weak_{schema}@'%'")
    lines = check_beside(configured(tmp_path, mariadb.as_user(f"weak_{schema}"), schema), schema)
    for line, of in zip(lines, ("conditions", "folders"), strict=True):
        assert f"lacks SELECT, INSERT, UPDATE, DELETE, CREATE on database '{schema}_{of}': GRANT" in line


def test_a_check_says_all_problems_at_once(tmp_path: Path, guest: str, schema: str) -> None:
    file = configured(tmp_path, guest, schema)
    file.write_text(
        file.read_text().replace("[api]\n", f'[api]\ntoken_file = "{tmp_path}/nowhere"\n')
        + BESIDE.format(schema=schema)
    )
    done = here("check-config", str(file))
    assert done.returncode == 1, done
    fields = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert fields == ["api.token_file", "database.dsn", "conditions.schema", "folders.schema"], done.stderr


def checked(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    done = here("check-config", str(file), *options)
    assert done.returncode == 0, done
    return done


def test_a_check_says_what_would_be_created(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    file = configured(tmp_path, postgresql_dsn, schema)
    said = checked(file)
    assert said.stderr == ""
    assert f"to create  schema `{schema}`\n  to create  tables of group `bpm`\n" in said.stdout
    assert "  server     postgresql 18." in said.stdout
    assert "; sync (fsync on, synchronous_commit on)\n" in said.stdout
    execute(postgresql_dsn, here("schema", str(file)).stdout)
    assert "to create" not in checked(file).stdout


@pytest.mark.parametrize("server", ["postgresql_dsn", "mariadb_dsn"])
def test_a_check_says_from_when_on_another_partition_holds(
    tmp_path: Path, request: pytest.FixtureRequest, server: str, schema: str
) -> None:
    dsn = request.getfixturevalue(server)
    loaded = load_config(configured(tmp_path, dsn, schema, database='partition = "hour"'))

    async def opened() -> None:
        store = store_of(loaded)
        await store.open()
        await store.close()

    asyncio.run(opened())
    assert "database.partition" not in checked(loaded.path).stderr
    (warning,) = checked(configured(tmp_path, dsn, schema, database='partition = "month"')).stderr.splitlines()
    assert re.fullmatch(
        r"warning: database\.partition: group bpm has partitions of another stretch up to \d{4}-\d\d-\d\dT\d\d:00 UTC;"
        " they stay, and partitions of one month begin there",
        warning,
    )


def test_a_server_that_is_away_is_a_warning_for_a_daemon_waits(tmp_path: Path, schema: str) -> None:
    file = configured(tmp_path, f"postgresql://me:s3cret@127.0.0.1:{free_port()}/beam", schema)
    warnings = checked(file).stderr.splitlines()
    assert len(warnings) == 2
    assert "holds a password" in warnings[0]
    assert warnings[1].startswith("warning: database.dsn: postgresql://me@127.0.0.1:")
    assert "is not reachable" in warnings[1]
    assert warnings[1].endswith("; a daemon would wait for it")
    assert "is not reachable" not in checked(file, "--offline").stderr


def test_a_mongodb_that_is_away_is_a_warning(tmp_path: Path, schema: str) -> None:
    # In a process of its own: the driver forgets the socket of a server that is not there (PYTHON-5867).
    file = configured(tmp_path, f"mongodb://127.0.0.1:{free_port()}", schema)
    done = triggerlog("check-config", str(file))
    assert done.returncode == 0, done
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: database.dsn: mongodb://127.0.0.1:")
    assert warning.endswith("; a daemon would wait for it")


def test_a_mongodb_says_what_would_be_created(tmp_path: Path, mongodb_dsn: str, schema: str) -> None:
    said = checked(configured(tmp_path, mongodb_dsn, schema)).stdout
    assert f"to create  database `{schema}`\n  to create  collection of group `bpm`\n" in said


def test_a_mongodb_dsn_with_an_unknown_option(tmp_path: Path, mongodb_dsn: str, schema: str) -> None:
    line = refusal(configured(tmp_path, f"{mongodb_dsn}/?nonsense=s", schema), ends=True)
    assert line.startswith("database.dsn: `dsn` in [database] cannot be understood: Unknown option: nonsense")


class Mariadb:
    """A MariaDB's administrator."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def execute(self, statement: str) -> None:
        port = self.dsn.rpartition(":")[2]
        subprocess.run(["mariadb", "-h", "127.0.0.1", "-P", port, "-u", "root", "-e", statement], check=True)

    def as_user(self, user: str) -> str:
        return self.dsn.replace("root@", f"{user}@")


@pytest.fixture
def mariadb(mariadb_dsn: str) -> Mariadb:
    return Mariadb(mariadb_dsn)


def test_a_mariadb_login_that_is_refused(tmp_path: Path, mariadb: Mariadb, schema: str) -> None:
    mariadb.execute(f"CREATE USER known_{schema}@'%' IDENTIFIED BY 'right'")
    line = refusal(configured(tmp_path, mariadb.as_user(f"known_{schema}:s3cret"), schema))
    assert line.startswith(f"database.dsn: mysql://known_{schema}@127.0.0.1")
    assert f"Access denied for user 'known_{schema}'@" in line


def test_a_mariadb_user_without_the_right_to_create(tmp_path: Path, mariadb: Mariadb, schema: str) -> None:
    mariadb.execute(f"CREATE USER weak_{schema}@'%' IDENTIFIED BY 's3cret'")
    line = refusal(configured(tmp_path, mariadb.as_user(f"weak_{schema}:s3cret"), schema))
    assert f"'weak_{schema}" in line
    assert "CREATE" in line
    assert "triggerlog schema" in line


def test_a_mariadb_administrator_may_run_the_script_first(tmp_path: Path, mariadb: Mariadb, schema: str) -> None:
    file = configured(tmp_path, mariadb.dsn, schema)
    assert f"to create  database '{schema}'" in checked(file).stdout
    mariadb.execute(here("schema", str(file)).stdout)
    assert "to create" not in checked(file).stdout


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_mariadb_that_lacks_a_setting_is_a_warning_where_it_is_asked_for(
    tmp_path: Path, mariadb: Mariadb, schema: str, durability: str
) -> None:
    mariadb.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    try:
        said = checked(configured(tmp_path, mariadb.dsn, schema, database=f'durability = "{durability}"'))
    finally:
        mariadb.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    if durability == "async":
        assert said.stderr == ""
    else:
        assert said.stderr.startswith("warning: database.durability: sync is not kept: ")
        assert said.stderr.endswith("; set innodb_flush_log_at_trx_commit = 1 there\n")


@pytest.fixture
async def own_server(state_dir: Path) -> AsyncIterator[str]:
    """A PostgreSQL whose settings a test may change."""
    server = EmbeddedPostgresql(state_dir)
    yield await server.start()
    await server.stop()


async def test_a_server_that_lacks_a_setting_is_a_warning_by_field(tmp_path: Path, own_server: str) -> None:
    connection = await asyncpg.connect(own_server)
    await connection.execute("ALTER SYSTEM SET fsync = off")
    await connection.execute("SELECT pg_reload_conf()")
    async with asyncio.timeout(60):
        while await connection.fetchval("SHOW fsync") != "off":  # noqa: ASYNC110 - the server reads it in its own time
            await asyncio.sleep(0.02)
    await connection.close()
    said = await asyncio.to_thread(checked, configured(tmp_path, own_server, "beam", database='durability = "async"'))
    assert said.stderr == (
        "warning: database.durability: async is not kept: NOT durable: fsync is off on the server, a crash of the "
        "machine can lose or corrupt anything; set fsync = on there\n"
    )


def test_a_daemon_that_was_killed_in_its_first_start_takes_readings_after_the_next() -> None:
    with server_folder() as folder:
        file = folder / "beam.toml"
        file.write_text(GROUP + LISTENERS.format(api=0))
        made = [folder / "state" / name / "PG_VERSION" for name in ("postgresql", "postgresql.partial")]
        with running("run", str(file)) as run:
            until(lambda: any(path.exists() for path in made), "initdb has begun")
            run.end(signal.SIGKILL)
        with running_daemon(folder) as daemon:
            until(lambda: daemon.status()["store"]["available"], "the database answers", 120)


def test_a_database_that_was_left_unfinished_is_one_line_with_the_fix() -> None:
    with server_folder() as folder:
        file = folder / "beam.toml"
        file.write_text(GROUP + LISTENERS.format(api=0))
        data = folder / "state" / "postgresql"
        data.mkdir(parents=True)
        (data / "PG_VERSION").write_text("18\n")
        with running("run", str(file)) as run:
            run.until_said(re.escape(f"`mv {data} {data}.unfinished`, and start again"))
            assert "Traceback" not in run.said
