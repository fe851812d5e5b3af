"""What only MariaDB and MySQL do: crashes, locks, partitions, the view, rights, durability."""

import asyncio
import itertools
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from backends import open_store
from backends.base import BatchRejected, SchemaMismatch, StoreError, StoreLacks, StoreUnavailable
from backends.columns.partitions import partitions_of
from backends.mysql import MysqlStore
from backends.mysql.protocol.connection import Connection
from backends.mysql.schema.create import schema_statements
from backends.mysql.schema.partitions import LEAST, MOST, ranges_of
from backends.mysql.schema.tables import floating
from backends.mysql.server.address import address_of, connect
from backends.throwaway.mariadb import ThrowawayMariadb
from schemas.batch import Durability, Layout
from schemas.config import DatabaseConfig
from schemas.queries import InstrumentReadings, LedgerTail, WindowReadings
from schemas.readings import Array, InstrumentGroup
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of, with_late
from tests.support.committing import committed

DAY_NS = 86_400_000_000_000
BOTH = pytest.mark.parametrize("layout", list(Layout))
BULK = pytest.mark.parametrize("bulk", [True, False], ids=["bulk", "statements"])

Make = Callable[..., MysqlStore]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
async def make(mariadb_dsn: str, schema: str) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def make(
            group: InstrumentGroup, layout: Layout = Layout.ROWS, bulk: bool = True, **settings: Any
        ) -> MysqlStore:
            store = MysqlStore(
                DatabaseConfig(**{"dsn": mariadb_dsn, "schema": schema, **settings}),
                logger="main",
                groups=by_group(group),
                layouts={group.name: layout},
                bulk=bulk,
            )
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def database(mariadb_dsn: str) -> AsyncIterator[Connection]:
    connection = await connect(address_of(mariadb_dsn), program="tests", timeout_s=30)
    yield connection
    await connection.ensure_closed()


@pytest.fixture
async def user(database: Connection, schema: str) -> AsyncIterator[str]:
    """A user with a password and no rights, named like the schema."""
    await database.run(f"CREATE USER {schema}@'127.0.0.1' IDENTIFIED BY 'secret/@word'")
    yield schema
    await database.run(f"DROP USER {schema}@'127.0.0.1'")


def some(group: InstrumentGroup, first: int, count: int, rng: np.random.Generator, at: int | None = None) -> Array:
    start = time.time_ns() if at is None else at
    return readings_of(group, np.arange(first, first + count), start + np.arange(count) * 1_000_000, rng)


async def everything(store: MysqlStore, group: InstrumentGroup) -> Array:
    return await store.ask(WindowReadings(group=group, start_ns=-(2**63), end_ns=2**63 - 1))


def login(dsn: str, user: str, password: str | None = None) -> str:
    return dsn.replace("root@", f"{user}:{password}@" if password else f"{user}@")


# --- crashes and lost connections -----------------------------------------------------------------------------------


# Arrays by the bulk command are tried in tests/crashes/test_crashes.py.
@pytest.mark.parametrize(("layout", "bulk"), [(Layout.ROWS, True), (Layout.ARRAYS, False)])
async def test_a_killed_server_loses_and_repeats_nothing(
    state_dir: Path, rng: np.random.Generator, layout: Layout, bulk: bool, mariadb_dsn: str
) -> None:
    group = group_of()
    server = ThrowawayMariadb(state_dir, innodb_log_file_size="64M")
    dsn = await asyncio.to_thread(server.start)
    assert dsn != mariadb_dsn
    store = MysqlStore(
        DatabaseConfig(dsn=dsn), logger="main", groups=by_group(group), layouts={"bpm": layout}, bulk=bulk
    )
    try:
        await store.open()
        sent: list[Array] = []
        for kill in range(3):
            failed = asyncio.Event()

            async def log(failed: asyncio.Event = failed) -> None:
                while not failed.is_set():
                    count = 5 if len(sent) % 2 else 60
                    sent.append(some(group, len(sent) * 60, count, rng))
                    await committed(store, batch_of(group, len(sent), sent[-1]), failed)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(log())
                await asyncio.sleep(0.05 + 0.03 * kill)
                await asyncio.to_thread(server.kill)
                await failed.wait()
                assert await asyncio.to_thread(server.start) == dsn
        position = await store.position("bpm")
        assert position is not None
        assert position.sequence == len(sent)
        np.testing.assert_array_equal(
            await everything(store, group), answers(group, [(1, readings.ravel()) for readings in sent])
        )
        assert len(await store.ask(LedgerTail(group=group, most=10**6))) == sum(map(len, sent))
    finally:
        await store.close()
        await asyncio.to_thread(server.stop)
    assert server.pid is None


