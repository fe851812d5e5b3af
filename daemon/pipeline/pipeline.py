"""The pipeline of one group: assembly, committer and watch, joined. Sources put blocks in; the store gets batches."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

from backends.base import Store
from daemon.core.clock import now
from daemon.core.events import Events
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.assembly import Assembly, Origin
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.committer import Committer
from daemon.pipeline.dead_letters import DeadLetters
from daemon.pipeline.dead_letters.retrying import Outcome, Retrying
from daemon.pipeline.desync import Announcer, Desync
from daemon.pipeline.journal import Amount, Journal, Recovered
from daemon.pipeline.journal.keeper import Keeper, Kept
from daemon.pipeline.runs import Runs
from daemon.pipeline.watch import Watch
from schemas.batch import ClosedBlock, Durability, JournalPosition, Layout
from schemas.config import Config
from schemas.readings import Array, InstrumentGroup

QUIET_NS = 10_000_000_000
"""After so long without backpressure, its beginning is news."""

LONG_NS = 1_000_000_000
"""After so long in it, its end is."""


class Pipeline:
    """One group on its way from block to commit.

    Everything but `run` is called on the event loop and returns at once.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        config: Config,
        store: Store,
        *,
        layout: Layout,
        durability: Durability,
        runs: Runs,
        run: int,
        history: Array,
        position: JournalPosition | None,
        journal: Journal | None = None,
        recovered: Recovered | None = None,
        dead_letters: DeadLetters,
        events: Events,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self.group = group
        self.layout = layout
        self.durability = durability
        self.dropped: dict[str, int] = {}
        self.dropped_total = 0
        self.assembly = Assembly(
            group,
            timeout_ns=int(config.assembly.timeout_ms * 1e6),
            window=config.assembly.window,
            max_open=config.assembly.max_open,
            run=run,
            next_run=runs.after,
            history=history,
        )
        self._keeper = None if journal is None else Keeper(journal, self._kept)
        held = position.sequence if position else 0
        self._first = held + 1 if journal is None else journal.next
        self.recovered = Amount() if recovered is None else recovered.amount
        self.backlog = Backlog(
            self._keeper,
            position=held,
            last=self._first - 1,
            recovered=dataclasses.replace(self.recovered),
            max_memory=int(config.committer.max_waiting_mib * 2**20),
            full=self._full,
            lost=self._lost,
        )
        self.lost = Amount()
        self.dead_letters = dead_letters
        self.retrying = Retrying(store, group, dead_letters)
        self.committer = Committer(
            store,
            group,
            durability=durability,
            settings=config.committer,
            backlog=self.backlog,
            dead_letters=dead_letters,
            events=events,
            settled=self._settled,
            noticed=noticed,
            account=position,
            went_back=self._went_back,
        )
        self._attempt_s = longest_attempt_s(config)
        self.watch = Watch(group.size, int(config.alarms.stale_s * 1e9))
        self.desync = Desync(group.size, limit_ns=int(config.alarms.clock_offset_ms * 1e6))
        self._announcer = Announcer(group.name, group.instruments)
        self._events = events
        self._settled_blocks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._full_ns = -QUIET_NS  # when backpressure began or ended last
        self._on_settled: list[Callable[[], None]] = []
        self._on_full: list[Callable[[bool], None]] = []

    @property
    def is_full(self) -> bool:
        """Whether the backlog is at its limit, so that sources hold back."""
        return self.backlog.is_full

    def change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs; see `daemon.core.reload`."""
        self.committer.change(config.committer)
        self._attempt_s = longest_attempt_s(config)
        self.watch.change_stale(int(config.alarms.stale_s * 1e9))
        if self._keeper is not None:
            max_bytes, segment_bytes = (
                int(mib * 2**20) for mib in (config.journal.max_mib, config.journal.segment_mib)
            )
            self._keeper.change_limits(max_bytes=max_bytes, segment_bytes=segment_bytes)
        self.backlog.change_limit(int(config.committer.max_waiting_mib * 2**20))
        self.assembly.change_timeout(int(config.assembly.timeout_ms * 1e6))
        self._disarm()
        self._arm()

    def subscribe(self, *, settled: Callable[[], None], full: Callable[[bool], None]) -> None:
        """Be told when acknowledgements may have moved on, and when backpressure begins (True) and ends (False)."""
        self._on_settled.append(settled)
        self._on_full.append(full)

    def receive(self, block: Array, origin: Origin | None = None) -> None:
        """Take readings: record dtype, shape (n,); the block's memory may be used again afterwards."""
        run = self.assembly.run
        self._handle(self.assembly.receive(block, origin, now()))
        if self.assembly.run != run:
            self._events.say_seldom(
                f"runs of {self.group.name}",
                "warning",
                f"group {self.group.name}: trigger numbers start again; run {run} ended, run {self.assembly.run} began",
            )
        if self._on_settled and self.assembly.receipts.owes_refusals:
            self._tell_settled()

    def look(self) -> None:
        """Look after the instruments, a few times a second: say which fell silent, and which are out of step."""
        in_hand = self.assembly.in_hand(self.desync.most)
        moment = now().monotonic_ns
        # Whose number falls back or stands still is heard, though nothing of it gets into a trigger.
        self.watch.hear(in_hand.strays["instrument"], moment)
        self.watch.hear(in_hand.doubles["instrument"], moment)
        self.desync.look(in_hand)
        for severity, text in self._announcer.lines(self.desync.findings):
            self._events.say(severity, text)
        for severity, text in self.watch.changes(self.group, moment):
            self._events.say(severity, text)

    def states(self, monotonic_ns: int) -> str:
        """One letter an instrument, in order (see `schemas.api.status.STATE_LETTERS`)."""
        return self.watch.states(monotonic_ns, out_of_step=list(self.desync.findings))

    def drop(self, reason: str, count: int) -> None:
        """Count readings that a source had to throw away."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.dropped_total += count

    def open_run(self) -> int:
        """Begin a new run, as the timing system announced; return its number."""
        self._handle(self.assembly.open_run(now()))
        self._events.say("info", f"group {self.group.name}: run {self.assembly.run} was opened on request")
        return self.assembly.run

    @property
    def has_journal(self) -> bool:
        """Whether senders may ask for `spooled`."""
        return self._keeper is not None

    def connect(self, *, spooled: bool) -> int:
        """Give a sender that wants acknowledgements its column of the receipts; `spooled`: the journal is enough."""
        column = self.assembly.receipts.connect(spooled=spooled)
        self._sync_for_spooled()
        return column

    def disconnect(self, column: int) -> None:
        """Take a sender's column back."""
        self.assembly.receipts.disconnect(column)
        self._sync_for_spooled()

    def _sync_for_spooled(self) -> None:
        if self._keeper is not None:
            self._keeper.sync_at_once(self.assembly.receipts.wants_spooled)

    async def run(self) -> None:
        """Commit until `end`, then until nothing is left."""
        if self._keeper is not None:
            self._keeper.start()
        await self.committer.run()

    def parts(self) -> list[Part]:
        """What has to move while the daemon runs, for the watchdog."""
        group, waiting = self.group.name, self.backlog.waiting.blocks
        deadline = self.assembly.deadline_ns
        is_overdue = deadline is not None and deadline < now().monotonic_ns and not self.is_full
        can_commit = self.backlog.memory_bytes > 0 or (waiting > 0 and self.backlog.problem is None)
        parts = [
            Part(name=f"the closing of triggers of group {group}", steps=deadline or 0, is_busy=is_overdue),
            Part(
                name=f"the committer of group {group}",
                steps=self.committer.steps,
                is_busy=can_commit,
                extra_s=self._attempt_s,
            ),
        ]
        if self._keeper is not None:
            parts.append(self._keeper.part(f"the journal's thread of group {group}"))
        return parts

    async def close(self) -> None:
        """Put what is not committed on the disk, and let go of the journal.

        Raises:
            OSError: the disk failed.
        """
        await self.backlog.close()
        if self._keeper is not None:
            await self._keeper.end()

    def end(self) -> None:
        """Close the open triggers and let `run` return when all is committed."""
        self._disarm()
        self._handle(self.assembly.flush(now()), rearm=False)
        self.backlog.end()

    async def retry(self) -> Outcome:
        """Offer the dead letters to the store again.

        Raises:
            StoreError: the store went away.
            OSError: the disk failed.
        """
        outcome = await self.retrying.round()
        if outcome.committed or outcome.rejected or outcome.unreadable:
            self._events.say(
                "warning" if outcome.rejected or outcome.unreadable else "info",
                f"group {self.group.name}: dead letters were retried on request: {outcome.told}",
            )
        return outcome

    async def discard(self) -> Amount:
        """Throw the dead letters away; raises OSError."""
        gone = await self.dead_letters.discard()
        if gone.blocks:
            self._events.say(
                "warning",
                f"group {self.group.name}: {gone.readings} readings of {gone.triggers} triggers were discarded from the"
                " dead letters on request",
            )
        return gone

    def _handle(self, blocks: Sequence[ClosedBlock], *, rearm: bool = True) -> None:
        if blocks:
            moment = now().monotonic_ns
            for block in blocks:
                self.watch.note(block, moment)
                self.desync.note(block)
            self.backlog.put(blocks)
        if rearm and self._timer is None:
            self._arm()

    def _arm(self) -> None:
        if self.is_full:
            return
        deadline = self.assembly.deadline_ns
        if deadline is not None:
            delay = max(0.0, (deadline - now().monotonic_ns) / 1e9)
            self._timer = asyncio.get_running_loop().call_later(delay, self._close_due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_due(self) -> None:
        self._timer = None
        self._handle(self.assembly.close_due(now()))
        self._tell_settled()

    def _kept(self, kept: Kept) -> None:
        before = self.backlog.problem
        self.backlog.told(kept)
        if (kept.problem is None) != (before is None):
            self._say_journal(kept.problem)
        self.assembly.receipts.spooled(max(0, kept.synced + 1 - self._first - self._settled_blocks))
        self._tell_settled()

    def _say_journal(self, problem: str | None) -> None:
        if problem is None:
            self._events.say("info", f"group {self.group.name}: the journal is written again")
        else:
            self._events.say("error", f"group {self.group.name}: the journal takes nothing: {problem}")

    def _lost(self, amount: Amount) -> None:
        self.lost.change(amount.triggers, amount.readings, amount.blocks)
        self._events.say(
            "error",
            f"group {self.group.name}: {amount.readings} readings in the journal could not be read any more; what was"
            " left of them is in its folder `damaged`",
        )

    def _went_back(self, regained: Amount, gone: Amount, before: int) -> None:
        self.lost.change(gone.triggers, gone.readings, gone.blocks)
        if not regained.readings + gone.readings + before:
            text = f"group {self.group.name}: its position in the database was gone, and is written again"
            self._events.say("warning", text)
            return
        text = f"group {self.group.name}: the database no longer has all that it acknowledged ({self.durability})"
        if regained.readings:
            text += f"; {regained.readings} readings were still in the journal, and are committed again"
        if gone.readings + before:
            text += (
                f"; {gone.readings + before} readings are lost. Was it restored from a copy, or does its disk keep less"
                " than the server believes? See `triggerlog reconcile`"
            )
        self._events.say("error" if gone.readings + before else "warning", text)

    def _settled(self, blocks: int) -> None:
        self._settled_blocks += blocks
        self.assembly.receipts.committed(blocks)
        self._tell_settled()

    def _tell_settled(self) -> None:
        for callback in self._on_settled:
            callback()

    def _full(self, is_full: bool) -> None:
        # While senders are held back nothing can complete a trigger: closing it would call instruments late that
        # are not.
        if is_full:
            self._disarm()
        else:
            self.assembly.restart_timeouts(now())
            self._arm()
        self._say_full(is_full, now().monotonic_ns)
        for callback in self._on_full:
            callback(is_full)

    def _say_full(self, is_full: bool, moment: int) -> None:
        """Say when senders begin to be held back: not many times a second, as with a sender that is always faster."""
        held_ns = moment - self._full_ns
        if is_full and held_ns > QUIET_NS:
            self._events.say("warning", f"group {self.group.name}: the backlog is full, senders are held back")
        elif not is_full and held_ns > LONG_NS:
            self._events.say("info", f"group {self.group.name}: senders were held back for {held_ns / 1e9:.1f} s")
        self._full_ns = moment


def longest_attempt_s(config: Config) -> float:
    """How long a committer may be at one attempt, in s.

    That is a connection and a transaction, each given up after the database's time, and the pause before the next.
    """
    return 2 * config.database.command_timeout_s + config.committer.retry_most_ms / 1e3
