"""The pipeline of one group: its parts, joined in the order of the data's way. Sources put blocks in."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from backends.base import OtherJournal, Store
from daemon.core.monitoring.events import Events
from daemon.core.monitoring.metrics import Latencies
from daemon.core.outside import Clock
from daemon.core.outside.clock import Instant
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.assembly import AssemblyCounts, Joined, Origin, Runs
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.closing_timer import ClosingTimer
from daemon.pipeline.committer import Committer
from daemon.pipeline.construction import assembly_of, max_memory
from daemon.pipeline.dropped import DroppedPeriods
from daemon.pipeline.figures import PipelineFigures, figures_of
from daemon.pipeline.files import Amount
from daemon.pipeline.instruments import Instruments
from daemon.pipeline.letters_on_request import LettersOnRequest
from daemon.pipeline.log import Kept
from daemon.pipeline.losses import Losses
from daemon.pipeline.recovery import InStore, Recalled, RecoveredGroup, recall
from schemas.api.status import BRIEF_RUNS_MOST
from schemas.batch import ClosedBlock, Durability, JournalPosition, Layout
from schemas.config import Config
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Period

LOOK_AT_REST_NS = 1_000_000_000
"""Time between two looks at the instruments of a group of which nothing came meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Behind:
    """A loss of a database, in readings of this logger's account.

    at_start: what it had when this process began. reached: what it was found to have at most. found: what it has.
    """

    at_start: int
    reached: int
    found: int

    @property
    def readings(self) -> int:
        """All that it lost."""
        return max(0, self.reached - self.found)

    @property
    def before(self) -> int:
        """Return what of it earlier processes had committed."""
        return min(self.readings, max(0, self.at_start - self.found))


