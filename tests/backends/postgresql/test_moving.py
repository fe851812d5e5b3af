"""Moving a period into another tablespace: beside writing and reading, and after a kill before any statement."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import numpy as np
import pytest

from backends.base import Move, Partition, PeriodTouched, StoreBusy, StoreError, Tiered
from backends.columns.partitions import Partition as Interval
from backends.postgresql import PostgresqlStore
from backends.postgresql.moving import PostgresqlMoving
from backends.postgresql.protocol.sql import create_partition
from schemas.batch import JournalPosition
from schemas.queries import LedgerTail, Totals
from schemas.readings import Array
from schemas.retention import Period, Rule
from tests.backends.test_store_contract import Make, everything, maker, opened, rng
from tests.backends.test_store_retention import DAY_NS, Dying, Killed, noon
from tests.support.batches import batch_of, group_of, readings_of, with_late

__all__ = ["opened", "rng"]

GROUP = group_of()
TRIGGERS = 400
"""Of a day: some fifty pages in the layout `rows`."""
SLOW = "slow"


@pytest.fixture(params=["rows", "arrays"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, schema: str) -> Make:
    return maker(request, kind, schema)


@pytest.fixture
async def database(postgresql_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgresql_dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def slow(database: asyncpg.Connection) -> str:
    """A tablespace, in the server's own folder."""
    if not await database.fetchval("SELECT EXISTS (SELECT FROM pg_tablespace WHERE spcname = $1)", SLOW):
        await database.execute("SET allow_in_place_tablespaces = on")
        await database.execute(f"CREATE TABLESPACE {SLOW} LOCATION ''")
    return SLOW


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.postgresql.moving.STEP_PAGES", 4)


@pytest.fixture
async def store(make: Make, opened: Callable[..., Any], rng: np.random.Generator) -> PostgresqlStore:
    """A store with two days of readings, a run each."""
    made = await opened(make(GROUP))
    for number, day in enumerate((2, 1), 1):
        await write(made, rng, number, noon(day))
    return made


async def write(store: PostgresqlStore, rng: np.random.Generator, number: int, time_ns: int) -> Array:
    times = time_ns + np.arange(TRIGGERS) * 1_000_000
    readings = readings_of(GROUP, np.arange(TRIGGERS) + 1000 * number, times, rng)
    to = JournalPosition(sequence=number, triggers=TRIGGERS * number, readings=TRIGGERS * GROUP.size * number)
    await store.commit(batch_of(GROUP, number, readings, run=number, position=to))
    return readings


async def add_late(store: PostgresqlStore, rng: np.random.Generator, sequence: int, run: int = 1) -> None:
    """A reading more of the last trigger of a run, where it is."""
    row = (await store.ask(LedgerTail(group=GROUP, most=1, run=run)))[0]
    late = readings_of(GROUP, row[["trigger"]].tolist(), np.array([row["time_ns"]]), rng)[0, :1]
    revised = np.array([with_late(row, late, np.ones(GROUP.size, bool))])
    nothing = readings_of(GROUP, np.empty(0, np.int64), np.empty(0, np.int64), rng)
    await store.commit(
        batch_of(
            GROUP,
            sequence,
            nothing,
            late=late,
            late_of=np.zeros(1, np.intp),
            revised=revised,
            position=JournalPosition(sequence=sequence, triggers=2 * TRIGGERS, readings=0),
        )
    )


async def partition_of(store: PostgresqlStore, time_ns: int) -> Partition:
    found = (await store.partitions())[GROUP.name]
    (one,) = [each for each in found if each.name.isdigit() and each.start_ns <= time_ns < each.end_ns]
    return one


async def period_of(store: PostgresqlStore, time_ns: int) -> Period:
    found = await partition_of(store, time_ns)
    return Period(group=GROUP.name, name=found.name, start_ns=found.start_ns, end_ns=found.end_ns)


async def at_once(done: float) -> None:
    """The pace of a test."""


async def move(store: PostgresqlStore, place: str | None = SLOW, pace: Any = at_once, patience_s: float = 5) -> None:
    await store.move(await period_of(store, noon(2)), place, pace=pace, patience_s=patience_s)


