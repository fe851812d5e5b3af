"""What only PostgreSQL does: crashes, locks, partitions, the view, durability."""

import asyncio
import logging
import math
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import pytest
import uvloop

from backends import open_store
from backends.base import BatchRejected, SchemaMismatch, StoreError, StoreLacks, StoreUnavailable
from backends.columns.partitions import partitions_of
from backends.postgresql import PostgresqlStore
from backends.postgresql.protocol.connection import target_of
from backends.postgresql.protocol.sql import arrays_storage, compiled, create_partition, quoted
from backends.postgresql.store import held
from backends.sql import selects
from backends.sql.tables import group_tables
from schemas.batch import Durability, Layout
from schemas.config import DatabaseConfig
from schemas.queries import InstrumentReadings, LedgerTail, WindowReadings
from schemas.readings import Array, InstrumentGroup
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of
from tests.support.committing import committed

DAY_NS = 86_400_000_000_000
BOTH = pytest.mark.parametrize("layout", list(Layout))

Make = Callable[..., PostgresqlStore]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
async def make(postgresql_dsn: str, schema: str) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def make(group: InstrumentGroup, layout: Layout = Layout.ROWS, **settings: Any) -> PostgresqlStore:
            store = PostgresqlStore(
                DatabaseConfig(**{"dsn": postgresql_dsn, "schema": schema, **settings}),
                logger="main",
                groups=by_group(group),
                layouts={group.name: layout},
            )
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def database(postgresql_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgresql_dsn)
    yield connection
    await connection.close()


def some(group: InstrumentGroup, first: int, count: int, rng: np.random.Generator, at: int | None = None) -> Array:
    start = time.time_ns() if at is None else at
    return readings_of(group, np.arange(first, first + count), start + np.arange(count) * 1_000_000, rng)


async def everything(store: PostgresqlStore, group: InstrumentGroup) -> Array:
    return await store.ask(WindowReadings(group=group, start_ns=-(2**63), end_ns=2**63 - 1))


# Arrays are tried in tests/crashes/test_crashes.py.
async def test_a_killed_server_loses_and_repeats_nothing(state_dir: Path, rng: np.random.Generator) -> None:
    group = group_of()
    layouts = {"bpm": Layout.ROWS}
    store = open_store(DatabaseConfig(), logger="main", groups=by_group(group), layouts=layouts, state_dir=state_dir)
    assert isinstance(store, PostgresqlStore)
    assert store._server is not None
    await store.open()
    try:
        sent: list[Array] = []
        for kill in range(3):
            pid = store._server.pid
            assert pid is not None

            async def log(pid: int = pid) -> None:
                while store._server.pid in (pid, None):  # until the next server has acknowledged something
                    sent.append(some(group, len(sent) * 5, 5, rng))
                    await committed(store, batch_of(group, len(sent), sent[-1]))

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(log())
                await asyncio.sleep(0.05 + 0.03 * kill)
                os.kill(pid, signal.SIGKILL)
        position = await store.position("bpm")
        assert position is not None
        assert position.sequence == len(sent)
        np.testing.assert_array_equal(
            await everything(store, group), answers(group, [(1, readings.ravel()) for readings in sent])
        )
        assert len(await store.ask(LedgerTail(group=group, most=10**6))) == 5 * len(sent)
    finally:
        await store.close()
    assert store._server.pid is None


async def test_a_commit_that_waits_too_long_is_given_up(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, command_timeout_s=3)
    await store.open()
    batch = batch_of(group, 1, some(group, 1, 3, rng))
    async with database.transaction():
        await database.execute(f"SELECT * FROM {schema}.positions FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="does not answer in time"):
            await store.commit(batch)
    await committed(store, batch)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, batch.readings.ravel())]))


