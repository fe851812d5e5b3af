"""What only MongoDB does: crashes without transactions, the lease, its documents, durability."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pymongo
import pytest
from bson import Binary, Int64, ObjectId
from bson.binary import USER_DEFINED_SUBTYPE
from bson.timestamp import Timestamp
from pymongo.asynchronous.database import AsyncDatabase

from backends import open_store
from backends.base import BatchRejected, SchemaMismatch, StoreError, StoreLacks, StoreUnavailable
from backends.mongodb import MongodbStore
from backends.mongodb.protocol.documents import id_bytes
from backends.mongodb.server.lease import Lease
from backends.throwaway.mongodb import ThrowawayMongodb
from schemas.batch import Durability, JournalPosition, Layout
from schemas.config import DatabaseConfig
from schemas.queries import InstrumentReadings, LedgerRow, LedgerTail, NewestTrigger, WindowReadings
from schemas.readings import Array, InstrumentGroup
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of, with_late
from tests.support.committing import committed
from tests.support.processes import free_port

ON_BOTH_LOOPS = True
BOTH = pytest.mark.parametrize("layout", list(Layout))

Make = Callable[..., MongodbStore]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
async def make(mongodb_dsn: str, schema: str) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def make(
            group: InstrumentGroup,
            layout: Layout = Layout.ROWS,
            logger: str = "main",
            password: str | None = None,
            **settings: Any,
        ) -> MongodbStore:
            store = MongodbStore(
                DatabaseConfig(**{"dsn": mongodb_dsn, "schema": schema, **settings}),
                logger=logger,
                groups=by_group(group),
                layouts={group.name: layout},
                password=password,
            )
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def database(mongodb_dsn: str, schema: str) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    async with pymongo.AsyncMongoClient[dict[str, Any]](mongodb_dsn) as client:
        yield client.get_database(schema)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that lapse soon."""
    monkeypatch.setattr("backends.mongodb.server.lease.LASTS_S", 0.5)
    monkeypatch.setattr("backends.mongodb.server.lease.RENEW_S", 0.1)
    monkeypatch.setattr("backends.mongodb.server.lease.LOOK_S", 0.02)


def some(group: InstrumentGroup, first: int, count: int, rng: np.random.Generator) -> Array:
    return readings_of(group, np.arange(first, first + count), time.time_ns() + np.arange(count) * 1_000_000, rng)


async def everything(store: MongodbStore, group: InstrumentGroup) -> Array:
    return await store.ask(WindowReadings(group=group, start_ns=-(2**63), end_ns=2**63 - 1))


async def whole_ledger(store: MongodbStore, group: InstrumentGroup) -> Array:
    return await store.ask(LedgerTail(group=group, most=10**6))


# --- crashes --------------------------------------------------------------------------------------------------------


# Arrays are tried in tests/crashes/test_crashes.py.
async def test_a_killed_server_loses_and_repeats_nothing(
    own_mongodb: ThrowawayMongodb, make: Make, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, Layout.ROWS, dsn=own_mongodb.start(), command_timeout_s=10)
    await store.open()
    sent: list[Array] = []
    for kill in range(3):
        failed = asyncio.Event()

        async def log(failed: asyncio.Event = failed) -> None:
            while not failed.is_set():
                sent.append(some(group, len(sent) * 5, 5, rng))
                await committed(store, batch_of(group, len(sent), sent[-1]), failed)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(log())
            await asyncio.sleep(0.05 + 0.03 * kill)
            await asyncio.to_thread(own_mongodb.kill)
            await failed.wait()
            await asyncio.to_thread(own_mongodb.start)
    position = await store.position("bpm")
    assert position is not None
    assert position.sequence == len(sent)
    np.testing.assert_array_equal(
        await everything(store, group), answers(group, [(1, readings.ravel()) for readings in sent])
    )
    assert len(await whole_ledger(store, group)) == 5 * len(sent)


