"""Dead letters that are retried: the ledger has what the data has, whatever the database became meanwhile."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.base import OtherJournal, StoreUnavailable
from daemon.pipeline.closed_blocks import merge, nothing_of
from daemon.pipeline.dead_letters import DeadLetters, Outcome, Retrying
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition, Stream
from schemas.ledger import unpack_missing
from tests.daemon.pipeline.dead_letters.test_folder import GROUP, block_of, kept, late_of, opened
from tests.daemon.pipeline.recovery.test_put_back import Refusing
from tests.support.batches import by_group
from tests.support.memory.store import MemoryStore

BLOCK = block_of(3, 1, missing=3)
TRIGGER = {(3, instrument) for instrument in range(3, GROUP.size)}


async def store_with(*blocks: ClosedBlock) -> MemoryStore:
    store = MemoryStore(by_group(GROUP))
    if blocks:
        position = JournalPosition(sequence=1, journal=9)
        how = {"durability": Durability.SYNC, "stream": Stream.JOURNAL, "follows": None}
        await store.commit(Batch(**merge(blocks).parts, group=GROUP, position=position, **how))
    return store


async def retried(letters: DeadLetters, store: MemoryStore) -> Outcome:
    outcome = await Retrying(store, GROUP, letters).round()
    assert outcome.committed + len(letters.pending) == outcome.letters
    return outcome


def stored(store: MemoryStore) -> set[tuple[int, int]]:
    """Trigger and instrument of what is there, each once, as data and ledger say."""
    group = store._groups["bpm"]
    there = group.everything()[["trigger", "instrument"]].tolist()
    said = [
        (int(row["trigger"]), instrument)
        for row in group.rows()
        for instrument in np.flatnonzero(~unpack_missing(row["missing"], GROUP.size)).tolist()
    ]
    assert sorted(said) == sorted(there)
    assert [int(row["arrived"]) for row in group.rows()] == [
        sum(t == row["trigger"] for t, _ in said) for row in group.rows()
    ]
    return set(there)


async def test_what_came_late_stays_while_the_database_lacks_its_trigger(tmp_path: Path) -> None:
    """It was put back to an older state: the row tells of readings that are gone."""
    letters, store = await kept(tmp_path, (2, late_of(BLOCK, 0))), await store_with()
    outcome = await retried(letters, store)
    assert (outcome.committed, list(outcome.reasons.values())) == (0, [1])
    assert stored(store) == set()


async def test_what_another_daemon_stored_meanwhile_stays_in_the_ledger(tmp_path: Path) -> None:
    letters, store = await kept(tmp_path, (2, late_of(BLOCK, 0))), await store_with(BLOCK, late_of(BLOCK, 1))
    assert (await retried(letters, store)).committed == 1
    assert stored(store) == TRIGGER | {(3, 0), (3, 1)}


async def test_what_another_daemon_has_stored_too_is_not_stored_twice(tmp_path: Path) -> None:
    """Its sender had no acknowledgement when the host was lost, and sent it again."""
    letters, store = await kept(tmp_path, (2, late_of(BLOCK, 0))), await store_with(BLOCK, late_of(BLOCK, 0))
    assert (await retried(letters, store)).rejected == 1
    assert stored(store) == TRIGGER | {(3, 0)}


async def test_a_row_in_which_only_doubles_changed_takes_back_no_reading(tmp_path: Path) -> None:
    """It is the database's, which lacks what is a dead letter, and follows that."""
    row = BLOCK.ledger.copy()
    row["duplicates"] = 1
    letters = await kept(tmp_path, (2, late_of(BLOCK, 0)), (3, replace(nothing_of(BLOCK), revised=row)))
    store = await store_with(BLOCK)
    assert (await retried(letters, store)).committed == 2
    assert stored(store) == TRIGGER | {(3, 0)}
    assert store._groups["bpm"].rows()["duplicates"].tolist() == [1]


async def test_what_is_held_back_behind_a_rejected_trigger_counts_as_rejected(tmp_path: Path) -> None:
    """Also where a later pass of the round has only letters that were kept before others."""
    letters = await kept(tmp_path, (1, BLOCK), (2, late_of(BLOCK, 0)), (3, block_of(5, 1)), (4, block_of(9, 1)))
    store = Refusing(by_group(GROUP))
    store.bad = frozenset({3, 9})
    outcome = await Retrying(store, GROUP, letters).round()
    assert (outcome.letters, outcome.committed, outcome.rejected, outcome.done) == (4, 1, 3, 4)


class Unanswered(MemoryStore):
    """Commits, and says nothing of it."""

    async def commit(self, batch: Batch) -> None:
        await super().commit(batch)
        if batch.stream is Stream.DEAD_LETTERS:
            raise StoreUnavailable("gone")


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_was_committed_without_an_answer_is_committed_once(tmp_path: Path, is_killed: bool) -> None:
    letters, store = await kept(tmp_path, (1, BLOCK), (2, late_of(BLOCK, 0))), Unanswered(by_group(GROUP))
    retrying = Retrying(store, GROUP, letters)
    with pytest.raises(StoreUnavailable):
        await retrying.round()
    if is_killed:
        letters = opened(tmp_path)
        retrying = Retrying(store, GROUP, letters)
    assert len(letters.pending) == 2
    outcome = await retrying.round()
    assert (outcome.letters, outcome.committed, letters.pending, opened(tmp_path).pending) == (0, 0, [], [])
    assert stored(store) == TRIGGER | {(3, 0)}
    position = await store.position("bpm", Stream.DEAD_LETTERS)
    assert position is not None
    assert (position.triggers, position.readings) == (1, len(TRIGGER) + 1)


async def test_a_round_ends_where_another_daemon_retried_meanwhile(tmp_path: Path) -> None:
    """It may have taken over; what it committed says nothing of these letters."""
    letters, store = await kept(tmp_path, (1, BLOCK)), MemoryStore(by_group(GROUP))
    other = await kept(tmp_path / "other", (1, block_of(7, 1)))

    async def meanwhile(batch: Batch) -> None:
        store.commit = commit  # type: ignore[method-assign]
        await Retrying(store, GROUP, other).round()
        await store.commit(batch)

    commit = store.commit
    store.commit = meanwhile  # type: ignore[method-assign]
    with pytest.raises(OtherJournal):
        await Retrying(store, GROUP, letters).round()
    assert (len(letters.pending), len(other.pending)) == (1, 0)
    assert (await retried(letters, store)).committed == 1
    assert {trigger for trigger, _ in stored(store)} == {3, 7}
