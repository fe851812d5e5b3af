"""Runs: one number for all groups, so that (run, trigger) means the same in every table; and one that is open."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from daemon.pipeline.assembly.progress import NEVER, ONE_MOMENT_NS, Progress
from daemon.pipeline.assembly.strays import Strays
from daemon.pipeline.assembly.window import UNKNOWN, Window
from schemas.readings import Array, InstrumentGroup

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


@dataclass(kw_only=True, eq=False)
class OpenRun:
    """What assembly knows of one run.

    run: its number; 0 before its first trigger, where nobody knows the epoch. epoch: 0 where it is unknown. window:
    its newest triggers. progress: how far it and its instruments are. strays: readings of its epoch that are far ahead.
    started_ns: the earliest time that belongs to it; NEVER where its epoch tells what belongs to it.
    """

    run: int
    epoch: int
    window: Window
    progress: Progress
    strays: Strays
    started_ns: int = field(default=NEVER)

    @classmethod
    def of(cls, group: InstrumentGroup, size: int, *, run: int, epoch: int) -> "OpenRun":
        """A run without triggers; size: of its window."""
        return cls(
            run=run,
            epoch=epoch,
            window=Window(size, group.size),
            progress=Progress(group.size, size // 2),
            strays=Strays(group.size, group.record),
        )

    @property
    def has_begun(self) -> bool:
        """True once it has a trigger, open or closed."""
        return self.progress.front is not None

    def recall(self, history: Array) -> None:
        """Go on from ledger rows, ascending, that an earlier process closed."""
        self.window.recall(history)
        self.progress.resume(history)
        if not self.epoch:
            self.started_ns = int(history["time_ns"].min())
        # Two rows that are a window apart share a place, and the older one is forgotten. Where no two are, as many rows
        # as the window has places fill it, and no trigger below the lowest is opened (`Window.are_behind`).
        triggers = history["trigger"]
        forgotten = triggers[self.window.slots(triggers) == UNKNOWN]
        if len(forgotten):
            self.progress.leave(int(forgotten[-1]))

    def note_begin(self, rows: Array) -> None:
        """See that the run began no later than these triggers of it, ledger rows, if none tell so before.

        Where the node's clock gives the times, and was set back since, it would begin in the future. Only triggers of
        most instruments that take part tell: clocks may be wrong. Within a moment readings of the run before may count.
        """
        is_earlier = rows["time_ns"] < self.started_ns - ONE_MOMENT_NS
        if self.started_ns == NEVER:
            is_earlier[:] = True
        if is_earlier.any():
            is_earlier &= 2 * rows["arrived"] > np.count_nonzero(self.progress.active())
            times = rows["time_ns"][is_earlier]
            self.started_ns = int(times.min()) if len(times) else self.started_ns
