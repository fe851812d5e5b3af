"""Only MongoDB does this: crashes without transactions, owners, its documents, durability."""

import asyncio
import dataclasses
import time
from typing import Any

import numpy as np
import pytest
from bson import Binary
from bson.binary import USER_DEFINED_SUBTYPE
from pymongo.asynchronous.database import AsyncDatabase

from backends import open_store
from backends.base import BatchRejected, CommitsLost, SchemaMismatch, StoreError, StoreLacks, StoreUnavailable
from backends.mongodb import MongodbStore
from backends.mongodb.protocol.triggers import LATE, id_bytes
from backends.mongodb.server import positions
from backends.throwaway.mongodb import ThrowawayMongodb
from schemas.batch import Durability, JournalPosition, Layout
from schemas.config import DatabaseConfig
from schemas.queries import InstrumentReadings, LedgerRow, LedgerTail, NewestTrigger, WindowReadings
from schemas.readings import Array, InstrumentGroup
from tests.backends.mongodb.conftest import Make
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of, with_late
from tests.support.committing import committed
from tests.support.processes import free_port

ON_BOTH_LOOPS = True


def some(group: InstrumentGroup, first: int, count: int, rng: np.random.Generator) -> Array:
    return readings_of(group, np.arange(first, first + count), time.time_ns() + np.arange(count) * 1_000_000, rng)


async def everything(store: MongodbStore, group: InstrumentGroup) -> Array:
    return await store.ask(WindowReadings(group=group, start_ns=-(2**63), end_ns=2**63 - 1))


async def whole_ledger(store: MongodbStore, group: InstrumentGroup) -> Array:
    return await store.ask(LedgerTail(group=group, most=10**6))


# --- crashes --------------------------------------------------------------------------------------------------------


async def test_a_killed_server_loses_and_repeats_nothing(
    own_mongodb: ThrowawayMongodb, make: Make, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group, dsn=own_mongodb.start(), command_timeout_s=10)
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


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("triggers", [6, 60])
async def test_half_a_batch_that_comes_again_in_other_batches(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator, triggers: int
) -> None:
    group = group_of(dtypes=("float64", "float32", "int16", "uint32"))
    readings = some(group, 0, triggers, rng)
    readings["ch0"][0, :3] = np.nan, np.inf, -0.0
    readings["ch0"][2, 3] = np.nan
    present = np.ones(readings.shape, bool)
    present[2, [3, 5]] = False
    present[triggers - 1, 4] = False

    # All of it in one batch, of which a crash left some documents, and no position.
    first = make(group)
    await first.open()
    await first.rehearse(batch_of(group, 3, readings, present=present))
    await first.close()
    await database["bpm"].delete_many({"trigger_id": {"$gte": triggers // 2, "$lt": triggers - 1}})

    again = make(group)
    await again.open()
    assert await again.position("bpm") is None
    # Closed in another way: with readings that were not there, and without some that were.
    present[:] = True
    present[1, [2, 7]] = False
    cut = triggers // 3 + 1
    await again.commit(batch_of(group, 1, readings[:cut], present=present[:cut]))
    await again.commit(batch_of(group, 2, readings[cut:], present=present[cut:]))
    assert (await everything(again, group)).tobytes() == answers(group, [(1, readings.ravel())]).tobytes()
    ledger = await whole_ledger(again, group)
    assert ledger["arrived"].tolist() == [group.size] * triggers
    assert ledger["late"].tolist() == [2 if k == 2 else int(k == triggers - 1) for k in range(triggers)]
    assert len(await again.ask(NewestTrigger(group=group))) == group.size


async def test_late_readings_come_together_from_any_batches(make: Make, rng: np.random.Generator) -> None:
    group = group_of(dtypes=("float64", "int64"))
    store = make(group)
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


async def test_a_trigger_that_late_readings_complete_is_the_newest_complete_one(
    make: Make, rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 3, rng)
    present = np.ones(readings.shape, bool)
    present[1:, 5] = False
    first = batch_of(group, 1, readings, present=present)
    await store.commit(first)
    np.testing.assert_array_equal(await store.ask(NewestTrigger(group=group)), answers(group, [(1, readings[0])]))
    late = readings[1, [5]]
    revised = np.array([with_late(first.ledger[1], late, np.ones(group.size, bool))])
    await store.commit(batch_of(group, 2, readings[:0], late=late, late_of=np.array([0]), revised=revised))
    np.testing.assert_array_equal(await store.ask(NewestTrigger(group=group)), answers(group, [(1, readings[1])]))


async def test_a_late_command_stores_no_reading_twice(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    """A late reading's document that comes when the trigger was closed with it."""
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 1, rng)
    present = np.ones(readings.shape, bool)
    present[0, 3] = False
    first = batch_of(group, 1, readings, present=present)
    await store.commit(first)
    late = readings[0, [3]]
    revised = np.array([with_late(first.ledger[0], late, np.ones(group.size, bool))])
    await store.commit(batch_of(group, 2, readings[:0], late=late, late_of=np.array([0]), revised=revised))
    zombie = await database["bpm"].find_one({"part": LATE | 3})
    await store.close()
    await database.client.drop_database(database.name)
    other = make(group)
    await other.open()
    await other.commit(batch_of(group, 1, readings))
    assert zombie is not None
    await database["bpm"].insert_one(zombie)
    np.testing.assert_array_equal(await everything(other, group), answers(group, [(1, readings.ravel())]))
    assert (await whole_ledger(other, group))["arrived"].tolist() == [group.size]


async def test_what_the_server_will_never_take(make: Make, rng: np.random.Generator) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1000, 3, rng)
    await store.commit(batch_of(group, 1, readings))
    other = readings.copy()
    other["ch1"][1, 4] += 1
    for refused in (store.commit, store.rehearse):
        with pytest.raises(BatchRejected, match="duplicate key in 'bpm'; trigger 1001 of run 1") as rejected:
            await refused(batch_of(group, 2, other))
        assert "\n" not in str(rejected.value)
    assert (await store.position("bpm")).sequence == 1
    # The very same is no harm, whatever the batch it comes in, and however it was closed.
    closed_again = batch_of(group, 2, readings)
    closed_again.ledger["closed_ns"][2] += 1
    await store.commit(closed_again)
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))


