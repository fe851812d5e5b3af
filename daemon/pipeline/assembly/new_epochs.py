"""New epochs: how many may begin, whatever one instrument sends."""

from collections import deque

import numpy as np

from schemas.readings import Array

WITHIN_NS = 3_600_000_000_000

NEW_MOST = 64
"""So many epochs may begin in an hour: a mad instrument must not open a run with each of its readings. As many again
that most instruments send: a mad sender may have the numbers of all of them."""

NEW_OF_ONE = 16
"""So many may begin by one instrument, however many the others have begun."""


class NewEpochs:
    """Counts the epochs that began in a group within an hour."""

    def __init__(self, instruments: int) -> None:
        self._begun: deque[tuple[int, int]] = deque()  # when, and by which instrument
        self._by = np.zeros(instruments, np.int32)
        self._of_most: deque[int] = deque()

    def take(self, instruments: Array, monotonic_ns: int, *, is_of_most: bool) -> bool:
        """Whether an epoch may begin, and if so count it.

        instruments: those that sent it, distinct; one at least. It counts for the one with the fewest, which is the
            last to be a mad one. is_of_most: whether they are most of those that take part.
        """
        self._forget(monotonic_ns - WITHIN_NS)
        by = int(instruments[self._by[instruments].argmin()])
        if len(self._begun) < NEW_MOST or self._by[by] < NEW_OF_ONE:
            self._begun.append((monotonic_ns, by))
            self._by[by] += 1
            return True
        if is_of_most and len(self._of_most) < NEW_MOST:
            self._of_most.append(monotonic_ns)
            return True
        return False

    def _forget(self, until_ns: int) -> None:
        while self._begun and self._begun[0][0] < until_ns:
            self._by[self._begun.popleft()[1]] -= 1
        while self._of_most and self._of_most[0] < until_ns:
            self._of_most.popleft()
