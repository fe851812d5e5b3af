"""The place where sources put readings in: the log, and the pipeline as soon as that has all that came before."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from daemon.core.monitoring.events import Events
from daemon.core.outside import Clock
from daemon.core.outside.clock import Instant
from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.assembly import MOST_SESSIONS, Joined, Origin
from daemon.pipeline.intake.connections import NOBODY, Columns, Subscriber
from daemon.pipeline.intake.receipt_times import ReceiptTimes
from daemon.pipeline.intake.replay import CatchingUp, Replay
from daemon.pipeline.intake.streams import Stream, Streams
from daemon.pipeline.log import (
    RUN,
    Kept,
    Log,
    LogFound,
    LogKeeper,
    LogState,
    RunKind,
    Stretches,
)
from daemon.pipeline.losses import Losses
from daemon.pipeline.pipeline import Pipeline
from schemas.batch import JournalPosition
from schemas.config import Config
from schemas.readings import Array, InstrumentGroup
from schemas.sessions import is_private
from schemas.wire import Ack, ErrorCode, ProtocolError

RECORD_BYTES = 2**20
"""Bytes of readings that a record has at most: it is written, and let go of, as a whole."""

LOOK_EVERY_NS = 50_000_000
"""Time between two looks at what the database has by now, and the log lets go of: each goes through all sessions."""


class Intake:
    """One group's way in, from the start of the daemon on.

    Everything but `catch_up` and `end` is called on the event loop and returns at once.

    log: opened, with what was `found` in it; None where none is kept: then nothing may come before `catch_up`.
    connections: for sources: which connection has each session, by `schemas.sessions.session_key`; a newer one takes
    the place of the older, whichever source it comes in by.
    """

    def __init__(
        self,
        group: InstrumentGroup,
        *,
        log: Log | None = None,
        found: LogFound | None = None,
        clock: Clock,
        rng: random.Random,
        events: Events,
    ) -> None:
        self.group = group
        self.connections: dict[int, Any] = {}
        self.waiting = 0  # readings that came before there was a pipeline
        self.refused: str | None = None  # why nothing is taken: the database refuses the group as it is configured
        self.found_readings = 0 if found is None else found.readings
        self._now = clock.now
        self._clock = clock
        self._events = events
        self._announcements = Announcements(group.name, events)
        self._pipeline: Pipeline | None = None  # once it has all that came before
        self._reading: Pipeline | None = None  # it is being given what came before
        self._counting: Pipeline | None = None  # it has the figures
        self.log = log
        self._keeper = None if log is None else LogKeeper(log, self._on_log)
        self._nobody = NOBODY  # the pipeline's column for readings for which nobody waits
        found_upto = 0 if log is None else log.next - 1
        self.stretches = Stretches(() if found is None else found.sessions, found_upto)
        self._streams = Streams(self.stretches, rng)
        self._columns = Columns(self._streams.nobody)
        self._times = ReceiptTimes(ascend=group.reports)
        self._times.begin_after(0 if found is None else found.newest_ns)
        self._catching_up = CatchingUp(
            group.name,
            self._keeper,
            events,
            found_upto=found_upto,
            doubtful_upto=0 if found is None else found.doubtful_upto,
        )
        self._done = np.zeros(0, np.int64)  # by column, before there is a pipeline
        self._subscribers: list[Subscriber] = []
        self.losses = Losses()
        self._is_full = False
        self._looked_ns = 0
        self._problem: str | None = None

    def start(self) -> None:
        """Let the log be written from now on."""
        if self._keeper is not None:
            self._keeper.start()

    @fail_stop()
    def change(self, config: Config) -> None:
        """Take over what of a configuration can change while the daemon runs."""
        if self._keeper is not None:
            journal = config.journal
            self._keeper.change_limits(max_bytes=journal.max_bytes, segment_bytes=journal.segment_bytes)

    async def end(self) -> None:
        """Put on the disk what came, and report what could not be kept; nothing comes any more."""
        self.look()  # what is in no log does not keep the next start from another layout of the group
        if self._keeper is not None:
            await self._keeper.end()
        if self._counting is None:
            self._announcements.never_counted(self.losses, self.unsynced)
        elif self.unsynced:
            self._announcements.left_unwritten(self.unsynced)

    # --- for sources --------------------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell a source from now on what happens."""
        self._subscribers.append(subscriber)

    @property
    def as_kept(self) -> Kept | None:
        """The log, for a pipeline; None where none is kept."""
        return None if self._keeper is None else self

    @property
    def state(self) -> LogState:
        """Return how far the log is; there has to be one."""
        assert self._keeper is not None
        return self._keeper.state

    def note_acknowledged(self, position: JournalPosition) -> None:
        """The database acknowledged a commit at this position."""
        if self._keeper is not None:
            self._keeper.note_acknowledged(position)

    @property
    def has_log(self) -> bool:
        """Tell whether senders may ask for `received`."""
        return self._keeper is not None

    @property
    def is_full(self) -> bool:
        """Whether sources have to hold back."""
        return self._is_full

    @property
    def wanted(self) -> int:
        """With fewer readings than this nothing can become complete."""
        return self.group.size if self._pipeline is None else self._pipeline.wanted

    @property
    def kept(self) -> int:
        """Readings that the log has for the database, before there is a pipeline."""
        return self.found_readings + self.waiting

    def refuse(self, problem: str | None) -> None:
        """Take nothing more, for a reason, or again: the database would never have what comes. What is kept stays."""
        self.refused = problem
        if problem is not None:
            for subscriber in self._subscribers:
                subscriber.refused()

    def drop(self, reason: str, count: int) -> None:
        """Count readings that a source had to throw away."""
        if self._counting is None and reason not in self.losses.dropped:
            self._announcements.refused_early(reason)
        self.losses.drop(reason, count)

    def note_lost(self, readings: int, reason: str) -> None:
        """Count readings that are proven lost on their way here."""
        self.losses.lose(readings, reason, self._now())

    def receive(self, block: Array, origin: Origin | None = None) -> None:
        """Take readings: record dtype, shape (n,); the block's memory may be used again afterwards.

        A timestamp of 0 is replaced by the time of receipt, in place.
        """
        if self.refused is not None:
            # A sender that waits for acknowledgements still has them.
            self.drop("configuration", len(block) if origin is None else int((origin.column < 0).sum()))
            return
        now = self._times.give(block["time_ns"], self._now())
        columns = self._columns
        if self._keeper is not None:
            origin = self._with_nobody(origin, len(block))
        if origin is not None and columns.settled_upto:
            block, origin = columns.without_settled(block, origin)
        if self._keeper is not None and origin is not None:
            self._keep(block, origin, now)
        if self._pipeline is not None:
            self._pipeline.receive(block, origin, now)
            return
        self.waiting += len(block)
        if self._counting is not None:
            self._counting.hear(block["instrument"])

    def _with_nobody(self, origin: Origin | None, readings: int) -> Origin:
        """Give readings for which nobody waits their own column: the log has to know when the database has them."""
        if origin is None:
            origin = Origin.of(NOBODY, 0, readings)
        is_nobody = origin.column == NOBODY
        if is_nobody.any():
            sequence = self._streams.number_nobody(origin.sequence, is_nobody)
            origin = Origin(np.where(is_nobody, np.int32(self._nobody), origin.column), sequence)
        return origin

    def connect(self, *, ack: Ack, session: int | None = None, first: int = 0, upto: int | None = None) -> Joined:
        """Let a sender that wants acknowledgements begin, or go on with its session.

        session: `schemas.sessions.session_key`; first: the number of the first reading that the sender still has; upto:
        that of the first one that it has not sent yet, if it says so.

        A sender without a session counts from 0, and here from what it resumes at.

        Raises:
            ProtocolError: there are too many sessions, or more came of this one than its sender says it sent.
        """
        if session is not None and upto is not None:
            self._see_sent(session, upto)
        key = session
        if key is None and self._keeper is not None:
            key, first = self._streams.take_private()
        if self._pipeline is None:
            assert key is not None
            return self._join(key, ack, first, upto)
        is_named = session is not None or ack is not Ack.COMMITTED
        joined = self._pipeline.connect(session=key, first=first, upto=upto, is_named=is_named)
        if self._keeper is None or key is None:
            self._columns.note(joined.column, 0, ack)
            return joined
        stream = self._streams.by_session.get(key)
        if stream is None or self._streams.next[key] != joined.resume:
            before = 0 if joined.resume == first else joined.resume
            self._streams.begin(key, Stream(before, joined.resume, joined.resume), joined.resume)
        self._let_keep(self._pipeline, joined.column, key, ack)
        self._put_run(key, first, RunKind.JOINED)
        return joined

    def _let_keep(self, pipeline: Pipeline, column: int, key: int, ack: Ack) -> None:
        """Note a connection, for which the log is enough where its sender wants no more."""
        stream = self._streams.by_session[key]
        self._columns.note(column, key, ack)
        pipeline.keeps(column, None if ack is Ack.COMMITTED else stream.before)
        pipeline.kept(column, stream.synced)

    def _see_sent(self, session: int, upto: int) -> None:
        if self._pipeline is not None:
            known = self._pipeline.known(session)
        elif session in self._streams.by_session:
            known = self._streams.next[session]
        else:
            known = 0
        if upto < known:
            raise ProtocolError(
                ErrorCode.BAD_GREETING,
                f"records below {known} of this session have come, and next={upto} says that they were never sent;"
                " begin another session: two senders must not have the same name and session",
            )

    def disconnect(self, column: int, *, ended: bool = False) -> None:
        """Take note that a sender is gone; ended: it said goodbye, and everything of it is acknowledged."""
        key = int(self._columns.keys[column])
        is_over = ended or is_private(key)
        if key and is_over:
            self._put_run(key, 0, RunKind.ENDED)
            if is_private(key):
                self._streams.leave_private(key)
            else:
                self._streams.forget_session(key)
        self._columns.forget(column)
        if self._pipeline is not None:
            self._pipeline.disconnect(column, ended=is_over)

    def acknowledged(self) -> tuple[Array, Array]:
        """Up to which number each column is settled, and how many of these were refused; see `Receipts`."""
        if self._pipeline is None:
            done, refused = self._done.copy(), np.zeros_like(self._done)
        else:
            done, refused = self._pipeline.acknowledged()
        if self._columns.refused_before:
            refused = refused.copy()
            for column, count in self._columns.refused_before.items():
                refused[column] += count
        return done, refused

    # --- before there is a pipeline -----------------------------------------------------------------------------

    def _join(self, key: int, ack: Ack, first: int, upto: int | None) -> Joined:
        """Begin, or go on, without knowing what came before this process: it is sent once more, and found out later."""
        if key not in self.stretches and self.stretches.count(private=is_private(key)) >= MOST_SESSIONS:
            which = "connections without a session" if is_private(key) else "sessions"
            raise ProtocolError(
                ErrorCode.TOO_MANY_CONNECTIONS,
                f"{MOST_SESSIONS} {which} of this group wait for the database, and no more are taken; connect again"
                " when it is there",
            )
        stream = self._streams.by_session.get(key)
        if stream is None or not stream.first <= first <= self._streams.next[key]:
            stream = self._streams.begin(key, Stream(0, first, first), first)
        column = self._columns.free()
        self._columns.note(column, key, ack)
        self._done = np.pad(self._done, (0, max(0, len(self._columns.keys) - 1 - len(self._done))))
        self._done[column] = first if ack is Ack.COMMITTED else stream.synced
        if upto is not None:
            self._put_run(key, upto, RunKind.SENT)
        self._put_run(key, first, RunKind.JOINED)
        return Joined(column=column, resume=self._streams.next[key])

    # --- the log ------------------------------------------------------------------------------------------------

    def _keep(self, block: Array, origin: Origin, now: Instant) -> None:
        keys = self._columns.keys[origin.column]
        most = max(1, RECORD_BYTES // block.itemsize)
        for start in range(0, len(block), most):
            part = slice(start, start + most)
            runs = self._streams.runs_of(keys[part], origin.sequence[part])
            upto = dict(zip(runs["session"].tolist(), (runs["first"] + runs["count"]).tolist(), strict=True))
            self._put(runs, upto, block[part].copy(), now)

    def _put_run(self, key: int, first: int, kind: RunKind) -> None:
        runs = np.array([(key, first, 0, kind)], RUN)
        self._put(runs, {key: 0}, np.empty(0, self.group.record), self._now())

    def _put(self, runs: Array, upto: Mapping[int, int], readings: Array, now: Instant) -> None:
        assert self._keeper is not None
        number = self._keeper.put(now.utc_ns, runs, readings, at_once=bool(self._columns.of))
        self.stretches.add(number, upto, now.monotonic_ns / 1e9, readings.nbytes)
        self._streams.put(number, len(readings), upto)
        self._look_full()

    def _on_log(self, state: LogState) -> None:
        for key in self._streams.sync(state.synced) & self._columns.of.keys():
            column, synced = self._columns.of[key], self._streams.by_session[key].synced
            if self._pipeline is None:
                self._done[column] = synced
            else:
                self._pipeline.kept(column, synced)
        self.stretches.gone(state.gone, tried=state.tried, skipped=state.skipped)
        self._streams.forget_left()
        self._note_problem(state.problem)
        self._look_full()
        self._settled()

    def _note_problem(self, problem: str | None) -> None:
        if problem != self._problem:
            self._problem = problem
            if problem is None:
                self._events.info(f"group {self.group.name}: the journal is in order again")
            else:
                self._events.error(
                    f"group {self.group.name}: {problem}; it is tried again each second. Until it is in order,"
                    " readings are acknowledged when they are committed"
                )

    @fail_stop()
    def look(self) -> None:
        """Let go of what is safe elsewhere, a few times a second."""
        closing = self._pipeline or self._reading
        if closing is not None and self._keeper is not None:
            safe = self.stretches.safe(closing)
            if safe:
                self._keeper.trim(safe)
                self._streams.forget(safe, self._columns.connected)
                self._look_full()

    # --- the pipeline -------------------------------------------------------------------------------------------

    async def doubt(self, *, waits: bool = True) -> None:
        """What the log holds may have been taken for lost, here or by another daemon: note that before it is committed.

        It counts as settled in the database then, and yet goes through assembly. Takes as long as the disk does, unless
        it is not to wait; see `CatchingUp.doubt`.
        """
        await self._catching_up.doubt(waits=waits)

    @fail_stop()
    async def catch_up(self, pipeline: Pipeline, announced: AnnouncedRuns) -> None:
        """Give a pipeline what the log holds, each restart that was announced in its place, and then what comes."""
        self._reading = pipeline
        announced.begin(self.group.name, pipeline.begun)
        replay = Replay(pipeline, self._clock, self.stretches, self._catching_up, own=self._streams.private())
        self._times.begin_after((pipeline.heard_s + 1) * 1_000_000_000 - 1)
        self._pipeline_full(pipeline.is_full)
        await self._catching_up.put_through(replay, pipeline, announced)
        for subscriber in self._subscribers:
            subscriber.flush()
        self._catching_up.put_rest(replay, pipeline)
        self._open(pipeline, replay)

    def _open(self, pipeline: Pipeline, replay: Replay) -> None:
        """Let the connections go on with the pipeline's columns."""
        columns, before = {}, self._columns
        self._columns = Columns(nobody=0)
        for column, ack in before.acks.items():
            key = int(before.keys[column])
            stream, following = self._streams.by_session[key], self._streams.next[key]
            replay.columns.pop(key, None)
            is_named = not is_private(key) or ack is not Ack.COMMITTED
            joined = pipeline.connect(session=key, first=following, is_named=is_named)
            columns[column] = joined.column
            if joined.resume > following:
                # What lies between came in an earlier process, which may not have synced it; its copy is not kept.
                self._columns.settled_upto[joined.column] = stream.before = joined.resume
            self._let_keep(pipeline, joined.column, key, ack)
            if column in before.refused_before:
                # Those were told; of these some were refused again just now.
                again = pipeline.refused_below(joined.column, int(self._done[column]))
                self._columns.refused_before[joined.column] = before.refused_before[column] - again
        if self._keeper is not None:
            replay.columns.pop(self._streams.nobody, None)
            first = self._streams.nobody_next
            self._nobody = pipeline.connect(session=self._streams.nobody, first=first, is_named=False).column
            self._columns.set_key(self._nobody, self._streams.nobody)
        pipeline.end_taking_again()
        for key, column in replay.columns.items():
            pipeline.disconnect(column, ended=is_private(key))
        pipeline.note_came_again(replay.came_again)
        self.stretches.end_reading()
        self._pipeline, self._reading, self.waiting = pipeline, None, 0
        if replay.readings:
            self._events.info(
                f"group {self.group.name}: {replay.readings} readings of the journal went through assembly again"
            )
        for subscriber in self._subscribers:
            subscriber.moved(columns)
        self._pipeline_full(pipeline.is_full)
        self._settled()  # what was committed while the log went through was told to nobody

    def subscribe_to(self, pipeline: Pipeline) -> None:
        """Let a pipeline tell what happens, and whether it has room; it counts from now on what goes no further."""
        self._counting = pipeline
        pipeline.subscribe(settled=self._pipeline_settled, full=self._pipeline_full)

    async def begin_again(self) -> None:
        """Take what comes into the log alone: the pipeline begins again with all that the log holds."""
        keeper, pipeline = self._keeper, self._pipeline
        assert keeper is not None
        if pipeline is not None:
            for subscriber in self._subscribers:
                subscriber.flush()
            self._leave(pipeline)
        self._reading = None
        upto = keeper.next - 1
        self.stretches.begin_again(upto)
        self._catching_up.begin_again(upto, was_live=pipeline is not None)
        await keeper.read_again()

    def _leave(self, pipeline: Pipeline) -> None:
        """Let the connections go on without a pipeline."""
        (done, refused), before = pipeline.acknowledged(), self._columns
        self._pipeline, self._nobody = None, NOBODY
        self._columns = Columns(nobody=self._streams.nobody)
        columns, self._done = {}, np.zeros(len(before.keys), np.int64)
        for column, ack in before.acks.items():
            columns[column] = mine = self._columns.free()
            self._columns.note(mine, int(before.keys[column]), ack)
            self._done[mine] = done[column]
            if count := int(refused[column]) + before.refused_before.get(column, 0):
                self._columns.refused_before[mine] = count
        for subscriber in self._subscribers:
            subscriber.moved(columns)

    def _pipeline_settled(self) -> None:
        now_ns = self._now().monotonic_ns
        if now_ns >= self._looked_ns + LOOK_EVERY_NS:
            self._looked_ns = now_ns
            self.look()
        self._settled()

    @property
    def pipeline(self) -> Pipeline | None:
        """The pipeline that has what comes; None before it has all that came before."""
        return self._pipeline

    @property
    def last_record(self) -> int:
        """The number of the last record of the log; 0 where there is none."""
        return 0 if self._keeper is None else self._keeper.next - 1

    # --- what others are told -----------------------------------------------------------------------------------

    @property
    def is_counted(self) -> bool:
        """Tell whether a pipeline counts what comes, and what goes no further."""
        return self._counting is not None

    @property
    def unsynced(self) -> int:
        """Readings that came for the log and are not on the disk yet, nor safe elsewhere."""
        return self._streams.unsynced_readings

    def parts(self) -> list[Part]:
        """What of it has to move, for the watchdog."""
        name = f"the journal's keeper of group {self.group.name}"
        return [] if self._keeper is None else [self._keeper.part(name)]

    def _settled(self) -> None:
        for subscriber in self._subscribers:
            subscriber.settled()

    def _pipeline_full(self, is_full: bool) -> None:
        if is_full:
            self._catching_up.has_room.clear()
        else:
            self._catching_up.has_room.set()
        self._look_full()

    def _look_full(self) -> None:
        # With a log what the pipeline has no room for is read again from there.
        behind = self._keeper if self._keeper is not None else self._pipeline
        is_full = behind is not None and behind.is_full
        if is_full != self._is_full:
            self._is_full = is_full
            if self._keeper is not None:
                self._announcements.backpressure(is_full)
                if self._pipeline is not None:
                    self._pipeline.hold_back(is_full)
            for subscriber in self._subscribers:
                subscriber.full(is_full)