async def test_a_cancelled_commit_leaves_nothing_behind(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    batch = batch_of(group, 1, some(group, 1, 3, rng))
    async with database.transaction():
        await database.execute(f"LOCK TABLE {schema}.bpm IN ACCESS EXCLUSIVE MODE")
        committing = asyncio.create_task(store.commit(batch))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        async with asyncio.timeout(60):
            while not await database.fetchval(waiting):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
    await committed(store, batch)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, batch.readings.ravel())]))


async def test_a_connection_cut_by_the_server(
    make: Make, database: asyncpg.Connection, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await everything(store, group)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'triggerlog main'"
    assert len(await database.fetch(cut)) == 2
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


async def test_what_the_server_will_never_take(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    for count in (2, 20):
        twice = some(group, 1000 * count, count, rng)
        await store.commit(batch_of(group, count, twice))
        with pytest.raises(BatchRejected, match="duplicate key"):
            await store.commit(batch_of(group, count + 1, twice))
    await store.commit(batch_of(group, 30, some(group, 7, 2, rng)))
    await database.execute(f"ALTER TABLE {schema}.bpm DROP COLUMN ch2 CASCADE")
    with pytest.raises(StoreLacks, match="bring back the tables as triggerlog made them") as rejected:
        await store.commit(batch_of(group, 31, some(group, 9, 2, rng)))
    assert "\n" not in str(rejected.value)
    with pytest.raises(StoreError, match="ch2"):
        await everything(store, group)


RAISE = """
    CREATE FUNCTION {schema}.see() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'reading of trigger % is not wanted', NEW.trigger_id
        USING ERRCODE = 'check_violation'; END $$;
    CREATE TRIGGER see BEFORE INSERT ON {schema}.bpm FOR EACH ROW EXECUTE FUNCTION {schema}.see()
"""


@pytest.mark.parametrize(
    ("alteration", "reason", "detail"),
    [
        (
            "ALTER TABLE {schema}.bpm ADD CONSTRAINT top_2 CHECK (trigger_id < 1000)",
            'new row for relation "bpm" violates check constraint "top_2" (23514)',
            r"Failing row contains \(1, {trigger}, .*\)\.",
        ),
        (
            RAISE,
            "reading of trigger ... is not wanted (23514)",
            "reading of trigger {trigger} is not wanted",
        ),
    ],
    ids=["check", "raised"],
)
@pytest.mark.parametrize("count", [1, 3, 500])
async def test_a_refusal_has_the_same_reason_whatever_the_row_and_a_rehearsal_costs_no_connection(
    make: Make,
    database: asyncpg.Connection,
    schema: str,
    rng: np.random.Generator,
    alteration: str,
    reason: str,
    detail: str,
    count: int,
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    first = some(group, 1, 2, rng)
    await store.commit(batch_of(group, 1, first))
    await database.execute(alteration.format(schema=schema))
    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'triggerlog main' ORDER BY backend_start"
    for trigger in (2000, 3000):
        for refused in (store.commit, store.rehearse, store.rehearse):
            before = {number for (number,) in await database.fetch(ours)}
            with pytest.raises(BatchRejected) as rejected:
                await refused(batch_of(group, 2, some(group, trigger, count, rng)))
            assert rejected.value.reason.endswith(f"refuses: {reason}")
            assert re.fullmatch(detail.format(trigger=trigger), rejected.value.detail)
            # Nothing of it is left, in no transaction.
            assert (await store.position("bpm")).sequence == 1
            # What a commit is told has to be said on a new connection, too.
            new = {number for (number,) in await database.fetch(ours)} - before
            assert len(new) == (refused == store.commit)
    await database.execute(
        f"ALTER TABLE {schema}.bpm DROP CONSTRAINT IF EXISTS top_2;DROP TRIGGER IF EXISTS see ON {schema}.bpm"
    )
    more = some(group, 4000, count, rng)
    await store.commit(batch_of(group, 2, more))
    expected = answers(group, [(1, first.ravel()), (1, more.ravel())])
    np.testing.assert_array_equal(await everything(store, group), expected)


async def test_a_position_that_is_gone_is_no_reason_to_drop_batches(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database.execute(f"DELETE FROM {schema}.positions")
    batch = batch_of(group, 1, some(group, 1, 2, rng))
    with pytest.raises(StoreUnavailable, match="position of group 'bpm' was gone"):
        await store.commit(batch)
    await store.commit(batch)
    assert len(await everything(store, group)) == 2 * group.size


@pytest.mark.parametrize("durability", list(Durability))
async def test_durability_holds_for_the_transaction(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator, durability: Durability
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database.execute(f"""
        CREATE TABLE {schema}.seen AS SELECT ''::text AS setting WHERE false;
        CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO {schema}.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
        CREATE TRIGGER note AFTER UPDATE ON {schema}.positions EXECUTE FUNCTION {schema}.note();
    """)
    other = Durability.ASYNC if durability is Durability.SYNC else Durability.SYNC
    wanted = (durability, durability, other, durability, other)
    for sequence, (triggers, of_batch) in enumerate(zip((2, 1, 1, 2, 2), wanted, strict=True), 1):
        readings = some(group, 10 * sequence, triggers, rng)
        await store.commit(batch_of(group, sequence, readings, durability=of_batch))
    expected = " ".join("on" if of_batch is Durability.SYNC else "off" for of_batch in wanted)
    assert await database.fetchval(f"SELECT string_agg(setting, ' ') FROM {schema}.seen") == expected


@BOTH
async def test_questions_touch_only_their_partitions(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator, layout: Layout
) -> None:
    group = group_of()
    store = make(group, layout)
    await store.open()
    now = time.time_ns()
    days = [now - k * DAY_NS for k in range(6)]
    for sequence, at in enumerate(days, 1):
        await store.commit(batch_of(group, sequence, some(group, sequence, 1, rng, at)))
    tables = group_tables(schema, group, layout)
    label = partitions_of(np.array([days[3]]), now, "day", 0)[0].label

    query = InstrumentReadings(group=group, instrument=1, start_ns=days[3], end_ns=days[3] + 1000, most=10)
    window = WindowReadings(group=group, start_ns=days[3], end_ns=days[3] + 1000)
    column = "trigger_time_ns" if layout is Layout.ARRAYS else "time_ns"
    start, end = (f"{schema}.ns(timestamptz '{_text(at)}')" for at in (days[3], days[3] + 1_000_000_000))
    by_hand = f"SELECT * FROM {schema}.bpm_readings WHERE {column} >= {start} AND {column} < {end}"
    texts = (
        compiled(selects.readings_of_instrument(tables, query)),
        compiled(selects.readings_in_window(tables, window)),
        by_hand,
        between := f"SELECT * FROM {schema}.bpm_between('{_text(days[3])}', '{_text(days[3] + 1_000_000_000)}')",
    )
    for text in texts:
        plan = "\n".join(row[0] for row in await database.fetch(f"EXPLAIN {text}"))
        assert set(re.findall(r"bpm\$(\w+)", plan.replace("_time_ns_idx", ""))) == {label}, plan
    assert await database.fetch(between) == await database.fetch(by_hand) != []
    recent = f"SELECT * FROM {schema}.bpm_between(now() - interval '1 hour', now())"
    plan = "\n".join(row[0] for row in await database.fetch(f"EXPLAIN {recent}"))
    assert len(set(re.findall(r"bpm\$(\w+)", plan.replace("_time_ns_idx", "")))) <= 2, plan
    (comment,) = await database.fetch(
        "SELECT col_description(c.oid, a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.oid = to_regclass($1) AND a.attname = 'time'",
        f"{schema}.bpm_readings",
    )
    assert "bpm_between(since, until)" in comment[0]


def _text(time_ns: int) -> str:
    return f"{np.datetime64(time_ns // 1000, 'us')}+00"


@BOTH
async def test_the_view_shows_readings(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator, layout: Layout
) -> None:
    group = group_of(size=3, dtypes=("float64", "uint8"))
    store = make(group, layout)
    await store.open()
    at = 1_700_000_000_123_456_789
    readings = some(group, 1, 2, rng, at)
    present = np.array([[True, True, True], [True, False, True]])
    await store.commit(batch_of(group, 1, readings, present=present))
    rows = await database.fetch(f"SELECT * FROM {schema}.bpm_readings ORDER BY trigger_id, instrument")
    assert [row["name"] for row in rows] == ["bpm_000", "bpm_001", "bpm_002", "bpm_000", "bpm_002"]
    for row, reading in zip(rows, readings[present], strict=True):
        assert (row["run"], row["trigger_id"], row["instrument"]) == (1, reading["trigger"], reading["instrument"])
        assert (row["time_ns"], row["ch0"], row["ch1"]) == (reading["time_ns"], reading["ch0"], reading["ch1"])
        assert np.datetime64(row["time"].replace(tzinfo=None), "us").astype(int) == reading["time_ns"] // 1000
    exact = await database.fetchval(f"SELECT {schema}.ns('2023-11-14 22:13:20.123456+00')")
    assert exact == 1_700_000_000_123_456_000


async def test_partitions_are_made_ahead(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, partition="hour", partitions_ahead=3)
    await store.open()
    now = time.time_ns()
    expected = {partition.label for partition in partitions_of(np.array([now]), now, "hour", 3)}
    listing = f"SELECT relid::text FROM pg_partition_tree('{schema}.bpm') WHERE isleaf"
    names = {row[0].strip('"').split("$")[1].strip('"') for row in await database.fetch(listing)}
    assert names == {*expected, "default"}
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng, now + 5 * 3600 * 10**9)))
    assert await database.fetchval(f'SELECT count(*) FROM {schema}."bpm$default"') == 0


async def test_a_partition_that_cannot_be_made_stops_nothing(
    make: Make,
    database: asyncpg.Connection,
    schema: str,
    rng: np.random.Generator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    two_days_ago = time.time_ns() - 2 * DAY_NS
    async with database.transaction():
        # A long read of readings with wrong times holds the default partition.
        await database.execute(f'SELECT * FROM {schema}."bpm$default"')
        with caplog.at_level(logging.WARNING):
            await store.commit(batch_of(group, 1, some(group, 1, 1, rng, two_days_ago)))
    assert "cannot be made now" in caplog.text
    assert await database.fetchval(f'SELECT count(*) FROM {schema}."bpm$default"') == group.size
    # From now on the default partition has readings of that day: the next daemon leaves them there.
    await store.close()
    again = make(group)
    await again.open()
    with caplog.at_level(logging.WARNING):
        await again.commit(batch_of(group, 2, some(group, 2, 1, rng, two_days_ago)))
    assert "the default partition holds its readings" in caplog.text
    assert len(await everything(again, group)) == 2 * group.size


async def test_another_daemon_may_make_the_same_partition(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    there = time.time_ns() - 3 * DAY_NS
    for partition in partitions_of(np.array([there]), time.time_ns(), "day", 0):
        await database.execute(";".join(create_partition(schema, "bpm", partition)))
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng, there)))
    assert await database.fetchval(f'SELECT count(*) FROM {schema}."bpm$default"') == 0


async def test_a_partition_that_was_taken_away(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    batches = [batch_of(group, k, some(group, 100 * k, 50, rng)) for k in (1, 2, 3)]
    await store.commit(batches[0])
    await store.commit(batches[1])
    (label,) = (p.label for p in partitions_of(batches[1].ledger["time_ns"], time.time_ns(), "day", 0))
    await database.execute(f'DROP TABLE {schema}."bpm${label}"')
    assert await committed(store, batches[2]) == 1
    found = await everything(store, group)
    np.testing.assert_array_equal(found, answers(group, [(1, batches[2].readings.ravel())]))


@pytest.mark.parametrize("table", ["bpm", "bpm_ledger"])
@pytest.mark.parametrize("count", [1, 3, 20])
async def test_no_row_is_at_fault_where_no_partition_takes_its_time(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator, table: str, count: int
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database.execute(f'DROP TABLE {schema}."{table}$default"')
    batch = batch_of(group, 1, some(group, 1, count, rng, 0))  # of 1970
    for _ in range(2):
        with pytest.raises(StoreLacks, match=r"no partition of relation .* \(23514\); bring back the tables"):
            await store.commit(batch)
    await database.execute(f'CREATE TABLE {schema}."{table}$default" PARTITION OF {schema}.{table} DEFAULT')
    await committed(store, batch)


async def test_a_position_is_made_anew_only_in_a_table_that_is_whole(
    make: Make, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 3, rng)))
    # As a restore of a dump has it for a while: keys are made when all rows are there.
    positions = f"{schema}.positions"
    key = await database.fetchval(
        "SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = $1::regclass", positions
    )
    await database.execute(f"CREATE TABLE {schema}.dump AS TABLE {positions}; TRUNCATE {positions}")
    await database.execute(f"ALTER TABLE {positions} DROP CONSTRAINT {key}")
    batch = batch_of(group, 2, some(group, 100, 3, rng))
    for _ in range(2):
        with pytest.raises(StoreLacks, match=r"\(42P10\); bring back the tables"):
            await store.commit(batch)
    await database.execute(f"INSERT INTO {positions} TABLE {schema}.dump")
    await database.execute(f"ALTER TABLE {positions} ADD CONSTRAINT {key} PRIMARY KEY (logger, group_name)")
    await committed(store, batch)
    assert (await store.position("bpm")).sequence == 2


@BOTH
async def test_a_batch_larger_than_a_message(
    make: Make, rng: np.random.Generator, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.postgresql.writing.writer.MESSAGE_BYTES", 1000)
    group = group_of()
    store = make(group, layout)
    await store.open()
    readings = some(group, 1, 300, rng)
    await store.commit(batch_of(group, 1, readings))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_a_table_of_someone_else(make: Make, database: asyncpg.Connection, schema: str) -> None:
    await database.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.bpm (n int)")
    with pytest.raises(SchemaMismatch, match="has a table 'bpm' that is not triggerlog's"):
        await make(group_of()).open()
    assert await database.fetchval("SELECT to_regclass($1)", quoted(schema, "groups")) is None


async def test_a_database_or_server_that_is_not_there(make: Make, postgresql_dsn: str, tmp_path: Path) -> None:
    group = group_of()
    with pytest.raises(StoreError, match='database "elsewhere" does not exist') as gone:
        await make(group, dsn=postgresql_dsn.replace("/postgres?", "/elsewhere?")).open()
    assert not isinstance(gone.value, StoreUnavailable)
    nowhere = f"postgresql://me:secret@/db?host={tmp_path}"
    store = make(group, dsn=nowhere)
    with pytest.raises(StoreUnavailable) as away:
        await store.open()
    assert "secret" not in str(away.value)


async def test_a_role_that_may_not_create(make: Make, database: asyncpg.Connection, postgresql_dsn: str) -> None:
    await database.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    guest = postgresql_dsn.replace("postgres@", "guest@")
    with pytest.raises(StoreError, match="may not create schema") as refused:
        await make(group_of(), dsn=guest).open()
    assert not isinstance(refused.value, StoreUnavailable)


async def test_a_dsn_that_is_none(make: Make) -> None:
    with pytest.raises(StoreError, match=r"`dsn` in \[database\] cannot be") as wrong:
        await make(group_of(), dsn="postgresql://host/db?sslmode=maybe").open()
    assert not isinstance(wrong.value, StoreUnavailable)


@BOTH
async def test_a_server_that_hangs_and_goes_on(
    make: Make, postgresql_dsn: str, rng: np.random.Generator, layout: Layout, database: asyncpg.Connection
) -> None:
    group = group_of()
    store = make(group, layout, command_timeout_s=3)
    await store.open()
    first, second = (batch_of(group, k, some(group, k, 1, rng)) for k in (1, 2))
    await store.commit(first)
    (writer,) = await database.fetch("SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory'")
    os.kill(writer["pid"], signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="does not answer in time"):
            await store.commit(second)
    finally:
        os.kill(writer["pid"], signal.SIGCONT)
    await committed(store, second)
    expected = answers(group, [(1, batch.readings.ravel()) for batch in (first, second)])
    np.testing.assert_array_equal(await everything(store, group), expected)


def test_a_target_shows_no_password() -> None:
    with pytest.raises(StoreError, match="cannot be understood"):
        target_of("postgresql://host:x/db")
    assert target_of("postgresql://me:secret@db.example:5433/beam") == "postgresql://me@db.example:5433/beam"
    assert target_of("postgresql://me:secret@/beam?host=/run/pg&password=secret") == "postgresql://me@/run/pg/beam"


@pytest.mark.parametrize(
    ("asked", "settings", "words", "risk_ms"),
    [
        (Durability.SYNC, {}, "sync (fsync on, synchronous_commit on)", 0),
        (Durability.SYNC, {"synchronous_commit": "off"}, "sync (fsync on, synchronous_commit on)", 0),
        (Durability.SYNC, {"synchronous_commit": "remote_apply"}, "sync (fsync on, synchronous_commit remote_", 0),
        (Durability.SYNC, {"fsync": "off"}, "NOT durable: fsync is off on the server", math.inf),
        (Durability.ASYNC, {"full_page_writes": "off"}, "NOT durable: full_page_writes is off", math.inf),
        (Durability.ASYNC, {}, "async (fsync on, synchronous_commit off", 600),
        (Durability.ASYNC, {"wal_writer_delay": "10"}, "async (fsync on, synchronous_commit off", 30),
    ],
)
def test_durability_by_the_servers_settings(
    asked: Durability, settings: dict[str, str], words: str, risk_ms: float
) -> None:
    server = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "wal_writer_delay": "200"}
    found = held({**server, **settings})[asked]
    assert found.words.startswith(words)
    assert found.risk_ms == risk_ms
    assert (found.shortfall is not None) == math.isinf(risk_ms)


async def test_facts_come_from_the_server(make: Make, database: asyncpg.Connection, schema: str) -> None:
    store = make(group_of())
    await store.open()
    facts = await store.facts()
    assert facts.version == (await database.fetchval("SHOW server_version")).split()[0]
    assert not facts.embedded


@BOTH
def test_rows_that_fit_a_page_stay_in_it(layout: Layout) -> None:
    assert arrays_storage(group_of(size=120)) == "PLAIN"
    assert arrays_storage(group_of(size=3000)) == "EXTERNAL"


@BOTH
@pytest.mark.parametrize("size", [198, 199, 200, 201, 202, 203, 204])
async def test_the_widest_rows_are_taken(make: Make, rng: np.random.Generator, layout: Layout, size: int) -> None:
    group = group_of(size=size)
    store = make(group, layout)
    await store.open()
    readings = some(group, 1, 3, rng)
    await store.commit(batch_of(group, 1, readings))
    assert len(await everything(store, group)) == readings.size


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_both_event_loops(postgresql_dsn: str, schema: str, rng: np.random.Generator, new_loop: Any) -> None:
    group = group_of()

    async def log() -> int:
        store = PostgresqlStore(
            DatabaseConfig(dsn=postgresql_dsn, schema=schema),
            logger="main",
            groups=by_group(group),
            layouts={"bpm": Layout.ROWS},
        )
        await store.open()
        try:
            await store.commit(batch_of(group, 1, some(group, 1, 50, rng)))
            return len(await everything(store, group))
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(log()) == 50 * group.size
