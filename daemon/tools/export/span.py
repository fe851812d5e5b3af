"""The choice of readings that are exported, and the span of time that holds them."""

import time
from dataclasses import dataclass

import numpy as np

from backends.base import AnswerTooLarge, Store
from daemon.core.outcome import CommandFailed
from schemas.queries import LedgerRows, LedgerTail, Totals, WindowReadings
from schemas.readings import Array, Channel, InstrumentGroup

COUNT_S = 3600.0
"""How long the server may take to find the first trigger: it scans the ledger for that."""

AT_ONCE = 1_000
MANY = 100_000
"""Of more triggers than these the whole ledger is gone through, which takes less time than so many questions."""

FOREVER_NS = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which readings of a group; None means all.

    start_ns, end_ns: start_ns <= time_ns < end_ns (ns since 1970-01-01 UTC); in the arrays layout the trigger's time.
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
    """Find a span of time that holds the chosen readings; the database is asked only for what is not given.

    Raises:
        CommandFailed: there is nothing of what is chosen, or the span is empty.
    """
    start_ns, end_ns = choice.start_ns, choice.end_ns
    if choice.triggers is not None:
        holds = await _of_triggers(store, choice, *choice.triggers)
    elif start_ns is not None and choice.run is None:
        holds = Span(start_ns=start_ns, end_ns=await _open_end(store, choice.group) if end_ns is None else end_ns)
    elif start_ns is None or end_ns is None:
        holds = await _in_ledger(store, choice)
    else:
        holds = Span(start_ns=start_ns, end_ns=end_ns)
    start_ns = holds.start_ns if start_ns is None else max(start_ns, holds.start_ns)
    end_ns = holds.end_ns if end_ns is None else min(end_ns, holds.end_ns)
    if start_ns >= end_ns:
        raise CommandFailed(f"nothing of group {choice.group.name} can be in an empty range; no file was written")
    return Span(start_ns=start_ns, end_ns=end_ns)


def nothing(group: InstrumentGroup) -> CommandFailed:
    """The error for a group without readings."""
    return CommandFailed(f"nothing is stored of group {group.name}; no file was written")


async def _of_triggers(store: Store, choice: Choice, first: int, last: int) -> Span:
    """The span of all readings of some triggers of a run, as their ledger rows say: a clock may be wrong by hours."""
    assert choice.run is not None, "the caller knows which run is the newest"
    if last - first >= MANY:
        return await _in_ledger(store, choice)
    parts, at = [], first
    while at <= last:
        some = tuple(range(at, min(at + AT_ONCE, last + 1)))
        rows = await store.ask(LedgerRows(group=choice.group, run=choice.run, triggers=some))
        parts += [rows] if len(rows) else []
        at = some[-1] + 1
    if not parts:
        raise CommandFailed(
            f"--triggers: run {choice.run} of group {choice.group.name} has none from {first} to {last};"
            " no file was written"
        )
    return _around(
        min(int(rows["first_ns"].min()) for rows in parts), max(int(rows["last_ns"].max()) for rows in parts)
    )


async def _open_end(store: Store, group: InstrumentGroup) -> int:
    """An end behind all that is there: instruments' clocks may be ahead of this one, or simulated ones anywhere."""
    newest = await store.ask(LedgerTail(group=group, most=1))
    end_ns = max([time.time_ns(), *(int(last_ns) + 1 for last_ns in newest["last_ns"])])
    try:
        beyond = await store.ask(WindowReadings(group=group, start_ns=end_ns, end_ns=FOREVER_NS, most=1))
    except AnswerTooLarge:
        return FOREVER_NS
    return FOREVER_NS if len(beyond) else end_ns


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
    return _around(int(there["first_ns"].min()), int(there["last_ns"].max()))


def _around(first_ns: int, last_ns: int) -> Span:
    return Span(start_ns=first_ns, end_ns=min(last_ns + 1, FOREVER_NS))
