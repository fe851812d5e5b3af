"""Clients: requests and bytes by client over the last minute, in memory that does not grow with the clients."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

from schemas.api.conditions import ConditionsClient, ConditionsClients, ConditionsUse

MOST = 100
"""Clients that are told apart at a time; the others are counted together."""

AGENT_LETTERS = 120
SLICE_S, SLICES = 10.0, 6
"""The minute moves on by a slice."""

Client = tuple[str, str]
"""Address, and what `agent_of` makes of the User-Agent."""


@dataclass(slots=True)
class Use:
    """What somebody has asked: requests, and bytes of the bodies of their answers."""

    requests: int = 0
    nbytes: int = 0

    def add(self, other: "Use") -> None:
        """Add what somebody else has asked, or the same one at another time."""
        self.requests += other.requests
        self.nbytes += other.nbytes


@dataclass(kw_only=True)
class Uses:
    """What each client has asked, and what all others have together."""

    by_client: dict[Client, Use] = field(default_factory=dict)
    others: Use = field(default_factory=Use)

    def count(self, client: Client, nbytes: int) -> None:
        """Count an answer. Of more than MOST clients those that came first are told apart."""
        use = self.by_client.get(client)
        if use is None:
            use = self.others if len(self.by_client) >= MOST else self.by_client.setdefault(client, Use())
        use.requests += 1
        use.nbytes += nbytes

    def add(self, other: "Uses") -> None:
        """Add what was counted elsewhere; of more than MOST clients those with the most requests are told apart."""
        for client, use in other.by_client.items():
            self.by_client.setdefault(client, Use()).add(use)
        self.others.add(other.others)
        if len(self.by_client) > MOST:
            order = sorted(self.by_client, key=lambda client: self.by_client[client].requests, reverse=True)
            for client in order[MOST:]:
                self.others.add(self.by_client.pop(client))


class RecentUses:
    """What was asked within the last minute; counts that come here are of just now.

    clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._slices: deque[tuple[int, Uses]] = deque()

    def add(self, uses: Uses) -> None:
        """Add counts."""
        number = self._slice()
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, Uses()))
        self._slices[-1][1].add(uses)
        self._forget()

    def told(self) -> ConditionsClients:
        """What each client has asked, the one with the most requests first."""
        self._forget()
        every = Uses()
        for _, uses in self._slices:
            every.add(uses)
        oldest_s = (self._slice() - SLICES + 1) * SLICE_S
        return ConditionsClients(
            over_s=self._clock() - max(oldest_s, self._began_s),
            clients=sorted(map(_told, every.by_client.items()), key=attrgetter("requests"), reverse=True),
            others=ConditionsUse(requests=every.others.requests, bytes=every.others.nbytes),
        )

    def _slice(self) -> int:
        return int(self._clock() // SLICE_S)

    def _forget(self) -> None:
        while self._slices and self._slices[0][0] <= self._slice() - SLICES:
            self._slices.popleft()


def _told(of: tuple[Client, Use]) -> ConditionsClient:
    (address, agent), use = of
    return ConditionsClient(address=address, user_agent=agent or None, requests=use.requests, bytes=use.nbytes)


@lru_cache(maxsize=1024)
def agent_of(sent: str) -> str:
    """A User-Agent as a person reads it, of AGENT_LETTERS at most."""
    return "".join(each if each.isprintable() else "?" for each in sent[:AGENT_LETTERS])
