"""The records of a sender by number: which are handed over, given to a connection, and acknowledged."""

from collections import deque

from schemas.wire import Acknowledgement, ErrorCode, ProtocolError


class Stream:
    """Numbers records from 0, across connections.

    sent: records handed over. written: of these, given to a connection. done: of these, acknowledged. refused: of
    these, refused for good. kept: what may have to be sent again; only what is handed over with its bytes.
    """

    def __init__(self) -> None:
        self.sent = self.written = self.done = self.refused = 0
        self.kept = Kept()
        self._refused_before = 0  # the connection

    def add(self, records: int, data: bytes | None = None) -> bool:
        """Take records; return whether they are the next ones for a connection, which then has them.

        data: to be kept until they are acknowledged.
        """
        first, self.sent = self.sent, self.sent + records
        if data is not None:
            self.kept.add(first, self.sent, data)
        # While the records before them are being sent again, these wait their turn among those kept.
        return self.written == first

    def check(self, resume: int | None) -> None:
        """Check with which record a session goes on: with one that is held, or with the next one.

        Raises:
            ProtocolError: with another, or the answer does not say.
        """
        if resume is None:
            raise _unusable("the answer does not say where the session goes on")
        if not self.done <= resume <= self.written:
            raise _unusable(
                f"the session goes on with record {resume}; this sender holds {self.done} to {self.written}"
            )

    def acknowledge(self, newest: Acknowledgement) -> None:
        """Take an acknowledgement; raises ProtocolError where it is of records that were not sent."""
        if not self.done <= newest.done <= self.written:
            raise _unusable(
                f"{newest.done} records are acknowledged; {self.done} were before, and {self.written} are sent"
            )
        self.done = newest.done
        self.refused = self._refused_before + newest.refused
        self.kept.drop(newest.done)

    def begin_connection(self) -> None:
        """The next acknowledgement is of another connection, which counts what it refuses from 0."""
        self._refused_before = self.refused

    def go_back(self, resume: int) -> int:
        """Let the next record for a connection be this one; return how many are sent again."""
        again, self.written = self.written - resume, resume
        return again

    def rest(self) -> memoryview:
        """The records that no connection has, for one that takes them now."""
        rest, self.written = self.kept.since(self.written), self.sent
        return rest


def _unusable(why: str) -> ProtocolError:
    return ProtocolError(ErrorCode.BAD_ANSWER, f"{why}; sender and daemon do not fit: update the older one")


class Kept:
    """Records that are not acknowledged yet, in the pieces in which they were handed over.

    nbytes: how much is kept.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._pieces: deque[tuple[int, int, bytes]] = deque()  # number of the first record, of the one after the last

    def add(self, first: int, end: int, data: bytes) -> None:
        """Keep the records with the numbers first ... end - 1; each piece begins where the one before ended."""
        self._pieces.append((first, end, data))
        self.nbytes += len(data)

    def drop(self, done: int) -> None:
        """Let go of the pieces whose records all have lower numbers."""
        while self._pieces and self._pieces[0][1] <= done:
            self.nbytes -= len(self._pieces.popleft()[2])

    def since(self, number: int) -> memoryview:
        """The records from this number on, in one piece: there may be very many small ones."""
        pieces = [piece for piece in self._pieces if piece[1] > number]
        if not pieces:
            return memoryview(b"")
        first, end, data = pieces[0]
        return memoryview(b"".join(data for _, _, data in pieces))[
            max(0, number - first) * (len(data) // (end - first)) :
        ]
