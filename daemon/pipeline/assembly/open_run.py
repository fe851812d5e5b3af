"""A run with triggers that may still be open, or find late readings."""

from dataclasses import dataclass, field

import numpy as np

from daemon.pipeline.assembly.progress import NEVER, ONE_MOMENT_NS, Progress
from daemon.pipeline.assembly.strays import Strays
from daemon.pipeline.assembly.window import UNKNOWN, Window
from schemas.readings import Array, InstrumentGroup


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