async def test_a_server_that_hangs_is_given_up_on(
    own_mongodb: ThrowawayMongodb, make: Make, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, dsn=own_mongodb.start(), command_timeout_s=3)
    await store.open()
    batches = [batch_of(group, k, some(group, 10 * k, 3, rng)) for k in (1, 2)]
    own_mongodb.freeze()
    try:
        with pytest.raises(StoreUnavailable, match="in time"):
            await store.commit(batches[0])
        with pytest.raises(StoreUnavailable, match="in time"):
            await everything(store, group)
    finally:
        own_mongodb.thaw()
    for batch in batches:
        await committed(store, batch)
    expected = answers(group, [(1, batch.readings.ravel()) for batch in batches])
    np.testing.assert_array_equal(await everything(store, group), expected)


async def test_a_cancelled_commit_does_no_harm(
    own_mongodb: ThrowawayMongodb, make: Make, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, dsn=own_mongodb.start())
    await store.open()
    batch = batch_of(group, 1, some(group, 1, 3, rng))
    own_mongodb.freeze()
    try:
        committing = asyncio.create_task(store.commit(batch))
        await asyncio.sleep(0.1)
        assert not committing.done()
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
    finally:
        own_mongodb.thaw()
    await committed(store, batch)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, batch.readings.ravel())]))


