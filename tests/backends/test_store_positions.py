"""Positions of several journals, asked of every store: what belongs to whom, and what was lost."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from backends.base import CommitsLost, OtherJournal, Store, StoreError
from schemas.batch import Batch, JournalPosition, Stream
from schemas.queries import LedgerTail
from tests.backends.test_store_contract import Make, everything, make, make_database, now_and_then, opened, rng
from tests.support.batches import answers, batch_of, group_of, readings_of

__all__ = ["make", "make_database", "opened", "rng"]

STATE = bytes(range(256)) * 400
BOTH_STREAMS = pytest.mark.parametrize("stream", list(Stream))
# One trigger goes another way than many.
SINGLE_AND_MANY = pytest.mark.parametrize("count", [1, 3])
OURS, THEIRS = 2**63 - 1, 2**62 + 5


def at(sequence: int, journal: int, state: bytes = b"") -> JournalPosition:
    return JournalPosition(sequence=sequence, triggers=sequence, readings=12 * sequence, journal=journal, state=state)


class Positions:
    """Commits batches of new triggers to positions."""

    def __init__(self, store: Store, stream: Stream, rng: np.random.Generator, count: int = 1) -> None:
        self.store = store
        self.group = group_of()
        self.stream = stream
        self.kept: list[Batch] = []
        self._rng = rng
        self._count = count
        self._made = 0

    def batch(self, to: JournalPosition, follows: JournalPosition | None) -> Batch:
        triggers = 100 * self._made + np.arange(self._count)
        self._made += 1
        readings = readings_of(self.group, triggers, now_and_then(self._count), self._rng)
        batch = batch_of(self.group, to.sequence, readings, position=to)
        return dataclasses.replace(batch, stream=self.stream, follows=follows)

    async def commit(self, to: JournalPosition, follows: JournalPosition | None = None) -> Batch:
        batch = self.batch(to, follows)
        await self.store.commit(batch)
        self.kept.append(batch)
        await self.holds(to)
        return batch

    async def refuses(self, error: type[StoreError], batch: Batch, found: JournalPosition) -> None:
        for call in (self.store.commit, self.store.rehearse):
            with pytest.raises(error) as refused:
                await call(batch)
            assert refused.value.position == found  # type: ignore[attr-defined]
            assert "\n" not in str(refused.value)
        await self.holds(found if found.sequence else None)

    async def holds(self, position: JournalPosition | None) -> None:
        """See that the position is there, and the batches that were kept and nothing else."""
        assert await self.store.position("bpm", self.stream) == position
        parts = [(1, batch.readings.ravel()) for batch in self.kept]
        np.testing.assert_array_equal(await everything(self.store, self.group), answers(self.group, parts))
        ledger = await self.store.ask(LedgerTail(group=self.group, most=100))
        assert ledger["trigger"].tolist() == [int(t) for batch in self.kept for t in batch.ledger["trigger"]]


@BOTH_STREAMS
@SINGLE_AND_MANY
async def test_a_position_is_kept_whole(
    make: Make, opened: Any, rng: np.random.Generator, stream: Stream, count: int
) -> None:
    kept = Positions(await opened(make(group_of())), stream, rng, count)
    first = await kept.commit(at(3, OURS, STATE))
    second = await kept.commit(at(4, OURS, b"\0'\\;"), first.position)
    await kept.commit(at(9, OURS), second.position)


@BOTH_STREAMS
async def test_a_position_is_found_whole(
    make_database: Make, opened: Any, rng: np.random.Generator, stream: Stream
) -> None:
    kept = Positions(await opened(make_database(group_of())), stream, rng)
    await kept.commit(at(3, OURS, STATE))
    await kept.store.close()
    kept.store = await opened(make_database(group_of()))
    await kept.holds(at(3, OURS, STATE))


@BOTH_STREAMS
@SINGLE_AND_MANY
async def test_a_new_journal_takes_over(
    make: Make, opened: Any, rng: np.random.Generator, stream: Stream, count: int
) -> None:
    kept = Positions(await opened(make(group_of())), stream, rng, count)
    old = await kept.commit(at(70, THEIRS, b"old"))
    # Its numbers begin again.
    first = await kept.commit(at(1, OURS, b"new"), old.position)
    # Its answer was lost, and it comes again: alone, and as it was sent before.
    for again in (first, dataclasses.replace(first, follows=None), dataclasses.replace(first, follows=first.position)):
        await kept.store.commit(again)
        await kept.holds(first.position)
    second = await kept.commit(at(2, OURS), first.position)
    await kept.store.commit(first)
    await kept.holds(second.position)
    # What follows it, where the answer to what took over was lost.
    await kept.commit(at(3, OURS), old.position)


@BOTH_STREAMS
@SINGLE_AND_MANY
async def test_a_journal_that_nobody_handed_over_is_left_alone(
    make: Make, opened: Any, rng: np.random.Generator, stream: Stream, count: int
) -> None:
    kept = Positions(await opened(make(group_of())), stream, rng, count)
    first = await kept.commit(at(5, THEIRS, b"theirs"))
    for to, follows in (
        (at(9, OURS), at(8, OURS)),
        (at(2, OURS), at(1, OURS)),
        (at(9, OURS), at(5, OURS)),  # the same number of another journal
        (at(9, OURS), at(4, THEIRS)),  # it went on since
        (at(9, OURS), at(0, OURS)),
        (at(9, OURS), at(0, 0)),
    ):
        await kept.refuses(OtherJournal, kept.batch(to, follows), first.position)
    await kept.commit(at(6, THEIRS), first.position)


@BOTH_STREAMS
@SINGLE_AND_MANY
async def test_nothing_is_refused_of_who_does_not_know_what_was_there(
    make: Make, opened: Any, rng: np.random.Generator, stream: Stream, count: int
) -> None:
    kept = Positions(await opened(make(group_of())), stream, rng, count)
    await kept.commit(at(5, THEIRS, b"theirs"))
    await kept.commit(at(2, OURS, b"ours"))
    await kept.commit(at(7, OURS))


@BOTH_STREAMS
@SINGLE_AND_MANY
async def test_a_store_put_back_has_lost_commits(
    make: Make, opened: Any, rng: np.random.Generator, stream: Stream, count: int
) -> None:
    kept = Positions(await opened(make(group_of())), stream, rng, count)
    for to, follows in ((at(6, OURS), at(5, OURS)), (at(1, OURS), at(70, THEIRS))):
        await kept.refuses(CommitsLost, kept.batch(to, follows), JournalPosition(sequence=0))
    first = await kept.commit(at(5, OURS, b"kept"))
    await kept.refuses(CommitsLost, kept.batch(at(7, OURS), at(6, OURS)), first.position)
    # A new journal was to take over from where the old one was before.
    await kept.refuses(CommitsLost, kept.batch(at(1, THEIRS), at(6, OURS)), first.position)
    await kept.commit(at(7, OURS), first.position)