@BULK
async def test_a_commit_that_waits_too_long_is_given_up(
    make: Make, database: Connection, schema: str, rng: np.random.Generator, bulk: bool
) -> None:
    group = group_of()
    store = make(group, bulk=bulk, command_timeout_s=2.0)
    await store.open()
    batch = batch_of(group, 1, some(group, 1, 3, rng))
    await database.run("START TRANSACTION")
    await database.fetch(f"SELECT * FROM {schema}.positions FOR UPDATE")
    with pytest.raises(StoreUnavailable, match="does not answer in time"):
        await store.commit(batch)
    await database.run("ROLLBACK")
    await committed(store, batch)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, batch.readings.ravel())]))


@BOTH
async def test_a_cancelled_commit_leaves_nothing_behind(
    make: Make, database: Connection, schema: str, rng: np.random.Generator, layout: Layout
) -> None:
    group = group_of()
    store = make(group, layout)
    await store.open()
    batch = batch_of(group, 1, some(group, 1, 3, rng))
    await database.run(f"LOCK TABLES {schema}.bpm WRITE")
    committing = asyncio.create_task(store.commit(batch))
    waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'"
    async with asyncio.timeout(60):
        while (await database.fetch(waiting))[0][0] == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    await database.run("UNLOCK TABLES")
    await committed(store, batch)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, batch.readings.ravel())]))


