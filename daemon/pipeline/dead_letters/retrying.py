"""Retrying: the dead letters of a group are offered to the database again, each once at most.

They have a stream of their own: the transaction that commits some moves its position, which names them. They are
removed from the disk before others are committed. So whatever a crash leaves, the position tells whether the database
has what is still on the disk. Letters are offered in the order in which they were kept; one that is rejected again
stays where it is.

They may have lain there for long: what they say of earlier triggers is told anew by the ledger of the database.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backends.base import BatchRejected, Store, StoreError, StoreUnavailable
from daemon.pipeline.closed_blocks import merge
from daemon.pipeline.dead_letters.finding import find_refused
from daemon.pipeline.dead_letters.folder import DeadLetters
from daemon.pipeline.dead_letters.format import Letter, ids_as_bytes
from daemon.pipeline.durable_state import may_have, runs_in
from daemon.pipeline.files import Amount
from daemon.pipeline.files.acknowledged import NOWHERE
from daemon.pipeline.revising import find, rows_after
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition, Stream
from schemas.ledger import own_rows
from schemas.queries import LedgerRows, LedgerTail
from schemas.readings import Array, InstrumentGroup

REASONS_TOLD = 3

TOGETHER = 64
"""Letters offered in one transaction at most."""

TURN_S = 10.0
"""A round that waits so long for a commit that is under way ends: the database is away."""


async def position_of_letters(store: Store, group: InstrumentGroup) -> JournalPosition | None:
    """Where the database is in the dead letters of a group; at the number 0 where it has none of them.

    None where it has rows of the group and no position at all: an operator removed these, or gave the logger another
    name, and nobody knows. Raises StoreUnavailable.
    """
    found = await store.position(group.name, Stream.DEAD_LETTERS)
    if found is not None:
        return found
    if await store.position(group.name) is None and len(await store.ask(LedgerTail(group=group, most=1))):
        return None
    return NOWHERE


@dataclass(kw_only=True)
class Outcome:
    """What became of the letters of one round, or has by now, while it is under way.

    letters: that there were to offer. committed: letters that the database took, with so many readings. rejected:
    letters that lie there still; reasons tells why, with how often, unless they had to wait for another. unreadable:
    their bytes are damaged, and stay. aside: letters that are not offered, since assembly set them aside. lost:
    readings that the database had taken in earlier rounds, and has no more: it was put back to an older state.
    problem: what ended the round before all were offered.
    """

    letters: int = 0
    committed: int = 0
    readings: int = 0
    rejected: int = 0
    unreadable: int = 0
    aside: int = 0
    lost: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    running: bool = False
    problem: str | None = None

    @property
    def done(self) -> int:
        """Letters of which it is known what became of them."""
        return min(self.letters, self.committed + self.rejected + self.unreadable)

    @property
    def summary(self) -> str:
        """In one line."""
        parts = [f"{self.committed:,} committed ({self.readings:,} readings)", f"{self.rejected:,} rejected again"]
        if self.unreadable:
            parts.append(f"{self.unreadable:,} damaged on the disk and left there")
        if self.aside:
            parts.append(f"{self.aside:,} set aside that no database takes")
        if self.lost:
            parts.append(f"{self.lost:,} readings of earlier retries lost with the database, which was put back")
        if self.done < self.letters:
            parts.append(f"{self.letters - self.done:,} not tried yet")
        reasons = [f"{count:,} x {reason}" for reason, count in self.reasons.items()]
        problems = [] if self.problem is None else [f"stopped: {self.problem}"]
        return "; ".join([", ".join(parts), *reasons[:REASONS_TOLD], *problems])


class Retrying:
    """Offers the dead letters of one group to the store; one round at a time.

    outcome: of the round that is under way, or of the last one. writing: held by who commits, from when rows of the
    ledger are asked for until they are replaced. lost: told of readings of earlier rounds that the database has lost.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        letters: DeadLetters,
        writing: asyncio.Lock | None = None,
        lost: Callable[[int], None] = lambda readings: None,
    ) -> None:
        self.readings = 0
        self._tell_lost = lost
        self.outcome = Outcome()
        self._store = store
        self._group = group
        self._letters = letters
        self._at = NOWHERE  # where the database is
        self._round = 0
        self._turn = asyncio.Lock()
        self._writing = writing or asyncio.Lock()

    async def round(self, outcome: Outcome | None = None) -> Outcome:
        """Offer all letters that lie there now. outcome: a new one, in which it is followed what becomes of them.

        Raises:
            StoreUnavailable: the database went away; what was not committed by then stays where it was.
            OSError: the disk failed; as above.
        """
        async with self._turn:
            self._begin(outcome or Outcome())
            try:
                await self._offer_all()
            except (StoreError, OSError) as error:
                self.outcome.problem = str(error)
                raise
            finally:
                self.outcome.running = False
            return self.outcome

    def announce(self) -> None:
        """Let `outcome` be that of a round which is about to begin."""
        self._begin(Outcome())

    def _begin(self, outcome: Outcome) -> None:
        outcome.running, outcome.letters = True, sum(1 for _ in self._letters.to_retry)
        outcome.aside = self._letters.amount.blocks - outcome.letters
        self.outcome = outcome

    async def _offer_all(self) -> None:
        found = await position_of_letters(self._store, self._group)
        self.outcome.lost = self._letters.compare(found)
        if self.outcome.lost:
            self._tell_lost(self.outcome.lost)  # before it is noted that the database has lost it
        self._at = found or NOWHERE
        self._round = self._letters.new_round()
        await self._letters.note()
        outcome = self.outcome
        outcome.letters = sum(1 for _ in self._letters.to_retry)
        rejected: set[Letter] = set()
        committed, newest = -1, 0
        # What belongs to a rejected trigger is held back; once that one is in, it may follow.
        while outcome.committed > committed:
            committed = outcome.committed
            left = [letter for letter in self._letters.to_retry if letter not in rejected]
            newest = max([newest, *(letter.serial for letter in left)])
            refused = await find_refused(left, self._offer, TOGETHER, self._note_rejected)
            rejected.update(left[k] for k, _ in refused)
        # What was kept meanwhile was not offered.
        outcome.rejected = sum(letter.serial <= newest for letter in self._letters.to_retry)

    def _note_rejected(self, reason: str) -> None:
        self.outcome.rejected += 1
        self.outcome.reasons[reason] = self.outcome.reasons.get(reason, 0) + 1

    async def discard(self) -> Amount:
        """Throw all letters away, between two rounds: what a round has in hand it would write again. Raises OSError."""
        async with self._turn:
            return await self._letters.discard()

    async def _offer(self, letters: Sequence[Letter]) -> str | None:
        """Commit letters that lie there, in their order; why the database rejects them, None where it does not."""
        offered = [letter for letter in letters if not self._letters.is_blocked(letter, among=letters)]
        blocks = await self._letters.read_all(offered)
        self.outcome.unreadable += len(offered) - len(blocks)
        if not blocks:
            return None
        await self._take_turn()
        try:
            await self._commit(blocks)
        except BatchRejected as error:
            return error.reason
        finally:
            self._writing.release()
        return None

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_S):
                await self._writing.acquire()
        except TimeoutError:
            raise StoreUnavailable("the database does not answer a commit that is under way") from None

    async def _commit(self, offered: Sequence[tuple[Letter, ClosedBlock]]) -> None:
        letters = [letter for letter, _ in offered]
        blocks = [block for _, block in offered]
        if not self._group.reports:
            blocks = [await self._told_anew(blocks)]
        batch = self._batch(letters, blocks)
        await self._store.commit(batch)
        self._at = batch.position
        readings = sum(letter.readings for letter in letters)
        self.readings += readings
        self.outcome.committed += len(letters)
        self.outcome.readings += readings
        await self._letters.committed(letters, batch.position)

    async def _told_anew(self, blocks: Sequence[ClosedBlock]) -> ClosedBlock:
        """The blocks as one, whose revised rows say what the database has, and what comes with them.

        Raises:
            BatchRejected: the database has no trigger to which they belong.
        """
        whole = merge(blocks)
        await self._see_runs(np.concatenate([whole.ledger, whole.revised]))
        if not len(whole.revised):
            return whole
        rows, is_new = rows_after(await self._rows(whole.revised), blocks)
        at, is_there = find(rows, whole.revised)
        if not is_there.all():
            raise _rejected("the database does not have the trigger that it came late for", whole.revised[~is_there])
        if not is_new.all():
            of = whole.revised[whole.late_of[~is_new]]
            raise _rejected("the database has a reading of that instrument and trigger", of)
        return replace(whole, revised=rows[at])

    async def _see_runs(self, rows: Array) -> None:
        """See that the database has their runs for no other epochs, nor these in other runs.

        Another daemon may have given these the numbers.
        """
        rows = rows[rows["epoch"] != 0]
        if not len(rows):
            return
        own, others = runs_in(await self._store.states(), self._group.name)
        for epoch, run in np.unique(rows[["epoch", "run"]]).tolist():
            there = await self._store.ask(LedgerTail(group=self._group, most=1, run=run))
            own |= {(of, run) for of in there["epoch"].tolist() if of}
            if not may_have(epoch, run, own, others):
                mine = rows[(rows["epoch"] == epoch) & (rows["run"] == run)]
                raise _rejected("the database has another run for its epoch, or another epoch for its run", mine)

    async def _rows(self, wanted: Array) -> Array:
        """The ledger rows that the database has of these triggers, by run and trigger."""
        found = []
        for run in np.unique(wanted["run"]).tolist():
            triggers = tuple(wanted["trigger"][wanted["run"] == run].tolist())
            found.append(await self._store.ask(LedgerRows(group=self._group, run=run, triggers=triggers)))
        return own_rows(found, self._group.size)

    def _batch(self, letters: Sequence[Letter], blocks: Sequence[ClosedBlock]) -> Batch:
        return Batch(
            **merge(blocks).parts,
            group=self._group,
            position=JournalPosition(
                sequence=self._at.sequence + 1,
                triggers=self._at.triggers + sum(letter.triggers for letter in letters),
                readings=self._at.readings + sum(letter.readings for letter in letters),
                journal=self._round,
                state=ids_as_bytes(letters),
            ),
            # They are removed from the disk as soon as the database has them.
            durability=Durability.SYNC,
            stream=Stream.DEAD_LETTERS,
            follows=self._at,
        )


def _rejected(reason: str, rows: Array) -> BatchRejected:
    return BatchRejected(reason, f"trigger {rows['trigger'][0]} of run {rows['run'][0]}")
