"""The primary of a replica set: what no majority has, elections, errors that pass, and commands that come late."""

import asyncio
import dataclasses
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from backends.base import BatchRejected, StoreUnavailable
from backends.ending import end_tasks
from backends.mongodb import MongodbStore
from backends.mongodb.server import positions
from schemas.batch import Batch, Durability, JournalPosition
from schemas.ledger import unpack_missing
from schemas.queries import LedgerTail, Totals, WindowReadings
from schemas.readings import Array
from tests.backends.mongodb.conftest import Make
from tests.support.batches import answers, batch_of, group_of, readings_of, with_late
from tests.support.replica_set import NOT_PRIMARY, UNMET, Do, Fault, ReplicaSet

GROUP = group_of(size=4, dtypes=("float64", "int16"))
NAME = GROUP.name


@pytest.fixture
def dsn(replica_set_dsn: str) -> str:
    return replica_set_dsn


def some(first: int, count: int, rng: np.random.Generator) -> Array:
    return readings_of(GROUP, np.arange(first, first + count), time.time_ns() + np.arange(count) * 1_000_000, rng)


def following(sequence: int, readings: Array, before: Batch | None = None) -> Batch:
    batch = batch_of(GROUP, sequence, readings, position=JournalPosition(sequence=sequence, journal=5))
    return dataclasses.replace(batch, follows=None if before is None else before.position)


async def everything(store: MongodbStore) -> Array:
    return await store.ask(WindowReadings(group=GROUP, start_ns=-(2**63), end_ns=2**63 - 1))


async def opened(store: MongodbStore) -> MongodbStore:
    await store.open()
    return store


async def killed(store: MongodbStore) -> None:
    """End the proof that the owner of a store lives."""
    beating = store._heartbeat._beating
    if beating is not None:
        await end_tasks(beating)


@pytest.fixture
def dead_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "LASTS_S", 0.05)
    monkeypatch.setattr(positions, "LOOK_S", 0.01)


@pytest.mark.usefixtures("dead_soon")
async def test_a_position_that_no_majority_had_is_not_believed(
    make: Make, replica_set: ReplicaSet, rng: np.random.Generator
) -> None:
    """Who starts next acknowledges what the database has: after a failover it has to be there."""
    first = await opened(make(GROUP))
    one = following(1, some(0, 2, rng))
    await first.commit(one)
    two = following(2, some(10, 2, rng), one)
    unmet = {"writeConcernError": UNMET}
    with replica_set.having(
        Fault(command="insert", collection="positions", do=Do.ADD, answer=unmet),
        # As the layout before moved its position: with the second update, after a note.
        Fault(command="update", collection="positions", do=Do.ADD, answer=unmet, passes=1),
    ):
        with pytest.raises(StoreUnavailable, match="waiting for replication timed out"):
            await first.commit(two)
        await killed(first)
    second = await opened(make(GROUP))
    believed = await second.position(NAME)
    replica_set.fail_over()
    third = make(GROUP)
    await killed(second)
    await third.open()
    assert await third.position(NAME) == believed
    assert len(await everything(third)) == 4 * GROUP.size


@pytest.mark.usefixtures("dead_soon")
@pytest.mark.parametrize("collection", [NAME, "positions"])
@pytest.mark.parametrize("do", [Do.ADD, Do.LOSE])
async def test_what_is_taken_back_is_committed_again(
    make: Make, replica_set: ReplicaSet, rng: np.random.Generator, collection: str, do: Do
) -> None:
    store = await opened(make(GROUP))
    one = following(1, some(0, 2, rng))
    await store.commit(one)
    two = following(2, some(10, 2, rng), one)
    unmet = {"writeConcernError": UNMET}
    with (
        replica_set.having(Fault(command="insert", collection=collection, do=do, answer=unmet)),
        pytest.raises(StoreUnavailable),
    ):
        await store.commit(two)
    assert replica_set.fail_over() > 0
    await store.commit(two)
    assert await store.position(NAME) == two.position
    expected = answers(GROUP, [(1, batch.readings.ravel()) for batch in (one, two)])
    np.testing.assert_array_equal(await everything(store), expected)


async def test_documents_and_positions_wait_for_the_majority_and_its_journals(
    make: Make, replica_set: ReplicaSet, rng: np.random.Generator
) -> None:
    store = await opened(make(GROUP, command_timeout_s=10))
    replica_set.commands.clear()
    await store.commit(following(1, some(0, 2, rng)))
    quick = dataclasses.replace(following(2, some(5, 2, rng)), durability=Durability.ASYNC)
    await store.commit(quick)
    concerns = [body["writeConcern"] for name, body in replica_set.commands if name == "insert"]
    durable = {"w": "majority", "j": True, "wtimeout": 8_000}
    assert concerns == [durable] * 3 + [{"w": 1, "j": False}] * 2
    assert (await store.facts()).durability[Durability.SYNC].words.startswith("sync (w: majority, j: true")


