"""Gathering: the bytes of many connections become one block, without a copy in between.

Connections of a group receive into one buffer, one behind the other, whole records only. What has gathered is handed
to the intake as one `numpy.frombuffer`: at once when it may complete a trigger, else after ten milliseconds, so that
a hundred instruments that send one reading each cost a few steps a trigger and not a hundred.
"""

import asyncio

import numpy as np

from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.assembly import Origin
from daemon.pipeline.intake import Intake
from daemon.pipeline.intake.connections import NOBODY

__all__ = ["BUFFER", "NOBODY", "READ_MOST", "WAIT_S", "Gather"]

BUFFER = 4 * 2**20
"""Bytes that gather before they have to be handed on: 75,000 readings of four float64 channels."""

READ_MOST = 256 * 2**10
"""Bytes read from one connection at a time, so that a fast sender does not keep the others waiting."""

WAIT_S = 0.01
"""The longest that readings which complete nothing wait for company."""


class Gather:
    """The receive buffer of one group."""

    def __init__(self, intake: Intake) -> None:
        self.handed = 0
        self._intake = intake
        self._record = intake.group.record
        self._size = self._record.itemsize
        self._buffer = np.zeros(BUFFER, np.uint8)  # which takes memory only where it is written
        self._view = self._buffer.data
        self._end = 0
        self._wanted = 0  # bytes that may complete a trigger
        self._chunks: list[tuple[int, int, int]] = []  # column, first sequence, readings
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._turn_bytes = 0

    @property
    def received(self) -> int:
        """Readings that came."""
        return self.handed + self._end // self._size

    def has_enough(self, nbytes: int) -> bool:
        """Add what fast senders sent in this turn of the event loop; return whether that is as much as a buffer."""
        if not self._turn_bytes:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._turn_bytes += nbytes
        return self._turn_bytes >= BUFFER

    def space(self, carried: bytes) -> memoryview:
        """Room for the next bytes of a connection, whose incomplete last record `carried` is put before them.

        Has no other effect: uvloop crashes when a transport pauses while it asks for a buffer, and handing on what
        has gathered may do just that.
        """
        start = self._end
        self._view[start : start + len(carried)] = carried
        return self._view[start + len(carried) : start + READ_MOST]

    def take(self, nbytes: int, column: int, sequence: int) -> tuple[int, bytes]:
        """Take so many bytes, carried ones included, that a connection put there.

        Returns how many whole readings they hold and the bytes of an incomplete one behind them.
        """
        readings, odd = divmod(nbytes, self._size)
        self._end = end = self._end + nbytes - odd
        carried = bytes(self._view[end : end + odd]) if odd else b""
        if readings:
            self._chunks.append((column, sequence, readings))
            if end > BUFFER - READ_MOST:
                self.flush()
            elif self._soon is None and (self._later is None or end >= self._wanted):
                self._plan()
        return readings, carried

    @fail_stop()
    def _begin_turn(self) -> None:
        self._turn_bytes = 0

    def part(self) -> Part:
        """Whether what has gathered goes on to the intake, for the watchdog."""
        name = f"readings gathered for group {self._intake.group.name}"
        return Part(name=name, steps=self.handed, is_busy=bool(self._chunks))

    @fail_stop()
    def flush(self) -> None:
        """Hand what has gathered to the intake."""
        self._cancel()
        if not self._chunks:
            return
        block = np.frombuffer(self._buffer, self._record, count=self._end // self._size)
        origin = self._origin()
        self._chunks = []
        self._end = 0
        self._intake.receive(block, origin)
        self.handed += len(block)
        self._wanted = self._intake.wanted * self._size

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        if self._end >= self._wanted:
            self._soon = loop.call_soon(self.flush)
        else:
            self._later = loop.call_later(WAIT_S, self.flush)

    def _cancel(self) -> None:
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None

    def _origin(self) -> Origin | None:
        if len(self._chunks) == 1:
            return None if self._chunks[0][0] == NOBODY else Origin.of(*self._chunks[0])
        columns, firsts, counts = zip(*self._chunks, strict=True)
        if columns.count(NOBODY) == len(columns):
            return None
        column, sequence = np.array(columns, np.int32), np.array(firsts, np.int64)
        if counts.count(1) < len(counts):
            ends = np.cumsum(counts)
            within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
            column, sequence = np.repeat(column, counts), np.repeat(sequence, counts) + within
        return Origin(column, sequence)
