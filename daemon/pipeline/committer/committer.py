"""The committer of one group: closed triggers become transactions.

Natural batching: while one transaction is under way the next batch gathers, and an idle system commits a single
trigger at once. The committer owns batching, retry and backoff; the store only writes.
"""

import asyncio
import math
from collections.abc import Callable, Collection
from dataclasses import replace

from backends.base import BatchRejected, CommitsLost, OtherJournal, Store, StoreUnavailable
from backends.columns.filling import readings_in
from daemon.core.monitoring.metrics import Latencies, Recent
from daemon.core.outside import Clock
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.backlog import Backlog, Waiting
from daemon.pipeline.closed_blocks import nothing_of
from daemon.pipeline.committer.letters import Discarded, LettersOfBlocks
from daemon.pipeline.committer.rejected import BlockPart, RejectedParts
from daemon.pipeline.committer.transactions import Account, Attempts, CommitCounts, Transactions
from daemon.pipeline.dead_letters import DeadLetters, Reason
from daemon.pipeline.dropped import DroppedPeriods
from daemon.pipeline.files import Amount
from daemon.pipeline.placer import NotePlaced, Placer, apart, is_to_place
from daemon.pipeline.placing import Placed, late_to_place, set_aside_for_good
from schemas.batch import ClosedBlock, Durability, JournalPosition
from schemas.config import Config
from schemas.queries import LedgerTail
from schemas.readings import InstrumentGroup, join

DIVIDE_AFTER = 2
"""Attempts at a batch before it is divided: a store that was away may have found what waited too much for its time, and
would find it so for ever."""

SEARCHED_TOGETHER = 256
"""Triggers, and parts that came late for one, among which those that are rejected are looked for at once: their letters
are synced together, and the good ones wait for no more than that before they are committed."""

OTHER_JOURNAL_S = 10.0
"""Pause before a database is asked again that another daemon has written to as this logger."""

HOLD_TIMES = 5
"""What a server may lose is held for longer than its settings say: a busy machine lets its background writer wait."""