async def test_indexes_are_made_once_and_nobody_waits_for_those_of_documents(
    make: Make, replica_set: ReplicaSet, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    def made() -> list[str]:
        return [
            str(index["name"])
            for name, body in replica_set.commands
            if name == "createIndexes"
            for index in body["indexes"]
        ]

    store = await opened(make(GROUP))
    assert made() == [f"{NAME}_{each}" for each in ("time", "trigger", "complete", "skipped")]
    await store.commit(following(1, some(0, 2, rng)))
    await store.close()
    await (await opened(make(GROUP))).close()
    assert len(made()) == 4
    replica_set.forget_indexes()
    broken = Fault(command="createIndexes", do=Do.DROP, times=9)
    with replica_set.having(broken):
        again = await opened(make(GROUP))
        if again._maker._building:
            await asyncio.wait(again._maker._building)
        await again.commit(following(2, some(10, 2, rng)))
    assert "are not built, the next start does it" in caplog.text


async def test_a_count_reads_the_documents_once(make: Make, replica_set: ReplicaSet, rng: np.random.Generator) -> None:
    store = await opened(make(GROUP))
    to = JournalPosition(sequence=1, triggers=50, readings=50 * GROUP.size)
    await store.commit(batch_of(GROUP, 1, some(0, 50, rng), position=to))
    replica_set.commands.clear()
    (totals,) = await store.ask(Totals(group=GROUP, within_s=60))
    reads = [body for name, body in replica_set.commands if name in ("find", "aggregate") and body[name] == NAME]
    assert totals["arrived"] == 50 * GROUP.size
    assert len(reads) == 1
    assert not {"times", "values"} & set(reads[0]["projection"])


PASSING = {
    "a write block": {"ok": 0.0, "code": 371, "codeName": "UserWritesBlocked", "errmsg": "User writes blocked"},
    "an election": {**NOT_PRIMARY, "errorLabels": ["RetryableWriteError"]},
    "an unknown code": {"ok": 0.0, "code": 987_654, "errmsg": "something new"},
    "a label": {"ok": 0.0, "code": 121, "errmsg": "again", "errorLabels": ["RetryableError"]},
    "of a document": {"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": 371, "errmsg": "writes blocked"}]},
    "of a document, with a label": {
        "ok": 1.0,
        "n": 0,
        "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}],
        "errorLabels": ["RetryableWriteError"],
    },
}


@pytest.mark.parametrize("collection", [NAME, "positions"])
@pytest.mark.parametrize("answer", list(PASSING.values()), ids=list(PASSING))
async def test_what_is_no_fault_of_a_document_passes(
    make: Make, replica_set: ReplicaSet, rng: np.random.Generator, collection: str, answer: dict[str, Any]
) -> None:
    store = await opened(make(GROUP))
    batch = following(1, some(0, 2, rng))
    with replica_set.having(Fault(command="insert", collection=collection, do=Do.ANSWER, answer=answer, times=2)):
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await store.commit(batch)
    await store.commit(batch)
    np.testing.assert_array_equal(await everything(store), answers(GROUP, [(1, batch.readings.ravel())]))


async def test_a_document_that_a_validator_refuses_is_rejected(
    make: Make, replica_set: ReplicaSet, rng: np.random.Generator
) -> None:
    store = await opened(make(GROUP))
    error = {"index": 0, "code": 121, "errmsg": "Document failed validation"}
    fault = Fault(command="insert", collection=NAME, do=Do.ANSWER, answer={"ok": 1.0, "writeErrors": [error]})
    with replica_set.having(fault), pytest.raises(BatchRejected, match="failed validation"):
        await store.commit(following(1, some(0, 2, rng)))


