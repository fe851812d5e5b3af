"""Runs: one number for all groups, so that (run, trigger) means the same in every table."""

from collections import deque
from collections.abc import Mapping

EPOCHS_MOST = 256
"""Epochs remembered; the timing system counts up, so the least go first, and what is less than all is older."""

NEW_MOST = 64
NEW_WITHIN_NS = 3_600_000_000_000
"""So many epochs may begin in an hour: a mad instrument must not open a run with each of its readings."""


class Runs:
    """Numbers the runs of a daemon.

    An epoch has one run, whichever group meets it first. Of epoch 0 each group notices a restart of the timing system
    by itself, one a little after the other: the first to notice opens a number, and the others join it.

    epochs: the runs of the epochs that are known. current: the highest run there is, None before the first.
    """

    def __init__(self, current: int | None = None, epochs: Mapping[int, int] | None = None) -> None:
        self._epochs = dict(sorted((epochs or {}).items())[-EPOCHS_MOST:])
        self._current = max([*self._epochs.values(), 0 if current is None else current])
        self._begun_ns: deque[int] = deque()

    @property
    def current(self) -> int:
        """The highest run; 1 before the first."""
        return max(1, self._current)

    def join(self) -> int:
        """The run in which a group begins that knows of none."""
        self._current = self.current
        return self._current

    def after(self, run: int) -> int:
        """The number for a group whose run `run` has ended."""
        if self._current <= run:
            self._current = run + 1
        return self._current

    def known(self, epoch: int) -> int | None:
        """The run of an epoch, if it has one."""
        return self._epochs.get(epoch)

    def of(self, epoch: int, monotonic_ns: int) -> int | None:
        """The run of an epoch, a new one where it is new; None where it may have none.

        That is where it is older than all that are remembered, or too many have begun.
        """
        run = self._epochs.get(epoch)
        if run is not None:
            return run
        while self._begun_ns and self._begun_ns[0] < monotonic_ns - NEW_WITHIN_NS:
            self._begun_ns.popleft()
        if len(self._begun_ns) >= NEW_MOST or (len(self._epochs) >= EPOCHS_MOST and epoch < min(self._epochs)):
            return None
        self._begun_ns.append(monotonic_ns)
        self._current += 1
        self._epochs[epoch] = self._current
        if len(self._epochs) > EPOCHS_MOST:
            del self._epochs[min(self._epochs)]
        return self._current
