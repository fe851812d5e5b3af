"""What the intake's log holds by stretches of about a second, until all of a stretch is safe elsewhere.

A stretch is safe when its readings are in closed blocks that the journal has on the disk, or the database has for good,
and when these say so of its sessions: after a crash nothing but that tells which readings of the log came through.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from daemon.pipeline.intake_log.format import RunKind
from schemas.readings import Array
from schemas.sessions import is_private

STRETCH_S = 1.0


class Closing(Protocol):
    """What tells how far the readings are that went through."""

    @property
    def last_block(self) -> int:
        """The number of the last closed block."""

    @property
    def safe_upto(self) -> int:
        """The closed blocks up to this number are on the disk, or in the database for good."""

    def have_closed(self, upto: dict[int, int]) -> bool:
        """Whether closed blocks say of these sessions that all below these numbers is settled."""


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


class Stretches:
    """The stretches in the log, oldest first.

    sessions, upto: what an earlier process left, up to which record: one stretch, whose numbers `add_found` adds.
    """

    def __init__(self, sessions: Iterable[int], upto: int) -> None:
        self._found = _Stretch(first=1, last=upto, began_s=0.0, upto=dict.fromkeys(sessions, 0))
        self._stretches: deque[_Stretch] = deque([self._found] if self._found.upto else [])
        self._leaving: deque[_Stretch] = deque()
        self._pinned = Counter(self._found.upto.keys())
        self._private = sum(is_private(session) for session in self._pinned)

    def __contains__(self, session: object) -> bool:
        """Whether the log may hold something of a session, which must not be forgotten then."""
        return session in self._pinned

    def __len__(self) -> int:
        """Of how many sessions it may hold something."""
        return len(self._pinned)

    def count(self, *, private: bool) -> int:
        """Of how many private sessions it may hold something, or of how many others."""
        return self._private if private else len(self._pinned) - self._private

    def add_found(self, session: int, upto: int) -> None:
        """Note readings that an earlier process left, as they go through assembly: up to which number."""
        self._note(self._found, session, upto)

    def add(self, number: int, runs: Array, now_s: float) -> None:
        """Note a record: RUN, shape (r,)."""
        newest = self._stretches[-1] if self._stretches else None
        is_over = newest is not None and (newest.closed_at is not None or now_s - newest.began_s >= STRETCH_S)
        if newest is None or newest is self._found or is_over:
            newest = _Stretch(first=number, last=number, began_s=now_s)
            self._stretches.append(newest)
        newest.last = number
        for session, first, count, kind in runs.tolist():
            self._note(newest, session, first + count if kind == RunKind.READINGS else 0)

    def _note(self, stretch: _Stretch, session: int, upto: int) -> None:
        if session not in stretch.upto:
            stretch.upto[session] = 0
            self._private += is_private(session) and session not in self._pinned
            self._pinned[session] += 1
        stretch.upto[session] = max(stretch.upto[session], upto)

    def safe(self, closing: Closing) -> int:
        """Up to which record all is safe; 0 if that is none that was not before."""
        done = 0
        for stretch in self._stretches:
            if stretch.closed_at is None:
                if not closing.have_closed(stretch.upto):
                    break
                stretch.closed_at = closing.last_block
            if closing.safe_upto < stretch.closed_at:
                break
            done = stretch.last
        while self._stretches and self._stretches[0].last <= done:
            self._leaving.append(self._stretches.popleft())
        return done

    def gone(self, number: int, *, tried: int, skipped: int) -> None:
        """The records up to this number are on the disk no more: their sessions may be forgotten.

        tried, skipped: those above `tried` never were there, and of these those up to `skipped` never will be. With a
            disk that fails there are many.
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
            self._pinned[session] -= 1
            if not self._pinned[session]:
                del self._pinned[session]
                self._private -= is_private(session)
