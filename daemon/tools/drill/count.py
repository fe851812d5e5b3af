"""Counting in the database: every reading that was acknowledged once, none twice, and none that was never sent."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from backends.base import Store
from daemon.tools.drill.machine import Machine
from schemas.ledger import unpack_missing
from schemas.queries import LedgerRows, LedgerTail, WindowReadings
from schemas.readings import Array

WINDOW = 20_000
"""Events asked for at once."""
ROWS = 1000
"""Ledger rows asked for at once."""
BEGIN_NS, END_NS = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Count:
    """What was found.

    found: distinct readings that were sent. lost: acknowledged, and not found. doubled: found more than once.
    altered: found with another time or value than was sent. strange: found, and never sent.
    misplaced: found in another run than most readings of their run, or in one with those of another.
    unledgered: events whose ledger row is not there once, or tells of other readings than there are; and rows of none.
    """

    found: int
    lost: int
    doubled: int
    altered: int
    strange: int
    misplaced: int
    unledgered: int

    @property
    def faults(self) -> dict[str, int]:
        """The counts that should be 0 and are not, by name."""
        return {name: count for name, count in asdict(self).items() if name != "found" and count}


class Tally:
    """Compares readings found with those sent and acknowledged; both bool, shape (events, instruments)."""

    def __init__(self, machine: Machine, sent: Array, acknowledged: Array) -> None:
        self._machine = machine
        self._sent = sent
        self._acknowledged = acknowledged
        self._seen = np.zeros(sent.shape, np.int32)
        self._altered = 0
        self._strange = 0
        self._in_run: dict[tuple[int, int], int] = {}
        """Readings by the store's number of their run, and the machine's."""

    def add(self, found: Array) -> None:
        """Count readings: answer dtype of the group, shape (readings,)."""
        events = self._events(found)
        known = (events >= 1) & (events <= len(self._seen))
        known &= (found["instrument"] >= 0) & (found["instrument"] < self._machine.instruments)
        self._strange += int(len(found) - known.sum())
        found, events = found[known], events[known]
        self._altered += int(len(found) - self._machine.matches(events, found).sum())
        np.add.at(self._seen, (events - 1, found["instrument"]), 1)
        pairs = np.stack([found["run"], self._machine.runs.of(events)], axis=1)
        for (run, real), count in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
            self._in_run[int(run), int(real)] = self._in_run.get((int(run), int(real)), 0) + int(count)

    @property
    def runs(self) -> list[int]:
        """The store's numbers of the runs that readings were found of, ascending."""
        return sorted({run for run, _ in self._in_run})

    def count(self, ledger: Array) -> Count:
        """Give the result. ledger: ledger dtype, shape (rows,)."""
        seen = self._seen > 0
        return Count(
            found=int((seen & self._sent).sum()),
            lost=int((self._acknowledged & ~seen).sum()),
            doubled=int((self._seen > 1).sum()),
            altered=self._altered,
            strange=self._strange + int((seen & ~self._sent).sum()),
            misplaced=self._misplaced(),
            unledgered=self._unledgered(ledger),
        )

    def _events(self, found: Array) -> Array:
        """The event of each reading: that of its value, or, where its trigger is another, that of its run."""
        runs = self._machine.runs
        events = self._machine.events(found)
        told = np.where(events > 0, events, 1)
        right = (events > 0) & (runs.trigger(told) == found["trigger"])
        for run in np.unique(found["run"][~right]).tolist():
            of_run = right & (found["run"] == run)
            real = int(np.bincount(runs.of(events[of_run])).argmax()) if of_run.any() else 0
            wrong = ~right & (found["run"] == run)
            events[wrong] = runs.firsts[real] + found["trigger"][wrong] - 1
        return events

    def _real(self) -> dict[int, int]:
        """The machine's run that most readings of each of the store's runs are of."""
        ordered = sorted(self._in_run.items(), key=lambda item: item[1])
        return {run: real for (run, real), _ in ordered}

    def _misplaced(self) -> int:
        """Readings beyond one run of the store for each of the machine's, and the other way around."""
        real, most = self._real(), dict[int, int]()
        for (run, of), count in self._in_run.items():
            if real[run] == of:
                most[of] = max(most.get(of, 0), count)
        return sum(self._in_run.values()) - sum(most.values())

    def _unledgered(self, ledger: Array) -> int:
        real = self._real()
        # Where a store has no readings of a run, its rows are of none; without any restart there is but one.
        runs = self._machine.runs
        alone = 0 if len(runs.firsts) == 1 else -1
        of = np.array([real.get(run, alone) for run in ledger["run"].tolist()], np.int64)
        events = np.where(of >= 0, runs.firsts[of] + ledger["trigger"] - 1, 0)
        known = (events >= 1) & (events <= len(self._seen)) & (runs.of(events) == of)
        ledger, events = ledger[known], events[known]
        here = self._seen > 0
        rows = np.bincount(events - 1, minlength=len(here))
        wrong = rows != here.any(axis=1)
        told = ~unpack_missing(ledger["missing"], self._machine.instruments)
        differs = (told != here[events - 1]).any(axis=1) | (ledger["arrived"] != here[events - 1].sum(axis=1))
        wrong[events[differs] - 1] = True
        return int(wrong.sum() + (~known).sum())


async def count_in(store: Store, machine: Machine, sent: Array, acknowledged: Array) -> Count:
    """Count what an open store holds of a machine's readings."""
    tally = Tally(machine, sent, acknowledged)
    for start_ns, end_ns in windows(machine, len(sent)):
        tally.add(await store.ask(WindowReadings(group=machine.group, start_ns=start_ns, end_ns=end_ns)))
    return tally.count(await _ledger(store, machine, tally.runs, len(sent)))


async def _ledger(store: Store, machine: Machine, runs: Sequence[int], events: int) -> Array:
    """The ledger rows of all triggers that may have been sent, and those of the newest run that none can be of."""
    tail = await store.ask(LedgerTail(group=machine.group, most=2 * events + 1))
    rows = [tail[(tail["trigger"] < 1) | (tail["trigger"] > events)]]
    for run in runs:
        for first in range(1, events + 1, ROWS):
            triggers = tuple(range(first, min(first + ROWS, events + 1)))
            rows.append(await store.ask(LedgerRows(group=machine.group, run=run, triggers=triggers)))
    return np.concatenate(rows)


def windows(machine: Machine, events: int) -> Iterator[tuple[int, int]]:
    """All of time in windows of about WINDOW events, as clocks may be anywhere."""
    bounds = [machine.start_ns + round(first * 1e9 / machine.rate) for first in range(WINDOW, events, WINDOW)]
    yield from zip([BEGIN_NS, *bounds], [*bounds, END_NS], strict=True)