async def test_a_connection_cut_by_the_server(
    make: Make, database: Connection, mariadb_dsn: str, user: str, rng: np.random.Generator
) -> None:
    group = group_of()
    await database.run(f"GRANT ALL ON {user}.* TO {user}@'127.0.0.1'")
    store = make(group, dsn=login(mariadb_dsn, user, "secret%2F%40word"))
    await store.open()
    await everything(store, group)
    for (number,) in await database.fetch(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{user}'"):
        await database.run(f"KILL {number}")
    batch = batch_of(group, 1, some(group, 1, 3, rng))
    await committed(store, batch)
    async with asyncio.timeout(60):
        while True:
            try:
                found = await everything(store, group)
                break
            except StoreUnavailable:
                continue
    np.testing.assert_array_equal(found, answers(group, [(1, batch.readings.ravel())]))


async def test_a_question_cut_by_the_server(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 3, rng)))
    await database.run(f"LOCK TABLES {schema}.bpm WRITE")
    asking = asyncio.create_task(everything(store, group))
    waiting = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'"
    async with asyncio.timeout(60):
        while not (found := await database.fetch(waiting)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await database.run(f"KILL QUERY {found[0][0]}")
    with pytest.raises(StoreUnavailable, match="interrupted"):
        await asking
    await database.run("UNLOCK TABLES")
    assert len(await everything(store, group)) == 3 * group.size


# --- other daemons, other tables, what is refused -------------------------------------------------------------------


async def test_two_daemons_cannot_write_one_group(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.sql.writing.GROUP_LOCK_TIMEOUT_S", 0.05)
    monkeypatch.setattr("backends.sql.store.TAKE_OVER_S", 0)
    group = group_of()
    first, second = make(group), make(group)
    await first.open()
    with pytest.raises(SchemaMismatch, match=r"is being written by another daemon .* stop that one"):
        await second.open()
    await first.close()
    await second.open()


@BULK
async def test_what_the_server_will_never_take(
    make: Make, database: Connection, schema: str, rng: np.random.Generator, bulk: bool
) -> None:
    group = group_of()
    store = make(group, bulk=bulk)
    await store.open()
    for count in (2, 200):
        twice = some(group, 1000 * count, count, rng)
        await store.commit(batch_of(group, count, twice))
        with pytest.raises(BatchRejected, match="duplicate key in 'bpm_ledger'; trigger 2000"):
            await store.commit(batch_of(group, count + 1, twice))
        # What went wrong went back whole.
        assert (await store.position("bpm")).sequence == count
    await store.commit(batch_of(group, 300, some(group, 7, 2, rng)))
    await database.run(f"ALTER TABLE {schema}.bpm DROP COLUMN ch2")
    with pytest.raises(StoreLacks, match="bring back the tables as triggerlog made them") as rejected:
        await store.commit(batch_of(group, 301, some(group, 9, 2, rng)))
    assert "\n" not in str(rejected.value)
    with pytest.raises(StoreError, match="ch2"):
        await everything(store, group)


@pytest.mark.parametrize(
    ("alteration", "reason", "detail"),
    [
        ("ADD CONSTRAINT top_2 CHECK (trigger_id < 1000)", r"CONSTRAINT `top_2` failed for `\w+`\.`bpm` \(4025\)", ""),
        (
            "MODIFY trigger_id TINYINT UNSIGNED NOT NULL",
            r"Out of range value for column 'trigger_id' at row \.\.\. \(1264\)",
            r"Out of range value for column 'trigger_id' at row \d+",
        ),
    ],
    ids=["check", "range"],
)
@pytest.mark.parametrize("count", [1, 3, 500])
@BULK
async def test_a_refusal_has_the_same_reason_whatever_the_row_and_a_rehearsal_costs_no_connection(
    make: Make,
    database: Connection,
    schema: str,
    rng: np.random.Generator,
    bulk: bool,
    alteration: str,
    reason: str,
    detail: str,
    count: int,
) -> None:
    group = group_of()
    store = make(group, bulk=bulk)
    await store.open()
    first = some(group, 1, 2, rng)
    await store.commit(batch_of(group, 1, first))
    await database.run(f"ALTER TABLE {schema}.bpm {alteration}")
    ours = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
    with pytest.raises(BatchRejected):
        await store.commit(batch_of(group, 2, some(group, 2000, count, rng)))
    for trigger in (2000, 3000):
        for refused in (store.commit, store.rehearse, store.rehearse):
            before = {number for (number,) in await database.fetch(ours)}
            with pytest.raises(BatchRejected) as rejected:
                await refused(batch_of(group, 2, some(group, trigger, count, rng)))
            assert re.search(f"refuses: {reason}$", rejected.value.reason)
            assert re.fullmatch(detail, rejected.value.detail)
            # Nothing of it is left, in no transaction.
            assert (await store.position("bpm")).sequence == 1
            # What a commit is told has to be said on a new connection, too.
            new = {number for (number,) in await database.fetch(ours)} - before
            assert len(new) == (refused == store.commit)
    await database.run(f"ALTER TABLE {schema}.bpm DROP CONSTRAINT IF EXISTS top_2, MODIFY trigger_id BIGINT NOT NULL")
    more = some(group, 4000, count, rng)
    await store.commit(batch_of(group, 2, more))
    expected = answers(group, [(1, first.ravel()), (1, more.ravel())])
    np.testing.assert_array_equal(await everything(store, group), expected)


async def test_what_a_unique_key_refuses_has_no_value_in_its_reason(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database.run(f"ALTER TABLE {schema}.bpm ADD COLUMN more INT DEFAULT 7, ADD UNIQUE KEY once (time_ns, more)")
    readings = some(group, 1, 1, rng)
    readings["time_ns"] = readings["time_ns"][0, 0]
    with pytest.raises(BatchRejected) as rejected:
        await store.commit(batch_of(group, 1, readings))
    assert rejected.value.reason.endswith("refuses: Duplicate entry ... for key 'once' (1062)")
    assert rejected.value.detail == f"Duplicate entry '{readings['time_ns'][0, 0]}-7' for key 'once'"


async def test_a_table_that_was_altered_is_not_misread(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 3, rng)))
    await database.run(f"ALTER TABLE {schema}.bpm MODIFY ch2 FLOAT")
    with pytest.raises(StoreError, match="not as this store made them"):
        await everything(store, group)


async def test_a_position_that_is_gone_is_no_reason_to_drop_batches(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database.run(f"DELETE FROM {schema}.positions")
    batch = batch_of(group, 1, some(group, 1, 2, rng))
    with pytest.raises(StoreUnavailable, match="position of group 'bpm' was gone"):
        await store.commit(batch)
    await store.commit(batch)
    assert len(await everything(store, group)) == 2 * group.size


async def test_a_table_of_someone_else(make: Make, database: Connection, schema: str) -> None:
    await database.run(f"CREATE DATABASE {schema}; CREATE TABLE {schema}.bpm (n int)")
    for store in (make(group_of()), make(group_of())):
        with pytest.raises(SchemaMismatch, match="has a table 'bpm' that is not triggerlog's"):
            await store.check()
        with pytest.raises(SchemaMismatch, match="has a table 'bpm' that is not triggerlog's"):
            await store.open()
    assert await database.fetch(f"SHOW TABLES FROM {schema}") == [("bpm",)]


@BOTH
async def test_a_daemon_that_died_while_it_made_the_tables(
    make: Make, database: Connection, schema: str, layout: Layout, rng: np.random.Generator
) -> None:
    group = group_of()
    script = schema_statements(schema, "main", by_group(group), {"bpm": layout})
    statements = [statement for statement in script if not statement.startswith("--")]
    for count in range(1, len(statements)):
        await database.run(";".join(["COMMIT", *statements[:count]]))
        store = make(group, layout)
        await store.open()
        await store.commit(batch_of(group, 1, some(group, 1, 2, rng)))
        assert len(await everything(store, group)) == 2 * group.size
        await store.close()
        await database.run(f"DROP DATABASE {schema}")


async def test_a_server_that_is_not_there(make: Make, tmp_path: Path) -> None:
    socket = tmp_path / "none.sock"
    for dsn in ("mysql://me:secret@127.0.0.1:1", f"mysql://me:secret@localhost?unix_socket={socket}"):
        with pytest.raises(StoreUnavailable, match="not reachable") as away:
            await make(group_of(), dsn=dsn).open()
        assert "secret" not in str(away.value)
        assert "\n" not in str(away.value)


async def test_a_wrong_password(make: Make, mariadb_dsn: str, user: str) -> None:
    store = make(group_of(), dsn=login(mariadb_dsn, user, "wrong"))
    for wrong in (store.open, store.check):
        with pytest.raises(StoreError, match=r"Access denied for user .*; correct the user in `dsn`, or") as refused:
            await wrong()
        assert not isinstance(refused.value, StoreUnavailable)
        assert "wrong" not in str(refused.value)


async def test_a_password_of_its_own(mariadb_dsn: str, database: Connection, user: str) -> None:
    await database.run(f"GRANT ALL ON {user}.* TO {user}@'127.0.0.1'")
    group = group_of()
    store = open_store(
        DatabaseConfig(dsn=login(mariadb_dsn, user), schema=user),
        logger="main",
        groups=by_group(group),
        layouts={"bpm": Layout.ROWS},
        state_dir=Path("/nowhere"),
        password="secret/@word",
    )
    assert isinstance(store, MysqlStore)
    await store.open()
    assert (await store.facts()).target == mariadb_dsn.replace("root", user)
    await store.close()


async def test_a_unix_socket(state_dir: Path, rng: np.random.Generator, mariadb_dsn: str) -> None:
    assert mariadb_dsn
    server = ThrowawayMariadb(state_dir, innodb_log_file_size="16M")
    await asyncio.to_thread(server.start)
    group = group_of()
    store = MysqlStore(
        DatabaseConfig(dsn=f"mysql://root@localhost?unix_socket={server.socket}"),
        logger="main",
        groups=by_group(group),
        layouts={"bpm": Layout.ROWS},
    )
    try:
        await store.open()
        await store.commit(batch_of(group, 1, some(group, 1, 2, rng)))
        assert len(await everything(store, group)) == 2 * group.size
    finally:
        await store.close()
        await asyncio.to_thread(server.stop)


async def test_a_user_without_rights(make: Make, mariadb_dsn: str, user: str, database: Connection) -> None:
    store = make(group_of(), dsn=login(mariadb_dsn, user, "secret%2F%40word"))
    with pytest.raises(StoreError, match=rf"Access denied for user .* to database '{user}'") as refused:
        await store.open()
    assert not isinstance(refused.value, StoreUnavailable)
    with pytest.raises(StoreError, match=r"lacks SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, .* GRANT"):
        await store.check()
    await database.run(f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON {user}.* TO {user}@'127.0.0.1'")
    with pytest.raises(StoreError, match=r"lacks CREATE VIEW on database"):
        await store.check()
    await database.run(f"GRANT CREATE VIEW ON {user}.* TO {user}@'127.0.0.1'")
    assert f"database '{user}'" in await store.check()
    await store.open()


@BOTH
async def test_tables_that_an_administrator_made(
    make: Make,
    mariadb_dsn: str,
    user: str,
    database: Connection,
    rng: np.random.Generator,
    layout: Layout,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = group_of(dtypes=("float64", "uint8"))
    script = schema_statements(user, "main", by_group(group), {"bpm": layout})
    statements = [statement for statement in script if not statement.startswith("--")]
    for statement in (*statements, *statements):
        await database.run(statement)
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON" in script[-1]
    await database.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {user}.* TO {user}@'127.0.0.1'")
    store = make(group, layout, dsn=login(mariadb_dsn, user, "secret%2F%40word"))
    assert await store.check() == []
    await store.open()
    assert not caplog.records
    days_ago = time.time_ns() - 5 * DAY_NS
    batches = [batch_of(group, k, some(group, 10 * k, 3, rng, at)) for k, at in ((1, None), (2, days_ago), (3, None))]
    with caplog.at_level(logging.WARNING):
        for batch in batches:
            await store.commit(batch)
    assert [record.message for record in caplog.records] == [caplog.records[0].message]
    assert re.search(r"partition \d+ cannot be made now: ALTER command denied", caplog.text)
    expected = answers(group, [(1, batch.readings.ravel()) for batch in batches])
    np.testing.assert_array_equal(await everything(store, group), expected)


async def test_check_says_what_open_would_make(make: Make, database: Connection, schema: str) -> None:
    store = make(group_of())
    lines = await store.check()
    assert lines[0] == f"database '{schema}'"
    assert f"table 'bpm' in database '{schema}'" in lines
    assert f"view 'bpm_readings' in database '{schema}'" in lines
    assert not await database.fetch(f"SHOW DATABASES LIKE '{schema}'")
    await store.open()
    assert await store.check() == []
    with pytest.raises(SchemaMismatch, match="its layout is 'rows'"):
        await make(group_of(), Layout.ARRAYS).check()


async def test_positions_of_an_older_release(make: Make, database: Connection, schema: str) -> None:
    first = make(group_of())
    await first.open()
    await first.close()
    gone = ", ".join(f"DROP COLUMN {name}" for name in ("triggers", "readings", "journal", "state"))
    await database.run(f"ALTER TABLE {schema}.positions {gone}")
    lines = []
    for call in (make(group_of()).check, make(group_of()).open):
        with pytest.raises(
            StoreLacks, match="made by an older triggerlog and has no triggers and readings and journal and"
        ) as no:
            await call()
        lines.append(str(no.value))
    assert lines[0] == lines[1]
    await database.run(lines[0].partition("let its owner run ")[2])
    await make(group_of()).open()


async def test_an_older_release_made_no_marks(make: Make, database: Connection, schema: str) -> None:
    first = make(group_of())
    await first.open()
    await first.close()
    await database.run(f"DROP TABLE {schema}.marks")
    assert await make(group_of()).check() == [f"table 'marks' in database '{schema}'"]
    await make(group_of()).open()
    assert await make(group_of()).check() == []


async def test_marks_of_someone_else(make: Make, database: Connection, schema: str) -> None:
    await database.run(f"CREATE DATABASE {schema}; CREATE TABLE {schema}.marks (id int)")
    for act in (make(group_of()).check, make(group_of()).open):
        with pytest.raises(SchemaMismatch, match="has a table 'marks' that is not triggerlog's"):
            await act()


# --- large and odd batches ------------------------------------------------------------------------------------------


@BOTH
@BULK
async def test_a_batch_larger_than_a_packet(
    make: Make, rng: np.random.Generator, layout: Layout, bulk: bool, database: Connection
) -> None:
    group = group_of(dtypes=("float64", "float32", "int16"))
    before = (await database.fetch("SELECT @@GLOBAL.max_allowed_packet"))[0][0]
    await database.run("SET GLOBAL max_allowed_packet = 16384")
    try:
        store = make(group, layout, bulk=bulk)
        await store.open()
        readings = some(group, 1, 300, rng)
        readings["ch0"][::7, 3] = np.nan
        present = rng.random(readings.shape) < 0.8
        present[:, 0] = True
        await store.commit(batch_of(group, 1, readings, present=present))
        found = await everything(store, group)
        assert found.tobytes() == answers(group, [(1, readings[present])]).tobytes()
    finally:
        await database.run(f"SET GLOBAL max_allowed_packet = {before}")


async def test_a_trigger_that_fits_no_packet(make: Make, database: Connection) -> None:
    before = (await database.fetch("SELECT @@GLOBAL.max_allowed_packet"))[0][0]
    await database.run("SET GLOBAL max_allowed_packet = 16384")
    try:
        with pytest.raises(StoreError, match=r"takes \d+ bytes, .* max_allowed_packet .* or `layout` to 'rows'"):
            await make(group_of(size=300, dtypes=("float64",) * 8), Layout.ARRAYS).open()
    finally:
        await database.run(f"SET GLOBAL max_allowed_packet = {before}")


@BULK
async def test_floats_that_double_does_not_hold(make: Make, rng: np.random.Generator, bulk: bool) -> None:
    """Each in any channel, in readings that come alone and in many, in the order of any question."""
    group = group_of(size=30, dtypes=("float64", "int32", "float32"))
    store = make(group, bulk=bulk)
    await store.open()
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, -1.5])
    payload = np.array([0x7FF8_0000_0000_0123], np.uint64).view(np.float64)[0]
    sent = []
    for sequence, count in enumerate((1, 40, 1, 3), 1):
        readings = some(group, 100 * sequence, count, rng, time.time_ns() + sequence * 1_000_000_000)
        for channel in ("ch0", "ch2"):
            where = rng.random(readings.shape) < 0.2
            readings[channel][where] = rng.choice(odd, where.sum())
        readings["ch0"][0, 0] = payload
        await store.commit(batch_of(group, sequence, readings))
        sent.append(readings)
    expected = answers(group, [(1, readings.ravel()) for readings in sent])
    assert (await everything(store, group)).tobytes() == expected.tobytes()
    mine = await store.ask(InstrumentReadings(group=group, instrument=0, start_ns=0, end_ns=2**63 - 1, most=20))
    assert mine.tobytes() == expected[expected["instrument"] == 0][-20:].tobytes()
    assert np.isnan(mine["ch0"]).any()


@BULK
@BOTH
async def test_random_triggers_late_ones_too(make: Make, rng: np.random.Generator, layout: Layout, bulk: bool) -> None:
    """Batches of every size, in both ways of committing, each sent twice."""
    group = group_of(size=7, dtypes=("float64", "uint32"))
    store = make(group, layout, bulk=bulk)
    await store.open()
    expected: list[tuple[int, Array]] = []
    first = 0
    for sequence, count in enumerate((1, 2, 150, 1, 700), 1):
        readings = some(group, first, count, rng)
        first += count
        present = rng.random(readings.shape) < 0.9
        present[:, 0] = True
        present[0, 3] = False
        batch = batch_of(group, 2 * sequence, readings, present=present)
        await store.commit(batch)
        await store.commit(batch)
        late = readings[0, [3]]
        after = present[0].copy()
        after[3] = True
        revised = np.array([with_late(batch.ledger[0], late, after)])
        more = batch_of(group, 2 * sequence + 1, readings[:0], late=late, late_of=np.array([0]), revised=revised)
        await store.commit(more)
        await store.commit(more)
        present[0, 3] = True
        expected.append((1, readings[present]))
    np.testing.assert_array_equal(await everything(store, group), answers(group, expected))


# --- partitions -----------------------------------------------------------------------------------------------------


async def names_of(database: Connection, schema: str, table: str = "bpm") -> list[str]:
    found = await database.fetch(
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS"
        f" WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}' ORDER BY PARTITION_ORDINAL_POSITION"
    )
    return [name for (name,) in found]


async def rows_in(database: Connection, schema: str, partition: str) -> int:
    ((count,),) = await database.fetch(f"SELECT COUNT(*) FROM {schema}.bpm PARTITION ({partition})")
    return int(count)


async def test_partitions_are_made_ahead(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, partition="hour", partitions_ahead=3)
    await store.open()
    now = time.time_ns()
    labels = [partition.label for partition in partitions_of(np.array([now]), now, "hour", 3)]
    expected = ["first", *(f"p{label}" for label in labels), "rest"]
    assert await names_of(database, schema) == expected
    assert await names_of(database, schema, "bpm_ledger") == expected
    # The daemon was away for hours.
    later = now + 9 * 3600 * 10**9
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng, later)))
    new = [partition.label for partition in partitions_of(np.array([later]), now, "hour", 3)]
    expected = [*expected[:-1], f"before_{new[0]}", *(f"p{label}" for label in new), "rest"]
    assert await names_of(database, schema) == expected
    assert await rows_in(database, schema, f"p{new[0]}") == group.size
    # And a late one falls into the hours between.
    between = now + 6 * 3600 * 10**9
    await store.commit(batch_of(group, 2, some(group, 2, 1, rng, between)))
    (label, *_) = (partition.label for partition in partitions_of(np.array([between]), now, "hour", 0))
    assert await rows_in(database, schema, f"p{label}") == group.size
    assert len(await everything(store, group)) == 2 * group.size