class Pipeline:
    """One group on its way from block to commit.

    Everything but `run`, `begin_again` and `close` is called on the event loop and returns at once.

    availability_changed: called when the store goes away or comes back, as commits show it.
    superseded: called when the store is at the position of another journal: this process can commit nothing more.
    kept: the log that has all that comes, until the database does; None where none is kept. losses: those before it.
    instruments: how each instrument is. letters: its dead letters, as operators deal with them. dropped: what of the
    group was dropped by retention. heard_s: when an earlier process heard a session last, UTC; 0 where none is known.
    begins_again: whether it has forgotten what came, and reads it from the log. lost_of: by session, from which number
    to which the database had its readings, and has lost them.
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
        recovered: RecoveredGroup,
        events: Events,
        clock: Clock,
        availability_changed: Callable[[], None] = lambda: None,
        superseded: Callable[[OtherJournal], None] = lambda error: None,
        kept: Kept | None = None,
        losses: Losses | None = None,
    ) -> None:
        self.group = group
        self._config = config
        self._clock = clock
        self._now = clock.now
        self._runs = runs
        self._kept = kept
        self.layout = layout
        self.durability = durability
        self.instruments = Instruments(group, config.alarms, events)
        self._announcements = Announcements(group.name, events, reports=group.reports)
        self._announcements.remember(recovered.recalled.history)
        self.heard_s = int(recovered.recalled.state.sessions["seen_s"].max(initial=0))
        self._losses = losses or Losses()
        if recovered.lost:
            self.note_lost(recovered.lost, "database")
            self._announcements.lost_at_start()
        self.lost = Amount()  # committed by this process, and nowhere any more
        self.lost_of: Mapping[int, tuple[int, int]] = {}
        self._behind: Behind | None = None
        self._came_again: tuple[int, int] | None = None  # readings, and the block by which the database has them
        self._doubles_before = 0  # that were placed before
        self._is_live = False  # all that came before has gone through
        self.has_ended = self.begins_again = False
        self._carried, self._again = AssemblyCounts(), AssemblyCounts()  # counted before; of that, again
        self._is_known = False  # what goes through was counted before
        self._holds_back = False
        self._has_moved, self._looked_ns = True, 0
        self._on_settled: list[Callable[[], None]] = []
        self._on_full: list[Callable[[bool], None]] = []
        self._dead_letters = recovered.dead_letters
        writing = asyncio.Lock()
        self.letters = LettersOnRequest(
            store,
            group,
            recovered.dead_letters,
            writing,
            self._announcements,
            lost=lambda readings: self.note_lost(readings, "database"),
        )
        self.dropped = DroppedPeriods((each.period for each in recovered.dropped), recovered.reduced)
        self._make(recovered.recalled, after=recovered.position.sequence)
        self._committer = Committer(
            store,
            group,
            durability=durability,
            config=config,
            clock=clock,
            backlog=self._backlog,
            dead_letters=recovered.dead_letters,
            announcements=self._announcements,
            settled=self._settled,
            availability_changed=availability_changed,
            superseded=superseded,
            acknowledged=(lambda position: None) if kept is None else kept.note_acknowledged,
            placed=self._note_placed,
            found=recovered.position,
            journal=recovered.id,
            formerly=recovered.formerly,
            formerly_upto=recovered.position.sequence,
            writing=writing,
            dropped=self.dropped,
        )

    def _make(self, recalled: Recalled, *, after: int) -> None:
        """Make what begins again: assembly, and the backlog, whose first block has the number behind `after`."""
        pinned = () if self._kept is None else self._kept.stretches
        self._assembly = assembly_of(self.group, self._config, self._runs, recalled, pinned)
        self._backlog = Backlog(
            after=after,
            state=recalled.state,
            clock=self._clock,
            max_memory=max_memory(self._config),
            has_log=self._kept is not None,
            full=self._full,
        )
        self._timer = ClosingTimer(self._now, self._assembly, lambda: self._holds_back, self._close_due)

    @fail_stop()
    def change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs."""
        self._config = config
        self._committer.change(config)
        self.instruments.change(config.alarms)
        self._backlog.change_limit(max_memory(config))
        self._assembly.change_timeout(int(config.assembly.timeout_ms * 1e6))
        self._timer.arm_again()

    @fail_stop()
    async def run(self) -> bool:
        """Commit until `end`, then until nothing is left; return True where it has to begin again with the log."""
        while await self._committer.run():
            if self._kept is not None:
                self._holds_back = True  # nothing more is to be closed here: the log gives all of it again
                self._timer.disarm()
                return not self.has_ended
            await self._go_on_without_log()
        return False

    async def _go_on_without_log(self) -> None:
        found, is_alone = await self._committer.find()
        behind = None if is_alone else self._behind_of(found)
        if is_alone:
            self._announcements.position_gone()
        self._committer.account.go_back(found, is_alone=is_alone)
        self._committer.go_on_without_log()
        self._behind = behind
        self.note_came_again(0)

    @fail_stop()
    def begin_again(self, in_store: InStore) -> None:
        """Forget what has come by now: the log has it, and the database is where it says. It is read from now on."""
        self._timer.disarm()
        found = in_store.position
        self._carried, self._is_known, self._again = self._counts(), True, AssemblyCounts()
        is_alone = not found.sequence and len(in_store.tail) > 0
        recalled = recall(in_store, self.group, self._config, self._dead_letters)
        self._note_lost_of(recalled)
        if is_alone:
            self._announcements.position_gone()
        else:
            self._note_behind(self._behind_of(found))
        self._committer.account.go_back(found, is_alone=is_alone)
        self._is_live, self.begins_again = False, True
        self._make(recalled, after=max(self._backlog.last, found.sequence))
        self._holds_back = False
        self._committer.go_on_with(self._backlog, found)
        self._came_again, self._doubles_before = None, self._committer.counts.placed_doubles

    def _note_lost_of(self, recalled: Recalled) -> None:
        there = {int(row["session"]): int(row["settled"]) for row in recalled.state.sessions}
        had = {session: upto for session, (_, upto) in self.lost_of.items()}  # where it has not come again by now
        for session, upto in self._assembly.sessions.committed().items():
            had[session] = max(upto, had.get(session, 0))
        self.lost_of = {session: (there.get(session, 0), upto) for session, upto in had.items()}

    def _behind_of(self, found: JournalPosition) -> "Behind":
        account, known = self._committer.account, self._behind
        at_start = account.at_start.readings if known is None else known.at_start
        reached = max(account.acknowledged.readings, 0 if known is None else known.reached)
        return Behind(at_start=at_start, reached=reached, found=found.readings)

    def _note_behind(self, behind: "Behind") -> None:
        if not behind.readings:
            return
        self._announcements.commits_lost(self.durability)
        # What comes again of earlier processes comes in, as far as this one is concerned.
        self._change_received(max(0, behind.before - (0 if self._behind is None else self._behind.before)))
        self._behind = behind

    def note_came_again(self, readings: int) -> None:
        """So many readings that the database had lost came from the log again; the others are lost.

        The log has let go of the oldest.
        """
        self._came_again = readings, self._backlog.last
        self._see_came_again()

    def _see_came_again(self) -> None:
        """Tell what is lost, at most, as soon as the database has said of all that came again whether it had it."""
        if self._came_again is None or not self._backlog.has_settled(self._came_again[1]):
            return
        doubles = max(0, self._committer.counts.placed_doubles - self._doubles_before)
        readings = max(0, self._came_again[0] - doubles)
        behind, self._behind, self._came_again, self.lost_of = self._behind, None, None, {}
        if behind is None or readings >= behind.readings:
            return
        lost = behind.readings - readings
        before = min(lost, behind.before)
        self.lost.change(0, lost - before, 0)
        if before:
            self.note_lost(before, "database")
            if self._kept is not None:
                self._change_received(-before)
        self._announcements.readings_lost(self.durability, lost)

    def _change_received(self, readings: int) -> None:
        self._carried.received += readings
        self._carried.accepted += readings

    def go_beyond_known(self) -> None:
        """Return what goes through from now on was not counted before."""
        if self._is_known:
            self._again, self._is_known = self._assembly.counts.copy(), False

    @fail_stop()
    def end(self) -> None:
        """Close the open triggers and let `run` return when all is committed.

        What was only read in part the next start reads from the log.
        """
        self._timer.disarm()
        if self._is_live:
            self._handle(self._assembly.flush(self._now()), rearm=False)
        self.has_ended = True
        self._backlog.end()

    @fail_stop()
    async def close(self, within_s: float) -> None:
        """Report what is left; within_s: for how long `run` was waited for."""
        await self.letters.end()
        is_safe = self._kept is not None and self._kept.state.problem is None
        self._announcements.left(self.waiting.readings, within_s, in_journal=is_safe)

    # --- for the intake, and for sources by way of it -----------------------------------------------------------

    def receive(self, block: Array, origin: Origin | None = None, moment: Instant | None = None) -> None:
        """Take readings: record dtype, shape (n,); the block's memory may be used again afterwards.

        moment: when they came; now if it is not given.
        """
        run = self._assembly.run
        self._handle(self._assembly.receive(block, origin, self._now() if moment is None else moment))
        if self._assembly.run != run and not self._is_known:
            self._announcements.run_restarted(run, self._assembly.run)
            if self._assembly.brief_runs >= BRIEF_RUNS_MOST:
                self._announcements.epochs_change()
        if self._on_settled and self._assembly.receipts.owes_refusals:
            self._report_settled()

    def receive_kept(self, block: Array, origin: Origin, moment: Instant) -> None:
        """Take readings that the log kept, and may have acknowledged: none of them is refused for room."""
        self._assembly.receipts.promise(origin)
        self.receive(block, origin, moment)

    def came_beyond(self, session: int, first: int, upto: int) -> None:
        """Take note of readings taken by `take_readings_again` with numbers beyond a gap in their session."""
        self._assembly.sessions.came_beyond(session, first, upto)

    def doubt(self, origin: Origin) -> None:
        """Let no number prove that these readings did not come before."""
        self._assembly.sessions.doubt(origin)

    def take_readings_again(self, readings: Array, origin: Origin, moment: Instant, *, own: Origin) -> None:
        """Take readings of which nothing but they themselves tells whether they came before; see `receive`.

        origin: whose they are; their sender may send them again, and is acknowledged nothing here. own: the numbers by
            which they are followed until closed blocks have them.
        """
        self._assembly.sessions.doubt(origin)
        self._assembly.receipts.promise(own)
        self._handle(self._assembly.take_again(readings, moment, own))

    def end_taking_again(self) -> None:
        """All that came before has been taken: what comes now, and does not fit into memory, the log has."""
        self._assembly.end_taking_again(self._now())
        self._is_live = True
        self._backlog.forget_what_does_not_fit()
        if self._kept is not None:
            self.hold_back(self._kept.is_full)

    @property
    def wanted(self) -> int:
        """How many readings the fullest open trigger still lacks: with fewer, nothing can become complete."""
        return self._assembly.wanted

    @property
    def is_full(self) -> bool:
        """Tell whether the backlog is at its limit, so that nothing more should come in."""
        return self._holds_back

    @property
    def has_log(self) -> bool:
        """Tell whether what comes is kept until the database has it."""
        return self._kept is not None

    def subscribe(self, *, settled: Callable[[], None], full: Callable[[bool], None]) -> None:
        """Call `settled` when acknowledgements may have moved on, `full` when backpressure begins (True) or ends."""
        self._on_settled.append(settled)
        self._on_full.append(full)

    def hear(self, instruments: Array) -> None:
        """Take note of instruments, by number, whose readings only the log has by now: shape (n,)."""
        self._has_moved = True
        self.instruments.hear(instruments[instruments < self.group.size], self._now().monotonic_ns)

    def hold_back(self, is_held: bool) -> None:
        """Nothing may come, or all may again.

        Meanwhile nothing can complete a trigger: closing it would call instruments late that are not. But where nothing
        waits for the database, what is open is what the log is full of, and has to close.
        """
        is_held = is_held and not self._is_full_of_open
        was_held, self._holds_back = self._holds_back, is_held
        if is_held:
            self._timer.disarm()
        elif was_held:
            self._assembly.restart_timeouts(self._now())
            self._timer.arm()

    def note_lost(self, readings: int, reason: str) -> None:
        """Count readings that are proven lost before they came, or before this process began."""
        self._losses.lose(readings, reason, self._now())

    def connect(
        self, *, session: int | None = None, first: int = 0, upto: int | None = None, is_named: bool = True
    ) -> Joined:
        """Let a sender that wants acknowledgements begin, or go on with its session.

        session: `schemas.sessions.session_key`; first: the number of the first reading that the sender still has; upto:
        that of the first one that it has not sent yet, if it says so; is_named: see `Sessions.connect`.

        Raises:
            ProtocolError: there are too many sessions.
        """
        joined = self._assembly.sessions.connect(session, first=first, upto=upto, now=self._now(), is_named=is_named)
        if joined.lost:
            self.note_lost(joined.lost, "sender")
            self._announcements.lost_by_sender(joined.lost)
        return joined

    def skip_lost(self, session: int, first: int) -> None:
        """Go on with this number of a connected session, or with an earlier one: behind what the database lost."""
        _, had = self.lost_of.get(session, (0, 0))
        if (upto := min(first, had)) > self.known(session):
            self._assembly.sessions.connect(session, first=upto, now=self._now())

    def known(self, session: int) -> int:
        """All readings of a session with lower numbers came, and were sent: 0 of one that is unknown."""
        return self._assembly.sessions.known(session)

    def keeps(self, column: int, after: int | None) -> None:
        """Let the log be enough for a sender, or not; see `Receipts.keeps`."""
        self._assembly.receipts.keeps(column, after)

    def kept(self, column: int, upto: int) -> None:
        """Take note of how far the log has a sender's readings on the disk."""
        self._assembly.receipts.kept(column, upto)

    def refused_below(self, column: int, number: int) -> int:
        """Return how many readings of a connection below a number were refused; see `Receipts`."""
        return self._assembly.receipts.refused_below(column, number)

    @property
    def doubles(self) -> int:
        """Readings that were found to be there already, since it began."""
        return self._assembly.counts.duplicate

    def come(self, columns: Array) -> Array:
        """The number after the last reading received of each of these columns: int64, shape (columns,)."""
        return np.asarray(self._assembly.receipts.come()[columns])

    def have_closed(self, upto: dict[int, int]) -> bool:
        """Whether closed blocks say of these sessions that all below these numbers is settled."""
        return self._assembly.sessions.have_said(upto)

    @property
    def last_block(self) -> int:
        """The number of the last closed block."""
        return self._backlog.last

    @property
    def safe_upto(self) -> int:
        """The closed blocks up to this number are in the database, where it cannot lose them."""
        return self._backlog.safe_upto

    def disconnect(self, column: int, *, ended: bool = False) -> None:
        """Take note that a sender is gone; ended: it said goodbye, and everything of it is acknowledged."""
        self._assembly.sessions.disconnect(column, ended=ended)

    def acknowledged(self) -> tuple[Array, Array]:
        """Up to which number each column is settled, and how many of these were refused; see `Receipts`."""
        return self._assembly.receipts.acknowledged()

    # --- for the operator ---------------------------------------------------------------------------------------

    @fail_stop()
    def look(self) -> None:
        """Look after the instruments, a few times a second: report which fell silent, and which are out of step."""
        now = self._now()
        if not self._has_moved and now.monotonic_ns < self._looked_ns + LOOK_AT_REST_NS:
            return
        self._has_moved, self._looked_ns = False, now.monotonic_ns
        self.instruments.look(self._assembly.in_hand(self.instruments.in_hand_most), now.monotonic_ns)
        self._handle(self._assembly.tell_sessions(now), has_moved=False)
        self._assembly.sessions.tidy(now)
        is_full = self._dead_letters.room <= 0
        self._assembly.let_set_aside(not is_full)
        counts = self._counts()
        self._announcements.no_room_aside(counts.refused.get("no_room_aside", 0), is_full=is_full)
        self._losses.note_skipped(counts.skipped, now)

    def ended(self, epoch: int) -> int | None:
        """The run of an epoch that is over: it can be announced no more. None of any other."""
        return self._assembly.ended(epoch)

    @property
    def begun(self) -> int:
        """The newest run that has a trigger; 0 where there is none."""
        return self._assembly.begun

    @fail_stop()
    def announce_run(self, epoch: int) -> int | None:
        """The timing system was restarted, and has this epoch now; 0 where nobody knows it.

        Returns the new run's number, None where it begins later.
        """
        run, blocks = self._assembly.announce(epoch, self._now())
        self._handle(blocks)
        self._announcements.run_announced(run, epoch)
        return run

    @fail_stop()
    def note_risk(self, risk_ms: float) -> None:
        """Take note of how young an acknowledged reading may be, in ms, and still be lost with the server."""
        self._committer.note_risk(risk_ms)

    def note_problem(self, problem: str) -> None:
        """Take note of why the database could not be asked what it has."""
        self._committer.attempts.note(problem)

    @property
    def waiting(self) -> Amount:
        """Return what is closed and not committed yet, in memory or in the log alone."""
        return self._backlog.waiting

    def waits_for(self, period: Period) -> bool:
        """Whether something waits for the database that is of a period, or may be."""
        return self._backlog.waits_for(period)

    @property
    def latencies(self) -> Latencies:
        """From a trigger's closing to the store's acknowledgement."""
        return self._committer.latencies

    def figures(self) -> PipelineFigures:
        """All counts and amounts as they are now."""
        figures = figures_of(
            self._assembly,
            self._backlog,
            self._committer,
            self._dead_letters,
            counts=self._counts(),
            log=None if self._kept is None else self._kept.state,
            losses=self._losses,
            lost=replace(self.lost),
            is_full=self._holds_back if self._kept is None else self._kept.is_full,
            retried=self.letters.readings,
            now=self._now(),
        )
        # What was counted before, and has not gone through again, waits in the log.
        return figures.with_waiting(max(0, figures.unaccounted)) if self._is_known else figures

    def _counts(self) -> AssemblyCounts:
        """Return what came of all readings since the start; what the log gave once more counts once."""
        if self._is_known:
            return self._carried.copy()
        return self._carried.plus(self._assembly.counts).less(self._again)

    def parts(self) -> list[Part]:
        """What has to move while the daemon runs, for the watchdog."""
        group = self.group.name
        return [
            self._timer.part(f"the closing of triggers of group {group}"),
            self._committer.part(f"the committer of group {group}"),
        ]

    # --- from part to part --------------------------------------------------------------------------------------

    def _handle(self, blocks: Sequence[ClosedBlock], *, rearm: bool = True, has_moved: bool = True) -> None:
        self._has_moved |= has_moved or bool(blocks)
        if blocks:
            if not self._is_known:
                self.instruments.note(blocks, self._now().monotonic_ns)
                for block in blocks:
                    self._announcements.closed(block.ledger)
            self._backlog.put(blocks, is_fresh=self._is_live)
        if rearm:
            self._timer.arm()

    def _close_due(self) -> None:
        self._handle(self._assembly.close_due(self._now()))
        self._report_settled()

    def _note_placed(self, run: int, triggers: Array) -> int:
        return self._assembly.note_placed(run, triggers)

    @property
    def _is_full_of_open(self) -> bool:
        return self._kept is not None and self._is_live and not self._backlog.has_work and not self._backlog.is_behind

    def _settled(self, blocks: int) -> None:
        self._assembly.receipts.committed(blocks)
        self._see_came_again()
        if self._holds_back and self._is_full_of_open:
            self.hold_back(False)
        self._report_settled()

    def _report_settled(self) -> None:
        for callback in self._on_settled:
            callback()

    def _full(self, is_full: bool) -> None:
        # With a log nobody is held back by memory, but who reads the log.
        if self._kept is not None and self._is_live:
            return
        self.hold_back(is_full)
        if self._kept is None:
            self._announcements.backpressure(is_full)
        for callback in self._on_full:
            callback(is_full)
