"""Closed blocks on their way to the database, oldest first, with the smallest unsettled sequence of each connection.

After a day without a database there are millions of them. Those behind the oldest are remembered together: a
connection is then acknowledged in larger steps, and none too early.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schemas.readings import Array

FINE = 512
"""So many of the oldest closed blocks are remembered each by itself; the database acknowledges these next."""

PART = 128
"""What is remembered together is at most this part of all closed blocks: their number grows with the logarithm."""


@dataclass(slots=True)
class _Group:
    """Successive closed blocks. first: int64, shape (columns,): the smallest sequence of each connection."""

    blocks: int
    first: Array


class Unsettled:
    """Closed blocks in the order in which they closed.

    Args:
        settled: the sequence that stands where a connection has nothing in a closed block.
        fine: see FINE.
    """

    def __init__(self, settled: int, fine: int = FINE) -> None:
        self.blocks = 0
        self._settled = settled
        self._fine = fine
        self._groups: deque[_Group] = deque()
        self._crowded = 4 * fine

    def __len__(self) -> int:
        return len(self._groups)

    def append(self, first: Array, blocks: int = 1) -> None:
        """So many closed blocks more are on their way, and are settled together."""
        self._groups.append(_Group(blocks, first))
        self.blocks += blocks

    def committed(self, blocks: int) -> None:
        """The oldest so many closed blocks are committed."""
        self.blocks -= blocks
        while blocks:
            oldest = self._groups[0]
            done = min(blocks, oldest.blocks)
            oldest.blocks -= done
            blocks -= done
            if not oldest.blocks:
                self._groups.popleft()

    def firsts(self) -> Iterator[Array]:
        """The smallest sequences of each group: int64, shape (columns,)."""
        return (group.first for group in self._groups)

    def forget(self, column: int) -> None:
        """Nobody waits for this connection any more."""
        for group in self._groups:
            if column < len(group.first):
                group.first[column] = self._settled

    def compact(self) -> None:
        """Remember together what may be; nothing is done until it is worth it."""
        if len(self._groups) < self._crowded:
            return
        kept: deque[_Group] = deque()
        most, end = self.blocks // PART, 0
        for group in self._groups:
            start, end = end, end + group.blocks
            last = kept[-1] if kept else None
            if last is not None and start > self._fine and last.blocks + group.blocks <= most:
                kept[-1] = _Group(last.blocks + group.blocks, self._smallest(last.first, group.first))
            else:
                kept.append(group)
        self._groups = kept
        self._crowded = max(4 * self._fine, len(kept) + 2 * self._fine)

    def _smallest(self, a: Array, b: Array) -> Array:
        shorter, longer = sorted((a, b), key=len)
        smallest = longer.copy()
        np.minimum(smallest[: len(shorter)], shorter, out=smallest[: len(shorter)])
        return smallest
