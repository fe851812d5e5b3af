"""Retrying: the dead letters of a group are offered to the database again, each once at most.

They do not go through the journal: they have a stream of their own, with a position of its own that is written in the
same transaction. A letter whose serial is at or below it is in the database, whatever happened since. Letters are
offered in the order in which they were kept; one that is rejected again has to make way before the position may pass it
(`DeadLetters.move`), and is found behind the others, with its origin.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from backends.base import BatchRejected, Store
from daemon.pipeline.closed_blocks import merge
from daemon.pipeline.dead_letters.folder import DeadLetters
from daemon.pipeline.dead_letters.format import Letter, kind_of
from daemon.pipeline.journal import Amount
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition, Stream
from schemas.readings import InstrumentGroup

REASONS_TOLD = 3

TOGETHER = 64
"""Letters offered in one transaction; of these the rejected ones are found by halves."""


@dataclass(kw_only=True)
class Outcome:
    """What became of the letters of one round.

    committed: letters that the database took, with so many readings. rejected: letters that lie there still; reasons
    tells why, with how often, unless they had to wait for another. unreadable: their bytes are damaged, and stay.
    """

    committed: int = 0
    readings: int = 0
    rejected: int = 0
    unreadable: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """In one line."""
        parts = [f"{self.committed:,} committed ({self.readings:,} readings)", f"{self.rejected:,} rejected again"]
        if self.unreadable:
            parts.append(f"{self.unreadable:,} damaged on the disk and left there")
        reasons = [f"{count:,} x {reason}" for reason, count in self.reasons.items()]
        return "; ".join([", ".join(parts), *reasons[:REASONS_TOLD]])


class Retrying:
    """Offers the dead letters of one group to the store; one round at a time."""

    def __init__(self, store: Store, group: InstrumentGroup, letters: DeadLetters) -> None:
        self.readings = 0
        self._store = store
        self._group = group
        self._letters = letters
        self._account = JournalPosition(sequence=0)
        self._turn = asyncio.Lock()

    async def round(self) -> Outcome:
        """Offer all letters that lie there now.

        Raises:
            StoreUnavailable: the database went away; what was not committed by then stays where it was.
            OSError: the disk failed; as above.
        """
        async with self._turn:
            found = await self._store.position(self._group.name, Stream.DEAD_LETTERS) or self._account
            is_ours = found.journal in self._letters.ids
            # Of another folder only the account goes on.
            self._account = replace(found, sequence=found.sequence if is_ours else 0, journal=self._letters.id)
            # What the database had taken when its answer was lost.
            await self._letters.committed(list(self._letters.upto(self._account.sequence)))
            round_ = _Round()
            committed = -1
            # What belongs to a rejected trigger is held back; once that one is in, it may follow.
            while round_.outcome.committed > committed:
                committed = round_.outcome.committed
                left = [letter for letter in self._letters.to_retry if letter.origin not in round_.rejected]
                for start in range(0, len(left), TOGETHER):
                    await self._offer(left[start : start + TOGETHER], round_)
            round_.outcome.rejected = sum(1 for _ in self._letters.to_retry)
            return round_.outcome

    async def discard(self) -> Amount:
        """Throw all letters away, between two rounds: what a round has in hand it would write again. Raises OSError."""
        async with self._turn:
            return await self._letters.discard()

    async def _offer(self, letters: Sequence[Letter], round_: "_Round") -> None:
        """Commit letters that lie there, in their order, and note what became of them."""
        offered = [letter for letter in letters if not self._letters.is_blocked(letter, among=letters)]
        blocks = await self._letters.read_all(offered)
        round_.outcome.unreadable += len(offered) - len(blocks)
        if blocks:
            await self._commit(blocks, round_)

    async def _commit(self, offered: Sequence[tuple[Letter, ClosedBlock]], round_: "_Round") -> None:
        letters = [letter for letter, _ in offered]
        batch = self._batch(offered)
        try:
            if next(self._letters.to_retry) is not letters[0]:
                # Those before it have to make way, which is worth writing only if there is something to make it for.
                await self._store.rehearse(batch)
                mine = {letter.serial for letter in letters}
                older = (letter for letter in self._letters.upto(letters[-1].serial) if letter.serial not in mine)
                await self._letters.move(list(older))
            await self._letters.forget_failed()
            await self._store.commit(batch)
        except BatchRejected as error:
            if len(letters) == 1:
                round_.reject(letters[0], str(error))
                return
            half = len(letters) // 2
            await self._offer(letters[:half], round_)
            await self._offer(letters[half:], round_)
            return
        self._account = batch.position
        readings = sum(letter.readings for letter in letters)
        self.readings += readings
        round_.outcome.committed += len(letters)
        round_.outcome.readings += readings
        await self._letters.committed(letters)

    def _batch(self, offered: Sequence[tuple[Letter, ClosedBlock]]) -> Batch:
        before = self._account
        return Batch(
            **merge([block for _, block in offered]).parts,
            group=self._group,
            position=JournalPosition(
                sequence=offered[-1][0].serial,
                triggers=before.triggers + sum(letter.triggers for letter, _ in offered),
                readings=before.readings + sum(letter.readings for letter, _ in offered),
                journal=before.journal,
            ),
            # They are removed from the disk as soon as the database has them.
            durability=Durability.SYNC,
            stream=Stream.DEAD_LETTERS,
            follows=None,
        )


class _Round:
    """One round: what became of the letters, by their origin."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self.rejected: set[int] = set()
        self._first: dict[str, str] = {}

    def reject(self, letter: Letter, reason: str) -> None:
        self.rejected.add(letter.origin)
        first = self._first.setdefault(kind_of(reason), reason)
        self.outcome.reasons[first] = self.outcome.reasons.get(first, 0) + 1
