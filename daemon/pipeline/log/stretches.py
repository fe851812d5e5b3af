"""Stretches of a moment, by which the log is let go of: all of a stretch is safe in the database then.

A stretch is safe when its readings are in closed blocks that the database has for good, and when these say so of its
sessions: after a crash nothing but that tells which readings of the log were committed.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from schemas.sessions import is_private

STRETCH_S = 0.05
STRETCH_BYTES = 2**20
"""A stretch takes no more when it is so old, or has so many bytes of readings: it is let go of as a whole."""


class Closing(Protocol):
    """The pipeline, which tells how far the readings are that went through assembly."""

    @property
    def last_block(self) -> int:
        """The number of the last closed block."""

    @property
    def safe_upto(self) -> int:
        """The closed blocks up to this number are in the database for good."""

    def have_closed(self, upto: dict[int, int]) -> bool:
        """Tell whether closed blocks say of these sessions that all below these numbers is settled."""


@dataclass(kw_only=True)
class _Stretch:
    """Records in a row.

    first, last: their numbers. upto: by session the number after its last reading. closed_at: the number of a closed
    block by which all of it is closed.
    """

    first: int
    last: int
    began_s: float
    upto: dict[int, int] = field(default_factory=dict)
    closed_at: int | None = None
    nbytes: int = 0
    is_full: bool = False


class Stretches:
    """The stretches in the log, oldest first.

    sessions, upto: what an earlier process left, up to which record; `read` tells of it as it goes through assembly.
    """

    def __init__(self, sessions: Iterable[int], upto: int) -> None:
        self._pinned: Counter[int] = Counter()
        self._private = 0
        self._unread: set[int] = set()  # sessions of records that have not gone through assembly
        self._unread_upto = 0
        self._was_read: deque[_Stretch] = deque()
        self._came: deque[_Stretch] = deque()  # in this process, since there is a pipeline or before
        self._leaving: deque[_Stretch] = deque()
        self._leave_unread(sessions, upto)

    def _leave_unread(self, sessions: Iterable[int], upto: int) -> None:
        self._unread = set(sessions)
        self._unread_upto = upto if self._unread else 0
        for session in self._unread:
            self._pin(session)

    def begin_again(self, upto: int) -> None:
        """All records up to this one go through assembly again."""
        before, self._unread = self._unread, set()
        self._leave_unread({*before, *(key for each in (*self._was_read, *self._came) for key in each.upto)}, upto)
        for stretch in (*self._was_read, *self._came):
            self._forget(stretch)
        for session in before:
            self._unpin(session)
        self._was_read.clear()
        self._came.clear()

    def __contains__(self, session: object) -> bool:
        """Tell whether the log may hold something of a session, which must not be forgotten then."""
        return session in self._pinned

    def __len__(self) -> int:
        """Count the sessions of which it may hold something."""
        return len(self._pinned)

    def count(self, *, private: bool) -> int:
        """Count the private sessions of which it may hold something, or the others."""
        return self._private if private else len(self._pinned) - self._private

    def read(self, number: int, upto: Iterable[tuple[int, int]], now_s: float) -> None:
        """Note a record that was left unread, as it goes through assembly: by session the number after its last."""
        stretch = self._newest(self._was_read, number, now_s)
        for session, after in upto:
            self._hold(stretch, {session})
            stretch.upto[session] = max(stretch.upto[session], after)

    def end_reading(self) -> None:
        """All that was left unread has gone through assembly."""
        for session in self._unread:
            self._unpin(session)
        self._unread, self._unread_upto = set(), 0

    def add(self, number: int, upto: Mapping[int, int], now_s: float, nbytes: int) -> None:
        """Note a record: by session the number behind its last reading; nbytes: of its readings.

        The numbers of a session ascend; of one without a reading they say nothing.
        """
        if self._came and self._came[-1].nbytes + nbytes > STRETCH_BYTES:
            self._came[-1].is_full = True
        stretch = self._newest(self._came, number, now_s)
        stretch.nbytes += nbytes
        self._hold(stretch, upto.keys())
        if nbytes:
            stretch.upto.update(upto)

    def _newest(self, stretches: deque[_Stretch], number: int, now_s: float) -> _Stretch:
        newest = stretches[-1] if stretches else None
        is_over = newest is None or newest.is_full or newest.closed_at is not None
        if newest is None or is_over or now_s - newest.began_s >= STRETCH_S:
            newest = _Stretch(first=number, last=number, began_s=now_s)
            stretches.append(newest)
        newest.last = number
        return newest

    def _hold(self, stretch: _Stretch, sessions: Set[int]) -> None:
        for session in sessions - stretch.upto.keys():
            self._pin(session)
            stretch.upto[session] = 0

    def _pin(self, session: int) -> None:
        self._private += is_private(session) and session not in self._pinned
        self._pinned[session] += 1

    def _unpin(self, session: int) -> None:
        self._pinned[session] -= 1
        if not self._pinned[session]:
            del self._pinned[session]
            self._private -= is_private(session)

    def safe(self, closing: Closing) -> int:
        """Up to which record all is safe; 0 if that is none that was not before."""
        done = self._safe_of(self._was_read, closing)
        if self._was_read or self._unread:
            return done
        return max(done, self._safe_of(self._came, closing))

    def _safe_of(self, stretches: deque[_Stretch], closing: Closing) -> int:
        done = 0
        while stretches:
            stretch = stretches[0]
            if stretch.closed_at is None:
                if not closing.have_closed(stretch.upto):
                    break
                stretch.closed_at = closing.last_block
            if closing.safe_upto < stretch.closed_at:
                break
            done = stretch.last
            self._leaving.append(stretches.popleft())
        return done

    def gone(self, number: int, *, tried: int, skipped: int) -> None:
        """The records up to this number are on the disk no more: their sessions may be forgotten.

        tried, skipped: those above `tried` never were there, and of these those up to `skipped` never will be.
        """
        while self._leaving and self._leaving[0].last <= number:
            self._forget(self._leaving.popleft())
        staying = deque(stretch for stretch in self._leaving if stretch.first <= tried or stretch.last > skipped)
        for stretch in self._leaving:
            if stretch.first > tried and stretch.last <= skipped:
                self._forget(stretch)
        self._leaving = staying

    def _forget(self, stretch: _Stretch) -> None:
        for session in stretch.upto:
            self._unpin(session)
