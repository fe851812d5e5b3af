"""The open runs of one group: which are in memory, and which of them is the current one."""

from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.progress import NEVER, are_most
from daemon.pipeline.assembly.runs import EPOCHS_MOST, OpenRun, Runs
from schemas.readings import Array, InstrumentGroup

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


RUNS_MOST = 8
"""Runs with an epoch in memory: the current one, the one before, and some for instruments with epochs of their own."""

ROWS_MOST = 65_536
"""Ledger rows of runs of few instruments that are forgotten, and go on when most send their epochs."""


class OpenRuns:
    """Runs that take readings; of those before only the numbers are known.

    current: the run of readings without an epoch, and the one that is shown. before: where nobody knows the epochs, the
    run that was current before; late readings still come for it.
    """

    def __init__(
        self, group: InstrumentGroup, window: int, runs: Runs, history: Array | None, epochs: Mapping[int, int]
    ) -> None:
        self._group = group
        self._window = window
        self._runs = runs
        self._new = NewEpochs(group.size)
        self._epochs: dict[int, OpenRun] = {}  # the one heard longest ago first
        self._rows: dict[int, tuple[Array, int]] = {}  # and `left` of forgotten runs, by epoch
        self._home = np.zeros(group.size, np.int32)  # the run in which each instrument was heard last
        self._had = dict(epochs)  # the run of each epoch, the one heard longest ago first
        self._highest = max(epochs.values(), default=0)  # of these, and of those that are forgotten
        self._forgotten = 0  # the highest run that the group may have had with an epoch that nobody knew
        self._brief = 0
        self._since_ns = NEVER  # when the current run became that (monotonic)
        self.before: OpenRun | None = None
        self.current = OpenRun.of(group, window, run=0, epoch=0)
        if history is not None and len(history):
            self._forgotten = int(history["run"].min()) - 1
            for number in np.unique(history["run"]).tolist():
                self._recall(history[history["run"] == number])
        within = self._epochs.get(next(reversed(epochs), 0))
        if within is not None and within is not self.current and self.current.epoch:
            self._make_current(within)

    def _recall(self, history: Array) -> None:
        run = OpenRun.of(self._group, self._window, run=int(history["run"][-1]), epoch=int(history["epoch"][-1]))
        run.recall(history)
        run.progress.left = max(run.progress.left, int(history["trigger"][0]))
        self._forget_before()
        self.before = self.current if self.current.run else None
        if run.epoch:
            self._epochs[run.epoch] = run
            self._note(run.epoch, run.run)
        self.current = run

    def __iter__(self) -> Iterator[OpenRun]:
        """All of them, each once."""
        runs = (*self._epochs.values(), self.before, self.current)
        return iter(dict.fromkeys(run for run in runs if run is not None))

    @property
    def number(self) -> int:
        """The number of the current run."""
        return self.current.run or self._runs.current

    @property
    def begun(self) -> int:
        """The newest run that has a trigger; 0 where there is none.

        Not one of an epoch that few instruments sent: it may be garbage.
        """
        runs = (run for run in self if run.has_begun and (not run.epoch or run.progress.is_of_most))
        return max((run.run for run in runs), default=0)

    @property
    def brief(self) -> int:
        """The number of runs in a row, up to now, that had one trigger each: an epoch changes with each trigger."""
        return self._brief if self.current.progress.closed <= 1 else 0

    def of_number(self, number: int) -> OpenRun | None:
        """The open run with this number, if it is one."""
        return self.current if self.current.run == number else next((run for run in self if run.run == number), None)

    def of_epoch(self, epoch: int) -> OpenRun | None:
        """The open run of an epoch."""
        run = self._epochs.get(epoch)
        if run is not None and len(self._epochs) > 1:
            self._epochs[epoch] = self._epochs.pop(epoch)
        return run

    def is_over(self, epoch: int) -> bool:
        """Tell whether the group had this epoch, and knows nothing of it any more but that."""
        return epoch in self._had and epoch not in self._epochs and epoch not in self._rows

    def number_of(self, epoch: int) -> int:
        """The run that an epoch had in this group, or may have had; 0 where it had none, or its rows are known here."""
        if epoch in self._had:
            return 0 if epoch in self._rows else self._had[epoch]
        number = self._runs.known(epoch, self._had.values())
        return number if number is not None and self._may_have_had(number) else 0

    def heard(self, run: OpenRun, instruments: Array) -> None:
        """Note that these instruments are in a run now."""
        if len(self._epochs) > 1:
            self._home[instruments] = run.run

    def active(self) -> Array:
        """Return which instruments took part lately: in the run before, where the current one has no trigger yet.

        bool, shape (instruments,).
        """
        run = self.before if self.before is not None and self.is_announced else self.current
        return run.progress.active()

    @property
    def is_announced(self) -> bool:
        """True where the next reading begins the current run, since a restart was announced."""
        return self.before is not None and not self.current.has_begun

    def leaving(self) -> OpenRun | None:
        """Return the run that has to be forgotten before another epoch can begin: one with the fewest instruments."""
        return self._least()[0] if len(self._epochs) >= RUNS_MOST else None

    def _least(self) -> tuple[OpenRun, int]:
        """Return the run that the fewest instruments are in, of those that may be forgotten, and how many these are."""
        runs = [run for run in self._epochs.values() if run is not self.current and run is not self.before]
        inside = [int(np.count_nonzero(self._home == run.run)) for run in runs]
        least = min(inside)
        return runs[inside.index(least)], least

    def leave(self, run: OpenRun) -> None:
        """Forget a run, of which nothing is open."""
        del self._epochs[run.epoch]
        rows = run.window.rows()
        if len(rows) and not run.progress.is_of_most:
            self._rows[run.epoch] = rows, run.progress.left
            while sum(len(each) for each, _ in self._rows.values()) > ROWS_MOST:
                del self._rows[next(iter(self._rows))]
        self._had[run.epoch] = self._had.pop(run.epoch)

    def _forget_before(self) -> None:
        if self.before is not None and not self.before.epoch:
            self._forgotten = max(self._forgotten, self.before.run)

    def number_for(self, epoch: int, instruments: Array, heard: Array, now: Instant) -> int | None:
        """Return the run for an epoch that the group does not know; None where it may have none.

        An epoch that most active instruments sent always has one. Another has none where it may be one that is
        forgotten: the timing system counts up, as a rule; and, but if it is of most that were heard lately, where too
        many have begun or it would take the place of a run that instruments are in; nor where the group may have had
        its run without knowing the epoch: no trigger of that is opened twice.

        instruments: those of which readings of it are here. heard: which were heard lately, bool, shape (instruments,).
        """
        within = self.current.epoch or (self.before.epoch if self.before is not None else 0)
        is_of_most = are_most(instruments, self.active())
        if epoch in self._rows:
            return self._had[epoch] if is_of_most or are_most(instruments, heard) else None
        if not is_of_most and len(self._had) >= EPOCHS_MOST and epoch < (within or min(self._had)):
            return None
        is_of_most |= are_most(instruments, heard)
        if not is_of_most and len(self._epochs) >= RUNS_MOST and self._least()[1]:
            return None
        number = self._runs.known(epoch, self._had.values())
        if number is not None and (self._is_of_few(number) or self._may_have_had(number)):
            if not is_of_most:
                return None
            number = None
        if number is None and not is_of_most and not self._new.take(instruments, now.monotonic_ns):
            return None
        self._runs.heard(within)
        self._runs.heard(epoch)
        return self._runs.begin(epoch) if number is None else number

    def _is_of_few(self, number: int) -> bool:
        """Tell whether this is an open run in which few instruments have sent triggers without an epoch."""
        run = self.of_number(number)
        return run is not None and run.has_begun and not run.progress.is_of_most

    def _may_have_had(self, number: int) -> bool:
        """Tell whether the group may have had this run, of an epoch that is not remembered or was not known."""
        is_remembered = len(self._had) < EPOCHS_MOST or number > self._highest
        return self.of_number(number) is None and (not is_remembered or number <= self._forgotten)

    def begin(self, epoch: int, number: int, instruments: Array) -> OpenRun:
        """Begin the run of an epoch that the group has not had; instruments: those of which readings of it are here."""
        # A run that was announced without its epoch waits for most instruments, or for readings without one.
        waits = self.is_announced and not are_most(instruments, self.active())
        runs = (self.before,) if waits else (self.current, self.before)
        run = next((run for run in runs if _may_be(run, number)), None)
        assert number not in {each.run for each in self if each is not run}, "of a number there is one run"
        if run is None:
            run = OpenRun.of(self._group, self._window, run=number, epoch=epoch)
        if number <= self._highest:
            run.window.note_earlier()
        if epoch in self._rows:
            rows, left = self._rows.pop(epoch)
            run.recall(rows)
            run.progress.leave(left - 1)
        self._note(epoch, number)
        run.epoch, run.run = epoch, number
        self._epochs[epoch] = run
        return run

    def _note(self, epoch: int, number: int) -> None:
        self._had[epoch] = number
        self._highest = max(self._highest, number)
        if len(self._had) > EPOCHS_MOST:
            gone = next(each for each in self._had if each != epoch and each not in self._epochs)
            del self._had[gone]
            self._rows.pop(gone, None)

    def restart(self, now: Instant) -> OpenRun:
        """Move to a run of which nobody knows the epoch; return it. It has its number from its first trigger on."""
        self.move_to(OpenRun.of(self._group, self._window, run=0, epoch=0), now)
        return self.current

    def move_to(self, run: OpenRun, now: Instant) -> None:
        """Make a run the current one; of the one before that is forgotten nothing may be open."""
        self._since_ns = now.monotonic_ns
        self._make_current(run)

    def _make_current(self, run: OpenRun) -> None:
        self._forget_before()
        self._brief = self._brief + 1 if self.current.progress.closed == 1 else 0
        self.before, self.current = self.current if self.current.run else self.before, run

    def join(self, run: OpenRun) -> None:
        """See that a run has a number: its first trigger is there."""
        if run.run:
            return
        if self.before is None:
            run.run = self._runs.join()
        else:  # not one that the group has had: of another epoch, of which a lone instrument may have sent
            run.run = self._runs.after(max([self._forgotten, self._highest, *(each.run for each in self)]))

    def leads(self, run: OpenRun) -> bool:
        """Return whether most instruments of both were heard in this run later than in the current one.

        They were so in triggers that opened since that is the current one: it may have been announced.
        """
        heard = run.progress.heard_after(self.current.progress, self._since_ns)
        return run is not self.current and are_most(heard, self.active())


def _may_be(run: OpenRun | None, number: int) -> bool:
    """Whether a run without an epoch is the one with this number.

    It is where nothing has begun yet; or the group noticed a restart by itself, and joined another's epoch.
    """
    return run is not None and not run.epoch and run.run in (0, number)