@BOTH
async def test_questions_touch_only_their_partitions(
    make: Make, database: Connection, schema: str, rng: np.random.Generator, layout: Layout
) -> None:
    group = group_of()
    store = make(group, layout)
    await store.open()
    now = time.time_ns()
    days = [now - k * DAY_NS for k in range(6)]
    for sequence, at in enumerate(days, 1):
        await store.commit(batch_of(group, sequence, some(group, sequence, 1, rng, at)))
    label = partitions_of(np.array([days[3]]), now, "day", 0)[0].label
    column = "trigger_time_ns" if layout is Layout.ARRAYS else "time_ns"
    instant = str(np.datetime64(days[3] // 1000, "us")).replace("T", " ")
    start = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', '{instant}') * 1000"
    by_hand = f"SELECT * FROM {schema}.bpm_readings WHERE {column} >= {start} AND {column} < {start} + 1000000000"
    plan = await database.fetch(f"EXPLAIN PARTITIONS {by_hand}")
    touched = {row[3] for row in plan} - {None}
    assert touched == {f"p{label}"}, plan
    recent = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP() - INTERVAL 10 MINUTE) * 1000"
    plan = await database.fetch(f"EXPLAIN PARTITIONS SELECT * FROM {schema}.bpm_readings WHERE {column} >= {recent}")
    touched = {name for row in plan for name in (row[3] or "").split(",")} - {""}
    assert 1 <= len(touched) <= 5, (
        plan
    )  # those of today, and of yesterday just after midnight, and ahead, without readings
    found = await store.ask(WindowReadings(group=group, start_ns=days[3], end_ns=days[3] + 1_000_000))
    assert len(found) == group.size == len(await database.fetch(by_hand))


async def test_a_partition_that_cannot_be_made_stops_nothing(
    make: Make,
    database: Connection,
    schema: str,
    rng: np.random.Generator,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    two_days_ago = time.time_ns() - 2 * DAY_NS
    # A long read of readings holds the table as it is.
    await database.run("START TRANSACTION")
    await database.fetch(f"SELECT COUNT(*) FROM {schema}.bpm")
    with caplog.at_level(logging.WARNING):
        await store.commit(batch_of(group, 1, some(group, 1, 1, rng, two_days_ago)))
    await database.run("COMMIT")
    assert "cannot be made now" in caplog.text
    assert await rows_in(database, schema, "first") == group.size
    # The next daemon makes it, and moves what is there; unless it is too much.
    await store.close()
    monkeypatch.setattr("backends.mysql.writing.MOVED_AT_MOST", 1)
    again = make(group)
    await again.open()
    with caplog.at_level(logging.WARNING):
        await again.commit(batch_of(group, 2, some(group, 2, 1, rng, two_days_ago)))
    assert "holds too many readings to move, which stay there" in caplog.text
    assert await rows_in(database, schema, "first") == 2 * group.size
    await again.close()
    monkeypatch.undo()
    last = make(group)
    await last.open()
    await last.commit(batch_of(group, 3, some(group, 3, 1, rng, two_days_ago)))
    assert await rows_in(database, schema, "first") == 0
    assert len(await everything(last, group)) == 3 * group.size


async def test_a_partition_that_was_taken_away(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    batches = [batch_of(group, k, some(group, 100 * k, 50, rng)) for k in (1, 2, 3)]
    await store.commit(batches[0])
    await store.commit(batches[1])
    (label,) = (p.label for p in partitions_of(batches[1].ledger["time_ns"], time.time_ns(), "day", 0))
    await database.run(f"ALTER TABLE {schema}.bpm DROP PARTITION p{label}")
    assert await committed(store, batches[2]) == 1
    found = await everything(store, group)
    np.testing.assert_array_equal(found, answers(group, [(1, batches[2].readings.ravel())]))
    # The server gave the time to the partition after it.
    assert f"p{label}" not in await names_of(database, schema)


async def test_no_row_is_at_fault_where_no_partition_takes_its_time(
    make: Make, database: Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database.run(f"ALTER TABLE {schema}.bpm DROP PARTITION rest")
    far_ahead = time.time_ns() + 365 * DAY_NS
    batch = batch_of(group, 1, some(group, 1, 3, rng, far_ahead))
    for _ in range(2):
        with pytest.raises(StoreLacks, match=r"no partition for value .* \(1526\); bring back the tables"):
            await store.commit(batch)
    await database.run(f"ALTER TABLE {schema}.bpm ADD PARTITION (PARTITION rest VALUES LESS THAN MAXVALUE)")
    await committed(store, batch)


async def test_ranges_follow_each_other(make: Make, database: Connection, schema: str) -> None:
    await make(group_of()).open()
    found = await database.fetch(
        "SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
        f" WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = 'bpm' ORDER BY PARTITION_ORDINAL_POSITION"
    )
    ranges = ranges_of(found)
    assert (ranges[0].start_ns, ranges[-1].end_ns) == (LEAST, MOST)
    assert all(one.end_ns == next_one.start_ns for one, next_one in itertools.pairwise(ranges))


# --- the view -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("at", [1_700_000_000_123_456_789, -1_700_000_000_123_456_789])
async def test_the_view_shows_readings(
    make: Make, database: Connection, schema: str, rng: np.random.Generator, layout: Layout, at: int
) -> None:
    dtypes = ("float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
    group = group_of(size=4, dtypes=dtypes)
    store = make(group, layout)
    await store.open()
    readings = some(group, 1, 8, rng, at)
    odd = [np.nan, np.inf, -np.inf, -0.0, 5e-324, np.finfo(float).max, np.finfo(float).tiny, -1 / 3]
    readings["ch0"].flat[: len(odd)] = odd
    readings["ch0"].flat[len(odd) :] *= 10.0 ** rng.integers(-300, 300, readings.size - len(odd))
    present = np.ones(readings.shape, bool)
    present[1, 1] = False
    await store.commit(batch_of(group, 1, readings, present=present))
    rows = await database.fetch(
        f"SELECT name, run, trigger_id, instrument, time, time_ns, {', '.join(f'ch{k}' for k in range(len(dtypes)))}"
        f" FROM {schema}.bpm_readings ORDER BY trigger_id, instrument"
    )
    assert len(rows) == present.sum()
    for row, reading in zip(rows, readings[present], strict=True):
        assert row[0] == f"bpm_{reading['instrument']:03d}"
        assert row[1:4] == (1, reading["trigger"], reading["instrument"])
        assert np.datetime64(row[4], "us").astype(int) == reading["time_ns"] // 1000
        assert row[5] == reading["time_ns"]
        assert row[6] == (reading["ch0"] if np.isfinite(reading["ch0"]) else None)
        if layout is Layout.ARRAYS:
            assert row[7] == float(reading["ch1"])
        assert row[8:] == tuple(reading[f"ch{k}"] for k in range(2, len(dtypes)))


@pytest.mark.parametrize(("form", "width"), [("<f8", 8), ("<f4", 4)])
async def test_floats_are_read_out_of_bytes_exactly(
    database: Connection, rng: np.random.Generator, form: str, width: int
) -> None:
    values = np.frombuffer(rng.bytes(width * 1000), form).copy()
    limits = np.finfo(form)
    values[:6] = 0, 1, limits.max, limits.tiny, limits.smallest_subnormal, -limits.smallest_subnormal
    values[6:40] = np.frombuffer(rng.bytes(width * 34), f"<u{width}").view(form)
    values[40:60] = limits.smallest_subnormal * rng.integers(1, 1 << 20, 20)
    column = f"x'{values.tobytes().hex()}'"
    text = floating(column, "seq", width)
    found = [value for (value,) in await database.fetch(f"SELECT {text} FROM mysql.seq_0_to_999 ORDER BY seq")]
    expected = [float(value) if np.isfinite(value) else None for value in values]
    assert found == expected


# --- loops, facts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["1", "2", "0"])
async def test_facts_come_from_the_server(make: Make, database: Connection, setting: str) -> None:
    store = make(group_of())
    await store.open()
    await database.run(f"SET GLOBAL innodb_flush_log_at_trx_commit = {setting}")
    try:
        facts = await store.facts()
    finally:
        await database.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    ((version,),) = await database.fetch("SELECT VERSION()")
    assert (facts.backend, facts.version) == ("mariadb", version.split("-")[0])
    assert facts.settings["innodb_flush_log_at_trx_commit"] == setting
    assert facts.settings["innodb_doublewrite"] == "ON"
    sync = facts.durability[Durability.SYNC]
    assert (sync.shortfall is None) == (setting == "1")
    assert sync.risk_ms == (0 if setting == "1" else 1000)
    assert not facts.embedded


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@BULK
@BOTH
def test_both_event_loops(
    mariadb_dsn: str, schema: str, rng: np.random.Generator, new_loop: Any, bulk: bool, layout: Layout
) -> None:
    group = group_of()

    async def log() -> int:
        store = MysqlStore(
            DatabaseConfig(dsn=mariadb_dsn, schema=schema),
            logger="main",
            groups=by_group(group),
            layouts={"bpm": layout},
            bulk=bulk,
        )
        await store.open()
        try:
            for sequence, count in enumerate((1, 50, 2000), 1):
                await store.commit(batch_of(group, sequence, some(group, 10_000 * sequence, count, rng)))
            return len(await everything(store, group))
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(log()) == 2051 * group.size


async def test_the_server_offers_its_bulk_command(database: Connection, make: Make, rng: np.random.Generator) -> None:
    """Or nothing above has tried it."""
    assert database.bulk
    group = group_of()
    for bulk in (True, False):
        store = make(group, bulk=bulk, schema=f"bulk_{bulk}".lower())
        await store.open()
        before = await executed(database)
        await store.commit(batch_of(group, 1, some(group, 1, 100, rng)))
        # One command for the readings and one for the ledger, or 1200 and 100 rows by powers of two.
        assert await executed(database) - before == (2 if bulk else 4 + 3)


async def executed(database: Connection) -> int:
    """How many prepared statements the server has executed."""
    return int((await database.fetch("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'"))[0][1])
