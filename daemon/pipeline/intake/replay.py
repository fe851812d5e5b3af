"""Replay: what the log holds goes through assembly, as if its senders sent it again.

What lies behind a gap of its session, as after a power cut, is of those readings that its sender sends again, or of
those before which the database lost something. It is taken by itself, as readings of a session of the daemon's own.
Where a pipeline begins again, the database has lost what neither it nor the log has, and no sender has it. What this
process wrote and cannot read again its sender may still have: the process ends, and the sender sends it to the next.
"""

import asyncio
from collections.abc import Iterable

import numpy as np

from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.core.outside import Clock
from daemon.core.outside.clock import Instant
from daemon.pipeline.announced import NO_RECORD, AnnouncedRuns
from daemon.pipeline.assembly import Origin
from daemon.pipeline.log import LogKeeper, Received, RunKind, Stretches
from daemon.pipeline.pipeline import Pipeline
from schemas.readings import Array


class Replay:
    """Puts records through a pipeline, one after the other.

    log: what is known of it. stretches: told which numbers the records that were found there have. own: the key of a
    session for what is taken by itself. columns: of the receipts, by session.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock, stretches: Stretches, log: "CatchingUp", *, own: int) -> None:
        self._log = log
        self._stretches = stretches
        self._own = own
        self._own_next = 0
        self._number = 0  # of the record that is put through
        self._sent: dict[int, int] = {}
        self.columns: dict[int, int] = {}
        self.readings = 0
        self.came_again = 0  # of these, what the database had, and lost
        self._pipeline = pipeline
        self._clock = clock

    def goes_beyond(self, received: Received) -> bool:
        """Whether it has numbers of a session beyond what is known to have come: there is a gap, or a jump over one.

        Its readings are taken by themselves then, and what is settled says nothing of them any more.
        """
        reached: dict[int, int] = {}
        for session, first, count, kind in received.runs.tolist():
            if kind not in (RunKind.READINGS, RunKind.JOINED):
                continue
            known = reached.get(session)
            if known is None:
                known = self._pipeline.known(session)
            if first > known:
                return True
            reached[session] = max(known, first + count)
        return False

    def take(self, received: Received) -> None:
        """Put through what came together, as of when it came."""
        moment = Instant(received.received_ns, self._clock.now().monotonic_ns)
        runs, readings = received.runs, received.readings
        self.readings += len(readings)
        self._number = received.number
        if (runs["kind"] == RunKind.READINGS).all() and len(np.unique(runs["session"])) == len(runs):
            self._put(runs, readings, moment)
            return
        ends = np.cumsum(runs["count"], dtype=np.int64)
        for k, (session, first, count, kind) in enumerate(runs.tolist()):
            if kind == RunKind.SENT:
                # Of an earlier process it says nothing: what came after it may be in closed blocks by now.
                if received.number > self._log.found_upto:
                    self._sent[session] = first
            elif kind == RunKind.JOINED:
                self._join(session, first)
            elif kind == RunKind.READINGS:
                self._put(runs[k : k + 1], readings[ends[k] - count : ends[k]], moment)
            elif session in self.columns:
                self._pipeline.disconnect(self.columns.pop(session), ended=True)

    def _join(self, session: int, first: int) -> int:
        upto = self._sent.pop(session, None)
        column = self._pipeline.connect(session=session, first=first, upto=upto).column
        self.columns[session] = column
        return column

    def _put(self, runs: Array, readings: Array, moment: Instant) -> None:
        """Readings of several sessions, one run of each."""
        columns = [
            self.columns[session] if session in self.columns else self._join(session, 0)
            for session in runs["session"].tolist()
        ]
        come = self._pipeline.come(np.array(columns))
        if self._pipeline.begins_again and (runs["first"] > come).any():
            for session, first in runs[["session", "first"]][runs["first"] > come].tolist():
                self._pipeline.skip_lost(session, first)
            come = self._pipeline.come(np.array(columns))
        self._note(runs, come)
        lost, doubles = self._lost_of(runs), self._pipeline.doubles
        counts = runs["count"].astype(np.int64)
        starts = np.cumsum(counts) - counts
        within = np.arange(len(readings)) - np.repeat(starts, counts)
        sequence = np.repeat(runs["first"], counts) + within
        is_gap = np.repeat(runs["first"] > come, counts)
        is_settled = sequence < np.repeat(come, counts)
        is_new = ~is_gap & ~is_settled
        again = is_gap
        origin = Origin(np.repeat(np.array(columns, np.int32), counts), sequence)
        if self._number <= self._log.doubtful_upto:
            # It may have taken them itself, too, and have forgotten the session since.
            again = is_gap | is_settled
            self._pipeline.doubt(origin)
        if again.any():
            self._take_by_itself(readings[again], origin[again], moment)
        if is_new.any():
            self._pipeline.receive_kept(readings[is_new], origin[is_new], moment)
        # What the database has still is a double.
        self.came_again += max(0, lost - (self._pipeline.doubles - doubles))

    def _note(self, runs: Array, come: Array) -> None:
        for reached, (session, first, count, _) in zip(come.tolist(), runs.tolist(), strict=True):
            if first > reached:
                self._pipeline.came_beyond(session, first, first + count)
            elif self._number <= self._log.found_upto:
                self._read(session, first + count)

    def _lost_of(self, runs: Array) -> int:
        """Return how many of these readings are among those that the database may have lost."""
        lost = 0
        for session, first, count, _ in runs.tolist() if self._pipeline.lost_of else ():
            low, high = self._pipeline.lost_of.get(session, (0, 0))
            lost += max(0, min(first + count, high) - max(first, low))
        return lost

    def _read(self, session: int, upto: int) -> None:
        self._stretches.read(self._number, [(session, upto)], self._clock.now().monotonic_ns / 1e9)

    def _take_by_itself(self, readings: Array, origin: Origin, moment: Instant) -> None:
        first, self._own_next = self._own_next, self._own_next + len(readings)
        self._read(self._own, self._own_next)
        column = self.columns[self._own] if self._own in self.columns else self._join(self._own, 0)
        own = Origin.of(column, first, len(readings))
        self._pipeline.take_readings_again(readings, origin, moment, own=own)


READ_MOST = 8 * 2**20
"""Bytes of the log that are put through between two looks at whether there is room."""

TURN = 256
"""Records that are put through between two turns of the event loop."""

AGAIN_S = 1.0


class CatchingUp:
    """Reads a group's log, from the disk and then from memory.

    keeper: None where there is no log. found_upto: the last record that was there when it began, and found_at_start:
    when the process did. doubtful_upto: another daemon may have taken for lost what records up to this number have.
    has_room: whether more can be put through now.
    """

    def __init__(
        self, group: str, keeper: LogKeeper | None, events: Events, *, found_upto: int, doubtful_upto: int
    ) -> None:
        self.found_at_start = self.found_upto = found_upto
        self.doubtful_upto = doubtful_upto
        self.has_room = asyncio.Event()
        self._group = group
        self._keeper = keeper
        self._events = events
        self._waits = True
        self._is_doubt_noted = 0 < found_upto <= doubtful_upto
        self._replayed = 0  # the last record that went through
        self._known_upto = 0  # the figures have what came up to this record

    def begin_again(self, upto: int, *, was_live: bool) -> None:
        """All records up to this one are to be put through again; what a database says of them is its own.

        was_live: all of them went through; else those did that were put through by now.
        """
        self._known_upto = upto if was_live else max(self._known_upto, self._replayed)
        self.found_upto, self._replayed = upto, 0

    async def doubt(self, *, waits: bool) -> None:
        """What was found may have been taken for lost, here or by another daemon: note that before it is committed.

        waits: for a disk that does not take it. Not where the next start will doubt it without being told.
        """
        self._waits = waits
        self.doubtful_upto = self.found_upto
        await self._note_doubt()

    async def _note_doubt(self) -> None:
        """Have the log say so after a restart, too, tried again for as long as the disk fails.

        What is committed before that tells the next start that there is nothing in doubt.
        """
        is_told = False
        while self._keeper is not None and self.found_upto and not self._is_doubt_noted:
            try:
                await self._keeper.doubt()
            except OSError as error:
                if not self._waits:
                    return
                if not is_told:
                    self._events.error(
                        f"group {self._group}: the journal cannot be written, so what it holds waits:"
                        f" {error}; make room on the disk of the state folder, or repair it"
                    )
                is_told = True
                await asyncio.sleep(AGAIN_S)
            else:
                self._is_doubt_noted = True

    async def put_through(self, replay: Replay, pipeline: Pipeline, announced: AnnouncedRuns) -> None:
        """Put through what is on the disk, until the rest is in memory, and no announcement is behind any of that."""
        await self._put_stored(replay, pipeline, announced)
        while (place := announced.next_place(self._group)) < NO_RECORD:
            if self._keeper is not None:
                self._put(replay, pipeline, [each for each in self._keeper.in_memory() if each.number <= place])
            await announced.follow(self._group, pipeline)

    async def _put_stored(self, replay: Replay, pipeline: Pipeline, announced: AnnouncedRuns) -> None:
        keeper, is_retained = self._keeper, False
        while keeper is not None:
            try:
                found = await keeper.read(READ_MOST)
            except OSError:
                await asyncio.sleep(AGAIN_S)  # the state of the log says why
                continue
            for k, received in enumerate(found, 1):
                is_doubtful = received.number <= self.found_upto and not (self._is_doubt_noted or pipeline.begins_again)
                if is_doubtful and replay.goes_beyond(received):
                    await self._note_doubt()  # a crash while its readings wait must not have them count as settled
                while received.number > announced.next_place(self._group):
                    await announced.follow(self._group, pipeline)
                self._take(received, replay, pipeline)
                if not k % TURN:
                    await asyncio.sleep(0)
            if is_retained and (not found or self._replayed >= keeper.first_waiting - 1):
                return
            if not is_retained and sum(received.nbytes for received in found) < READ_MOST:
                keeper.retain()
                is_retained = True
            await self.has_room.wait()

    def put_rest(self, replay: Replay, pipeline: Pipeline) -> None:
        """Put through what is in memory."""
        if self._keeper is not None:
            self._put(replay, pipeline, self._keeper.release())
            self._check_all_read(self._keeper.next)
        pipeline.go_beyond_known()

    def _put(self, replay: Replay, pipeline: Pipeline, records: Iterable[Received]) -> None:
        for received in records:
            if received.number > self._replayed:
                self._take(received, replay, pipeline)

    def _check_all_read(self, upto: int) -> None:
        """Check that all records below this number went through that this process wrote, and did not trim."""
        assert self._keeper is not None
        missing = upto - 1 - max(self._replayed, self.found_at_start, self._keeper.trim_to)
        if missing > 0:
            raise CommandFailed(
                f"group {self._group}: {missing} records of the journal cannot be read again; see if its disk fails"
            )

    def _take(self, received: Received, replay: Replay, pipeline: Pipeline) -> None:
        self._check_all_read(received.number)
        if received.number > self._known_upto:
            pipeline.go_beyond_known()
        replay.take(received)
        self._replayed = received.number
