"""The database: what of a commit is there after a crash, and what an older state lacks."""

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backends.base import BatchRejected, StoreUnavailable
from schemas.batch import Batch, Durability, JournalPosition
from schemas.ledger import ledger_dtype, pack_missing
from tests.simulation import store
from tests.simulation.loop import Life, virtual_loop
from tests.simulation.machine import make_group
from tests.simulation.store import Client, Database, Moment, Rejection, marks_of

GROUP = make_group(2)


def batch_of(sequence: int, durability: Durability = Durability.SYNC, closed_ns: int = 7) -> Batch:
    """One complete trigger with the number of its block."""
    readings = np.zeros((1, 2), GROUP.record)
    readings["trigger"], readings["instrument"], readings["mark"] = sequence, [0, 1], [10 * sequence, 10 * sequence + 1]
    present = np.ones((1, 2), bool)
    ledger = np.zeros(1, ledger_dtype(2))
    ledger["run"], ledger["trigger"], ledger["expected"], ledger["arrived"] = 1, sequence, 2, 2
    ledger["closed_ns"], ledger["missing"] = closed_ns, pack_missing(present)
    return Batch(
        readings=readings,
        present=present,
        ledger=ledger,
        late=np.empty(0, GROUP.record),
        late_of=np.empty(0, np.intp),
        revised=ledger[:0],
        group=GROUP,
        position=JournalPosition(sequence=sequence, triggers=sequence, readings=2 * sequence, journal=5),
        durability=durability,
        follows=JournalPosition(sequence=sequence - 1, journal=5) if sequence > 1 else None,
    )


def play(scene: Callable[[Database, Client], Coroutine[Any, Any, None]], *, in_parts: bool = False) -> None:
    with virtual_loop() as loop:
        database = Database(loop, {GROUP.name: GROUP}, random.Random(1), in_parts=in_parts)
        loop.run_until_complete(scene(database, Client(database, Life("a"), random.Random(2))))


def there(database: Database) -> set[int]:
    return {mark for mark, count in database.store.marks.items() if count}


@pytest.mark.parametrize("in_parts", [False, True])
def test_the_same_batch_again_changes_nothing(in_parts: bool) -> None:
    async def scene(database: Database, client: Client) -> None:
        for sequence in (1, 2, 2, 1):
            await client.commit(batch_of(sequence))
        assert there(database) == {10, 11, 20, 21}
        assert max(database.store.marks.values()) == 1
        position = await client.position(GROUP.name)
        assert position is not None
        assert (position.sequence, position.readings) == (2, 4)

    play(scene, in_parts=in_parts)


@pytest.mark.parametrize(("moment", "is_there"), [(Moment.BEFORE, False), (Moment.IN, False), (Moment.AFTER, True)])
def test_a_commit_whose_outcome_nobody_knows(moment: Moment, is_there: bool) -> None:
    async def scene(database: Database, client: Client) -> None:
        happened: list[str] = []
        database.crash_at_commit(moment, 0.5, 1.0, lambda: happened.append("crash"))
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await client.commit(batch_of(1))
        assert happened == ["crash"]
        assert there(database) == ({10, 11} if is_there else set())
        database.heal()
        await client.commit(batch_of(1))
        assert there(database) == {10, 11}
        assert max(database.store.marks.values()) == 1

    play(scene)


def test_it_dies_after_so_many_commits() -> None:
    async def scene(database: Database, client: Client) -> None:
        database.crash_at_commit(Moment.BEFORE, 0.0, 0.0, lambda: None, skip=1)
        await client.commit(batch_of(1))
        with pytest.raises(StoreUnavailable):
            await client.commit(batch_of(2))
        await client.commit(batch_of(2))
        assert there(database) == {10, 11, 20, 21}

    play(scene)


@pytest.mark.parametrize(("part", "readings", "rows"), [(0.1, 0, 0), (0.3, 1, 0), (0.6, 2, 0), (0.9, 2, 1)])
def test_a_commit_in_parts_leaves_some_of_it(part: float, readings: int, rows: int) -> None:
    async def scene(database: Database, client: Client) -> None:
        database.crash_at_commit(Moment.IN, part, 0.0, lambda: None)
        with pytest.raises(StoreUnavailable):
            await client.commit(batch_of(1))
        kept = database.store._groups[GROUP.name]
        assert (len(kept.everything()), len(kept.ledger), kept.positions) == (readings, rows, {})
        await client.commit(batch_of(1, closed_ns=8))
        assert (len(kept.everything()), len(kept.ledger)) == (2, 1)
        assert there(database) == {10, 11}

    play(scene, in_parts=True)


def test_without_its_note_a_store_that_writes_in_parts_rejects_what_it_has_half_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the note is there for: the trigger closes again, at another time."""
    monkeypatch.setattr(store, "TAKES_OUT", False)

    async def scene(database: Database, client: Client) -> None:
        database.crash_at_commit(Moment.IN, 0.9, 0.0, lambda: None)
        with pytest.raises(StoreUnavailable):
            await client.commit(batch_of(1))
        with pytest.raises(BatchRejected, match="another ledger row"):
            await client.commit(batch_of(1, closed_ns=8))
        await client.commit(batch_of(1))

    play(scene, in_parts=True)


def test_an_older_state_lacks_what_was_committed_since() -> None:
    async def scene(database: Database, client: Client) -> None:
        await client.commit(batch_of(1))
        backup_ns = database.loop.now_ns
        await client.commit(batch_of(2))
        await client.commit(replace(batch_of(3), revised=batch_of(1).ledger))
        assert sorted(database.store.take_back(backup_ns)) == [20, 21, 30, 31]
        assert there(database) == {10, 11}
        kept = database.store._groups[GROUP.name]
        assert list(kept.ledger) == [(1, 1)]
        position = await client.position(GROUP.name)
        assert position is not None
        assert position.sequence == 1

    play(scene)


def test_only_what_was_committed_asynchronously_is_lost_in_a_crash() -> None:
    async def scene(database: Database, client: Client) -> None:
        await client.commit(batch_of(1, Durability.ASYNC))
        await client.commit(batch_of(2, Durability.SYNC))
        await client.commit(batch_of(3, Durability.ASYNC))
        assert sorted(database.store.take_back(0, Durability.ASYNC)) == [30, 31]

    play(scene)


def test_it_rejects_what_it_was_told_to_for_as_long() -> None:
    async def scene(database: Database, client: Client) -> None:
        until_ns = database.loop.now_ns + 10**9
        database.rejections.append(Rejection(modulus=2, remainder=0, until_ns=until_ns))
        await client.commit(batch_of(1))
        for call in (client.commit, client.rehearse):
            with pytest.raises(BatchRejected):
                await call(batch_of(2))
        database.heal()
        await client.commit(batch_of(2))

    play(scene)


def test_the_marks_of_a_batch() -> None:
    assert marks_of(batch_of(3)) == [30, 31]
