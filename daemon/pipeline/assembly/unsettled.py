"""Closed blocks on their way to the database, oldest first, with the smallest unsettled sequence of each connection.

After a day without a database there are millions of them. Those that are on the disk, and behind the oldest, are
remembered together: a connection that waits for the database is then acknowledged in larger steps, and none too early.
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
class _Stretch:
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
        self._stretches: deque[_Stretch] = deque()
        self._crowded = 4 * fine

    def __len__(self) -> int:
        return len(self._stretches)

    def append(self, first: Array) -> None:
        """Another closed block is on its way."""
        self._stretches.append(_Stretch(1, first))
        self.blocks += 1

    def committed(self, blocks: int) -> None:
        """The oldest so many closed blocks are committed."""
        self.blocks -= blocks
        while blocks:
            oldest = self._stretches[0]
            done = min(blocks, oldest.blocks)
            oldest.blocks -= done
            blocks -= done
            if not oldest.blocks:
                self._stretches.popleft()

    def firsts(self) -> Iterator[tuple[int, Array]]:
        """For each stretch: the closed block at which it ends, counted from the oldest, and its smallest sequences."""
        end = 0
        for stretch in self._stretches:
            end += stretch.blocks
            yield end, stretch.first

    def forget(self, column: int) -> None:
        """Nobody waits for this connection any more."""
        for stretch in self._stretches:
            if column < len(stretch.first):
                stretch.first[column] = self._settled

    def compact(self, upto: int) -> None:
        """Remember together what may be, of the oldest `upto` closed blocks; nothing is done until it is worth it."""
        if len(self._stretches) < self._crowded:
            return
        kept: deque[_Stretch] = deque()
        most, end = self.blocks // PART, 0
        for stretch in self._stretches:
            start, end = end, end + stretch.blocks
            last = kept[-1] if kept else None
            may_join = last is not None and start > self._fine and end <= upto
            if may_join and last is not None and last.blocks + stretch.blocks <= most:
                kept[-1] = _Stretch(last.blocks + stretch.blocks, self._smallest(last.first, stretch.first))
            else:
                kept.append(stretch)
        self._stretches = kept
        self._crowded = max(4 * self._fine, len(kept) + 2 * self._fine)

    def _smallest(self, a: Array, b: Array) -> Array:
        shorter, longer = sorted((a, b), key=len)
        smallest = longer.copy()
        np.minimum(smallest[: len(shorter)], shorter, out=smallest[: len(shorter)])
        return smallest