class World:
    """Readings that senders repeat until they are acknowledged, and daemons that assemble them.

    As the data path does: a daemon that starts reads the position and the ledger, takes what the ledger has for stored,
    and closes the others, each time in another way.
    """

    def __init__(self, make: Make, replica_set: ReplicaSet, seed: int) -> None:
        self._make = make
        self._set = replica_set
        self._rng = np.random.default_rng(seed)
        self.readings = some(0, 25, self._rng)
        self._pending = {(t, i) for t in range(len(self.readings)) for i in range(GROUP.size)}
        self._arrived = 0
        self._store: MongodbStore | None = None
        self._ledger: dict[int, Array] = {}
        self._position = JournalPosition(sequence=0, journal=5)

    async def run(self) -> MongodbStore:
        """Let daemons live until all is acknowledged; then the last of them."""
        self._set.faults += self._some_faults()
        while self._pending:
            try:
                if self._store is None:
                    await self._start()
                await self._step()
            except StoreUnavailable:
                if self._rng.random() < 0.3:
                    self._set.fail_over()
                if self._rng.random() < 0.5:
                    await self._end()
            if self._rng.random() < 0.3:
                self._set.carry_out()
        await self._end()
        self._set.faults.clear()
        self._set.carry_out()
        await self._start()
        assert self._store is not None
        return self._store

    def _some_faults(self) -> list[Fault]:
        def fault() -> Fault:
            do = self._rng.choice([Do.DROP, Do.LOSE, Do.DELAY, Do.ADD, Do.ANSWER])
            answer = NOT_PRIMARY if do == Do.ANSWER else {"writeConcernError": UNMET}
            collection = str(self._rng.choice([NAME, "positions", "runs"], p=[0.5, 0.45, 0.05]))
            passes = int(self._rng.integers(12))
            return Fault(command="insert", collection=collection, do=Do(do), answer=answer, passes=passes)

        return [fault() for _ in range(14)]

    async def _start(self) -> None:
        self._store = self._make(GROUP, command_timeout_s=20)
        await self._store.open()
        self._position = await self._store.position(NAME) or self._position
        rows = await self._store.ask(LedgerTail(group=GROUP, most=1000))
        self._ledger = {int(row["trigger"]): row for row in rows}
        for trigger, row in self._ledger.items():
            missing = unpack_missing(row["missing"], GROUP.size)
            self._pending -= {(trigger, i) for i in range(GROUP.size) if not missing[i]}
        self._arrived = max(self._arrived, 4)

    async def _end(self) -> None:
        if self._store is not None:
            await killed(self._store)
            self._store = None

    async def _step(self) -> None:
        """Commit some triggers, or send the same batch again until its outcome is known."""
        assert self._store is not None
        self._arrived = min(len(self.readings), self._arrived + int(self._rng.integers(1, 4)))
        offered = [key for key in sorted(self._pending) if key[0] < self._arrived and self._rng.random() < 0.7]
        if not offered:
            return
        batch = self._batch(offered)
        for _ in range(10):
            try:
                await self._store.commit(batch)
            except StoreUnavailable:
                if self._rng.random() < 0.4:
                    raise
            else:
                break
        else:
            raise StoreUnavailable("again and again")
        self._position = batch.position
        self._pending -= set(offered)
        self._ledger |= {int(row["trigger"]): row for row in (*batch.ledger, *batch.revised)}

    def _batch(self, offered: list[tuple[int, int]]) -> Batch:
        new = sorted({trigger for trigger, _ in offered} - self._ledger.keys())
        present = np.zeros((len(new), GROUP.size), bool)
        late: dict[int, list[int]] = {}
        for trigger, instrument in offered:
            if trigger in self._ledger:
                late.setdefault(trigger, []).append(instrument)
            else:
                present[new.index(trigger), instrument] = True
        revised = []
        for trigger, instruments in late.items():
            there = ~unpack_missing(self._ledger[trigger]["missing"], GROUP.size)
            there[instruments] = True
            row = with_late(self._ledger[trigger], self.readings[trigger, instruments], there)
            row["late"] = self._ledger[trigger]["late"] + len(instruments)
            revised.append(row)
        of = np.repeat(np.arange(len(late)), [len(each) for each in late.values()])
        sequence = self._position.sequence + 1
        batch = batch_of(
            GROUP,
            sequence,
            self.readings[new],
            present=present,
            late=np.array(
                [self.readings[key] for key in ((t, i) for t, each in late.items() for i in each)], GROUP.record
            ),
            late_of=of,
            revised=np.array(revised, batch_dtype()) if revised else None,
            position=dataclasses.replace(self._position, sequence=sequence),
        )
        batch.ledger["closed_ns"] += int(self._rng.integers(1000))
        return batch


def batch_dtype() -> Any:
    return batch_of(GROUP, 1, some(0, 1, np.random.default_rng(0))).ledger.dtype


@pytest.mark.usefixtures("dead_soon")
@pytest.mark.parametrize("seed", range(8))
async def test_whatever_fails_what_is_acknowledged_is_there_once(
    make: Make, replica_set: ReplicaSet, seed: int
) -> None:
    world = World(make, replica_set, seed)
    store = await world.run()
    found = await everything(store)
    counted = Counter(found[["trigger", "instrument"]].tolist())
    assert set(counted.values()) == {1}
    assert found.tobytes() == answers(GROUP, [(1, world.readings.ravel())]).tobytes()
    ledger = await store.ask(LedgerTail(group=GROUP, most=1000))
    assert ledger["arrived"].tolist() == [GROUP.size] * len(world.readings)
    (totals,) = await store.ask(Totals(group=GROUP, within_s=60))
    assert totals["arrived"] == len(found)
    with suppress(StoreUnavailable):
        await store.close()
