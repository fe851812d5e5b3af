"""What `backends.base.Store` promises, asked of every store."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest

from backends.base import AnswerTooLarge, BatchRejected, CommitsLost, SchemaMismatch, Store, StoreUnavailable
from backends.mongodb import MongodbStore
from backends.mysql import MysqlStore
from backends.postgresql import PostgresqlStore
from schemas.batch import Durability, JournalPosition, Layout, Stream
from schemas.config import DatabaseConfig
from schemas.queries import (
    TOTALS,
    InstrumentReadings,
    LedgerRow,
    LedgerTail,
    NewestTrigger,
    Totals,
    TriggerReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import CHANNEL_DTYPES, Array, Channel, InstrumentGroup
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of, with_late
from tests.support.memory.store import MemoryStore

# By the name of the kind, whose end is the layout: the fixture that has a server, and the store.
SERVERS: dict[str, tuple[str, Callable[..., Store]]] = {
    "rows": ("postgresql_dsn", PostgresqlStore),
    "arrays": ("postgresql_dsn", PostgresqlStore),
    "mysql-rows": ("mariadb_dsn", MysqlStore),
    "mysql-arrays": ("mariadb_dsn", MysqlStore),
    # As MySQL takes rows, which lacks MariaDB's bulk command.
    "mysql-statements-rows": ("mariadb_dsn", partial(MysqlStore, bulk=False)),
    "mysql-statements-arrays": ("mariadb_dsn", partial(MysqlStore, bulk=False)),
    "mongodb-rows": ("mongodb_dsn", MongodbStore),
    "mongodb-arrays": ("mongodb_dsn", MongodbStore),
    # As MongoDB is queried, which has indexes, and at its write concern.
    "mongodb-set-arrays": ("replica_set_dsn", MongodbStore),
}
DATABASES = list(SERVERS)
ALL = ["memory", *DATABASES]
EVER = (-(2**63), 2**63 - 1)

Make = Callable[..., Store]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(params=ALL)
def make(request: pytest.FixtureRequest, schema: str) -> Make:
    """Makes a store of one kind, not yet open; stores made in one test share their database."""
    return maker(request, request.param, schema)


@pytest.fixture(params=DATABASES)
def make_database(request: pytest.FixtureRequest, schema: str) -> Make:
    return maker(request, request.param, schema)


def maker(request: pytest.FixtureRequest, kind: str, schema: str) -> Make:
    if kind == "memory":
        return lambda *groups, **_: MemoryStore(by_group(*groups))
    fixture, store = SERVERS[kind]
    dsn = request.getfixturevalue(fixture)

    def make(*groups: InstrumentGroup, logger: str = "main", layout: str | None = None, **settings: Any) -> Store:
        return store(
            DatabaseConfig(dsn=dsn, schema=schema, **settings),
            logger=logger,
            groups=by_group(*groups),
            layouts={group.name: Layout(layout or layout_of(kind)) for group in groups},
        )

    return make


def layout_of(kind: str) -> Layout:
    return Layout(kind.rpartition("-")[2])


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[Store], Any]]:
    async with AsyncExitStack() as stack:

        async def open_it(store: Store) -> Store:
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield open_it


async def everything(store: Store, group: InstrumentGroup) -> Array:
    return await store.ask(WindowReadings(group=group, start_ns=EVER[0], end_ns=EVER[1]))


def now_and_then(count: int, every_ns: int = 10_000_000) -> Array:
    return time.time_ns() + np.arange(count) * every_ns


async def test_an_empty_store_answers_with_nothing(make: Make, opened: Any) -> None:
    group = group_of()
    store = await opened(make(group))
    assert await store.position("bpm") is None
    for query in (
        NewestTrigger(group=group),
        TriggerReadings(group=group, run=1, trigger=1),
        InstrumentReadings(group=group, instrument=0, start_ns=EVER[0], end_ns=EVER[1], most=10),
        WindowReadings(group=group, start_ns=EVER[0], end_ns=EVER[1]),
    ):
        answer = await store.ask(query)
        assert answer.shape == (0,)
        assert answer.dtype == answer_dtype(group)
    for ledger_query in (LedgerRow(group=group, trigger=1), LedgerTail(group=group, most=5)):
        assert (await store.ask(ledger_query)).shape == (0,)


async def test_what_is_committed_is_read_back(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    readings = readings_of(group, np.arange(5, 25), now_and_then(20), rng)
    batch = batch_of(group, 1, readings)
    await store.commit(batch)

    assert (await store.position("bpm")).sequence == 1
    expected = answers(group, [(1, readings.ravel())])
    np.testing.assert_array_equal(await everything(store, group), expected)
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=group, most=100)), batch.ledger)
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=group, most=3)), batch.ledger[-3:])
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=9)), batch.ledger[4:5])
    np.testing.assert_array_equal(await store.ask(NewestTrigger(group=group)), expected[expected["trigger"] == 24])
    seven = await store.ask(TriggerReadings(group=group, run=1, trigger=7))
    np.testing.assert_array_equal(seven, expected[expected["trigger"] == 7])
    assert (await store.ask(TriggerReadings(group=group, run=2, trigger=7))).shape == (0,)


async def test_readings_of_an_instrument_and_of_a_window(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    times = now_and_then(30)
    readings = readings_of(group, np.arange(30), times, rng)
    await store.commit(batch_of(group, 1, readings))

    of_four = answers(group, [(1, readings[10:20, 4])])
    start, end = int(of_four["time_ns"][0]), int(readings[20, 4]["time_ns"])
    found = await store.ask(InstrumentReadings(group=group, instrument=4, start_ns=start, end_ns=end, most=100))
    np.testing.assert_array_equal(found, of_four)
    newest = await store.ask(InstrumentReadings(group=group, instrument=4, start_ns=start, end_ns=end, most=3))
    np.testing.assert_array_equal(newest, of_four[-3:])

    inside = (readings["time_ns"] >= start) & (readings["time_ns"] < end)
    window = await store.ask(WindowReadings(group=group, start_ns=start, end_ns=end))
    np.testing.assert_array_equal(window, answers(group, [(1, readings[inside])]))


async def test_an_answer_that_would_be_too_large_is_refused(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    times = now_and_then(30, every_ns=60_000_000_000)
    readings = readings_of(group, np.arange(30), times, rng)
    await store.commit(batch_of(group, 1, readings))

    end = int(times[15]) - 10_000_000_000
    window = WindowReadings(group=group, start_ns=int(times[10]), end_ns=end, most=5 * group.size)
    np.testing.assert_array_equal(await store.ask(window), answers(group, [(1, readings[10:15].ravel())]))
    for tight in (window.most - 1, 7):
        with pytest.raises(AnswerTooLarge):
            await store.ask(dataclasses.replace(window, most=tight))
    with pytest.raises(AnswerTooLarge):
        await store.ask(dataclasses.replace(window, start_ns=EVER[0], end_ns=EVER[1]))


async def test_incomplete_triggers(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of(dtypes=("float64", "int32"))
    store = await opened(make(group))
    readings = readings_of(group, np.arange(40), now_and_then(40), rng)
    present = rng.random(readings.shape) < 0.7
    present[:, 0] = True
    present[7] = True
    present[8:, 1] = False
    readings[~present] = np.frombuffer(b"\xff" * group.record.itemsize, group.record)[0]
    batch = batch_of(group, 1, readings, present=present)
    await store.commit(batch)

    expected = answers(group, [(1, readings[present])])
    np.testing.assert_array_equal(await everything(store, group), expected)
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=group, most=100)), batch.ledger)
    newest = await store.ask(NewestTrigger(group=group))
    np.testing.assert_array_equal(newest, expected[expected["trigger"] == 7])
    one = await store.ask(InstrumentReadings(group=group, instrument=1, start_ns=0, end_ns=EVER[1], most=100))
    np.testing.assert_array_equal(one, expected[expected["instrument"] == 1])


async def test_triggers_that_come_one_by_one(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of(dtypes=tuple(CHANNEL_DTYPES))
    store = await opened(make(group))
    parts, rows = [], []
    for k, time_ns in enumerate(now_and_then(12)):
        readings = readings_of(group, np.array([k]), np.array([time_ns]), rng)
        present = rng.random(readings.shape) < (1.0 if k % 2 else 0.6)
        present[0, 3] = True
        durability = Durability.ASYNC if k % 3 else Durability.SYNC
        batch = batch_of(group, k + 1, readings, present=present, durability=durability)
        await store.commit(batch)
        await store.commit(batch)
        parts.append((1, readings[present]))
        rows.append(batch.ledger)
    np.testing.assert_array_equal(await everything(store, group), answers(group, parts))
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=group, most=100)), np.concatenate(rows))
    assert (await store.position("bpm")).sequence == 12


async def test_late_readings_of_an_earlier_batch(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of(dtypes=("float32", "uint16"))
    store = await opened(make(group))
    readings = readings_of(group, np.arange(6), now_and_then(6), rng)
    present = np.ones(readings.shape, bool)
    present[2, 3:6] = False
    present[4, 11] = False
    first = batch_of(group, 1, readings, present=present)
    await store.commit(first)

    # Two of the three missing from trigger 2 come, and the one from 4, out of order.
    late = readings[[4, 2, 2], [11, 5, 3]]
    after = present.copy()
    after[[4, 2, 2], [11, 5, 3]] = True
    revised = np.array([with_late(first.ledger[2], late[1:], after[2]), with_late(first.ledger[4], late[:1], after[4])])
    more = readings_of(group, np.arange(6, 9), now_and_then(3), rng)
    second = batch_of(group, 2, more, late=late, late_of=np.array([1, 0, 0]), revised=revised)
    await store.commit(second)
    await store.commit(second)

    expected = answers(group, [(1, readings[after]), (1, more.ravel())])
    np.testing.assert_array_equal(await everything(store, group), expected)
    ledger = np.concatenate([first.ledger, second.ledger])
    ledger[[2, 4]] = revised
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=group, most=100)), ledger)
    two = await store.ask(TriggerReadings(group=group, run=1, trigger=2))
    np.testing.assert_array_equal(two, expected[expected["trigger"] == 2])


async def test_late_readings_of_the_same_batch(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    readings = readings_of(group, np.arange(6), now_and_then(6), rng)
    present = np.ones(readings.shape, bool)
    present[3, [2, 7]] = False
    plain = batch_of(group, 1, readings, present=present)
    after = np.ones(group.size, bool)
    revised = np.array([with_late(plain.ledger[3], readings[3, [2, 7]], after)])
    await store.commit(
        batch_of(
            group, 1, readings, present=present, late=readings[3, [7, 2]], late_of=np.array([0, 0]), revised=revised
        )
    )
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=3)), revised)


async def test_revised_ledger_without_late_readings(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    readings = readings_of(group, np.arange(3), now_and_then(3), rng)
    first = batch_of(group, 1, readings)
    await store.commit(first)
    revised = first.ledger[1:2].copy()
    revised["duplicates"] = 4
    await store.commit(batch_of(group, 2, readings[:0], revised=revised))
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=1)), revised)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_late_readings_of_a_trigger_the_store_lacks(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    readings = readings_of(group, np.arange(1), now_and_then(1), rng)
    present = np.zeros(readings.shape, bool)
    present[0, 4] = True
    row = batch_of(group, 1, readings, present=present).ledger
    await store.commit(batch_of(group, 1, readings[:0], late=readings[0, 4:5], late_of=np.array([0]), revised=row))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings[present])]))
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=0)), row)


async def test_the_same_batch_again_changes_nothing(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    batches = [batch_of(group, k, readings_of(group, np.arange(k, k + 1), now_and_then(1), rng)) for k in (1, 2)]
    for batch in (*batches, *batches, batches[0]):
        await store.commit(batch)
    assert (await store.position("bpm")).sequence == 2
    expected = answers(group, [(1, batch.readings.ravel()) for batch in batches])
    np.testing.assert_array_equal(await everything(store, group), expected)


async def test_a_new_run_with_the_same_trigger_numbers(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    first = readings_of(group, np.arange(4), now_and_then(4), rng)
    second = readings_of(group, np.arange(3), now_and_then(3) + 10**9, rng)
    batches = [batch_of(group, 1, first), batch_of(group, 2, second, run=2)]
    for batch in batches:
        await store.commit(batch)
    np.testing.assert_array_equal(
        await everything(store, group), answers(group, [(1, first.ravel()), (2, second.ravel())])
    )
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=1)), batches[1].ledger[1:2])
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=1, run=1)), batches[0].ledger[1:2])
    np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=3)), batches[0].ledger[3:4])
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=group, most=9)), batches[1].ledger)
    np.testing.assert_array_equal(await store.ask(NewestTrigger(group=group)), answers(group, [(2, second[2])]))


@pytest.mark.parametrize("again", [slice(1, 2), slice(1, 4)], ids=["single", "many"])
async def test_a_trigger_that_closes_again_at_another_time_is_refused(
    make: Make, opened: Any, rng: np.random.Generator, again: slice
) -> None:
    """Its readings would be there twice."""
    group = group_of()
    store = await opened(make(group))
    readings = readings_of(group, np.arange(5), now_and_then(5), rng)
    present = np.ones(readings.shape, bool)
    # Before and after it: what is new comes on either side of what is there.
    await store.commit(batch_of(group, 1, readings[[0, 2, 4]], present=present[[0, 2, 4]]))
    await store.commit(batch_of(group, 2, readings[1:2], present=present[1:2]))
    other = readings.copy()
    other["time_ns"] += 1_000_000
    for refused in (store.commit, store.rehearse):
        with pytest.raises(BatchRejected, match=r"duplicate key.*; trigger [12] of run 1") as rejected:
            await refused(batch_of(group, 3, other[again]))
        assert "\n" not in str(rejected.value)
    assert (await store.position("bpm")).sequence == 2
    expected = answers(group, [(1, readings[[0, 1, 2, 4]].ravel())])
    np.testing.assert_array_equal(await everything(store, group), expected)
    await store.commit(batch_of(group, 3, readings[3:4]))
    assert (await store.ask(LedgerTail(group=group, most=9)))["trigger"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("year", ["1900-01-01", "1970-01-01", "2200-06-01", "2262-01-01"])
async def test_times_far_from_now(make: Make, opened: Any, rng: np.random.Generator, year: str) -> None:
    group = group_of()
    store = await opened(make(group))
    there = int(np.datetime64(year, "ns").astype(np.int64))
    readings = readings_of(group, np.arange(3), there + np.arange(3) * 1000, rng)
    strayed = readings_of(group, np.arange(3, 6), now_and_then(3), rng)
    strayed["time_ns"][:, 5] = there  # one instrument's clock is wrong
    await store.commit(batch_of(group, 1, readings))
    await store.commit(batch_of(group, 2, strayed))

    both = answers(group, [(1, readings.ravel()), (1, strayed.ravel())])
    np.testing.assert_array_equal(await everything(store, group), both)
    newest = await store.ask(NewestTrigger(group=group))
    np.testing.assert_array_equal(newest, answers(group, [(1, strayed[-1])]))
    window = await store.ask(WindowReadings(group=group, start_ns=there, end_ns=there + 1_000_000))
    assert set(window["trigger"]) >= {0, 1, 2}


@pytest.mark.parametrize("dtype", CHANNEL_DTYPES)
async def test_every_channel_dtype(make: Make, opened: Any, rng: np.random.Generator, dtype: str) -> None:
    group = group_of(dtypes=(dtype, dtype))
    store = await opened(make(group))
    readings = readings_of(group, np.arange(10), now_and_then(10), rng)
    if dtype.startswith("float"):
        readings["ch0"].flat[:4] = np.nan, np.inf, -np.inf, -0.0
    present = rng.random(readings.shape) < 0.9
    present[:, :4] = True
    await store.commit(batch_of(group, 1, readings, present=present))
    # Bytes, since NaN is equal to nothing and -0.0 to 0.0.
    assert (await everything(store, group)).tobytes() == answers(group, [(1, readings[present])]).tobytes()


async def test_a_wide_group(make: Make, opened: Any, rng: np.random.Generator) -> None:
    """In the arrays layout its row fits no page."""
    group = group_of(size=3000, dtypes=("float64", "float32"))
    store = await opened(make(group))
    readings = readings_of(group, np.arange(2), now_and_then(2), rng)
    await store.commit(batch_of(group, 1, readings))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_async_durability(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    readings = readings_of(group, np.arange(3), now_and_then(3), rng)
    await store.commit(batch_of(group, 1, readings, durability=Durability.ASYNC))
    assert (await store.position("bpm")).sequence == 1
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_several_groups_at_once(make: Make, opened: Any, rng: np.random.Generator) -> None:
    groups = [group_of("bpm"), group_of("ict", size=3, dtypes=("int16",)), group_of("wcm", size=1)]
    store = await opened(make(*groups))
    sent = {
        group.name: [readings_of(group, np.arange(k, k + 2), now_and_then(2), rng) for k in range(0, 20, 2)]
        for group in groups
    }

    async def log(group: InstrumentGroup) -> None:
        for sequence, readings in enumerate(sent[group.name], 1):
            await store.commit(batch_of(group, sequence, readings))
            assert len(await store.ask(NewestTrigger(group=group))) == group.size

    async with asyncio.TaskGroup() as tasks:
        for group in groups:
            tasks.create_task(log(group))
    for group in groups:
        expected = answers(group, [(1, readings.ravel()) for readings in sent[group.name]])
        np.testing.assert_array_equal(await everything(store, group), expected)
        assert (await store.position(group.name)).sequence == 10


async def test_facts(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    await store.commit(batch_of(group, 1, readings_of(group, np.arange(3), now_and_then(3), rng)))
    facts = await store.facts()
    assert facts.durability[Durability.SYNC].words.startswith(("sync", "NOT durable"))
    assert facts.durability[Durability.ASYNC].words.startswith(("sync", "async", "NOT durable"))
    assert facts.size_bytes["bpm"] > 0
    assert set(facts.rows) == {"bpm"}
    assert facts.version


async def test_a_store_is_found_as_it_was_left(make_database: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make_database(group))
    readings = readings_of(group, np.arange(3), now_and_then(3), rng)
    await store.commit(batch_of(group, 4, readings))
    await store.close()
    again = await opened(make_database(group))
    assert (await again.position("bpm")).sequence == 4
    np.testing.assert_array_equal(await everything(again, group), answers(group, [(1, readings.ravel())]))


def _changed(group: InstrumentGroup, *, channels: Any = None, instruments: Any = None) -> InstrumentGroup:
    return InstrumentGroup(
        name=group.name,
        channels=group.channels if channels is None else tuple(channels),
        instruments=group.instruments if instruments is None else tuple(instruments),
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda g: _changed(g, channels=g.channels[:-1]), "lacks channel 'ch3'"),
        (lambda g: _changed(g, channels=[*g.channels, Channel(name="q", unit="", dtype="int8")]), "no channel 'q'"),
        (
            lambda g: _changed(g, channels=[*g.channels[:-1], Channel(name="ch3", unit="", dtype="float32")]),
            "channel 'ch3' is float64, the configuration says float32",
        ),
        (lambda g: _changed(g, channels=g.channels[::-1]), "order of its channels is ch0, ch1, ch2, ch3"),
        (lambda g: _changed(g, instruments=[*g.instruments, "new"]), "has 12 instruments, the configuration 13"),
        (lambda g: _changed(g, instruments=["x", *g.instruments[1:]]), "instrument 0 is 'bpm_000'"),
    ],
    ids=["channel gone", "channel new", "dtype", "order", "instrument new", "instrument renamed"],
)
async def test_another_group_than_the_one_stored(make_database: Make, opened: Any, change: Any, says: str) -> None:
    group = group_of()
    await (await opened(make_database(group))).close()
    changed = make_database(change(group))
    with pytest.raises(SchemaMismatch, match=says):
        await changed.open()
    await opened(make_database(group))


async def test_another_layout_or_logger_than_the_one_stored(
    request: pytest.FixtureRequest, make_database: Make, opened: Any
) -> None:
    group = group_of()
    await opened(make_database(group))
    layout = layout_of(request.node.callspec.params["make_database"])
    other = Layout.ARRAYS if layout is Layout.ROWS else Layout.ROWS
    with pytest.raises(SchemaMismatch, match=f"its layout is '{layout.value}'"):
        await make_database(group, layout=other).open()
    with pytest.raises(SchemaMismatch, match="written by logger 'main', this is 'second'"):
        await make_database(group, logger="second").open()


async def test_the_account_moves_with_the_position(make: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make(group))
    # One trigger goes another way than many, and a few ledger rows another than many.
    for sequence, count in enumerate((1, 3, 20), 1):
        readings = readings_of(group, 100 * sequence + np.arange(count), now_and_then(count), rng)
        to = JournalPosition(sequence=sequence, triggers=5 * sequence, readings=2**40 + sequence)
        batch = batch_of(group, sequence, readings, position=to)
        await store.commit(batch)
        assert await store.position("bpm") == to
        # The same again, with an account that would be another: it is there, so nothing of it counts.
        again = JournalPosition(sequence=sequence, triggers=999, readings=999)
        await store.commit(dataclasses.replace(batch, position=again))
        assert await store.position("bpm") == to


def counted(layout: Layout, **of: int) -> dict[str, int]:
    """What a store without loss counts."""
    stored = of["readings"] if layout is Layout.ROWS else of["triggers"]
    return {
        "stored": stored,
        "triggers": of["triggers"],
        "expected": of["expected"],
        "arrived": of["readings"],
        "skipped": 0,
    }


async def test_totals(request: pytest.FixtureRequest, make: Make, opened: Any, rng: np.random.Generator) -> None:
    group, other = group_of(size=12), group_of("ict", size=3)
    store = await opened(make(group, other))
    kind = request.node.callspec.params["make"]
    layout = Layout.ROWS if kind == "memory" else layout_of(kind)
    question = Totals(group=group, within_s=60)
    (empty,) = await store.ask(question)
    assert set(empty.item()) == {0}

    present = np.ones((20, 12), bool)
    present[3, 2:5] = False
    at = now_and_then(20)
    readings = readings_of(group, np.arange(1, 21), at, rng)
    to = JournalPosition(sequence=1, triggers=20, readings=237)
    first = batch_of(group, 1, readings, present=present, position=to)
    await store.commit(first)
    present[3, 2:4] = True
    late = {"late": readings[3, 2:4], "late_of": np.array([0, 0])}
    revised = np.array([with_late(first.ledger[3], late["late"], present[3])])
    to = JournalPosition(sequence=2, triggers=20, readings=239)
    await store.commit(batch_of(group, 2, readings[:0], **late, revised=revised, position=to))
    # What was a dead letter has numbers and an account of its own.
    to = JournalPosition(sequence=8, triggers=3, readings=36)
    again = readings_of(group, np.arange(1, 4), now_and_then(3) + 10**12, rng)
    last = batch_of(group, 8, again, run=2, position=to)
    await store.commit(dataclasses.replace(last, stream=Stream.DEAD_LETTERS))
    await store.commit(batch_of(other, 1, readings_of(other, np.arange(1, 9), now_and_then(8), rng)))

    answer = await store.ask(question)
    assert answer.dtype == TOTALS
    assert answer["run"].tolist() == [1, 2]
    rows = [dict(zip(TOTALS.names, row.item(), strict=True)) for row in answer]
    account = {"sequence": 2, "account_triggers": 23, "account_readings": 275, "journal_readings": 239}
    account |= {"moved_triggers": 0, "moved_readings": 0, "dropped": 0}
    ledger = np.concatenate([np.delete(first.ledger, 3), revised])
    for row, ledger_rows, wanted in (
        (rows[0], ledger, counted(layout, triggers=20, readings=239, expected=240)),
        (rows[1], last.ledger, counted(layout, triggers=3, readings=36, expected=36)),
    ):
        ends = {"first_ns": int(ledger_rows["first_ns"].min()), "last_ns": int(ledger_rows["last_ns"].max())}
        assert row == {"run": row["run"], **wanted, **ends, **account}


async def test_totals_take_as_long_as_they_may(make_database: Make, opened: Any) -> None:
    group = group_of()
    store = await opened(make_database(group))
    with pytest.raises(StoreUnavailable):
        await store.ask(Totals(group=group, within_s=1e-6))
    assert len(await store.ask(Totals(group=group, within_s=60))) == 1


async def test_a_store_that_is_behind_what_it_acknowledged_says_so_and_takes_nothing(
    make: Make, opened: Any, rng: np.random.Generator
) -> None:
    group = group_of()
    store = await opened(make(group))
    first, second, third = (
        batch_of(group, 5 * k, readings_of(group, 100 * k + np.arange(count), now_and_then(count), rng))
        for k, count in enumerate((4, 1, 1), 1)
    )
    await store.commit(first)
    with pytest.raises(CommitsLost) as lost:
        await store.commit(dataclasses.replace(third, follows=second.position))
    assert lost.value.position == first.position
    assert await store.position(group.name) == first.position
    assert len(await store.ask(LedgerTail(group=group, most=100))) == len(first.ledger)
    # What it lost comes again, and then what follows it.
    await store.commit(dataclasses.replace(second, follows=first.position))
    await store.commit(dataclasses.replace(third, follows=second.position))
    await store.commit(dataclasses.replace(third, follows=second.position))  # its answer was lost
    assert await store.position(group.name) == third.position
    found = await store.ask(LedgerTail(group=group, most=100))
    assert len(found) == sum(len(batch.ledger) for batch in (first, second, third))


async def test_the_account_is_found_again(make_database: Make, opened: Any, rng: np.random.Generator) -> None:
    group = group_of()
    store = await opened(make_database(group))
    to = JournalPosition(sequence=7, triggers=3, readings=36)
    await store.commit(batch_of(group, 7, readings_of(group, np.arange(3), now_and_then(3), rng), position=to))
    await store.close()
    assert await (await opened(make_database(group))).position("bpm") == to


async def test_two_loggers_share_a_schema(make_database: Make, opened: Any, rng: np.random.Generator) -> None:
    bpm, ict = group_of("bpm"), group_of("ict")
    one, two = await opened(make_database(bpm)), await opened(make_database(ict, logger="second"))
    await one.commit(batch_of(bpm, 1, readings_of(bpm, np.arange(2), now_and_then(2), rng)))
    await two.commit(batch_of(ict, 8, readings_of(ict, np.arange(2), now_and_then(2), rng)))
    assert (await one.position("bpm")).sequence == 1
    assert (await two.position("ict")).sequence == 8


async def test_what_is_beside_a_position_is_found_without_its_group(
    make_database: Make, opened: Any, rng: np.random.Generator
) -> None:
    bpm, ict, other = group_of("bpm"), group_of("ict"), group_of("other")
    stores = [await opened(make_database(bpm)), await opened(make_database(other, logger="second"))]
    for store, group in zip(stores, (bpm, other), strict=True):
        to = JournalPosition(sequence=1, journal=5, state=f"of {group.name}'\\".encode())
        await store.commit(batch_of(group, 1, readings_of(group, np.arange(2), now_and_then(2), rng), position=to))
        await store.close()
    states = await (await opened(make_database(ict))).states()
    assert {name: state for name, state in states.items() if state} == {"bpm": b"of bpm'\\"}


async def test_late_readings_of_many_triggers_at_once(
    make_database: Make, opened: Any, rng: np.random.Generator
) -> None:
    """Of more triggers than FerretDB 1 has connections to its SQLite, of which every update of a command takes one."""
    group, triggers = group_of(size=3), 150
    store = await opened(make_database(group))
    readings = readings_of(group, np.arange(triggers), now_and_then(triggers), rng)
    present = np.ones(readings.shape, bool)
    present[:, 1] = False
    first = batch_of(group, 1, readings, present=present)
    await store.commit(first)
    late = readings[:, 1]
    revised = np.array([with_late(first.ledger[k], late[k : k + 1], np.ones(3, bool)) for k in range(triggers)])
    none = readings_of(group, np.arange(0), now_and_then(0), rng)
    await store.commit(batch_of(group, 2, none, late=late, late_of=np.arange(triggers), revised=revised))
    assert len(await everything(store, group)) == 3 * triggers
    ledger = await store.ask(LedgerTail(group=group, most=triggers))
    assert ledger["arrived"].tolist() == [3] * triggers
