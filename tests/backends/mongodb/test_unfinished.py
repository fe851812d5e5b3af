"""A writer that dies at any command of a batch, and triggers that close again in another way."""

import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from typing import Any

import numpy as np
import pymongo
import pytest
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import BatchRejected, CommitsLost, StoreUnavailable
from backends.mongodb import MongodbStore
from schemas.batch import Batch, JournalPosition, Layout
from schemas.config import DatabaseConfig
from schemas.queries import LedgerTail, Totals, WindowReadings
from schemas.readings import Array
from tests.support.batches import answers, batch_of, by_group, group_of, readings_of, with_late

BOTH = pytest.mark.parametrize("layout", list(Layout))
WRITES = ("insert", "update", "delete")
GROUP = group_of(size=7, dtypes=("float64", "int16"))

Make = Callable[[Layout], MongodbStore]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(23)


@pytest.fixture
async def make(mongodb_dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    # A lease that is soon taken over, though the process that has it lives; and several messages a batch.
    monkeypatch.setattr("backends.mongodb.server.lease.LASTS_S", 0.1)
    monkeypatch.setattr("backends.mongodb.server.lease.LOOK_S", 0.02)
    monkeypatch.setattr("backends.mongodb.writing.putting.LANE_DOCUMENTS", 3)
    async with AsyncExitStack() as stack:

        def make(layout: Layout) -> MongodbStore:
            store = MongodbStore(
                DatabaseConfig(dsn=mongodb_dsn, schema=schema),
                logger="main",
                groups=by_group(GROUP),
                layouts={GROUP.name: layout},
            )
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def database(mongodb_dsn: str, schema: str) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    async with pymongo.AsyncMongoClient[dict[str, Any]](mongodb_dsn) as client:
        yield client.get_database(schema)


class Dead(ConnectionError):
    """The writer was killed."""


@contextmanager
def dying_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let so many write commands be carried out, and none after them."""
    command, left = AsyncDatabase.command, writes

    async def counted(self: Any, name: Any, *args: Any, **options: Any) -> Any:
        nonlocal left
        if name in WRITES:
            if not left:
                raise Dead("killed")
            left -= 1
        return await command(self, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncDatabase, "command", counted)
        yield


async def opened(store: MongodbStore) -> MongodbStore:
    await store.open()
    renewing = store._writers[GROUP.name]._renewing
    assert renewing is not None
    renewing.cancel()
    return store


async def dies(store: MongodbStore, batch: Batch, writes: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Commit with a writer that dies after so many write commands; whether it did."""
    with dying_after(writes, monkeypatch):
        try:
            await store.commit(batch)
        except StoreUnavailable:
            store._writers[GROUP.name]._lease.is_held = False  # the dead give nothing back
            return True
    return False


class Story:
    """What was acknowledged, what a life did before it died, and what the next one does with the same triggers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.readings = readings_of(GROUP, np.arange(9), time.time_ns() + np.arange(9) * 1_000_000, rng)
        self.present = np.ones(self.readings.shape, bool)
        self.present[2, [3, 5]] = False
        self.acknowledged = self._batch(1, slice(0, 4), self.present)
        self.follows = self.acknowledged.position
        self.unfinished = self._with_late(3, self._batch(2, slice(4, 9), self._present({4: [0], 6: [1, 2, 3]})))

    def closed_again(self) -> Batch:
        """Triggers 4 to 7 with other readings, times and ledger rows; 8 does not come again, nor 3 of trigger 2."""
        batch = self._with_late(5, self._batch(2, slice(4, 8), self._present({4: [1], 5: [6], 6: [0, 1]})))
        for row in batch.ledger:
            row["closed_ns"] += 77
            row["time_ns"] += 5
        return batch

    def _present(self, missing: dict[int, list[int]]) -> Array:
        present = self.present.copy()
        for trigger, instruments in missing.items():
            present[trigger, instruments] = False
        return present

    def _batch(self, sequence: int, triggers: slice, present: Array) -> Batch:
        there = present[triggers]
        to = JournalPosition(sequence=sequence, journal=9, state=b"state %d" % sequence)
        return batch_of(GROUP, sequence, self.readings[triggers], present=there, position=to)

    def _with_late(self, instrument: int, batch: Batch) -> Batch:
        """The batch with a late reading for trigger 2."""
        after = self.present[2].copy()
        after[instrument] = True
        late = self.readings[2, [instrument]]
        revised = np.array([with_late(self.acknowledged.ledger[2], late, after)])
        of_late = {"late": late, "late_of": np.array([0]), "revised": revised}
        return dataclasses.replace(batch, **of_late, follows=self.follows)


async def holds(store: MongodbStore, *batches: Batch) -> None:
    """See that the store has these batches, and nothing else: readings, ledger, position."""
    assert await store.position(GROUP.name) == batches[-1].position
    parts = [part for batch in batches for part in ((1, batch.readings[batch.present]), (1, batch.late))]
    every = WindowReadings(group=GROUP, start_ns=-(2**63), end_ns=2**63 - 1)
    np.testing.assert_array_equal(await store.ask(every), answers(GROUP, parts))
    rows = {int(row["trigger"]): row for batch in batches for row in (*batch.ledger, *batch.revised)}
    np.testing.assert_array_equal(
        await store.ask(LedgerTail(group=GROUP, most=100)), np.array([rows[trigger] for trigger in sorted(rows)])
    )
    (totals,) = await store.ask(Totals(group=GROUP, within_s=60))
    layout = store._collections[GROUP.name].layout
    assert totals["stored"] == totals["arrived" if layout is Layout.ROWS else "triggers"]


@BOTH
async def test_triggers_close_again_after_a_writer_that_died_at_any_command(
    make: Make, rng: np.random.Generator, layout: Layout, monkeypatch: pytest.MonkeyPatch, database: Any
) -> None:
    for writes in count():
        story = Story(rng)
        first = await opened(make(layout))
        await first.commit(story.acknowledged)
        died = await dies(first, story.unfinished, writes, monkeypatch)
        second = await opened(make(layout))
        if not died:
            await holds(second, story.acknowledged, story.unfinished)
            break
        # Nothing of what was not acknowledged is there when somebody begins to read.
        await holds(second, story.acknowledged)
        again = story.closed_again()
        await second.commit(again)
        await holds(second, story.acknowledged, again)
        await second.close()
        await database.client.drop_database(database.name)
    assert writes >= 5


@BOTH
async def test_who_takes_out_may_die_at_any_command_too(
    make: Make, rng: np.random.Generator, layout: Layout, monkeypatch: pytest.MonkeyPatch, database: Any
) -> None:
    for writes in count(1):
        story = Story(rng)
        first = await opened(make(layout))
        await first.commit(story.acknowledged)
        # All but the position.
        with monkeypatch.context() as patched:
            patched.setattr("backends.mongodb.server.lease.Lease.move", _killed)
            assert await dies(first, story.unfinished, 100, monkeypatch)
        second, third = make(layout), make(layout)
        with dying_after(writes, monkeypatch):
            died = False
            try:
                await opened(second)
            except StoreUnavailable:
                second._writers[GROUP.name]._lease.is_held = False
                died = True
        if died:
            third = await opened(third)
        await holds(third if died else second, story.acknowledged)
        if not died:
            break
        again = story.closed_again()
        await third.commit(again)
        await holds(third, story.acknowledged, again)
        await third.close()
        await database.client.drop_database(database.name)
    assert writes >= 4


async def _killed(*_: Any, **__: Any) -> None:
    raise Dead("killed")


@BOTH
async def test_the_same_writer_goes_on_after_an_outage_at_any_command(
    make: Make, rng: np.random.Generator, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(rng)
    store = make(layout)
    await store.open()
    await store.commit(story.acknowledged)
    for writes in count():
        with dying_after(writes, monkeypatch):
            try:
                await store.commit(story.unfinished)
            except StoreUnavailable:
                continue
        break
    await holds(store, story.acknowledged, story.unfinished)


@BOTH
async def test_what_a_rejected_batch_wrote_is_taken_out_and_what_is_committed_stays(
    make: Make, rng: np.random.Generator, layout: Layout
) -> None:
    story = Story(rng)
    store = await opened(make(layout))
    await store.commit(story.acknowledged)
    # A trigger that is there, closed again with a reading more, between triggers that are new.
    readings = story.readings[[1, 2, 5]]
    batch = batch_of(GROUP, 2, readings, position=JournalPosition(sequence=2, journal=9))
    batch.ledger["closed_ns"] += 1
    for refused in (store.commit, store.rehearse):
        with pytest.raises(BatchRejected, match=r"duplicate key .*; trigger [12] of run 1"):
            await refused(batch)
        await holds(store, story.acknowledged)


@BOTH
async def test_a_position_put_back_is_seen_before_anything_is_written(
    make: Make, rng: np.random.Generator, layout: Layout, database: Any
) -> None:
    story = Story(rng)
    store = await opened(make(layout))
    await store.commit(story.acknowledged)
    backup = await database["positions"].find_one({"_id": GROUP.name})
    await store.commit(story.unfinished)
    after = batch_of(GROUP, 3, story.readings[:0], position=JournalPosition(sequence=3, journal=9))
    after = dataclasses.replace(after, follows=story.unfinished.position)
    await database["positions"].replace_one({"_id": GROUP.name}, backup)
    more = readings_of(GROUP, np.arange(20, 22), time.time_ns() + np.arange(2), rng)
    after = dataclasses.replace(batch_of(GROUP, 3, more, position=after.position), follows=after.follows)
    with pytest.raises(CommitsLost) as lost:
        await store.commit(after)
    assert lost.value.position == story.acknowledged.position
    assert not await database[GROUP.name].count_documents({"trigger_id": {"$gte": 20}})
    # What was lost comes again.
    await store.commit(story.unfinished)
    await holds(store, story.acknowledged, story.unfinished)
