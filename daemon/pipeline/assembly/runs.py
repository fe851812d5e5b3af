"""Runs: one number for all groups, so that (run, trigger) means the same in every table."""

from collections.abc import Collection, Mapping

EPOCHS_MOST = 256
"""Epochs remembered; those that were heard longest ago go first."""


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

    def known(self, epoch: int, had: Collection[int] = ()) -> int | None:
        """The run of an epoch that another group has met; None where it is new.

        had: the runs that other epochs have in the group that asks.
        """
        run = self._epochs.get(epoch)
        return None if run in had else run

    def begin(self, epoch: int) -> int:
        """The number of a new run, which the epoch has from now on."""
        self._current += 1
        self._epochs[epoch] = self._current
        self.heard(epoch)
        if len(self._epochs) > EPOCHS_MOST:
            del self._epochs[next(iter(self._epochs))]
        return self._current
