"""The span of an export: the choice of readings, windows that read it, what was dropped of it, and its marks."""

import csv
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from backends.base import AnswerTooLarge, Store, StoreError
from daemon.core.moments import rfc3339
from daemon.core.outcome import CommandFailed
from daemon.core.words import cell
from schemas.marks import Mark, MarksWithin
from schemas.queries import LedgerRows, LedgerTail, Totals, WindowReadings, answer_dtype
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


AIM_BYTES = 32 * 2**20
"""Bytes of readings that a window should have; the buffers of the store and of the writer take as much again."""

FIRST_NS = 10_000_000_000
LEAST_NS = 1_000_000_000
"""A window as short as this is read however dense it is."""

LONGEST_NS = 366 * 86_400 * 1_000_000_000
GROWTH = 8


@dataclass(frozen=True, kw_only=True)
class Window:
    """Readings with start_ns <= time_ns < end_ns, `answer_dtype(group)`, by run, trigger and instrument.

    In the arrays layout the readings of the triggers with such a time, which need not have one themselves.
    """

    start_ns: int
    end_ns: int
    readings: Array


async def windows(
    store: Store, group: InstrumentGroup, span: Span, *, aim_bytes: int = AIM_BYTES
) -> AsyncGenerator[Window, None]:
    """Query a span window by window, in order of time."""
    itemsize = answer_dtype(group).itemsize
    aim, most = max(1, aim_bytes // itemsize), max(group.size, 2 * aim_bytes // itemsize)
    at_ns, length_ns = span.start_ns, FIRST_NS
    while at_ns < span.end_ns:
        end_ns = min(at_ns + length_ns, span.end_ns)
        limit = most if length_ns > LEAST_NS else None
        try:
            readings = await store.ask(
                WindowReadings(group=group, start_ns=at_ns, end_ns=end_ns, most=limit, by_trigger=True)
            )
        except AnswerTooLarge:
            length_ns = max(LEAST_NS, length_ns // 4)
            continue
        yield Window(start_ns=at_ns, end_ns=end_ns, readings=readings)
        length_ns = next_length_ns(end_ns - at_ns, len(readings), aim)
        at_ns = end_ns


def next_length_ns(length_ns: int, found: int, aim: int) -> int:
    """The length of the next window, after one of `length_ns` that had `found` readings."""
    factor = GROWTH if found * GROWTH <= aim else max(aim / found, 1 / GROWTH)
    return min(max(LEAST_NS, int(length_ns * factor)), LONGEST_NS)


MOST = 100_000
COLUMNS = ("time", "time_ns", "until_ns", "text", "author", "group", "id")


async def marks_of(store: Store, span: Span, group: str) -> tuple[Mark, ...]:
    """The marks of a span that are about a group, or about all.

    Where the database has no marks that can be read, that is said, and the readings are exported without any.
    """
    try:
        found = await store.marks(MarksWithin(start_ns=span.start_ns, end_ns=span.end_ns, most=MOST))
    except StoreError as error:
        if error.is_away:
            raise
        typer.echo(f"triggerlog: the export has no marks: {error}", err=True)
        return ()
    return tuple(mark for mark in found if mark.group in (None, group))


def row_of(mark: Mark) -> dict[str, Any]:
    """A mark by COLUMNS; None where it says nothing."""
    return {"time": rfc3339(mark.time_ns), **mark.model_dump(mode="json")}


def beside(output: Path, ending: str, other: str) -> Path:
    """A file beside another, such as that of its marks: `x.marks.csv` of `x.csv` and `x.csv.gz`, of that ending."""
    return output.with_name(f"{output.name[: -len(ending)]}.{other}")


def write_csv(path: Path, marks: tuple[Mark, ...]) -> None:
    """Write marks as CSV, one a row."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        rows.writeheader()
        rows.writerows({name: cell(value) for name, value in row_of(mark).items()} for mark in marks)
