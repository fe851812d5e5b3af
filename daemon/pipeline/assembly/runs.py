"""Runs: one number for all groups, so that (run, trigger) means the same in every table."""

from collections import deque
from collections.abc import Collection, Mapping

EPOCHS_MOST = 256
"""Epochs remembered; those that were heard longest ago go first."""

NEW_MOST = 64
NEW_WITHIN_NS = 3_600_000_000_000
"""So many epochs may begin in an hour: a mad instrument must not open a run with each of its readings."""


class Runs:
    """Numbers the runs of a daemon.

    An epoch has one run, whichever group meets it first; unless a group has that number for another epoch already, as
    daemons with state folders of their own may have given them. Of epoch 0 each group notices a restart of the timing
    system by itself, one a little after the other: the first to notice opens a number, and the others join it.

    epochs: the runs of the epochs that are known, the one heard longest ago first. current: the highest run there is,
    None before the first.
    """

    def __init__(self, current: int | None = None, epochs: Mapping[int, int] | None = None) -> None:
        self._epochs = dict(epochs or {})
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

    def heard(self, epoch: int) -> None:
        """Take note that a group is in this epoch: it is not to be forgotten before others."""
        if epoch in self._epochs:
            self._epochs[epoch] = self._epochs.pop(epoch)

    def of(self, epoch: int, monotonic_ns: int, had: Collection[int] = ()) -> int | None:
        """The run of an epoch, a new one where it is new; None where too many have begun.

        had: the runs that other epochs have in the group that asks.
        """
        run = self._epochs.get(epoch)
        if run is not None and run not in had:
            self.heard(epoch)
            return run
        while self._begun_ns and self._begun_ns[0] < monotonic_ns - NEW_WITHIN_NS:
            self._begun_ns.popleft()
        if len(self._begun_ns) >= NEW_MOST:
            return None
        self._begun_ns.append(monotonic_ns)
        self._current += 1
        self._epochs[epoch] = self._current
        self.heard(epoch)
        if len(self._epochs) > EPOCHS_MOST:
            del self._epochs[next(iter(self._epochs))]
        return self._current
