"""Admission: how many connections there may be, and which one goes when there are too many.

Those that have sent their greeting stay; those that have not are worth nothing to anybody yet, and the oldest of them
makes room. So a flood of connections that send nothing cannot keep a sender out that greets at once. Those that have
sent all, and wait for their last acknowledgement, take nobody's place either: what is not acknowledged is sent again.
"""

from collections import Counter
from typing import Generic, Protocol, TypeVar

from schemas.wire import ErrorCode, ProtocolError


class Candidate(Protocol):
    """What admission has to know of a connection."""

    @property
    def address(self) -> str:
        """Where it comes from, without the port."""


V = TypeVar("V", bound=Candidate)


class Admission(Generic[V]):
    """Connections of one source.

    Args:
        most: connections that have greeted and go on; and as many that have sent all.
        most_of_address: of these, behind one address.
        most_ungreeted: connections that have not greeted, or were refused and are not closed yet.
    """

    def __init__(self, *, most: int, most_of_address: int, most_ungreeted: int) -> None:
        self.change(most=most, most_of_address=most_of_address, most_ungreeted=most_ungreeted)
        self._ungreeted: dict[V, None] = {}  # in the order they came
        self._greeted: dict[V, None] = {}
        self._ended: dict[V, None] = {}
        self._of_address: Counter[str] = Counter()

    def change(self, *, most: int, most_of_address: int, most_ungreeted: int) -> None:
        """Let so many in from now on; nobody has to go for it."""
        self._most, self._most_of_address, self._most_ungreeted = most, most_of_address, most_ungreeted

    def __len__(self) -> int:
        return len(self._ungreeted) + len(self._greeted) + len(self._ended)

    def connections(self) -> list[V]:
        """All of them, now."""
        return [*self._ungreeted, *self._greeted, *self._ended]

    def arrive(self, candidate: V) -> V | None:
        """Take in a new connection; return the one that has to go for it."""
        self._ungreeted[candidate] = None
        return _too_many(self._ungreeted, self._most_ungreeted)

    def check(self, candidate: V) -> None:
        """Check that there is a place for a connection that has greeted.

        Raises:
            ProtocolError: there are too many already, of its address or in all.
        """
        if len(self._greeted) >= self._most:
            raise ProtocolError(
                ErrorCode.TOO_MANY_CONNECTIONS,
                f"{len(self._greeted)} senders are connected, and no more are allowed; raise max_connections of "
                "this source, or let a sender serve several instruments",
            )
        if self._of_address[candidate.address] >= self._most_of_address:
            raise ProtocolError(
                ErrorCode.TOO_MANY_CONNECTIONS,
                f"{self._most_of_address} senders are connected from {candidate.address}, and no more are allowed; "
                "raise max_connections_per_address of this source, or let a sender serve several instruments",
            )

    def greet(self, candidate: V) -> None:
        """Let a connection stay for which there is a place."""
        del self._ungreeted[candidate]
        self._greeted[candidate] = None
        self._of_address[candidate.address] += 1

    def end(self, candidate: V) -> V | None:
        """Take note that a connection has sent all; return the one that has to go for it."""
        self.leave(candidate)
        self._ended[candidate] = None
        return _too_many(self._ended, self._most)

    def leave(self, candidate: V) -> None:
        """Forget a connection."""
        self._ungreeted.pop(candidate, None)
        self._ended.pop(candidate, None)
        if candidate in self._greeted:
            del self._greeted[candidate]
            self._of_address[candidate.address] -= 1
            if not self._of_address[candidate.address]:
                del self._of_address[candidate.address]


def _too_many(candidates: dict[V, None], most: int) -> V | None:
    """Take the oldest out if there are too many."""
    if len(candidates) <= most:
        return None
    oldest = next(iter(candidates))
    del candidates[oldest]
    return oldest
