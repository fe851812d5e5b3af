"""New epochs: how many may begin that fewer than most instruments send."""

from collections import deque

import numpy as np

from schemas.readings import Array

WITHIN_NS = 3_600_000_000_000

NEW_MOST = 64
"""So many epochs may begin in an hour: a mad instrument must not open a run with each of its readings."""

NEW_OF_ONE = 16
"""So many may begin by one instrument, however many the others have begun."""


class NewEpochs:
    """Counts the epochs that began in a group within an hour before most instruments had sent them."""

    def __init__(self, instruments: int) -> None:
        self._begun: deque[tuple[int, int]] = deque()  # when, and by which instrument
        self._by = np.zeros(instruments, np.int32)

    def take(self, instruments: Array, monotonic_ns: int) -> bool:
        """Return whether an epoch may begin, and if so count it.

        instruments: those that sent it, distinct; one at least. It counts for the one with the fewest, which is the
            last to be a mad one.
        """
        self._forget(monotonic_ns - WITHIN_NS)
        by = int(instruments[self._by[instruments].argmin()])
        if len(self._begun) >= NEW_MOST and self._by[by] >= NEW_OF_ONE:
            return False
        self._begun.append((monotonic_ns, by))
        self._by[by] += 1
        return True

    def _forget(self, until_ns: int) -> None:
        while self._begun and self._begun[0][0] < until_ns:
            self._by[self._begun.popleft()[1]] -= 1