@BOTH
@pytest.mark.parametrize("triggers", [6, 60])
async def test_half_a_batch_that_comes_again_in_other_batches(
    make: Make,
    database: AsyncDatabase[dict[str, Any]],
    rng: np.random.Generator,
    layout: Layout,
    triggers: int,
) -> None:
    group = group_of(dtypes=("float64", "float32", "int16", "uint32"))
    readings = some(group, 0, triggers, rng)
    readings["ch0"][0, :3] = np.nan, np.inf, -0.0
    readings["ch0"][2, 3] = np.nan
    present = np.ones(readings.shape, bool)
    present[2, [3, 5]] = False
    plain = batch_of(group, 1, readings, present=present)
    late, after = readings[2, [3, 5]], np.ones(group.size, bool)
    revised = np.array([with_late(plain.ledger[2], late, after)])
    of_late = {"late": late, "late_of": np.array([0, 0]), "revised": revised}

    # All of it in one batch, of which a crash left everything but the position, or the first part alone.
    first = make(group, layout)
    await first.open()
    await first.commit(batch_of(group, 3, readings, present=present, **of_late))
    assert len(await everything(first, group)) == readings.size
    await first.close()
    await database["positions"].update_one({"_id": "bpm"}, {"$set": {"sequence": Int64(0)}})
    gone = {"trigger_id": {"$gte": triggers // 2}}
    await database["bpm_ledger"].delete_many(gone)
    await database["bpm"].delete_many({"trigger_id": {"$gte": triggers - 1}})

    again = make(group, layout)
    await again.open()
    assert await again.position("bpm") is None
    cut = triggers // 3 + 1
    await again.commit(batch_of(group, 1, readings[:cut], present=present[:cut]))
    await again.commit(batch_of(group, 2, readings[cut:], present=present[cut:]))
    await again.commit(batch_of(group, 3, readings[:0], **of_late))
    expected = plain.ledger.copy()
    expected[2] = revised[0]
    np.testing.assert_array_equal(await whole_ledger(again, group), expected)
    assert (await everything(again, group)).tobytes() == answers(group, [(1, readings.ravel())]).tobytes()


@BOTH
async def test_late_readings_come_together_from_any_batches(
    make: Make, rng: np.random.Generator, layout: Layout
) -> None:
    group = group_of(dtypes=("float64", "int64"))
    store = make(group, layout)
    await store.open()
    readings = some(group, 0, 2, rng)
    readings["ch0"][0, 4] = -np.inf
    present = np.ones(readings.shape, bool)
    present[0, [1, 4, 7]] = False
    row = batch_of(group, 1, readings, present=present).ledger[0]
    await store.commit(batch_of(group, 1, readings, present=present))
    for sequence, number in enumerate((4, 7, 1), 2):
        present[0, number] = True
        late = readings[0, [number]]
        row = with_late(row, late, present[0])
        row["late"] = sequence - 1
        await store.commit(
            batch_of(group, sequence, readings[:0], late=late, late_of=np.array([0]), revised=np.array([row]))
        )
        expected = answers(group, [(1, readings[present])])
        assert (await everything(store, group)).tobytes() == expected.tobytes()
        np.testing.assert_array_equal(await store.ask(LedgerRow(group=group, trigger=0)), np.array([row]))


async def test_readings_without_a_ledger_entry_are_not_the_newest_trigger(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 4, rng)
    await store.commit(batch_of(group, 1, readings))
    await database["bpm_ledger"].delete_many({"trigger_id": 4})
    np.testing.assert_array_equal(await store.ask(NewestTrigger(group=group)), answers(group, [(1, readings[2])]))


@BOTH
async def test_what_the_server_will_never_take(make: Make, rng: np.random.Generator, layout: Layout) -> None:
    group = group_of()
    store = make(group, layout)
    await store.open()
    readings = some(group, 1000, 3, rng)
    await store.commit(batch_of(group, 1, readings))
    other = readings.copy()
    other["ch1"][1, 4] += 1
    with pytest.raises(BatchRejected, match="duplicate key in 'bpm'; trigger 1001 of run 1") as rejected:
        await store.commit(batch_of(group, 2, other))
    assert "\n" not in str(rejected.value)
    closed_again = batch_of(group, 2, readings)
    closed_again.ledger["closed_ns"][2] += 1
    with pytest.raises(BatchRejected, match="duplicate key in 'bpm'; trigger 1002"):
        await store.commit(closed_again)
    assert (await store.position("bpm")).sequence == 1
    # The very same is no harm, whatever the batch it comes in.
    await store.commit(batch_of(group, 2, readings))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_a_position_that_is_gone_is_no_reason_to_drop_batches(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database["positions"].delete_many({})
    batch = batch_of(group, 1, some(group, 1, 2, rng))
    with pytest.raises(StoreUnavailable, match="position of group 'bpm' was gone"):
        await store.commit(batch)
    await store.commit(batch)
    assert len(await everything(store, group)) == 2 * group.size
    assert (await store.position("bpm")).sequence == 1


async def test_nothing_is_made_anew_in_a_database_that_was_dropped(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 2, rng)))
    described = await database["groups"].find({}).to_list()
    position = await database["positions"].find({}).to_list()
    await database.client.drop_database(database.name)
    batch = batch_of(group, 2, some(group, 100, 2, rng))
    for _ in range(2):
        with pytest.raises(StoreLacks, match="has lost 'groups'; bring back what was there"):
            await store.commit(batch)
    # FerretDB makes a collection for an update that finds nothing.
    assert set(await database.list_collection_names()) <= {"positions"}
    assert await database["positions"].count_documents({}) == 0
    await database["groups"].insert_many(described)
    await database["positions"].insert_many(position)
    await committed(store, batch)
    assert (await store.position("bpm")).sequence == 2


async def test_a_position_made_before_there_was_an_account(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 2, rng)))
    await database["positions"].update_one({"_id": "bpm"}, {"$unset": {"triggers": 1, "readings": 1}})
    assert await store.position("bpm") == JournalPosition(sequence=1)
    to = JournalPosition(sequence=2, triggers=1, readings=12)
    await store.commit(batch_of(group, 2, some(group, 3, 1, rng), position=to))
    assert await store.position("bpm") == to


@BOTH
async def test_a_batch_larger_than_a_message(
    make: Make, rng: np.random.Generator, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.mongodb.writing.putting.MESSAGE_BYTES", 30_000)
    monkeypatch.setattr("backends.mongodb.reading.documents.BATCH_BYTES", 30_000)
    group = group_of()
    store = make(group, layout)
    await store.open()
    readings = some(group, 1, 300, rng)
    await store.commit(batch_of(group, 1, readings))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))
    newest = await store.ask(InstrumentReadings(group=group, instrument=3, start_ns=0, end_ns=2**62, most=7))
    np.testing.assert_array_equal(newest, answers(group, [(1, readings[-7:, 3])]))