class Committer:
    """Commits the blocks of one group's backlog in order; `go_on_with` another after the pipeline began again.

    settled: called with the number of blocks that are committed (or kept as dead letters) now.
    availability_changed: see `Attempts`. placed: see `Placer`.
    superseded: called when the database turns out to be at a position that this logger does not follow. acknowledged:
    told where it is after each commit.
    journal: the id that numbers are of: the log's, or this process's. formerly: ids that it had before; under these
    nothing is committed any more, and nothing above `formerly_upto` was.
    dropped: what of the group is stored no more.
    writing: held from when rows of the ledger are asked for until they are replaced; see `Retrying`.
    found: how much this logger ever committed, as the store had it at the start.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        *,
        durability: Durability,
        config: Config,
        clock: Clock,
        backlog: Backlog,
        dead_letters: DeadLetters,
        announcements: Announcements,
        settled: Callable[[int], None],
        availability_changed: Callable[[], None],
        superseded: Callable[[OtherJournal], None],
        acknowledged: Callable[[JournalPosition], None],
        placed: NotePlaced,
        found: JournalPosition | None = None,
        journal: int = 0,
        formerly: Collection[int] = (),
        formerly_upto: int = 0,
        writing: asyncio.Lock | None = None,
        dropped: DroppedPeriods | None = None,
    ) -> None:
        self.counts = CommitCounts()
        self.latencies = Latencies()
        self.committed_ns = 0
        self.risk_ms = math.inf
        self.account = Account(self.counts, journal, found or JournalPosition(sequence=0))
        self.attempts = Attempts(clock, config, self.counts, availability_changed)
        self._transactions = Transactions(
            store, group, durability=durability, journal=journal, account=self.account, attempts=self.attempts
        )
        self._letters = LettersOfBlocks(dead_letters, self.attempts)
        self._rejected = RejectedParts(
            self._transactions, dead_letters, self._letters, announcements, reports=group.reports
        )
        self._recent = Recent()
        self._formerly, self._formerly_upto = formerly, formerly_upto
        self._writing = writing or asyncio.Lock()
        self._has_lost = False  # the database lost what assembly remembers
        self._placed_in: dict[int, Placed] = {}  # by block, of those that may come again
        self._clock = clock
        self._store = store
        self._group = group
        self._batch_by(config)
        self._backlog = backlog
        self._dead_letters = dead_letters
        self._announcements = announcements
        self._settled = settled
        self._superseded = superseded
        self._acknowledged = acknowledged
        self._dropped = dropped or DroppedPeriods()
        self._placer = Placer(
            group,
            clock,
            ask=self._transactions.ask,
            rejected=self._letters.of_triggers,
            note=placed,
            dropped=self._dropped,
        )

    def change(self, config: Config) -> None:
        """Batch and pause so from now on."""
        self._batch_by(config)
        self.attempts.change(config)

    def _batch_by(self, config: Config) -> None:
        self._max_batch = int(config.committer.max_batch_mib * 2**20)
        self._most = self._max_batch  # and less while the store does not manage as much in its time

    def part(self, name: str) -> Part:
        """What has to move, for the watchdog. name: as it says it."""
        attempts = self.attempts
        return Part(name=name, steps=attempts.steps, is_busy=self._backlog.has_work, extra_s=attempts.longest_s)

    def note_risk(self, risk_ms: float) -> None:
        """Take note of how young an acknowledged reading may be, in ms, and still be lost with the server."""
        self.risk_ms = risk_ms
        self._note_held()
        self._recent.keep(0 if math.isinf(risk_ms) else math.ceil(risk_ms * 1e6))

    def _note_held(self) -> None:
        # Where nothing is at risk nothing is held.
        self._backlog.hold_for(HOLD_TIMES * self.risk_ms / 1e3)

    def at_risk(self, monotonic_ns: int) -> int:
        """How many acknowledged readings a crash of the server now could lose; of unlimited risk, all since the start.

        What waits in memory is not among them: it is not acknowledged. Nor is what an earlier process of the
        daemon committed, nor what was lost already in a crash that has happened.
        """
        return self.counts.readings if math.isinf(self.risk_ms) else self._recent.count(monotonic_ns)

    async def run(self) -> bool:
        """Commit until the backlog has ended, and nothing is left of it.

        Returns whether the pipeline has to begin again: the database lost what it had acknowledged, or the backlog has
        forgotten what it had no room for.
        """
        while blocks := await self._backlog.take(min(self._most, self._max_batch)):
            before = self._most
            self._letters.begin()
            try:
                async with self._writing:
                    for together in apart([self._believed(waiting) for waiting in blocks], self._is_in_part):
                        await self._commit(await self._placed(together))
            except Discarded:
                pass  # the backlog hands out what of these blocks is not settled
            except CommitsLost:
                return True
            except OtherJournal as error:
                if self._was_ours(error.position):
                    return True
                # Nothing can be committed any more before it is known again what the database has.
                self.attempts.note(str(error))
                self._superseded(error)
                await asyncio.sleep(OTHER_JOURNAL_S)
            if self._most >= before:
                self._most = min(2 * self._most, self._max_batch)
        return self._backlog.is_behind

    def _was_ours(self, position: JournalPosition) -> bool:
        """Whether a position is one that an earlier process of this logger left, and this one has gone on from.

        A daemon that this state folder is a copy of may still be alive, and has gone on under an id that is known here.
        """
        return position.journal in self._formerly and position.sequence <= self._formerly_upto

    async def find(self) -> tuple[JournalPosition, bool]:
        """Return where the store is, and whether its position alone is gone: it has rows, and no position."""
        found = await self._transactions.position()
        tail = LedgerTail(group=self._group, most=1)
        return found, not found.sequence and len(await self._transactions.ask(tail)) > 0

    def go_on_without_log(self) -> None:
        """Commit what is here, though the database has lost what was before: nothing has that any more."""
        self._has_lost = True

    def go_on_with(self, backlog: Backlog, found: JournalPosition) -> None:
        """Commit from this backlog: the database is at this position."""
        self._backlog = backlog
        self._note_held()
        for number in [number for number in self._placed_in if number > found.sequence or not found.sequence]:
            self.counts.place(self._placed_in.pop(number), -1)

    async def _commit(self, blocks: list[Waiting]) -> None:
        self._letters.see_discards()
        if any(self._dead_letters.concerns(waiting.number, waiting.block) for waiting in blocks):
            await self._commit_parts(blocks, None)
            return
        tries = DIVIDE_AFTER if len(blocks) > 1 else math.inf
        try:
            await self._transactions.commit([waiting.block for waiting in blocks], blocks, tries)
        except StoreUnavailable:
            await self._commit_less(blocks)
        except BatchRejected as error:
            rest = await self._settle_held(blocks)
            if rest:
                await self._commit_parts(rest, Reason.of(error) if len(rest) == len(blocks) else None)
        else:
            self._settle(blocks)

    def _settle(self, blocks: list[Waiting]) -> None:
        self._count([waiting.block for waiting in blocks], blocks)
        self._measure(blocks)
        self._deal_with(blocks)

    def _deal_with(self, blocks: list[Waiting]) -> None:
        """The oldest blocks are committed, or kept as dead letters."""
        for waiting in blocks:
            if waiting.placed is not None:
                self.counts.place(waiting.placed)
                self._placed_in[waiting.number] = waiting.placed
        self._backlog.settle(len(blocks))
        if self._placed_in:
            safe_upto = self._backlog.safe_upto
            self._placed_in = {number: each for number, each in self._placed_in.items() if number > safe_upto}
        self._settled(len(blocks))

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
        held = await self._transactions.held()
        done = [waiting for waiting in blocks if waiting.number <= held]
        if done:
            self._settle(done)
        return blocks[len(done) :]

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
        good = await self._rejected.without(blocks, reason)
        if await self._commit_good(good, blocks) is None:
            return
        # The database has changed its mind since the rehearsals, or takes them apart and not together.
        if len(blocks) > 1:
            for waiting in blocks:
                await self._commit_parts([waiting], None)
            return
        good = await self._rejected.without_together(good, blocks)
        error = await self._commit_good(good, blocks)
        if error is not None:
            await self._rejected.keep([(part, Reason.of(error)) for part in good])
            self._settle_parts([], blocks, is_committed=False)

    async def _commit_good(self, good: list[BlockPart], blocks: list[Waiting]) -> BatchRejected | None:
        """Commit the good parts of blocks, whose others are kept; return why the store rejects them all the same."""
        # Where nothing is good the position goes on all the same: what the log lets go of must not be beyond.
        parts = [part.block for part in good] or [nothing_of(blocks[0].block)]
        try:
            await self._transactions.commit(parts, blocks)
        except BatchRejected as error:
            # It may have committed them before without saying so.
            if blocks[-1].number > await self._transactions.held():
                return error
        self._settle_parts(good, blocks)
        return None

    def _settle_parts(self, good: list[BlockPart], blocks: list[Waiting], *, is_committed: bool = True) -> None:
        """The good parts of blocks are committed; all else of them is kept as dead letters."""
        parts = [part.block for part in good]
        if is_committed:
            self._count(parts, blocks)
            self._measure([replace(part.waiting, block=part.block) for part in good])
        # All at the same moment, or the status would not add up in between.
        dead = {each.number: Amount(triggers=each.block.triggers, readings=each.readings) for each in blocks}
        for part in good:
            dead[part.waiting.number].change(-part.block.triggers, -readings_in(part.block), 0)
        self.counts.dead_triggers += sum(each.triggers for each in dead.values())
        self.counts.dead_readings += sum(each.readings for each in dead.values())
        self._deal_with(blocks)

    def _believed(self, waiting: Waiting) -> Waiting:
        """A block, without what assembly says of earlier triggers if the database may not have those.

        Of what retention dropped it has the ledger.
        """
        revised = waiting.block.revised
        if not len(revised) or self._group.reports:
            return waiting
        may_lack = self._has_lost or self._dead_letters.may_lack(waiting.block)
        if not may_lack and not self._dropped.concern(revised["time_ns"]):
            return waiting
        return replace(waiting, block=late_to_place(waiting.block), told=revised)

    def _is_in_part(self, waiting: Waiting) -> bool:
        return self._dead_letters.has_part(waiting.number)

    async def _placed(self, blocks: list[Waiting]) -> list[Waiting]:
        """Place what the ledger of the database can place; keep the rest of what is aside as dead letters."""
        placed: list[Waiting] = []
        for waiting in blocks:
            if is_to_place(waiting):
                placed.append(await self._with_placed(waiting, [each.block for each in placed]))
            else:
                placed.append(waiting)
        await self._letters.keep_aside(placed)
        return placed

    async def _with_placed(self, waiting: Waiting, before: list[ClosedBlock]) -> Waiting:
        letters = await self._letters.aside(waiting)
        placed = await self._placer.with_placed(waiting, before, join([waiting.block.late[:0], *letters.values()]))
        if set_aside_for_good(placed.block) > set_aside_for_good(waiting.block):
            # The ledger was asked first, and then for the readings: the database may have lost these in between.
            await self._transactions.rehearse([nothing_of(waiting.block)], [waiting])
        return placed

    def _count(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> None:
        readings = self.account.commit(parts, blocks)
        self._acknowledged(self.account.acknowledged)
        self._dead_letters.passed(blocks[-1].number)
        self.committed_ns = self._clock.now().monotonic_ns
        self._recent.add(readings, self.committed_ns)

    def _measure(self, blocks: list[Waiting]) -> None:
        moment = self.committed_ns
        for waiting in blocks:
            weight = waiting.readings if self._group.reports else waiting.block.triggers
            # How long something waited that was read from the log says nothing of how commits do now.
            if weight and waiting.put_ns is not None:
                self.latencies.add((moment - waiting.put_ns) / 1e6, weight, moment)