async def tables(database: asyncpg.Connection, schema: str) -> set[str]:
    """All tables of a schema, without what is not there for a group."""
    found = await database.fetch(f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace")
    return {row["relname"] for row in found if row["relname"].startswith("bpm$") and "_idx" not in row["relname"]}


INDEXES = """
    SELECT regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', '') AS text, c.reltablespace AS place
    FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = to_regclass($1) ORDER BY 1
"""


@pytest.mark.usefixtures("small_steps")
async def test_a_period_is_moved_there_and_back_and_all_of_it_is_as_it_was(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, slow: str
) -> None:
    assert isinstance(store, Tiered)
    name = (await period_of(store, noon(2))).name
    leaf = f'{schema}."bpm${name}$leaf"'
    await database.execute(f"CREATE INDEX ON {leaf} (trigger_id DESC, time_ns) WHERE run > 0")
    before, there = await everything(store, GROUP), await tables(database, schema)
    indexes = await database.fetch(INDEXES, leaf)
    was = await partition_of(store, noon(2))
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)

    for place in (slow, None):
        steps.clear()
        await move(store, place, pace)
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0.0, 1.0)
        assert len(steps) > 3
        found = await partition_of(store, noon(2))
        assert (found.place, found.name, found.start_ns, found.end_ns) == (place, name, was.start_ns, was.end_ns)
        assert found.readings_bytes
        assert found.readings_bytes > 8192
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        assert await tables(database, schema) == there
        assert await store.moves() == ()
        assert await database.fetch(INDEXES, leaf) == indexes
        told = "SELECT reltuples, relallvisible = relpages, obj_description(oid) FROM pg_class WHERE oid = $1::regclass"
        readings = TRIGGERS * GROUP.size if layout_of_rows(store) else TRIGGERS
        assert tuple(await database.fetchrow(told.replace("$1", f"'{leaf}'"))) == (readings, True, None)
        checks = f"SELECT count(*) FROM pg_constraint WHERE conrelid = '{leaf}'::regclass AND contype = 'c'"
        assert await database.fetchval(checks) == 0
    assert (await partition_of(store, noon(1))).place is None


def layout_of_rows(store: PostgresqlStore) -> bool:
    return "instrument" in store._tables[GROUP.name].data.c