# --- one writer -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("hurried")
async def test_two_daemons_cannot_write_one_group(make: Make, rng: np.random.Generator) -> None:
    group = group_of()
    first, second = make(group), make(group)
    await first.open()
    with pytest.raises(SchemaMismatch, match=r"is being written by another daemon \(.*:\d+\); stop that one"):
        await second.open()
    await first.close()
    await second.open()
    await second.commit(batch_of(group, 1, some(group, 1, 1, rng)))


@pytest.mark.usefixtures("hurried")
async def test_the_lease_of_a_daemon_that_died_lapses(make: Make, rng: np.random.Generator) -> None:
    group = group_of()
    first, second = make(group), make(group)
    await first.open()
    await first.commit(batch_of(group, 1, some(group, 1, 1, rng)))
    renewing = first._writers["bpm"]._renewing
    assert renewing is not None
    renewing.cancel()
    await second.open()
    # It was not dead after all: nothing of what it does moves the position.
    with pytest.raises(StoreUnavailable, match="has been taken over by another daemon"):
        await first.commit(batch_of(group, 2, some(group, 7, 1, rng)))
    with pytest.raises(StoreUnavailable, match="is being written by another daemon"):
        await first.commit(batch_of(group, 2, some(group, 7, 1, rng)))
    assert (await second.position("bpm")).sequence == 1


async def test_the_position_never_goes_back(
    make: Make, database: AsyncDatabase[dict[str, Any]], schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 5, some(group, 1, 1, rng)))
    lease: Lease = store._writers["bpm"]._lease
    late = batch_of(group, 3, some(group, 1, 1, rng))
    there = await lease.move(database, late, JournalPosition(sequence=2), 7, {"w": 1})
    assert there == await store.position("bpm") == JournalPosition(sequence=5)


# --- what is there --------------------------------------------------------------------------------------------------


async def test_check_changes_nothing(
    make: Make, database: AsyncDatabase[dict[str, Any]], schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    assert await make(group).check() == [f"database `{schema}`", "collections of group `bpm`"]
    assert schema not in await database.client.list_database_names()
    store = make(group)
    await store.open()
    assert await store.check() == []
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng)))
    assert await make(group_of("ict")).check() == ["collections of group `ict`"]
    with pytest.raises(SchemaMismatch, match="layout is 'rows'"):
        await make(group, Layout.ARRAYS).check()


async def test_an_older_release_made_no_marks(make: Make, database: AsyncDatabase[dict[str, Any]]) -> None:
    first = make(group_of())
    await first.open()
    await first.close()
    await database.drop_collection("marks")
    assert await make(group_of()).check() == ["collection `marks`"]
    await make(group_of()).open()
    assert await make(group_of()).check() == []


async def test_a_collection_of_someone_else(make: Make, database: AsyncDatabase[dict[str, Any]]) -> None:
    await database["bpm"].insert_one({"n": 1})
    for act in (make(group_of()).check, make(group_of()).open):
        with pytest.raises(SchemaMismatch, match="has a collection 'bpm' that is not triggerlog's"):
            await act()
    assert await database.list_collection_names() == ["bpm"]


async def test_what_a_crash_left_of_a_schema_is_made_complete(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    first = make(group)
    await first.open()
    await first.close()
    await database.drop_collection("bpm_ledger")
    store = make(group)
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng)))
    assert len(await whole_ledger(store, group)) == 1


async def test_a_server_that_is_not_there(make: Make) -> None:
    nowhere = make(group_of(), dsn=f"mongodb://127.0.0.1:{free_port()}", command_timeout_s=0.5)
    for act in (nowhere.open, nowhere.check):
        with pytest.raises(StoreUnavailable, match=r"is not reachable: .*\[Errno 111\]") as away:
            await act()
        assert "\n" not in str(away.value)


async def test_a_login_that_is_refused(own_mongodb: ThrowawayMongodb, make: Make) -> None:
    at = own_mongodb.start().removeprefix("mongodb://")
    for settings in ({"dsn": f"mongodb://me:secret@{at}"}, {"dsn": f"mongodb://me@{at}", "password": "secret"}):
        store = make(group_of(), **settings)
        for act in (store.open, store.check):
            with pytest.raises(StoreError, match=f"mongodb://me@{at} .*set the user and `authSource`") as refused:
                await act()
            assert not isinstance(refused.value, StoreUnavailable)
            assert "secret" not in str(refused.value)
            assert "\n" not in str(refused.value)


