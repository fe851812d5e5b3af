"""The committer of one group: closed triggers become transactions.

Natural batching: while one transaction is under way the next batch gathers, and an idle system commits a single
trigger at once. The committer owns batching, retry and backoff; the store only writes.
"""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from backends.base import BatchRejected, CommitsLost, OtherJournal, Store, StoreError, StoreUnavailable
from backends.columns.filling import readings_in
from daemon.core.monitoring.metrics import Latencies, Recent
from daemon.core.outside import Clock
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.assembly.reading_set import ReadingSet
from daemon.pipeline.backlog import Backlog, Waiting
from daemon.pipeline.closed_blocks import ASIDE, Key, aside_parts, keys_of, merge, nothing_of, split
from daemon.pipeline.dead_letters import DeadLetters, Letter, Reason, find_refused
from daemon.pipeline.dropped import DroppedPeriods
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.gaps import CommittedGaps
from daemon.pipeline.journal import Amount
from daemon.pipeline.placer import Asked, NotePlaced, Placer, apart
from daemon.pipeline.placing import (
    Placed,
    late_to_place,
    set_aside_for_good,
    to_place,
    without,
)
from daemon.web.backoff import Backoff
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition, Stream
from schemas.config import CommitterConfig
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup, join
from schemas.states import AsideReason

DIVIDE_AFTER = 2
"""Attempts at a batch before it is divided: a store that was away may have found what waited too much for its time, and
would find it so for ever."""

FOLLOWS = "it belongs to a trigger that is a dead letter"
"""Why what comes late for a dead letter is one, too: the database would have it without the trigger it completes."""

REPORT_FOLLOWS = "a report of that instrument and time is a dead letter"
"""Why another report of the same instrument and time is one, too."""


SEARCHED_TOGETHER = 256
"""Triggers, and parts that came late for one, among which those that are rejected are looked for at once: their letters
are synced together, and the good ones wait for no more than that before they are committed."""

T = TypeVar("T")


class _Part(NamedTuple):
    """A trigger of a block that waits, or what came late for one."""

    waiting: Waiting
    block: ClosedBlock
    key: Key


class _Discarded(Exception):
    """Dead letters were discarded while blocks were under way that may tell of them."""


ASIDE_REASONS = {
    AsideReason.OLDER: "its trigger is older than those that are remembered, and its run is unknown",
    AsideReason.AHEAD: "its trigger number is far beyond those of the other instruments",
    AsideReason.AMBIGUOUS: "a reading of that instrument and trigger is there, and nothing proves that it is the same",
    AsideReason.CONFLICT: "another reading of that instrument and trigger is there",
    AsideReason.EPOCH: "its epoch is older than those that are remembered, or too many epochs have begun",
    AsideReason.DOUBTFUL: "a reading of that instrument and trigger is there, and its run is unknown",
    AsideReason.PARTIAL: "some of its values are no finite numbers, and not all of them NaN",
    AsideReason.FUTURE: "its time is more than an hour ahead of the clock of the daemon's node",
    AsideReason.DROPPED: "the readings of its time were dropped by retention",
}
"""Why what assembly set aside is a dead letter."""

OTHER_JOURNAL_S = 10.0
"""Pause before a database is asked again that another daemon has written to as this logger."""

HOLD_TIMES = 5
"""What a server may lose is held for longer than its settings say: a busy machine lets its background writer wait."""


@dataclass(kw_only=True)
class CommitCounts:
    """Counts since the start."""

    commits: int = 0
    retries: int = 0
    triggers: int = 0
    readings: int = 0
    dead_triggers: int = 0
    dead_readings: int = 0
    placed: int = 0  # readings that assembly had set aside for the database to tell where they go
    placed_doubtful: int = 0  # of these, those that were doubtful
    placed_recovered: int = 0  # the same of blocks that an earlier process closed
    placed_doubles: int = 0  # readings that were there already, of these and of late ones

    def place(self, number: int, first_here: int, placed: Placed, sign: int = 1) -> None:
        """Count what placing did to a block, or take it back."""
        if number < first_here:
            self.placed_recovered += sign * placed.aside
        else:
            self.placed += sign * placed.aside
            self.placed_doubtful += sign * placed.doubtful
        self.placed_doubles += sign * placed.doubles


