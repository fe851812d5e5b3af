"""Runs: one number for all groups, so that (run, trigger) means the same in every table."""

from collections.abc import Collection, Container, Mapping
from typing import NamedTuple

EPOCHS_MOST = 256
"""Epochs remembered; those that were heard longest ago go first."""

NUMBERS_MOST = 256
"""Numbers of which is remembered since when they are, the highest."""

NEAR_NS = 60_000_000_000
"""By so much the clocks of two groups that notice one start may differ: TAI is 37 s ahead of UTC."""


class Start(NamedTuple):
    """A start of the timing system as a group notices it; times are those of the instruments, in ns.

    run: the highest that the group had before. last_ns: of its newest triggers before the start, None where it knows
    of none. first_ns: of the first ones after it.
    """

    run: int
    last_ns: int | None
    first_ns: int

    def may_be(self, since_ns: int) -> bool:
        """Whether it may be the one that another group saw at this time: near it, or while this group saw nothing."""
        is_between = (self.last_ns is None or self.last_ns < since_ns) and since_ns <= self.first_ns
        return is_between or abs(since_ns - self.first_ns) < NEAR_NS


class Runs:
    """Numbers the runs of a daemon.

    An epoch has one run, whichever group meets it first; unless a group has that number for another epoch already, as
    daemons with state folders of their own may have given them. Of epoch 0 each group notices a start of the timing
    system by itself, in whatever order their readings come: the first to notice opens a number, and the others join
    that which began when they noticed theirs. What no time proves to be one start has two numbers.

    epochs: the runs of the epochs that are known, the one heard longest ago first. since: when runs began (ns), as far
    as that is known. current: the highest run there is, None before the first.
    """

    def __init__(
        self,
        current: int | None = None,
        epochs: Mapping[int, int] | None = None,
        since: Mapping[int, int] | None = None,
    ) -> None:
        self._epochs = dict(epochs or {})
        self._since = dict(since or {})
        self._current = max([*self._epochs.values(), 0 if current is None else current])

    @property
    def current(self) -> int:
        """The highest run; 1 before the first."""
        return max(1, self._current)

    def join(self, first_ns: int) -> int:
        """The run in which a group begins that knows of none, by the time of its first triggers."""
        number = self._joined(Start(0, None, first_ns))
        if number is None:
            # Of those before the first whose beginning is known the last; of none is known when it ended.
            number = min(self._since, default=self.current + 1) - 1 or self._open(0, first_ns)
        self._current = max(self._current, number)
        self._since.setdefault(number, first_ns)
        return number

    def after(self, start: Start) -> int:
        """The number of the run that a group is in since this start."""
        return self._joined(start) or self._open(start.run, start.first_ns)

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

    def begin(self, epoch: int, start: Start) -> int:
        """The number of the run that an epoch has from now on, which begins with this start."""
        number = self._joined(start, self._epochs.values()) or self._open(start.run, start.first_ns)
        self._epochs[epoch] = number
        self.heard(epoch)
        if len(self._epochs) > EPOCHS_MOST:
            del self._epochs[next(iter(self._epochs))]
        return number

    def _joined(self, start: Start, taken: Container[int] = ()) -> int | None:
        """The number of a start that another group noticed before, if it is this one; none of those that are taken."""
        apart_ns = {
            number: abs(since_ns - start.first_ns)
            for number, since_ns in self._since.items()
            if number > start.run and number not in taken and start.may_be(since_ns)
        }
        return min(apart_ns, key=apart_ns.__getitem__, default=None)

    def _open(self, run: int, since_ns: int) -> int:
        """A new number, above this one, and all others."""
        self._current = max(self._current, run) + 1
        self._since[self._current] = since_ns
        if len(self._since) > NUMBERS_MOST:
            del self._since[min(self._since)]
        return self._current