async def test_a_batch_that_does_not_know_what_is_there_finds_it(
    make: Make, database: AsyncDatabase[dict[str, Any]], schema: str, rng: np.random.Generator
) -> None:
    """Documents above all that there was at the opening: they answer 11000."""
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 4, rng)
    present = np.ones(readings.shape, bool)
    present[:, 2] = False
    # The command of another daemon, which is carried out late.
    other, there = make(group, schema=f"{schema}_other"), database.client[f"{schema}_other"]
    await other.open()
    await other.rehearse(batch_of(group, 1, readings[:3], present=present[:3]))
    await database["bpm"].insert_many(await there["bpm"].find({}).to_list())
    await other.close()
    await database.client.drop_database(there.name)
    await store.commit(batch_of(group, 1, readings))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))
    wrong = some(group, 1, 8, rng)
    await database["bpm"].delete_many({"trigger_id": 8})
    with pytest.raises(BatchRejected, match="duplicate key in 'bpm'; trigger 1 of run 1"):
        await store.commit(batch_of(group, 2, wrong))


async def test_a_position_that_is_gone_is_no_reason_to_drop_batches(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database["positions"].delete_many({})
    await store.commit(batch_of(group, 1, some(group, 1, 2, rng)))
    assert len(await everything(store, group)) == 2 * group.size
    assert (await store.position("bpm")).sequence == 1


async def test_positions_that_were_taken_back_are_noticed_before_anything_is_written(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    batches = [
        batch_of(group, k, some(group, 10 * k, 2, rng), position=JournalPosition(sequence=k, journal=9))
        for k in range(1, 4)
    ]
    for before, batch in zip([None, *batches], batches[:2], strict=False):
        await store.commit(dataclasses.replace(batch, follows=None if before is None else before.position))
    await database["positions"].delete_many({"sequence": 2})
    after = dataclasses.replace(batches[2], follows=batches[1].position)
    with pytest.raises(CommitsLost) as lost:
        await store.commit(after)
    assert lost.value.position == batches[0].position
    assert not await database["bpm"].count_documents({"trigger_id": {"$gte": 30}})
    # What was lost is sent again.
    await store.commit(dataclasses.replace(batches[1], follows=batches[0].position))
    await store.commit(after)
    assert len(await everything(store, group)) == 6 * group.size


async def test_old_positions_are_deleted(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "SAMPLE_S", 0.0)
    monkeypatch.setattr(positions, "KEEP_S", 0.0)
    group = group_of()
    store = make(group)
    await store.open()
    for k in range(1, 9):
        await store.commit(batch_of(group, k, some(group, k, 1, rng)))
    assert await database["positions"].count_documents({}) < 4
    assert (await store.position("bpm")).sequence == 8


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
    assert set(await database.list_collection_names()) <= {"owners"}
    await database["groups"].insert_many(described)
    await database["positions"].insert_many(position)
    await committed(store, batch)
    assert (await store.position("bpm")).sequence == 2


async def test_a_batch_larger_than_a_message(
    make: Make, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.mongodb.writing.MESSAGE_BYTES", 30_000)
    monkeypatch.setattr("backends.mongodb.reading.documents.BATCH_BYTES", 30_000)
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 300, rng)
    await store.commit(batch_of(group, 1, readings))
    np.testing.assert_array_equal(await everything(store, group), answers(group, [(1, readings.ravel())]))
    newest = await store.ask(InstrumentReadings(group=group, instrument=3, start_ns=0, end_ns=2**62, most=7))
    np.testing.assert_array_equal(newest, answers(group, [(1, readings[-7:, 3])]))


@pytest.mark.usefixtures("hurried")
async def test_a_trigger_larger_than_a_document_is_cut_by_instruments(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.mongodb.protocol.triggers.SLICE_BYTES", 200)
    group = group_of(size=12, dtypes=("float64", "int16"))
    first = make(group)
    await first.open()
    readings = some(group, 1, 4, rng)
    present = np.ones(readings.shape, bool)
    present[2, [0, 7, 11]] = False
    plain = batch_of(group, 1, readings, present=present)
    await first.rehearse(plain)
    assert await database["bpm"].count_documents({"trigger_id": 3}) == 3
    # A writer that died between the slices and what names them, and one that closes the trigger with other readings.
    await database["bpm"].delete_many({"part": 0, "trigger_id": {"$gte": 2}})
    await first.close()
    assert (await whole_ledger(first, group))["trigger"].tolist() == [1]
    store = make(group)
    await store.open()
    present[2] = True
    present[3, [2, 9]] = False
    await store.commit(batch_of(group, 1, readings, present=present))
    expected = answers(group, [(1, readings.ravel())])
    np.testing.assert_array_equal(await everything(store, group), expected)
    ledger = await whole_ledger(store, group)
    assert ledger["arrived"].tolist() == [group.size] * 4
    for instrument in (0, 11):
        question = InstrumentReadings(group=group, instrument=instrument, start_ns=0, end_ns=2**62, most=9)
        np.testing.assert_array_equal(await store.ask(question), answers(group, [(1, readings[:, instrument])]))


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
async def test_a_daemon_that_shows_no_life_is_replaced(make: Make, rng: np.random.Generator) -> None:
    group = group_of()
    first, second = make(group), make(group)
    await first.open()
    await first.commit(batch_of(group, 1, some(group, 1, 1, rng)))
    beating = first._heartbeat._beating
    assert beating is not None
    beating.cancel()
    await second.open()
    # It was not dead after all: nothing of what it does moves the position.
    with pytest.raises(StoreUnavailable, match="has been taken over by another daemon"):
        await first.commit(batch_of(group, 2, some(group, 7, 1, rng)))
    with pytest.raises(StoreUnavailable, match="is being written by another daemon"):
        await first.commit(batch_of(group, 2, some(group, 7, 1, rng)))
    assert (await second.position("bpm")).sequence == 1
    await second.commit(batch_of(group, 2, some(group, 9, 1, rng)))


async def test_a_clock_that_is_set_has_no_influence_on_who_writes(
    make: Make, database: AsyncDatabase[dict[str, Any]]
) -> None:
    """Nothing that is stored of an owner is a time."""
    store = make(group_of())
    await store.open()
    (owner,) = await database["owners"].find({}).to_list()
    assert set(owner) == {"_id", "beats"}
    position = await database["positions"].find_one({})
    assert position is not None
    assert not {"seen", "at"} & set(position)


async def test_two_epochs_cannot_have_one_run(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    await database["runs"].insert_one({"_id": "bpm/7", "group": "bpm", "run": 7, "epoch": 1000})
    batch = batch_of(group, 1, some(group, 1, 2, rng), run=7)
    batch.ledger["epoch"] = 1001
    with pytest.raises(StoreUnavailable, match=r"run 7 of group 'bpm' in database .* is of epoch 1000, and here"):
        await store.commit(batch)
    assert not await database["bpm"].count_documents({})
    batch.ledger["epoch"] = 1000
    await store.commit(batch)
    assert len(await everything(store, group)) == 2 * group.size


# --- what is there --------------------------------------------------------------------------------------------------


async def test_check_changes_nothing(
    make: Make, database: AsyncDatabase[dict[str, Any]], schema: str, rng: np.random.Generator
) -> None:
    group = group_of()
    assert await make(group).check() == [f"database `{schema}`", "collection of group `bpm`"]
    assert schema not in await database.client.list_database_names()
    store = make(group)
    await store.open()
    assert await store.check() == []
    await store.commit(batch_of(group, 1, some(group, 1, 1, rng)))
    assert await make(group_of("ict")).check() == ["collection of group `ict`"]
    with pytest.raises(SchemaMismatch, match="layout is 'arrays'"):
        await make(group, Layout.ROWS).check()


async def test_the_layout_of_an_earlier_version_is_refused(make: Make, database: AsyncDatabase[dict[str, Any]]) -> None:
    before = {"_id": "bpm", "logger": "main", "layout": "rows", "channels": [], "instruments": []}
    await database["groups"].insert_one(before)
    await database["bpm_ledger"].insert_one({"run": 1})
    for act in (make(group_of()).check, make(group_of()).open):
        with pytest.raises(
            SchemaMismatch, match=r"has group 'bpm' in the layout of another version.*export"
        ) as refused:
            await act()
        assert "\n" not in str(refused.value)
    assert set(await database.list_collection_names()) == {"groups", "bpm_ledger"}


@pytest.mark.parametrize("name", ["local", "admin", "config"])
async def test_databases_of_the_server_are_refused(make: Make, name: str) -> None:
    for act in (make(group_of(), schema=name).check, make(group_of(), schema=name).open):
        with pytest.raises(SchemaMismatch, match=rf"^database '{name}' is MongoDB's own; set another `schema`"):
            await act()


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
    await database.drop_collection("bpm")
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


# --- what people see ------------------------------------------------------------------------------------------------


async def test_documents_are_for_people_too(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of(size=11, dtypes=("float64", "uint8", "float32"))
    readings = some(group, 7, 1, rng)
    await (store := make(group)).open()
    batch = batch_of(group, 1, readings)
    await store.commit(batch)
    (found,) = await database["bpm"].find({"trigger_id": 7}).to_list()
    assert found["_id"] == Binary(id_bytes(1, 7), USER_DEFINED_SUBTYPE)
    assert (found["run"], found["part"], found["complete"], found["arrived"], found["dropped"]) == (
        1,
        0,
        True,
        11,
        False,
    )
    assert found["time_ns"] == batch.ledger["time_ns"][0]
    # As docs/sql.md has it.
    assert np.frombuffer(found["times"], "<i8").tolist() == readings[0]["time_ns"].tolist()
    for name, form in (("ch0", "<f8"), ("ch1", "<u1"), ("ch2", "<f4")):
        np.testing.assert_array_equal(np.frombuffer(found["values"][name], form), readings[0][name])


async def test_documents_changed_by_hand_are_reported(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    group = group_of()
    store = make(group)
    await store.open()
    readings = some(group, 1, 2, rng)
    await store.commit(batch_of(group, 1, readings))
    for change in ({"$set": {"epoch": "text"}}, {"$set": {"times": Binary(b"short", 128)}}, {"$set": {"note": 1.0}}):
        await database["bpm"].update_one({"trigger_id": 1}, change)
        with pytest.raises(StoreError, match="are not as this store writes them"):
            await everything(store, group)
    with pytest.raises(BatchRejected, match="other documents in 'bpm' under the same key"):
        await store.commit(batch_of(group, 2, readings))


async def test_ferretdb_says_what_it_does_not_tell(
    make: Make, database: AsyncDatabase[dict[str, Any]], rng: np.random.Generator
) -> None:
    store = make(group_of(dtypes=("float64",)))
    await store.open()
    facts = await store.facts()
    if facts.backend != "ferretdb":
        pytest.skip("a real mongod tells more")
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