class Committer:
    """Commits the blocks of one group's backlog in order.

    settled: called with the number of blocks that are committed (or kept as dead letters) now, of those that closed in
    this process.
    availability_changed: called when `problem` comes or goes, however short it was.
    placed: see `Placer`.
    superseded: called when the database turns out to be at the position of a journal that this one does not follow.
    lost: what the database acknowledged in this process, has lost since, and does not get again.
    journal: the id that numbers are of: the journal's, or this process's. formerly: ids that it had before; under these
    nothing is committed any more, and nothing above `formerly_upto` was.
    tail: see `CommittedGaps`; as it was at the start.
    dropped: what of the group is stored no more.
    writing: held from when rows of the ledger are asked for until they are replaced; see `Retrying`.
    account: how much this logger ever committed, as the store had it at the start; each batch counts on from there.
    steps: attempts that came to an end, well or not: the watchdog sees by them that it is at work.
    asked_ns: since when the store owes an answer (CLOCK_MONOTONIC); 0 where it owes none.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        *,
        durability: Durability,
        settings: CommitterConfig,
        clock: Clock,
        backlog: Backlog,
        dead_letters: DeadLetters,
        announcements: Announcements,
        settled: Callable[[int], None],
        availability_changed: Callable[[], None],
        superseded: Callable[[OtherJournal], None],
        placed: NotePlaced,
        account: JournalPosition | None = None,
        journal: int = 0,
        formerly: Collection[int] = (),
        formerly_upto: int = 0,
        tail: Array | None = None,
        writing: asyncio.Lock | None = None,
        dropped: DroppedPeriods | None = None,
    ) -> None:
        self.counts = CommitCounts()
        self.latencies = Latencies()
        self.lost = Amount()
        self.problem: str | None = None
        self.problem_since_ns = 0
        self.committed_ns = 0
        self.asked_ns = 0
        self.steps = 0
        self.risk_ms = math.inf
        self._recent = Recent()
        self._journal, self._formerly, self._formerly_upto = journal, formerly, formerly_upto
        self._writing = writing or asyncio.Lock()
        self._discards = 0  # of dead letters, that what is under way takes into account
        self._has_lost = False  # the database lost what it acknowledged to this process
        self._placed_in: dict[int, Placed] = {}  # by block, of those that may come again
        self._clock = clock
        self._store = store
        self._group = group
        self._durability = durability
        self.change(settings)
        self._backlog = backlog
        self._dead_letters = dead_letters
        self._announcements = announcements
        self._settled = settled
        self._availability_changed = availability_changed
        self._superseded = superseded
        self._dropped = dropped or DroppedPeriods()
        self._placer = Placer(
            group, clock, ask=self._ask, rejected=self._read_rejected, note=placed, dropped=self._dropped
        )
        self._gaps = CommittedGaps(group, self._ask, tail)
        self._follows_letter = Reason(REPORT_FOLLOWS if group.reports else FOLLOWS)
        self.account_at_start = self._acknowledged = account or JournalPosition(sequence=0)
        self._follows: JournalPosition | None = self._acknowledged

    def change(self, settings: CommitterConfig) -> None:
        """Batch and pause so from now on."""
        self._max_batch = int(settings.max_batch_mib * 2**20)
        self._most = self._max_batch  # and less while the store does not manage as much in its time
        self._retry_first_s = settings.retry_first_ms / 1e3
        self._retry_most_s = settings.retry_most_ms / 1e3

    def _backoff(self) -> Backoff:
        return Backoff(self._retry_first_s, self._retry_most_s)

    def note_risk(self, risk_ms: float) -> None:
        """Take note of how young an acknowledged reading may be, in ms, and still be lost with the server."""
        self.risk_ms = risk_ms
        # Where nothing is at risk nothing is held.
        self._backlog.hold_for(HOLD_TIMES * risk_ms / 1e3)
        self._recent.keep(0 if math.isinf(risk_ms) else math.ceil(risk_ms * 1e6))

    def at_risk(self, monotonic_ns: int) -> int:
        """How many acknowledged readings a crash of the server now could lose; of unlimited risk, all since the start.

        What waits in memory is not among them: it is not acknowledged. Nor is what an earlier process of the
        daemon committed, nor what was lost already in a crash that has happened.
        """
        return self.counts.readings if math.isinf(self.risk_ms) else self._recent.count(monotonic_ns)

    async def run(self) -> None:
        """Commit until the backlog has ended and nothing is left of it."""
        while blocks := await self._backlog.take(min(self._most, self._max_batch)):
            before = self._most
            self._discards = self._dead_letters.discards
            try:
                async with self._writing:
                    for together in apart([self._believed(waiting) for waiting in blocks]):
                        await self._commit(await self._fitting(await self._placed(together)))
            except _Discarded:
                pass  # what of these blocks is not dealt with is taken again
            except CommitsLost as error:
                await self._try_to_go_back(error.position)
            except OtherJournal as error:
                if self._was_ours(error.position):
                    await self._try_to_go_back(error.position)
                    continue
                # Nothing can be committed any more before it is known again what the database has.
                self._gaps.forget()
                self._note(str(error))
                self._superseded(error)
                await asyncio.sleep(OTHER_JOURNAL_S)
            if self._most >= before:
                self._most = min(2 * self._most, self._max_batch)

    def _was_ours(self, position: JournalPosition) -> bool:
        """Whether a position is one that an earlier process of this logger left, and this one has gone on from.

        A daemon that this state folder is a copy of may still be alive, and has gone on under an id that is known here.
        """
        return position.journal in self._formerly and position.sequence <= self._formerly_upto

    async def _try_to_go_back(self, found: JournalPosition) -> None:
        try:
            await self._go_back(found)
        except StoreError as away:
            # It comes to the same place again.
            self._note(str(away))
            await self._backoff().pause()

    async def _go_back(self, found: JournalPosition) -> None:
        """Go on from where the database is; what it acknowledged beyond that comes again, as far as it is held."""
        self._gaps.forget()
        is_alone = not found.sequence and len(await self._store.ask(LedgerTail(group=self._group, most=1)))
        was, self._follows = self._acknowledged, None
        self._has_lost = self._has_lost or not is_alone
        to_number = self._backlog.held_from - 1 if is_alone else found.sequence
        came_back = replace(self._backlog.came_back)
        regained = self._backlog.rewind(to_number, DurableState.decode(was.state if is_alone else found.state))
        for number in [number for number in self._placed_in if number > to_number]:
            placed = self._placed_in.pop(number)
            self.counts.place(number, self._backlog.first_here, placed, -1)
            regained.change(placed.triggers, placed.readings, 0)
        # Where the position alone was lost, what is not held is taken to be there: an operator removed a row.
        to = was.less(regained.triggers, regained.readings) if is_alone else found
        self._acknowledged = to
        # Neither came in nor was committed, as far as this process is concerned, what was so before it began.
        triggers = min(was.triggers - to.triggers, self.counts.triggers)
        readings = min(was.readings - to.readings, self.counts.readings)
        self.counts.triggers -= triggers
        self.counts.readings -= readings
        self.account_at_start = JournalPosition(
            sequence=min(self.account_at_start.sequence, to.sequence),
            triggers=to.triggers - self.counts.triggers,
            readings=to.readings - self.counts.readings,
        )
        earlier = self._backlog.came_back.less(came_back)
        mine = regained.less(earlier)
        gone = Amount(triggers=max(0, triggers - mine.triggers), readings=max(0, readings - mine.readings))
        # What comes again beyond what was lost are dead letters of its blocks, which are left out again.
        self.counts.dead_triggers -= max(0, mine.triggers - triggers)
        self.counts.dead_readings -= max(0, mine.readings - readings)
        self.lost.change(gone.triggers, gone.readings, gone.blocks)
        before = max(0, was.readings - to.readings - readings - earlier.readings)
        self._announcements.commits_lost(self._durability, regained, gone.readings + before)

    def _see_what_was_discarded(self) -> None:
        if self._dead_letters.discards != self._discards:
            self._gaps.forget()
            raise _Discarded

    async def _commit(self, blocks: list[Waiting]) -> None:
        self._see_what_was_discarded()
        if any(self._dead_letters.concerns(waiting.number, waiting.block) for waiting in blocks):
            await self._commit_parts(blocks, None)
            return
        try:
            batch = self._batch([waiting.block for waiting in blocks], blocks)
            is_committed = await self._persist(self._store.commit, batch, DIVIDE_AFTER if len(blocks) > 1 else math.inf)
        except BatchRejected as error:
            rest = await self._settle_held(blocks)
            if rest:
                await self._commit_parts(rest, Reason.of(error) if len(rest) == len(blocks) else None)
            return
        if is_committed:
            self._settle(blocks)
        else:
            await self._commit_less(blocks)

    def _settle(self, blocks: list[Waiting]) -> None:
        self._count([waiting.block for waiting in blocks], blocks)
        self._measure(blocks)
        self._deal_with(blocks)

    def _deal_with(self, blocks: list[Waiting]) -> None:
        """The oldest blocks are committed, or kept as dead letters."""
        for waiting in blocks:
            if waiting.placed is not None:
                self.counts.place(waiting.number, self._backlog.first_here, waiting.placed)
                self._placed_in[waiting.number] = waiting.placed
        mine = self._backlog.settle(len(blocks))
        if self._placed_in:
            held_from = self._backlog.held_from
            self._placed_in = {number: each for number, each in self._placed_in.items() if number >= held_from}
        self._settled(mine)

    async def _commit_less(self, blocks: list[Waiting]) -> None:
        """Commit by halves what may be too much for the time that the database has for a transaction."""
        half = len(blocks) // 2
        self._most = max(1, min(self._most, sum(waiting.nbytes for waiting in blocks[:half])))
        await self._commit(blocks[:half])
        # Asked after a commit, since a store lets none begin before the one given up on has ended.
        rest = await self._settle_held(blocks[half:])
        if rest:
            await self._commit(rest)

    async def _settle_held(self, blocks: list[Waiting]) -> list[Waiting]:
        """Settle what is in the database though it has not said so, and return the rest.

        The connection may have been lost after a commit; what is sent again can be rejected then, or given up on.
        """
        held = await self._held()
        done = [waiting for waiting in blocks if waiting.number <= held]
        if done:
            self._settle(done)
        return blocks[len(done) :]

    async def _held(self) -> int:
        """Up to which number the store has the blocks, asked again for as long as it is not available."""
        backoff = self._backoff()
        while True:
            self._note_asked()
            try:
                position = await self._store.position(self._group.name)
            except StoreUnavailable as error:
                await self._wait_for_store(error, backoff)
            else:
                self._note(None)
                is_ours = position is not None and position.journal == self._journal
                return position.sequence if position is not None and is_ours else 0

    async def _commit_parts(self, blocks: list[Waiting], reason: Reason | None) -> None:
        """Commit what cannot be committed together: one bad trigger must not take any other with it.

        reason: why the store refuses them together, None where it was not asked.
        """
        triggers = sum(waiting.block.triggers + len(waiting.block.revised) for waiting in blocks)
        if len(blocks) > 1 and (reason is None or triggers > SEARCHED_TOGETHER):
            half = len(blocks) // 2
            await self._commit(blocks[:half])
            await self._commit(blocks[half:])
            return
        good = await self._without_rejected(blocks, reason)
        if await self._commit_good(good, blocks) is None:
            return
        # The database has changed its mind since the rehearsals, or takes them apart and not together.
        if len(blocks) > 1:
            for waiting in blocks:
                await self._commit_parts([waiting], None)
            return
        good = await self._keep_apart(good, await self._rejected(good, blocks, None, adds_up=True))
        error = await self._commit_good(good, blocks)
        if error is not None:
            await self._keep_rejected([(part, Reason.of(error)) for part in good])
            self._settle_parts([], blocks, is_committed=False)

    async def _commit_good(self, good: list[_Part], blocks: list[Waiting]) -> BatchRejected | None:
        """Commit the good parts of blocks, whose others are kept; return why the store rejects them all the same."""
        # Where nothing is good the position goes on all the same: what the journal lets go of must not be beyond.
        parts = [part.block for part in good] or [nothing_of(blocks[0].block)]
        try:
            await self._persist(self._store.commit, self._batch(parts, blocks))
        except BatchRejected as error:
            # It may have committed them before without saying so.
            if blocks[-1].number > await self._held():
                return error
        self._settle_parts(good, blocks)
        return None

    def _settle_parts(self, good: list[_Part], blocks: list[Waiting], *, is_committed: bool = True) -> None:
        """The good parts of blocks are committed; all else of them is kept as dead letters."""
        parts = [part.block for part in good]
        if is_committed:
            self._count(parts, blocks)
            self._measure([replace(part.waiting, block=part.block) for part in good])
        # All at the same moment, or the status would not add up in between.
        self.counts.dead_triggers += sum(each.block.triggers for each in blocks) - sum(part.triggers for part in parts)
        self.counts.dead_readings += sum(each.readings for each in blocks) - sum(map(readings_in, parts))
        self._deal_with(blocks)

    async def _without_rejected(self, blocks: list[Waiting], reason: Reason | None) -> list[_Part]:
        """Keep as dead letters what the store rejects of blocks; return the rest, which is not committed yet.

        After a crash in between, the blocks come again; what of them was kept by then is left out.
        """
        every = [_Part(waiting, part, keys_of(part)[0]) for waiting in blocks for part in split(waiting.block)]
        parts = [part for part in every if part.key not in self._dead_letters.of_block(part.waiting.number)]
        # In order: what comes late for a trigger is committed after it.
        rejected = [(part, self._follows_letter) for part in parts if self._dead_letters.has(part.key)]
        others = [part for part in parts if not self._dead_letters.has(part.key)]
        known = reason if len(others) == len(every) else None
        rejected += await self._rejected(others, blocks, known)
        return await self._keep_apart(others, rejected)

    async def _keep_apart(self, parts: list[_Part], rejected: list[tuple[_Part, Reason]]) -> list[_Part]:
        """Keep what is rejected as dead letters; return the parts that are not among it."""
        self._see_what_was_discarded()
        await self._keep_rejected(rejected)
        bad = {id(part) for part, _ in rejected}
        return [part for part in parts if id(part) not in bad]

    async def _rejected(
        self, parts: list[_Part], blocks: list[Waiting], reason: Reason | None, *, adds_up: bool = False
    ) -> list[tuple[_Part, Reason]]:
        """Which of the parts the store rejects, and why.

        reason: why it rejects them together, where that is known. adds_up: offer each with those before it that the
        store would take: it may take each by itself, and not both of two with a unique index on what they share.
        """
        of_trigger: dict[Key, list[_Part]] = {}
        for part in parts:
            of_trigger.setdefault(part.key, []).append(part)
        triggers = list(of_trigger.values())

        taken: list[_Part] = []

        async def offer(some: Sequence[list[_Part]]) -> Reason | None:
            offered = [part for trigger in some for part in trigger]
            why = await self._rehearse([part.block for part in (*taken, *offered)], blocks)
            if why is None and adds_up:
                taken.extend(offered)
            return why

        if reason is not None and len(triggers) == 1:
            found = [(0, reason)]
        else:
            found = await find_refused(triggers, offer, len(triggers) if reason is None else len(triggers) // 2)
        rejected = []
        for k, why in found:
            rejected += await self._rejected_of_trigger(triggers[k], blocks, why)
        return rejected

    async def _rejected_of_trigger(
        self, parts: list[_Part], blocks: list[Waiting], reason: Reason
    ) -> list[tuple[_Part, Reason]]:
        """Which of the parts of one trigger the store rejects: the first that it does not take, and all behind it."""
        for upto in range(1, len(parts)):
            why = await self._rehearse([part.block for part in parts[:upto]], blocks)
            if why is not None:
                return [(parts[upto - 1], why), *((part, self._follows_letter) for part in parts[upto:])]
        return [(parts[-1], reason)]

    async def _rehearse(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> Reason | None:
        """Why the store rejects parts of blocks; None where it would take them.

        Raises CommitsLost or OtherJournal where it is no longer at the position that these follow.
        """
        try:
            await self._persist(self._store.rehearse, self._batch(parts, blocks))
        except BatchRejected as error:
            return Reason.of(error)
        return None

    async def _persist(self, what: Callable[[Batch], Awaitable[None]], batch: Batch, tries: float = math.inf) -> bool:
        """Commit or rehearse, trying again while the store is not available; False after so many tries in vain."""
        backoff = self._backoff()
        while tries > 0:
            self._note_asked()
            try:
                await what(batch)
            except StoreUnavailable as error:
                await self._wait_for_store(error, backoff)
                tries -= 1
            except StoreError:  # it has answered
                self.steps += 1
                self.asked_ns = 0
                raise
            else:
                self._note(None)
                return True
        return False

    async def _wait_for_store(self, error: StoreUnavailable, backoff: Backoff) -> None:
        self._note(str(error))
        self.counts.retries += 1
        await backoff.pause()

    def _believed(self, waiting: Waiting) -> Waiting:
        """A block, without what assembly says of earlier triggers if the database may not have those.

        To an earlier process it may have done so without this one knowing; of what retention dropped it has the ledger.
        """
        may_have_lost = self._has_lost or waiting.number < self._backlog.first_here
        may_lack = may_have_lost or self._dead_letters.may_lack(waiting.block)
        may_lack = may_lack or self._dropped.concern(waiting.block.revised["time_ns"])
        if not may_lack or not len(waiting.block.revised) or self._group.reports:
            return waiting
        return replace(waiting, block=late_to_place(waiting.block), told=waiting.block.revised)

    async def _placed(self, blocks: list[Waiting]) -> list[Waiting]:
        """Keep what assembly set aside; what the ledger of the database can place goes where that says.

        blocks: as `apart` divides them.
        """
        *before, last = blocks
        letters = await self._letters_aside(last)
        placed = await self._placer.with_placed(last, join([last.block.late[:0], *letters.values()]))
        if set_aside_for_good(placed.block) > set_aside_for_good(last.block):
            # The ledger was asked first, and then for the readings: the database may have lost these in between.
            await self._rehearse([nothing_of(last.block)], [last])
        await self._keep_aside([*before, placed])
        return [*before, placed]

    async def _fitting(self, blocks: list[Waiting]) -> list[Waiting]:
        """The blocks, with gaps that cover nothing which is committed."""
        if self._group.reports:
            return blocks
        fit = await self._gaps.fit([waiting.block for waiting in blocks])
        return [
            waiting if block is waiting.block else replace(waiting, block=block)
            for waiting, block in zip(blocks, fit, strict=True)
        ]

    async def _ask(self, query: Asked) -> Array:
        """Ask the store, again for as long as it is not available."""
        backoff = self._backoff()
        while True:
            self._note_asked()
            try:
                rows = await self._store.ask(query)
            except StoreUnavailable as error:
                await self._wait_for_store(error, backoff)
            else:
                self._note(None)
                return rows

    async def _read_rejected(self, run: int, triggers: Array) -> list[ClosedBlock]:
        """What dead letters have of triggers of a run, tried again for as long as the disk fails."""
        keys = [(run, trigger) for trigger in triggers.tolist()]
        return await self._insist("dead letters cannot be read", lambda: self._dead_letters.read_triggers(keys))

    async def _insist(self, problem: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do something with the disk, again for as long as that fails."""
        backoff = self._backoff()
        while True:
            try:
                done = await do()
            except OSError as error:
                self._note(f"{problem}: {error}")
                await backoff.pause()
            else:
                self._note(None)
                return done

    async def _keep_aside(self, blocks: list[Waiting]) -> None:
        """Keep as dead letters what assembly could put nowhere; after a crash the blocks come again.

        All at once: with a sync for each, one instrument whose number stands still would hold up its group.
        """
        letters: list[tuple[Letter, ClosedBlock]] = []
        for waiting in blocks:
            if waiting.block.aside is not None:
                lost = await self._without_letters(waiting, without(waiting.block, to_place(waiting.block)))
                parts = [(part, Reason(ASIDE_REASONS[reason])) for part, reason in aside_parts(lost)]
                letters += self._dead_letters.address(parts, waiting.number)
        await self._keep(letters)

    async def _without_letters(self, waiting: Waiting, lost: ClosedBlock) -> ClosedBlock:
        """What a block sets aside, without what was kept when it came before.

        What the database has in their places may be something else now, and so may be which readings these are. Of what
        was discarded nobody knows them.
        """
        kept = self._kept_aside(waiting)
        if lost.aside is None or not kept:
            return lost
        letters = await self._letters_aside(waiting)
        have = ReadingSet(join([lost.late[:0], *letters.values()])).have(lost.aside.readings)
        is_discarded = np.isin(lost.aside.reason, [reason for reason in kept if reason not in letters])
        return without(lost, have | is_discarded)

    async def _letters_aside(self, waiting: Waiting) -> dict[int, Array]:
        """The readings that were kept when a block came before, of those that it set aside, by their reason."""
        if not self._kept_aside(waiting):
            return {}
        problem = "dead letters cannot be read"
        found = await self._insist(problem, lambda: self._dead_letters.read_aside(waiting.number))
        parts = [(letter.key[1], block.aside.readings) for letter, block in found if block.aside is not None]
        return {reason: join([part for of, part in parts if of == reason]) for reason, _ in parts}

    def _kept_aside(self, waiting: Waiting) -> list[int]:
        """The reasons for which something of a block was kept when it came before."""
        return [reason for run, reason in self._dead_letters.of_block(waiting.number) if run == ASIDE]

    async def _keep_rejected(self, parts: Sequence[tuple[_Part, Reason]]) -> None:
        letters = [self._dead_letters.address([(part.block, why)], part.waiting.number) for part, why in parts]
        self._announcements.rejected(await self._keep(list(itertools.chain(*letters))))

    async def _keep(self, letters: list[tuple[Letter, ClosedBlock]]) -> list[Letter]:
        if letters:
            problem = f"dead letters ({letters[0][0].reason}) cannot be kept on disk"
            await self._insist(problem, lambda: self._dead_letters.keep(letters))
        return [letter for letter, _ in letters]

    def _batch(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> Batch:
        return Batch(
            **merge(parts).parts,
            group=self._group,
            position=self._position(parts, blocks),
            durability=self._durability,
            stream=Stream.JOURNAL,
            follows=self._follows,
        )

    def _position(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> JournalPosition:
        """Where the store will be once it has these, too: what is good of these blocks."""
        before, since = self.account_at_start, self.counts
        return JournalPosition(
            sequence=blocks[-1].number,
            state=blocks[-1].state.encode(),
            triggers=before.triggers + since.triggers + sum(part.triggers for part in parts),
            readings=before.readings + since.readings + sum(readings_in(part) for part in parts),
            journal=self._journal,
        )

    def _count(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> None:
        self._acknowledged = self._follows = self._position(parts, blocks)
        self._backlog.note_acknowledged(self._acknowledged)
        self._dead_letters.passed(blocks[-1].number)
        moment = self._clock.now().monotonic_ns
        self.counts.commits += 1
        self.committed_ns = moment
        readings = sum(readings_in(part) for part in parts)
        self.counts.triggers += sum(part.triggers for part in parts)
        self.counts.readings += readings
        self._recent.add(readings, moment)

    def _measure(self, blocks: list[Waiting]) -> None:
        moment = self.committed_ns
        weights = [waiting.readings if self._group.reports else waiting.block.triggers for waiting in blocks]
        # How long something waited that was read back from the journal says nothing of how commits do now.
        fresh = [
            (moment - waiting.put_ns, weight)
            for waiting, weight in zip(blocks, weights, strict=True)
            if weight and waiting.put_ns is not None
        ]
        if fresh:
            waited, triggers = np.array(fresh).T
            self.latencies.add(waited / 1e6, triggers, moment)

    def _note_asked(self) -> None:
        self.asked_ns = self.asked_ns or self._clock.now().monotonic_ns

    def _note(self, problem: str | None) -> None:
        self.steps += 1
        is_news = (problem is None) != (self.problem is None)
        if is_news:
            # It was away as soon as it was asked what it did not answer any more.
            self.problem_since_ns = self.asked_ns or self._clock.now().monotonic_ns
        self.problem = problem
        if problem is None:
            self.asked_ns = 0
        if is_news:
            self._availability_changed()