async def test_who_reads_by_an_older_snapshot_finds_all_of_it(
    store: PostgresqlStore,
    database: asyncpg.Connection,
    schema: str,
    slow: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a backup, whose snapshot may be from before a move, and its first look at the period from after it."""
    monkeypatch.setattr("backends.postgresql.moving.SNAPSHOTS_WITHIN_S", 0.2)
    count = f"SELECT count(*) FROM {schema}.bpm"
    stored = await database.fetchval(count)
    async with database.transaction(isolation="repeatable_read"):
        await database.fetchval("SELECT pg_current_snapshot()::text")
        for _ in range(2):
            with pytest.raises(StoreBusy, match="waits for who reads by an older snapshot"):
                await move(store)
        assert [each.place for each in await store.moves()] == [slow]
        assert await database.fetchval(count) == stored
    await move(store)
    assert (await partition_of(store, noon(2))).place == slow
    assert await database.fetchval(count) == stored


async def test_what_lies_there_already_is_left_alone(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, slow: str
) -> None:
    leaf = f"SELECT '{schema}.\"bpm${(await period_of(store, noon(2))).name}$leaf\"'::regclass::oid"
    await move(store, slow)
    once = await database.fetchval(leaf)
    await move(store, slow)
    assert await database.fetchval(leaf) == once


@pytest.mark.usefixtures("small_steps", "slow")
async def test_the_exchange_scans_nothing(store: PostgresqlStore) -> None:
    said: list[str] = []
    async with store._reader() as connection:
        connection.add_log_listener(lambda _, message: said.append(message.message))
        await connection.execute("SET client_min_messages = debug1")
        moving = PostgresqlMoving(connection, store._tables[GROUP.name], patience_s=5)
        await moving.move(await period_of(store, noon(2)), SLOW, at_once)
        await connection.execute("RESET client_min_messages")
    assert [text for text in said if "partition constraint" in text and "is implied by existing constraints" in text]
    assert not [text for text in said if "verifying table" in text]


@pytest.mark.usefixtures("small_steps", "slow")
async def test_readings_that_come_during_the_copy_stay_and_the_copy_goes(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, rng: np.random.Generator, kind: str
) -> None:
    there = await tables(database, schema)
    period = await period_of(store, noon(2))
    sequence = 2

    async def pace(done: float) -> None:
        nonlocal sequence
        if done and sequence == 2:
            sequence += 1
            await add_late(store, rng, sequence)

    with pytest.raises(PeriodTouched, match=f"{period.name} of group bpm was changed while it was copied"):
        await move(store, pace=pace)
    assert await tables(database, schema) == there
    after = await everything(store, GROUP)
    assert len(after) == 2 * TRIGGERS * GROUP.size + (kind == "rows")
    assert (await partition_of(store, noon(2))).place is None
    await move(store)
    assert (await partition_of(store, noon(2))).place == SLOW
    np.testing.assert_array_equal(await everything(store, GROUP), after)
    # It is written to where it lies now, too.
    await add_late(store, rng, sequence + 1)
    assert len(await everything(store, GROUP)) == len(after) + (kind == "rows")


@pytest.mark.usefixtures("small_steps", "slow")
@pytest.mark.parametrize("change", ["DELETE FROM {} WHERE run = 1", "UPDATE {} SET run = run", "TRUNCATE {}"])
@pytest.mark.parametrize("by", ["bpm", "bpm${name}$leaf"])
async def test_any_change_is_noticed(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, change: str, by: str
) -> None:
    name = (await period_of(store, noon(2))).name
    is_last: list[float] = []

    async def pace(done: float) -> None:
        if done == 1.0:
            is_last.append(done)
            await database.execute(change.format(f'{schema}."{by.format(name=name)}"'))

    with pytest.raises(PeriodTouched):
        await move(store, pace=pace)
    assert is_last
    assert (await partition_of(store, noon(2))).place is None
    assert await store.moves() == ()


@pytest.mark.usefixtures("small_steps", "slow")
async def test_rows_that_were_put_in_another_order_are_not_copied_half(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    name = (await period_of(store, noon(2))).name
    before = await everything(store, GROUP)

    async def pace(done: float) -> None:
        if 0 < done < 0.5:
            await database.execute(f'VACUUM FULL {schema}."bpm${name}$leaf"')

    with pytest.raises(PeriodTouched):
        await move(store, pace=pace)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("slow")
async def test_who_writes_while_it_begins_is_waited_for(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    name = (await period_of(store, noon(2))).name
    before = await everything(store, GROUP)
    async with database.transaction():
        await database.execute(f'UPDATE {schema}."bpm${name}$leaf" SET run = run')
        with pytest.raises(StoreBusy):
            await move(store, patience_s=0.05)
    assert await store.moves() == ()
    await move(store)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("slow")
async def test_a_reader_puts_the_exchange_off_and_nothing_is_copied_twice(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    before = await everything(store, GROUP)
    period = await period_of(store, noon(2))
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)

    async with database.transaction():
        await database.execute(f"SELECT run FROM {schema}.bpm LIMIT 1")
        with pytest.raises(StoreBusy):
            await move(store, pace=pace, patience_s=0.05)
        assert await store.moves() == (Move(group="bpm", name=period.name, place=SLOW),)
        assert (await partition_of(store, noon(2))).place is None
        # Others read and write meanwhile.
        np.testing.assert_array_equal(await everything(store, GROUP), before)
    assert steps[-1] == 1.0
    steps.clear()
    await move(store, pace=pace)
    assert steps == []
    assert (await partition_of(store, noon(2))).place == SLOW
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("slow")
async def test_readers_of_other_periods_do_not_put_it_off(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    async with database.transaction():
        await database.execute(f"SELECT run FROM {schema}.bpm WHERE time_ns > {noon(1) - DAY_NS // 4} LIMIT 1")
        await move(store, patience_s=0.05)
    assert (await partition_of(store, noon(2))).place == SLOW


@pytest.mark.usefixtures("small_steps", "slow")
async def test_a_kill_before_any_statement_loses_nothing_and_the_next_goes_on(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    before, there = await everything(store, GROUP), await tables(database, schema)
    period = await period_of(store, noon(2))
    place: str | None = SLOW
    for steps in range(1000):
        with contextlib.suppress(Killed):
            async with store._reader() as connection:
                moving = PostgresqlMoving(Dying(connection, steps), store._tables[GROUP.name], patience_s=5)
                await moving.move(period, place, at_once)
                break
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        moves = await store.moves()
        assert moves in ((), (Move(group="bpm", name=period.name, place=place),))
        if steps % 2:
            for each in moves:
                await store.give_up_move(each, patience_s=5)
            if (await partition_of(store, noon(2))).place != place:
                assert await tables(database, schema) == there
        await move(store, place)
        np.testing.assert_array_equal(await everything(store, GROUP), before)
        assert await tables(database, schema) == there, steps
        assert (await partition_of(store, noon(2))).place == place
        place = None if place else SLOW
    else:
        pytest.fail("a move has more statements than that")
    assert steps > 15


@pytest.mark.usefixtures("small_steps", "slow")
async def test_a_half_made_copy_goes_on_where_it_was_and_one_for_another_place_begins_anew(
    store: PostgresqlStore,
) -> None:
    before = await everything(store, GROUP)
    steps: list[float] = []

    async def pace(done: float) -> None:
        steps.append(done)
        if len(steps) == 4:
            raise Killed

    with pytest.raises(Killed):
        await move(store, pace=pace)
    reached = steps[-1]
    assert reached > 0
    steps[:] = [0.0] * 4

    await move(store, pace=pace)
    assert steps[4] == reached
    np.testing.assert_array_equal(await everything(store, GROUP), before)

    steps.clear()
    with pytest.raises(Killed):
        await move(store, None, pace)
    await move(store, SLOW)
    assert await store.moves() == ()
    assert (await partition_of(store, noon(2))).place == SLOW
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("slow")
async def test_a_moved_period_is_dropped_as_any_other(store: PostgresqlStore) -> None:
    await move(store)
    was = await store.ask(Totals(group=GROUP, within_s=60))
    period, size = await period_of(store, noon(2)), (await partition_of(store, noon(2))).readings_bytes
    dropped = await store.drop(period, Rule.AGE, at_ns=5, patience_s=5)
    assert dropped.size_bytes == size
    found = await store.ask(Totals(group=GROUP, within_s=60))
    assert (found["stored"] + found["dropped"]).tolist() == was["stored"].tolist()
    assert len(await everything(store, GROUP)) == TRIGGERS * GROUP.size


@pytest.mark.usefixtures("small_steps", "slow")
async def test_a_period_that_is_dropped_in_the_middle_of_its_move_leaves_nothing(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    period = await period_of(store, noon(2))

    async def pace(done: float) -> None:
        if done:
            await store.drop(period, Rule.AGE, at_ns=5, patience_s=5)

    with pytest.raises(PeriodTouched):
        await move(store, pace=pace)
    assert await store.moves() == ()
    assert not {name for name in await tables(database, schema) if period.name in name}
    assert len(await everything(store, GROUP)) == TRIGGERS * GROUP.size


@pytest.mark.usefixtures("slow")
async def test_rights_on_a_leaf_go_along(store: PostgresqlStore, database: asyncpg.Connection, schema: str) -> None:
    leaf = f'{schema}."bpm${(await period_of(store, noon(2))).name}$leaf"'
    role = f"reader_{schema}"
    await database.execute(f"CREATE ROLE {role}; GRANT SELECT ON {leaf} TO {role} WITH GRANT OPTION")
    await database.execute(f"GRANT INSERT ON {leaf} TO PUBLIC")
    rights = f"SELECT relacl::text FROM pg_class WHERE oid = '{leaf}'::regclass"
    before = await database.fetchval(rights)
    await move(store)
    assert set(re.split("[{},]", await database.fetchval(rights))) == set(re.split("[{},]", before))


@pytest.mark.usefixtures("slow")
async def test_a_right_or_a_tablespace_that_is_not_there_changes_nothing(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    there = await tables(database, schema)
    with pytest.raises(StoreError, match='Tablespace "nowhere" does not exist'):
        await move(store, "nowhere")
    assert await tables(database, schema) == there
    missing = Period(group="bpm", name="19700101", start_ns=0, end_ns=DAY_NS)
    with pytest.raises(StoreError, match="no partition '19700101' with readings"):
        await store.move(missing, SLOW, pace=at_once, patience_s=1)


@pytest.mark.usefixtures("slow")
async def test_only_one_moves_periods_of_a_group(store: PostgresqlStore, make: Make) -> None:
    other = make(GROUP)
    refused: list[str] = []

    async def pace(done: float) -> None:
        with pytest.raises(StoreBusy, match="is being moved by somebody else") as error:
            await other.move(await period_of(store, noon(1)), SLOW, pace=at_once, patience_s=0.05)
        refused.append(str(error.value))

    await move(store, pace=pace)
    assert refused
    await other.close()


async def test_a_partition_of_an_older_triggerlog_is_written_read_dropped_and_not_moved(
    make: Make, opened: Callable[..., Any], database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    store = await opened(make(GROUP))
    day = noon(2) // DAY_NS * DAY_NS
    label = str(np.datetime64(day, "ns").astype("datetime64[D]")).replace("-", "")
    old = Interval(start_ns=day, end_ns=day + DAY_NS, label=label)
    for table in ("bpm", "bpm_ledger"):
        await database.execute(";".join(create_partition(schema, table, old)))
    await write(store, rng, 1, noon(2))
    await write(store, rng, 2, noon(1))
    found = await partition_of(store, noon(2))
    assert (found.name, found.place) == (label, None)
    assert await database.fetchval(f'SELECT count(*) > 0 FROM {schema}."bpm${label}"')
    with pytest.raises(StoreError, match="has no leaf that could be moved"):
        await move(store, SLOW)
    dropped = await store.drop(await period_of(store, noon(2)), Rule.AGE, at_ns=5, patience_s=5)
    assert dropped.size_bytes > 0
    assert len(await everything(store, GROUP)) == TRIGGERS * GROUP.size


async def test_readings_go_into_the_leaf_by_its_name(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    """Where a batch fits one period, the server does not have to find it."""
    now = time.time_ns()
    writer = store._writers[GROUP.name]
    async with writer._session() as connection:
        await writer._partitioner.make(connection, np.array([now]))  # finds that it is another than before
        into = await writer._partitioner.make(connection, np.array([now]))
    assert into.startswith("$2")
    kinds = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)"
    ends = {end: await database.fetchval(kinds, f'{schema}."bpm{into}{end}"') for end in ("", "$leaf")}
    assert ends == {"": "p", "$leaf": "r"}
    assert await database.fetchval(kinds, f'{schema}."bpm_ledger{into}"') == "r"
    written = await write(store, rng, 3, now)
    rows = await database.fetchval(f'SELECT count(*) FROM ONLY {schema}."bpm{into}$leaf"')
    assert rows == (written.size if layout_of_rows(store) else TRIGGERS)


async def test_counts_are_right_at_every_moment_of_many_moves(
    store: PostgresqlStore, slow: str, rng: np.random.Generator
) -> None:
    done = asyncio.Event()

    async def read() -> int:
        looks = 0
        while not done.is_set():
            found = await store.ask(Totals(group=GROUP, within_s=60))
            stored = found["arrived"] if layout_of_rows(store) else found["triggers"]
            assert found["stored"].tolist() == stored.tolist()
            looks += 1
        return looks

    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(read())
        for number, place in enumerate((slow, None) * 4, 3):
            await write(store, rng, number, noon(2))
            for _ in range(1000):
                try:
                    await move(store, place, patience_s=0.2)
                except StoreBusy:
                    continue
                break
            assert (await partition_of(store, noon(2))).place == place
        done.set()
    assert reading.result()