async def test_a_dsn_without_a_user_needs_no_password(make: Make, rng: np.random.Generator) -> None:
    group = group_of()
    store = make(group, password="unused")
    await store.open()
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng)))


async def test_a_document_that_is_too_large(make: Make) -> None:
    group = group_of(size=32_000, dtypes=("float64",) * 40)
    with pytest.raises(StoreError, match=r"makes a document of 18 MB.*MongoDB's limit is 16: set `layout = \"rows\"`"):
        await make(group, Layout.ARRAYS).check()
    assert await make(group).check()


# --- what people see ------------------------------------------------------------------------------------------------


async def test_documents_are_for_people_too(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of(size=11, dtypes=("float64", "uint8", "float32"))
    readings = some(group, 7, 1, rng)
    await (rows := make(group)).open()
    await rows.commit(batch_of(group, 1, readings))
    (found,) = await database["bpm"].find({"trigger_id": 7, "instrument": 10}).to_list()
    one = readings[0, 10]
    assert found == {
        "_id": Binary(id_bytes(1, 7, 10), USER_DEFINED_SUBTYPE),
        "run": 1,
        "trigger_id": 7,
        "instrument": 10,
        "time_ns": int(one["time_ns"]),
        "B": found["B"],
        "ch0": float(one["ch0"]),
        "ch1": int(one["ch1"]),
        "ch2": float(one["ch2"]),
    }
    entry = await database["bpm_ledger"].find_one({"_id": ObjectId(id_bytes(1, 7))})
    assert entry is not None
    assert (entry["complete"], entry["logger"], entry["arrived"]) == (True, "main", 11)


async def test_arrays_are_arrays_to_an_aggregation(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of(size=11, dtypes=("float64", "int16"))
    readings = some(group, 7, 2, rng)
    await (store := make(group, Layout.ARRAYS)).open()
    await store.commit(batch_of(group, 1, readings))
    spread = await database["bpm"].aggregate([{"$match": {"trigger_id": 8}}, {"$unwind": "$ch1"}])
    assert [found["ch1"] for found in await spread.to_list()] == readings["ch1"][1].tolist()


async def test_documents_changed_by_hand_are_told(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 2, rng)
    await store.commit(batch_of(group, 1, readings))
    for change in ({"$set": {"ch0": "text"}}, {"$set": {"ch0": 5}}, {"$set": {"note": 1.0}}):
        await database["bpm"].update_one({"trigger_id": 1, "instrument": 3}, change)
        with pytest.raises(StoreError, match="are not as this store writes them"):
            await everything(store, group)
    with pytest.raises(BatchRejected, match="other documents in 'bpm' under the same key"):
        await store.commit(batch_of(group, 2, readings))


async def test_ferretdb_is_told_what_it_can_hold(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of(dtypes=("float64",))
    store = make(group)
    await store.open()
    facts = await store.facts()
    if facts.backend != "ferretdb":
        pytest.skip("a real mongod holds every double")
    readings = some(group, 1, 1, rng)
    readings["ch0"][0, :3] = np.nan, -0.0, 0.0
    await store.commit(batch_of(group, 1, readings))
    found = await database["bpm"].find({}).sort("instrument").to_list()
    assert [type(each["ch0"]) for each in found[:4]] == [Timestamp, Timestamp, float, float]
    assert [index["name"] async for index in await database["bpm"].list_indexes()] == ["_id_"]
    sync = facts.durability[Durability.SYNC]
    assert sync.words.startswith("sync as far as")
    assert "does not tell" in str(sync.shortfall)
    assert facts.durability[Durability.ASYNC] == sync


async def test_open_store_chooses_it(mongodb_dsn: str, schema: str, tmp_path: Any) -> None:
    store = open_store(
        DatabaseConfig(dsn=mongodb_dsn, schema=schema),
        logger="main",
        groups=by_group(group_of()),
        layouts={"bpm": Layout.ROWS},
        state_dir=tmp_path,
    )
    assert isinstance(store, MongodbStore)
