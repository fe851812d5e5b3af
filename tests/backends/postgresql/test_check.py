"""PostgreSQL looked at before anything is written: what `open` would create, what it lacks, and the script for it."""

import asyncio
import logging
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import numpy as np
import pytest

from backends import open_conditions_store, open_folders_store, open_store, open_visit_store, schema_statements
from backends.base import SchemaMismatch, StoreError, StoreUnavailable
from backends.postgresql import PostgresqlStore, terminal_of
from backends.postgresql.server.embedded import EmbeddedPostgresql
from schemas.batch import Layout
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.queries import WindowReadings
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of, with_late
from tests.support.visits import visits_config

BOTH = pytest.mark.parametrize("layout", list(Layout))
GROUP, OTHER = group_of("bpm"), group_of("blm", size=3, dtypes=("uint32",))

Make = Callable[..., PostgresqlStore]


@pytest.fixture
async def make(postgresql_dsn: str, schema: str) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def make(user: str = "postgres", layout: Layout = Layout.ROWS, **settings: Any) -> PostgresqlStore:
            dsn = postgresql_dsn.replace("postgres@", f"{user}@")
            store = PostgresqlStore(
                DatabaseConfig(**{"dsn": dsn, "schema": schema, **settings}),
                logger="main",
                groups=by_group(GROUP, OTHER),
                layouts={"bpm": layout, "blm": Layout.ROWS},
            )
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def database(postgresql_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgresql_dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def guest(database: asyncpg.Connection, schema: str) -> str:
    """A role that may log in and nothing else."""
    name = f"guest_{schema}"
    await database.execute(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN")
    return name


async def said(store: PostgresqlStore) -> str:
    """What both a check and an opening say, in one line, and for good."""
    lines = []
    for call in (store.check, store.open):
        with pytest.raises(StoreError) as refused:
            await call()
        assert not refused.value.is_away
        lines.append(str(refused.value))
    assert lines[0] == lines[1]
    assert "\n" not in lines[0]
    return lines[0]


@BOTH
async def test_a_check_says_what_would_be_created_and_creates_nothing(
    make: Make, database: asyncpg.Connection, schema: str, layout: Layout
) -> None:
    expected = [f"schema `{schema}`", "tables of group `bpm`", "tables of group `blm`"]
    assert await make(layout=layout).check() == expected
    assert await make(layout=layout).check() == expected
    assert await database.fetchval("SELECT to_regnamespace($1)", schema) is None
    store = make(layout=layout)
    await store.open()
    assert await make(layout=layout).check() == []  # a daemon that writes is not in its way
    await store.close()
    await database.execute(f"DELETE FROM {schema}.groups WHERE name = 'blm'; DROP TABLE {schema}.blm CASCADE")
    assert await make(layout=layout).check() == ["tables of group `blm`"]


async def test_a_check_finds_what_does_not_fit(make: Make, database: asyncpg.Connection, schema: str) -> None:
    await make().open()
    with pytest.raises(SchemaMismatch, match="its layout is 'rows', the configuration says 'arrays'"):
        await make(layout=Layout.ARRAYS).check()
    await database.execute(f"DROP TABLE {schema}.bpm_ledger CASCADE")
    assert "has lost 'bpm_ledger'; bring back what was there" in await said(make())


async def test_positions_of_an_older_release(make: Make, database: asyncpg.Connection, schema: str) -> None:
    first = make()
    await first.open()
    await first.close()
    gone = ", ".join(f"DROP COLUMN {name}" for name in ("triggers", "readings", "journal", "state"))
    await database.execute(f"ALTER TABLE {schema}.positions {gone}")
    line = await said(make())
    assert "was made by an older triggerlog and has no triggers and readings and journal and state" in line
    await database.execute(line.partition("let its owner run ")[2])
    assert await make().check() == []
    store = make()
    await store.open()
    assert await store.position("bpm") is None


async def test_an_older_release_made_no_marks(make: Make, database: asyncpg.Connection, schema: str) -> None:
    first = make()
    await first.open()
    await first.close()
    await database.execute(f"DROP TABLE {schema}.marks")
    assert await make().check() == ["table `marks`"]
    await make().open()
    assert await make().check() == []


async def test_marks_of_someone_else(make: Make, database: asyncpg.Connection, schema: str) -> None:
    await database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.marks (id int)")
    assert "has a table 'marks' that is not triggerlog's; set another `schema`" in await said(make())


async def test_a_server_that_is_too_old(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.postgresql.schema.OLDEST", 99)
    line = await said(make())
    assert " is PostgreSQL 18." in line
    assert "too old; upgrade it to 99 or newer" in line


async def test_a_role_without_the_rights(make: Make, database: asyncpg.Connection, schema: str, guest: str) -> None:
    assert f"user '{guest}' may not create schema '{schema}' in database 'postgres'; let an" in await said(make(guest))
    await database.execute(f"CREATE SCHEMA {schema}")
    assert f"user '{guest}' may not use schema '{schema}'" in await said(make(guest))
    await database.execute(f"GRANT USAGE ON SCHEMA {schema} TO {guest}")
    assert f"user '{guest}' may not create tables in schema '{schema}'" in await said(make(guest))
    await make().open()
    assert 'lacks the right to SELECT on "' in await said(make(guest))
    await database.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {guest}")
    assert f'lacks the right to INSERT, UPDATE on "{schema}"."positions"' in await said(make(guest))
    await database.execute(f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {guest}")
    assert await make(guest).check() == []
    await database.execute(f"REVOKE DELETE ON {schema}.blm_ledger FROM {guest}")
    assert f'lacks the right to DELETE on "{schema}"."blm_ledger"; let an administrator' in await said(make(guest))


@pytest.mark.parametrize("what", ["conditions", "folders", "visits"])
async def test_a_role_without_the_rights_to_what_lies_beside_readings(
    what: str, postgresql_dsn: str, database: asyncpg.Connection, schema: str, guest: str, tmp_path: Path
) -> None:
    config = DatabaseConfig(dsn=postgresql_dsn.replace("postgres@", f"{guest}@"))
    store: Any
    if what == "visits":
        store = open_visit_store(config, visits_config(schema, {"index_mode": "partitioned"}), state_dir=tmp_path)
    else:
        opens = open_conditions_store if what == "conditions" else open_folders_store
        store = opens(config, schema=schema, state_dir=tmp_path)

    async def beside() -> str:
        lines = []
        for call in (store.check, store.create):
            with pytest.raises(StoreError) as refused:
                await call()
            assert not refused.value.is_away
            lines.append(str(refused.value))
        assert lines[0] == lines[1]
        return lines[0]

    line = await beside()
    assert f"user '{guest}' may not create schema '{schema}' in database 'postgres'; let an administrator run " in line
    await database.execute(f"CREATE SCHEMA {schema}")
    line = await beside()
    assert f"may not use, or create tables in, schema '{schema}' of {what}; let an administrator run GRANT" in line
    # What the line says to run is enough.
    await database.execute(line.partition("administrator run ")[2])
    await store.check()
    await store.create()
    await store.check()
    table = {"conditions": "tags", "folders": "nodes", "visits": '"Visits"'}[what]
    await database.execute(f"REVOKE DELETE ON {schema}.{table} FROM {guest}")
    assert "lacks the right to DELETE on " in await beside()
    await store.close()
    await database.execute(f"DROP OWNED BY {guest} CASCADE")


async def test_a_login_that_is_refused(make: Make, database: asyncpg.Connection, guest: str) -> None:
    hba = Path(await database.fetchval("SHOW hba_file"))
    before = hba.read_text()  # noqa: ASYNC240
    await database.execute(f"ALTER ROLE {guest} PASSWORD 'right'")
    hba.write_text(f"local all {guest} scram-sha-256\n{before}")  # noqa: ASYNC240
    await database.execute("SELECT pg_reload_conf()")
    wrong = make(f"{guest}:s3cret")
    async with asyncio.timeout(60):
        while True:  # until the server has read its file again
            try:
                await wrong.check()
            except StoreError as error:
                if "password" in str(error):
                    break
    line = await said(wrong)
    assert f'password authentication failed for user "{guest}" (28P01); correct the user in `dsn`' in line
    assert "s3cret" not in line
    assert "may not create schema" in await said(make(f"{guest}:right"))


async def test_a_database_that_is_not_there(make: Make, postgresql_dsn: str) -> None:
    line = await said(make(dsn=postgresql_dsn.replace("/postgres?", "/elsewhere?")))
    assert 'database "elsewhere" does not exist (3D000); create it there (CREATE DATABASE), or name' in line


async def test_a_server_that_is_not_there_may_come(make: Make, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is not reachable"):
        await make(dsn=f"postgresql://me@/db?host={tmp_path}").check()


async def test_a_server_that_may_not_be_written_to(make: Make, state_dir: Path) -> None:
    server = EmbeddedPostgresql(state_dir)
    await server.start()
    await server.stop()
    (state_dir / "postgresql" / "standby.signal").touch()
    try:
        with pytest.raises(StoreUnavailable, match="is read-only now: it is a standby"):
            await make(dsn=await server.start()).check()
    finally:
        await server.stop()


async def test_a_check_starts_no_embedded_server(state_dir: Path) -> None:
    store = open_store(
        DatabaseConfig(),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout.ROWS},
        state_dir=state_dir,
    )
    tables = ["schema `triggerlog`", "tables of group `bpm`"]
    assert await store.check() == ["an embedded PostgreSQL", *tables]
    assert not state_dir.exists()  # noqa: ASYNC240
    server = EmbeddedPostgresql(state_dir)
    await server.start()
    try:
        assert await store.check() == tables
        await store.open()
        assert await store.check() == []
        await store.close()
    finally:
        await server.stop()
    assert await store.check() == []
    assert server.pid is None
    (state_dir / "postgresql" / "PG_VERSION").write_text("12\n")
    with pytest.raises(StoreError, match="was written by PostgreSQL 12, this is 18; upgrade it"):
        await store.check()


def fed_to_psql(dsn: str, script: str) -> None:
    with terminal_of(DatabaseConfig(dsn=dsn), Path("/nonexistent"), "psql") as (psql, _):
        done = subprocess.run(
            [*psql, "-v", "ON_ERROR_STOP=1", "-q"], input=script, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr


@BOTH
async def test_an_administrator_may_make_it_all_and_the_daemon_only_write(
    make: Make,
    database: asyncpg.Connection,
    postgresql_dsn: str,
    schema: str,
    guest: str,
    layout: Layout,
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = "\n".join(
        schema_statements(
            Backend.POSTGRESQL,
            schema=schema,
            logger="main",
            groups=by_group(GROUP, OTHER),
            layouts={"bpm": layout, "blm": Layout.ROWS},
        )
    )
    fed_to_psql(postgresql_dsn, script)
    fed_to_psql(postgresql_dsn, script)  # again does no harm
    rights = [line.removeprefix("--   ") for line in script.splitlines() if line.startswith("--   GRANT")]
    assert len(rights) == 2
    await database.execute("".join(rights).replace(" TO logger", f" TO {guest}"))
    store = make(guest, layout)
    assert await store.check() == []
    with caplog.at_level(logging.WARNING):
        await store.open()
    assert "cannot be made: permission denied" in caplog.text
    rng = np.random.default_rng(3)
    times = 1_700_000_000_000_000_000 + np.arange(30) * 1_000_000
    readings = readings_of(GROUP, np.arange(30), times, rng)
    present = np.ones(readings.shape, bool)
    present[20, 5] = False
    first = batch_of(GROUP, 1, readings[:25], present=present[:25])
    await store.commit(first)
    late = readings[20, 5:6]
    revised = with_late(first.ledger[20], late, np.ones(GROUP.size, bool))
    await store.commit(
        batch_of(GROUP, 2, readings[25:], late=late, late_of=np.zeros(1, np.intp), revised=revised[None])
    )
    await store.commit(batch_of(GROUP, 3, readings_of(GROUP, np.array([99]), times[-1:] + 1, rng)))
    found = await store.ask(WindowReadings(group=GROUP, start_ns=0, end_ns=2 * int(times[-1])))
    np.testing.assert_array_equal(found[found["trigger"] < 99], answers(GROUP, [(1, readings.ravel())]))
    view = await database.fetchval(f"SELECT count(*) FROM {schema}.bpm_readings")
    assert view == 31 * GROUP.size


@BOTH
async def test_a_partition_that_may_not_be_written_to_by_name_is_left_to_the_server(
    make: Make, database: asyncpg.Connection, schema: str, guest: str, layout: Layout
) -> None:
    await make(layout=layout).open()  # makes the partitions of today
    await database.execute(f"""
        GRANT USAGE ON SCHEMA {schema} TO {guest};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {guest};
    """)
    for (partition,) in await database.fetch(
        f"SELECT relid::regclass::text FROM pg_partition_tree('{schema}.bpm') WHERE isleaf"
    ):
        await database.execute(f"REVOKE ALL ON {partition} FROM {guest}")
    await database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'triggerlog main'"
    )
    store = make(guest, layout)
    await store.open()
    now = int(1e9 * asyncio.get_running_loop().time())  # any time at all
    for sequence, count in ((1, 1), (2, 20)):
        readings = readings_of(
            GROUP, np.arange(100 * sequence, 100 * sequence + count), now + np.arange(count), np.random.default_rng(1)
        )
        await store.commit(batch_of(GROUP, sequence, readings))
    assert await database.fetchval(f"SELECT count(*) FROM {schema}.bpm_ledger") == 21


async def test_a_right_that_is_taken_away_makes_readings_wait_and_rejects_none(
    make: Make, database: asyncpg.Connection, schema: str, guest: str
) -> None:
    await make().open()
    await database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'triggerlog main'"
    )
    await database.execute(f"""
        GRANT USAGE ON SCHEMA {schema} TO {guest};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {guest};
    """)
    store = make(guest)
    await store.open()
    batch = batch_of(GROUP, 1, readings_of(GROUP, np.arange(9), np.arange(9), np.random.default_rng(1)))
    await database.execute(f"REVOKE INSERT ON {schema}.bpm FROM {guest}")
    with pytest.raises(StoreUnavailable, match="permission denied for table bpm"):
        await store.commit(batch)
    await database.execute(f"GRANT INSERT ON {schema}.bpm TO {guest}")
    await store.commit(batch)


def test_names_and_units_are_text_whatever_is_in_them() -> None:
    from backends.postgresql.protocol.sql import literal

    assert quote(literal("it's")) == quote("'it''s'")
    assert literal("a\\'b") == " E'a\\\\''b'"
