"""Catching up: what the log holds is put through, and what of it is in doubt is noted before."""

import asyncio
from collections.abc import Iterable

from daemon.core.monitoring.events import Events
from daemon.pipeline.announced import NO_RECORD, AnnouncedRuns
from daemon.pipeline.intake.replay import Replay
from daemon.pipeline.log import LogKeeper, Received
from daemon.pipeline.pipeline import Pipeline

READ_MOST = 8 * 2**20
"""Bytes of the log that are put through between two looks at whether there is room."""

TURN = 256
"""Records that are put through between two turns of the event loop."""

AGAIN_S = 1.0


class CatchingUp:
    """Reads a group's log, from the disk and then from memory.

    keeper: None where there is no log. found_upto: the last record of an earlier process. doubtful_upto: another daemon
    may have taken for lost what records up to this number have. has_room: whether more can be put through now.
    """

    def __init__(
        self, group: str, keeper: LogKeeper | None, events: Events, *, found_upto: int, doubtful_upto: int
    ) -> None:
        self.found_upto = found_upto
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
            except OSError as error:
                self._events.error(f"group {self._group}: the journal cannot be read: {error}")
                await asyncio.sleep(AGAIN_S)
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
        pipeline.go_beyond_known()

    def _put(self, replay: Replay, pipeline: Pipeline, records: Iterable[Received]) -> None:
        for received in records:
            if received.number > self._replayed:
                self._take(received, replay, pipeline)

    def _take(self, received: Received, replay: Replay, pipeline: Pipeline) -> None:
        if received.number > self._known_upto:
            pipeline.go_beyond_known()
        replay.take(received)
        self._replayed = received.number
