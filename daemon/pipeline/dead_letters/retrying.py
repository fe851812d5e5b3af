"""Retrying: the dead letters of a group are offered to the database again, each once at most.

They do not go through the journal: they have a stream of their own, with a position of its own that is written in the
same transaction. A letter whose serial is at or below it is in the database, whatever happened since. Letters are
offered in the order in which they were kept; one that is rejected again has to make way before the position may pass it
(`DeadLetters.move`), and is found behind the others, with its origin.

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
from daemon.pipeline.dead_letters.format import Letter
from daemon.pipeline.dead_letters.retried import position_of_letters
from daemon.pipeline.durable_state import may_have, runs_in
from daemon.pipeline.files import Amount
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
        self._account = JournalPosition(sequence=0)
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
        self.outcome.lost, again = await self._letters.put_back(found)
        if self.outcome.lost:
            self._tell_lost(self.outcome.lost)  # before it is noted that the database has lost it
        self.readings -= min(self.readings, again)
        found = found or self._account
        is_ours = found.journal in self._letters.ids
        # Of another folder only the account goes on.
        self._account = replace(found, sequence=found.sequence if is_ours else 0, journal=self._letters.id)
        # What the database had taken when its answer was lost.
        await self._letters.committed(list(self._letters.upto(self._account.sequence)), found)
        await self._letters.note()
        outcome = self.outcome
        outcome.letters = sum(1 for _ in self._letters.to_retry)
        rejected: set[int] = set()
        committed, newest = -1, 0
        # What belongs to a rejected trigger is held back; once that one is in, it may follow.
        while outcome.committed > committed:
            committed = outcome.committed
            left = [letter for letter in self._letters.to_retry if letter.origin not in rejected]
            newest = max([newest, *(letter.origin for letter in left)])
            for k, _ in await find_refused(left, self._offer, TOGETHER, self._note_rejected):
                rejected.add(left[k].origin)
        # What was kept meanwhile was not offered.
        outcome.rejected = sum(letter.origin <= newest for letter in self._letters.to_retry)

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
        # One that has made way lies behind what belongs to its trigger.
        blocks = [block for _, block in sorted(offered, key=lambda each: each[0].origin)]
        if not self._group.reports:
            blocks = [await self._told_anew(blocks)]
        batch = self._batch(letters, blocks)
        mine = {letter.serial for letter in letters}
        older = [letter for letter in self._letters.upto(letters[-1].serial) if letter.serial not in mine]
        if older:
            # Those before it have to make way, which is worth writing only if there is something to make it for.
            await self._store.rehearse(batch)
            await self._letters.move(older)
        await self._letters.forget_failed()
        await self._store.commit(batch)
        self._account = batch.position
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
        before = self._account
        return Batch(
            **merge(blocks).parts,
            group=self._group,
            position=JournalPosition(
                sequence=letters[-1].serial,
                triggers=before.triggers + sum(letter.triggers for letter in letters),
                readings=before.readings + sum(letter.readings for letter in letters),
                journal=before.journal,
            ),
            # They are removed from the disk as soon as the database has them.
            durability=Durability.SYNC,
            stream=Stream.DEAD_LETTERS,
            follows=None,
        )


def _rejected(reason: str, rows: Array) -> BatchRejected:
    return BatchRejected(reason, f"trigger {rows['trigger'][0]} of run {rows['run'][0]}")
