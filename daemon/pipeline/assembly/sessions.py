"""Sessions of one group: up to where each sender's numbered stream is settled, across connections and restarts.

A session has a column of the receipts for as long as it is connected or something of it waits; between two connections
it is known by its numbers alone. Each closed block takes along what changed (`SESSION`), and so the database knows of
each session, with the readings themselves, what it holds of it.
"""

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.receipts import Receipts
from schemas.readings import Array
from schemas.sessions import GONE, NO_SESSIONS, SESSION, is_private, may_be_of_one_sender
from schemas.wire import ErrorCode, ProtocolError

ALL = np.iinfo(np.int64).max

MOST_SESSIONS = 4096
"""Sessions remembered; of more, those go that were heard longest ago, such as are settled first."""

KEPT_S = 30 * 86_400
"""A session that nobody goes on with is remembered for so long."""

EARLIER_S = 3600
"""For so long it is when the same sender opens another: others of its name may be away, with readings acknowledged that
they do not know of."""

EARLIER_MOST = 256
"""As many of those at most: a program that is started again and again must not leave one each time."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A stream that may begin, or go on.

    column: of the receipts. resume: the number of the first reading that the connection sends. lost: so many readings
    before that one are nowhere here, and the sender has them no more; where nobody knows what came of its session, as
    after the database was put back, they are those of which nobody knows.
    """

    column: int
    resume: int
    lost: int = 0


@dataclass(slots=True)
class _Idle:
    """A session without a column; numbers as in SESSION."""

    settled: int
    received: int
    seen_s: int

    @property
    def is_in_doubt(self) -> bool:
        """Whether something may have come that is not settled."""
        return self.settled < self.received

    def lost_before(self, number: int) -> int:
        """How many readings before this number are lost, if the sender has none of them any more."""
        if self.received == ALL and not self.settled:
            return 0  # nobody knows anything of it
        if self.received == ALL or number <= self.settled:
            return max(0, number - self.settled)
        # The first that is not settled is in no closed block. Those behind it may be, up to what was received.
        return 1 + max(0, number - max(self.settled + 1, self.received))


