"""The choice of readings that are exported, and the span of time that holds them."""

import time
from dataclasses import dataclass

import numpy as np

from backends.base import Store
from backends.columns.stored import SLACK_NS
from daemon.core.outcome import CommandFailed
from schemas.queries import LedgerRow, LedgerTail, Totals
from schemas.readings import Array, Channel, InstrumentGroup

COUNT_S = 3600.0
"""How long the server may take to find the first trigger: it scans the ledger for that."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which readings of a group; None means all.

    start_ns, end_ns: start_ns <= time_ns < end_ns (ns since 1970-01-01 UTC).
    run: of this run; with `triggers` None is the newest.
    triggers: trigger numbers, the first and the last of them.
    instruments: their numbers.
    channels: what of a reading is written.
    """

    group: InstrumentGroup
    channels: tuple[Channel, ...]
    start_ns: int | None = None
    end_ns: int | None = None
    run: int | None = None
    triggers: tuple[int, int] | None = None
    instruments: tuple[int, ...] | None = None

    def of(self, readings: Array) -> Array:
        """The readings that are chosen."""
        wanted = np.ones(len(readings), bool)
        if self.run is not None:
            wanted &= readings["run"] == self.run
        if self.triggers is not None:
            wanted &= (readings["trigger"] >= self.triggers[0]) & (readings["trigger"] <= self.triggers[1])
        if self.instruments is not None:
            wanted &= np.isin(readings["instrument"], self.instruments)
        return readings if wanted.all() else readings[wanted]


@dataclass(frozen=True, kw_only=True)
class Span:
    """start_ns <= time_ns < end_ns, ns since 1970-01-01 UTC."""

    start_ns: int
    end_ns: int


async def newest_run(store: Store, group: InstrumentGroup) -> int:
    """Number of the newest run of a group.

    Raises:
        CommandFailed: nothing is stored of it.
    """
    newest = await store.ask(LedgerTail(group=group, most=1))
    if not len(newest):
        raise nothing(group)
    return int(newest["run"][0])


async def span_of(store: Store, choice: Choice) -> Span:
    """Find the span of time of the chosen readings; the database is asked only for what is not given.

    Raises:
        CommandFailed: the span is empty.
    """
    start_ns, end_ns = choice.start_ns, choice.end_ns
    if choice.triggers is not None:
        around = await _around_triggers(store, choice, choice.triggers)
        if around is not None:
            start_ns = around.start_ns if start_ns is None else max(start_ns, around.start_ns)
            end_ns = around.end_ns if end_ns is None else min(end_ns, around.end_ns)
    if start_ns is not None and end_ns is None and choice.run is None:
        end_ns = await _up_to_now(store, choice.group)
    if start_ns is None or end_ns is None:
        whole = await _in_ledger(store, choice)
        start_ns = whole.start_ns if start_ns is None else start_ns
        end_ns = whole.end_ns if end_ns is None else end_ns
    if start_ns >= end_ns:
        raise CommandFailed(f"nothing of group {choice.group.name} can be in an empty range; no file was written")
    return Span(start_ns=start_ns, end_ns=end_ns)


def nothing(group: InstrumentGroup) -> CommandFailed:
    """The error for a group without readings."""
    return CommandFailed(f"nothing is stored of group {group.name}; no file was written")


async def _around_triggers(store: Store, choice: Choice, triggers: tuple[int, int]) -> Span | None:
    """By the ledger's rows of the first and the last; None where one of them is not there."""
    ends = [await store.ask(LedgerRow(group=choice.group, run=choice.run, trigger=trigger)) for trigger in triggers]
    if not all(len(row) for row in ends):
        return None
    first_ns, last_ns = int(ends[0]["first_ns"][0]), int(ends[1]["last_ns"][0])
    # What came late into one of them may be earlier or later than its own readings.
    return Span(start_ns=first_ns - SLACK_NS, end_ns=last_ns + SLACK_NS)


async def _up_to_now(store: Store, group: InstrumentGroup) -> int:
    """Instruments' clocks may be ahead of this one, or simulated ones anywhere."""
    newest = await store.ask(LedgerTail(group=group, most=1))
    return max([time.time_ns(), *(int(last_ns) + SLACK_NS for last_ns in newest["last_ns"])])


async def _in_ledger(store: Store, choice: Choice) -> Span:
    runs = await store.ask(Totals(group=choice.group, within_s=COUNT_S))
    there = runs[(runs["triggers"] > 0) & (True if choice.run is None else runs["run"] == choice.run)]
    if not len(there):
        raise (
            nothing(choice.group)
            if choice.run is None
            else CommandFailed(
                f"--run: nothing is stored of run {choice.run} of group {choice.group.name}; no file was written"
            )
        )
    return Span(start_ns=int(there["first_ns"].min()) - SLACK_NS, end_ns=int(there["last_ns"].max()) + SLACK_NS)
