"""Counting in the database: every reading that was acknowledged once, none twice, and none that was never sent."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backends.base import Store
from daemon.tools.drill.machine import Machine
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array

WINDOW = 20_000
"""Triggers asked for at once."""
BEGIN_NS, END_NS = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Count:
    """What was found.

    found: distinct readings that were sent. lost: acknowledged, and not found. doubled: found more than once.
    altered: found with another time or value than was sent. strange: found, and never sent.
    unledgered: triggers whose ledger row is not there once, or has another number of readings than there are.
    """

    found: int
    lost: int
    doubled: int
    altered: int
    strange: int
    unledgered: int

    @property
    def faults(self) -> dict[str, int]:
        """The counts that should be 0 and are not, by name."""
        counts = {name: int(getattr(self, name)) for name in ("lost", "doubled", "altered", "strange", "unledgered")}
        return {name: count for name, count in counts.items() if count}


class Tally:
    """Compares readings found with those sent and acknowledged; both bool, shape (triggers, instruments)."""

    def __init__(self, machine: Machine, sent: Array, acknowledged: Array) -> None:
        self._machine = machine
        self._sent = sent
        self._acknowledged = acknowledged
        self._seen = np.zeros(sent.shape, np.int32)
        self._altered = 0
        self._strange = 0

    def add(self, found: Array) -> None:
        """Count readings: answer dtype of the group, shape (readings,)."""
        triggers, instruments = len(self._seen), self._machine.instruments
        known = (found["trigger"] >= 1) & (found["trigger"] <= triggers)
        known &= (found["instrument"] >= 0) & (found["instrument"] < instruments)
        self._strange += int(len(found) - known.sum())
        found = found[known]
        self._altered += int(len(found) - self._machine.matches(found).sum())
        np.add.at(self._seen, (found["trigger"] - 1, found["instrument"]), 1)

    def count(self, ledger: Array) -> Count:
        """Give the result. ledger: ledger dtype, shape (rows,)."""
        seen = self._seen > 0
        return Count(
            found=int((seen & self._sent).sum()),
            lost=int((self._acknowledged & ~seen).sum()),
            doubled=int((self._seen > 1).sum()),
            altered=self._altered,
            strange=self._strange + int((seen & ~self._sent).sum()),
            unledgered=self._unledgered(ledger),
        )

    def _unledgered(self, ledger: Array) -> int:
        triggers = len(self._seen)
        known = ledger[(ledger["trigger"] >= 1) & (ledger["trigger"] <= triggers)]
        rows = np.bincount(known["trigger"] - 1, minlength=triggers)
        arrived = np.bincount(known["trigger"] - 1, weights=known["arrived"], minlength=triggers)
        here = (self._seen > 0).sum(axis=1)
        return int(((rows != (here > 0)) | (arrived != here)).sum())


async def count_in(store: Store, machine: Machine, sent: Array, acknowledged: Array) -> Count:
    """Count what an open store holds of a machine's readings."""
    tally = Tally(machine, sent, acknowledged)
    for start_ns, end_ns in windows(machine, len(sent)):
        tally.add(await store.ask(WindowReadings(group=machine.group, start_ns=start_ns, end_ns=end_ns)))
    return tally.count(await store.ask(LedgerTail(group=machine.group, most=2 * len(sent) + 1)))


def windows(machine: Machine, triggers: int) -> Iterator[tuple[int, int]]:
    """All of time in windows of about WINDOW triggers, as clocks may be anywhere."""
    bounds = [machine.start_ns + round(first * 1e9 / machine.rate) for first in range(WINDOW, triggers, WINDOW)]
    yield from zip([BEGIN_NS, *bounds], [*bounds, END_NS], strict=True)