class Sessions:
    """The sessions of one group.

    recovered: what the database has of them, SESSION, shape (s,): each is in doubt from `settled` to `received`.
    pinned: sessions of which the log may hold something: they are not forgotten.
    """

    def __init__(
        self,
        receipts: Receipts,
        recovered: Array = NO_SESSIONS,
        *,
        pinned: Container[int] = (),
    ) -> None:
        self._receipts = receipts
        self._pinned = pinned
        self._ended: set[int] = set()  # without a connection, and nobody goes on with them
        self._recovered = set(recovered["session"].tolist())
        self._told = set(self._recovered)  # what closed blocks have said so far is of these
        self._began_s: int | None = None  # when the first sender came
        self._idle = {int(row["session"]): _Idle(*row.item()[1:]) for row in recovered}
        self._is_uncertain = False  # a session was forgotten of which something may have come that is not settled
        self._column_of: dict[int, int] = {}
        self._left: set[int] = set()  # sessions with a column and no connection
        self._beyond: dict[int, list[tuple[int, int]]] = {}
        self._gone: list[int] = []
        self._is_laid_out = False
        self._keys = np.empty(0, np.uint64)
        self._columns = np.empty(0, np.intp)
        self._settled = np.empty(0, np.int64)  # as given out last, by column of the receipts
        self._received = np.empty(0, np.int64)
        self._begun = np.empty(0, np.int64)  # the first number that comes by this column
        self._doubt = np.empty(0, np.int64)
        self._unsent = np.empty(0, np.int64)  # the first number that was not sent before its sender connected
        self._is_session = np.empty(0, bool)
        self._is_doubted = np.empty(0, bool)  # since the last closed block

    def __len__(self) -> int:
        return len(self._idle) + len(self._column_of)

    def connect(
        self, session: int | None, *, first: int, now: Instant, upto: int | None = None, is_named: bool = True
    ) -> Joined:
        """Begin a stream without a session, or go on with a session.

        session: `schemas.sessions.session_key`. first: the first number that its sender still has. upto: the first one
            that it has not sent yet, if it says so: whatever else is not known, that one never came before. is_named:
            whether somebody goes on with it; what comes twice is else a double, whatever the values are.

        Raises:
            ProtocolError: there are too many sessions.
        """
        if self._began_s is None:
            self._began_s = now.utc_ns // 1_000_000_000
        if session is None:
            return Joined(column=self._take_column(0, doubt=ALL, unsent=ALL), resume=0)
        column = self._column_of.get(session)
        if column is None:
            joined = self._begin(session, first=first, upto=ALL if upto is None else upto, now=now)
            self._is_session[joined.column] = is_named
            return joined
        self._is_session[column] = is_named
        self._left.discard(session)
        self._ended.discard(session)
        resume = int(self._receipts.come()[column])
        if first <= resume:
            return Joined(column=column, resume=resume)
        self._receipts.skip(column, first)
        return Joined(column=column, resume=first, lost=self._lost(session, first - resume, below=first))

    def known(self, session: int) -> int:
        """All readings of a session with lower numbers came, and were sent: 0 of one that is unknown."""
        column = self._column_of.get(session)
        if column is not None:
            return int(self._receipts.come()[column])
        return self._idle[session].settled if session in self._idle else 0

    def _begin(self, session: int, *, first: int, upto: int, now: Instant) -> Joined:
        known = self._idle.pop(session, None)
        self._ended.discard(session)
        if known is None:
            self._forget_earlier(session, now.utc_ns // 1_000_000_000 - EARLIER_S)
            self._make_room(session)
            if session in self._gone:
                self._gone.remove(session)
                self._told.add(session)
            # Of one that goes on with a later number, or has sent some before, more was known once: nothing tells what
            # of it came.
            is_known = first > 0 or first < upto < ALL or self._is_uncertain
            known = _Idle(first, ALL if is_known else 0, 0)
        resume = max(first, known.settled)
        # Of a private one, what its sender sends again comes without a session, or with another one.
        doubt = ALL if is_private(session) else min(known.received, max(resume, upto))
        column = self._take_column(resume, doubt=doubt, unsent=upto)
        self._column_of[session] = column
        self._is_laid_out = False
        return Joined(column=column, resume=resume, lost=self._lost(session, known.lost_before(resume), below=resume))

    def _lost(self, session: int, most: int, *, below: int) -> int:
        """Return how many readings of a session with numbers below this one are lost, of at most so many.

        None of a private one: its sender still has what is not acknowledged, and numbers it anew.
        """
        if is_private(session):
            return 0
        return max(0, most - sum(max(0, min(upto, below) - first) for first, upto in self._beyond.pop(session, ())))

    def came_beyond(self, session: int, first: int, upto: int) -> None:
        """Take note that first <= n < upto, beyond a gap, were taken by themselves: these are not lost with the gap."""
        start, end = self._beyond.setdefault(session, [(first, first)])[-1]
        self._beyond[session][-1:] = [(start, upto)] if first == end else [(start, end), (first, upto)]

    def _take_column(self, first: int, *, doubt: int, unsent: int) -> int:
        column = self._receipts.connect(first=first)
        more = self._receipts.size - len(self._doubt)
        self._doubt = np.pad(self._doubt, (0, more))
        self._unsent = np.pad(self._unsent, (0, more))
        self._settled = np.pad(self._settled, (0, more))
        self._received = np.pad(self._received, (0, more))
        self._begun = np.pad(self._begun, (0, more))
        self._is_session = np.pad(self._is_session, (0, more))
        self._is_doubted = np.pad(self._is_doubted, (0, more))
        self._is_session[column] = self._is_doubted[column] = False
        self._doubt[column], self._unsent[column] = doubt, unsent
        self._settled[column] = self._received[column] = -1
        self._begun[column] = first
        return column

    def _forget_earlier(self, session: int, too_old: int) -> None:
        """Forget what the same sender had before, as far as it is settled: a program that restarts begins another."""
        # What an earlier process left may have waited for the database for long, and be acknowledged by this one.
        earlier = [
            (max(idle.seen_s, self._began_s or 0) if key in self._recovered else idle.seen_s, key)
            for key, idle in self._idle.items()
            if may_be_of_one_sender(key, session) and not idle.is_in_doubt and key not in self._pinned
        ]
        for number, (seen_s, key) in enumerate(sorted(earlier, reverse=True)):
            if number >= EARLIER_MOST or seen_s < too_old:
                self._forget(key)

    def _make_room(self, session: int) -> None:
        # Private ones are as few as connections: they take no place of those that senders name.
        if len(self) < MOST_SESSIONS or is_private(session) or self._named() < MOST_SESSIONS:
            return
        idle = [key for key in self._idle if key not in self._pinned and not is_private(key)]
        oldest = min(idle, key=lambda key: (self._idle[key].is_in_doubt, self._idle[key].seen_s), default=None)
        if oldest is None and session in self._pinned:
            return  # what the log holds is there
        if oldest is None:
            raise ProtocolError(
                ErrorCode.TOO_MANY_CONNECTIONS,
                f"{MOST_SESSIONS} sessions of this group are not settled, and no more are taken; go on with an earlier"
                " session",
            )
        if self._idle[oldest].is_in_doubt:
            self._is_uncertain = True  # it may come back, and begin with what came before
        self._forget(oldest)

    def _named(self) -> int:
        return sum(not is_private(key) for keys in (self._idle, self._column_of) for key in keys)

    def disconnect(self, column: int, *, ended: bool = False) -> None:
        """Take note that a connection is gone; ended: it said goodbye, and everything of it was acknowledged."""
        session = next((key for key, taken in self._column_of.items() if taken == column), None)
        if session is None:
            self._receipts.disconnect(column)
        elif ended and session not in self._pinned:
            self._give_back(session)
            self._end(session)
        else:
            self._left.add(session)
            if ended:
                self._ended.add(session)
            if is_private(session):
                self._receipts.forget_refusals(column)  # the next connection that has it is another sender's

    def tidy(self, now: Instant) -> None:
        """Take back the columns of sessions that are not connected and wait for nothing, now and then."""
        if self._left:
            # Not one of which a closed block has yet to say up to where it is in doubt: the next process has to know.
            done = self._receipts.committed_upto()
            come = self._receipts.come()
            for session in list(self._left):
                column = self._column_of[session]
                if done[column] == come[column] == self._said(session) and not self._is_doubted[column]:
                    received = self._upto(column)
                    self._idle[session] = _Idle(int(come[column]), received, now.utc_ns // 1_000_000_000)
                    self._give_back(session)
        too_old = now.utc_ns // 1_000_000_000 - KEPT_S
        for session in [key for key, idle in self._idle.items() if self._is_over(key, idle, too_old)]:
            self._forget(session)

    def _is_over(self, session: int, idle: _Idle, too_old: int) -> bool:
        is_old = idle.seen_s < too_old and not idle.is_in_doubt
        is_over = is_old or session in self._ended or is_private(session)
        return is_over and session not in self._pinned

    def _forget(self, session: int) -> None:
        del self._idle[session]
        self._beyond.pop(session, None)
        self._ended.discard(session)
        self._end(session)

    def _end(self, session: int) -> None:
        if session in self._told:
            self._told.remove(session)
            self._gone.append(session)

    def _give_back(self, session: int) -> None:
        self._left.discard(session)
        self._receipts.disconnect(self._column_of.pop(session))
        self._is_laid_out = False

    def _upto(self, column: int) -> int:
        return max(int(self._doubt[column]), int(self._receipts.come()[column]))

    def has_any(self, origin: Origin) -> bool:
        """Whether any of these readings is one of a session."""
        return bool(self.are_of_any(origin).any())

    def are_of_any(self, origin: Origin) -> Array:
        """Which readings are of a session: bool, shape (n,)."""
        if not self._column_of:
            return np.zeros(len(origin.column), bool)
        of_any = origin.column >= 0
        of_any[of_any] = self._is_session[origin.column[of_any]]
        return of_any

    def doubt(self, origin: Origin) -> None:
        """Take note that these readings were taken without their numbers: up to theirs no number proves one new."""
        np.maximum.at(self._doubt, origin.column, origin.sequence + 1)
        self._is_doubted[origin.column] = True

    def is_new(self, origin: Origin) -> Array:
        """Which readings have numbers that never came before: bool, shape (n,)."""
        if not self._column_of:
            return np.zeros(len(origin.column), bool)
        wanted = origin.column >= 0
        new = wanted.copy()
        new[wanted] = origin.sequence[wanted] >= self._doubt[origin.column[wanted]]
        return new

    def may_be_resent(self, origin: Origin) -> Array:
        """Which readings may have been sent before, even if nobody remembers it: bool, shape (n,)."""
        resent = np.ones(len(origin.column), bool)
        wanted = origin.column >= 0
        resent[wanted] = origin.sequence[wanted] < self._unsent[origin.column[wanted]]
        return resent

    def has_unsaid(self, slots: Array) -> bool:
        """Whether more is settled than closed blocks have said, as after refusals; slots: those that are open, intp."""
        at = np.fromiter(self._column_of.values(), np.intp, len(self._column_of))
        said = np.maximum(self._settled[at], self._begun[at])
        return bool((self._receipts.not_closed(slots)[at] > said).any())

    def committed(self) -> dict[int, int]:
        """Up to which number each session that is known is committed, or refused."""
        done = self._receipts.committed_upto()
        here = {session: int(done[column]) for session, column in self._column_of.items()}
        return {session: idle.settled for session, idle in self._idle.items()} | here

    def have_said(self, upto: dict[int, int]) -> bool:
        """Whether closed blocks have said of these sessions that all below these numbers is settled."""
        return all(self._said(session) >= number for session, number in upto.items())

    def _said(self, session: int) -> int:
        column = self._column_of.get(session)
        if column is not None:
            return max(int(self._settled[column]), int(self._begun[column]))
        return self._idle[session].settled if session in self._idle else 0

    def changed(self, slots: Array, now: Instant) -> Array:
        """What changed since the last closed block: SESSION, shape (s,); slots: those of the open triggers, intp."""
        if not self._column_of and not self._gone:
            return NO_SESSIONS
        if not self._is_laid_out:
            # In the order of the table that these changes go into.
            keys = sorted(self._column_of)
            self._keys = np.array(keys, np.uint64)
            self._columns = np.array([self._column_of[key] for key in keys], np.intp)
            self._told.update(keys)
            self._is_laid_out = True
        at = self._columns
        settled = self._receipts.not_closed(slots)[at]
        received = np.maximum(self._receipts.come()[at], self._doubt[at])
        moved = (settled != self._settled[at]) | (received != self._received[at])
        self._settled[at], self._received[at], self._is_doubted[at] = settled, received, False
        rows = np.empty(int(np.count_nonzero(moved)) + len(self._gone), SESSION)
        seen_s = now.utc_ns // 1_000_000_000
        own = rows[: len(rows) - len(self._gone)]
        own["session"], own["settled"], own["received"] = self._keys[moved], settled[moved], received[moved]
        gone = rows[len(own) :]
        gone["session"], gone["settled"], gone["received"] = self._gone, GONE, 0
        rows["seen_s"] = seen_s
        self._gone = []
        return rows
