"""Streams: the part of each session that the log has from this process, also of readings for which nobody waits."""

import random
from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.log import RUN, RunKind, Stretches
from schemas.readings import Array
from schemas.sessions import PRIVATE


@dataclass(slots=True)
class Stream:
    """The part of a session that the log has from this process: all from `first` on, up to `Streams.next`.

    before: all below it is safe without the log when it is acknowledged; 0 where it is safe in any case.
    synced: what is on the disk ends there.
    """

    before: int
    first: int
    synced: int


class Streams:
    """The streams by session, as records are put into the log, synced, and let go of.

    next: by session the number behind its last reading in the log. nobody: the key of the readings for which nobody
    waits.
    """

    def __init__(self, stretches: Stretches, rng: random.Random) -> None:
        self.by_session: dict[int, Stream] = {}
        self.next: dict[int, int] = {}
        self.unsynced: deque[tuple[int, int, Mapping[int, int]]] = deque()  # number, readings, upto
        self.unsynced_readings = 0
        self._stretches = stretches
        self._rng = rng
        self.nobody = self.private()
        self.nobody_next = 0  # the number of the next reading for which nobody waits
        # Private sessions of the log whose connections are gone: the next connections go on with them, so that there
        # are no more than there are connections at once.
        self._left: list[int] = []

    def private(self) -> int:
        """A new key for a session of the daemon's own."""
        return PRIVATE | self._rng.getrandbits(63)

    def take_private(self) -> tuple[int, int]:
        """A session for a connection without one, and the number that it goes on with."""
        self.forget_left()
        if not self._left:
            return self.private(), 0
        key = self._left.pop()
        return key, self.next[key]

    def leave_private(self, key: int) -> None:
        """The connection of a private session is gone."""
        self._left.append(key)

    def forget_left(self) -> None:
        """Let go of the private sessions of which the log holds nothing more: assembly forgets them, too."""
        for key in [key for key in self._left if key not in self._stretches]:
            self._left.remove(key)
            self.forget_session(key)

    def number_nobody(self, sequence: Array, is_nobody: Array) -> Array:
        """The sequence with numbers for those readings for which nobody waits; is_nobody: bool, shape (n,)."""
        count = int(np.count_nonzero(is_nobody))
        sequence = sequence.copy()
        sequence[is_nobody] = self.nobody_next + np.arange(count)
        self.nobody_next += count
        return sequence

    def runs_of(self, keys: Array, sequence: Array) -> Array:
        """Readings of these sessions, with these numbers, as runs of them: RUN."""
        begins = (keys[1:] != keys[:-1]) | (sequence[1:] != sequence[:-1] + 1)
        if begins.all():  # as where each connection is an instrument
            runs = np.empty(len(keys), RUN)
            runs["session"], runs["first"], runs["count"] = keys, sequence, 1
        else:
            starts = np.concatenate([[0], np.flatnonzero(begins) + 1])
            runs = np.empty(len(starts), RUN)
            runs["session"], runs["first"] = keys[starts], sequence[starts]
            runs["count"] = np.diff(np.append(starts, len(keys)))
        runs["kind"] = RunKind.READINGS
        return runs

    def put(self, number: int, readings: int, upto: Mapping[int, int]) -> None:
        """A record with so many readings is put into the log; upto: by session the number behind its last of them."""
        if readings:
            self.next.update(upto)
        self.unsynced.append((number, readings, upto))
        self.unsynced_readings += readings

    def sync(self, number: int) -> set[int]:
        """The records up to this one are on the disk; return the sessions of which they have something."""
        moved: set[int] = set()
        for upto in self._leave(number):
            for key in upto.keys() & self.by_session.keys():
                self.by_session[key].synced = upto[key]
                moved.add(key)
        return moved

    def forget(self, number: int, wanted: Container[int]) -> None:
        """Let go of what was noted of records up to this number, which may never be written now.

        wanted: sessions that are noted all the same.
        """
        self._leave(number)
        for key in [key for key in self.by_session if key not in self._stretches and key not in wanted]:
            self.forget_session(key)

    def begin(self, key: int, stream: Stream, following: int) -> Stream:
        """Take up a session, whose next reading has this number."""
        self.by_session[key], self.next[key] = stream, following
        return stream

    def forget_session(self, key: int) -> None:
        """Know nothing of a session any more."""
        self.by_session.pop(key, None)
        self.next.pop(key, None)

    def _leave(self, number: int) -> list[Mapping[int, int]]:
        """Let go of the records up to this number; return how far those with readings went."""
        left = []
        while self.unsynced and self.unsynced[0][0] <= number:
            _, readings, upto = self.unsynced.popleft()
            self.unsynced_readings -= readings
            if readings:
                left.append(upto)
        return left
