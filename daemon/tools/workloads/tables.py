"""Runs of visits and of snapshot readers as lines and tables of a terminal."""

import datetime
from collections.abc import Iterator, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from daemon.core.words import duration
from daemon.tools.console import labelled
from daemon.workloads.visits.figures import bin_visits, boxes, line, over
from schemas.api.snapshots import (
    CliffPoint,
    SnapshotFigures,
    SnapshotSettings,
    SnapshotsRun,
    SnapshotsStatus,
    SnapshotsSummary,
)
from schemas.api.visits import Line, VisitMeasure, VisitsRun, VisitsStatus, VisitsSummary
from schemas.states import RunState, SnapshotsPhase, VisitsPhase

MIB = 2**20
MOST_BINS = 12


def visit_words(visit: VisitMeasure | None) -> str:
    """What a visit took and moved, in a few words."""
    if visit is None:
        return ""
    written = visit.objects + visit.sources + visit.forced
    read = visit.objects_read + visit.sources_read + visit.forced_read
    return (
        f"{seconds(visit.visit_s)} a visit (select {seconds(visit.select_s)}, store {seconds(visit.store_s)}),"
        f" {read:,} rows read, {written:,} written"
    )


def compaction_words(count: int, compact_s: float) -> str:
    """What compaction took, between the visits."""
    return f"{count:,} tables of ended periods were compacted in {seconds(compact_s)}, between the visits"


def left_words(status: VisitsStatus) -> str:
    """The time left."""
    return "" if status.remaining_s is None else f"about {duration(status.remaining_s)} left"


def seconds(value: float | None) -> str:
    """Three digits."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g} s" if value >= 0.1 else f"{1000 * value:.3g} ms"


def line_words(fit: Line | None) -> str:
    """A line through visits, in words."""
    if fit is None:
        return "too few visits for a line"
    sign = "-" if fit.slope_per_1000 < 0 else "+"
    return (
        f"{fit.intercept:.4g} s {sign} {abs(fit.slope_per_1000):.4g} s per 1,000 visits"
        f" (95 %: {fit.slope_low:.4g} to {fit.slope_high:.4g}), through {fit.visits:,} visits"
    )


def say_visits(run: VisitsRun, csv: str, out: Console) -> None:
    """The tables at the end of a run."""
    if not run.visits:
        out.print("All visits that were asked for were done before.", highlight=False)
        return
    out.print(_bins(run))
    numbers = [visit.visit for visit in run.timed]
    for name in ("visit", "select", "store"):
        fit = line(numbers, [getattr(visit, f"{name}_s") for visit in run.timed])
        out.print(labelled(name, 7, line_words(fit)), soft_wrap=True)
    limit_s = run.settings.limit_s
    fraction = over([visit.visit_s for visit in run.timed], limit_s)
    out.print(labelled("limit", 7, f"{fraction:.1%} of the visits took more than {limit_s:g} s"))
    if beside_s := sum(visit.upkeep_s for visit in run.visits):
        words = f"{seconds(beside_s)} to begin and end visits, and to make and drop partitions, between the visits"
        out.print(labelled("upkeep", 7, words), soft_wrap=True)
    if run.compactions:
        words = compaction_words(len(run.compactions), sum(each.compact_s for each in run.compactions))
        out.print(labelled("upkeep", 7, words), soft_wrap=True)
    out.print(_rows(run))
    out.print(labelled("kept", 7, csv), soft_wrap=True)
    if run.state is RunState.STOPPED:
        done = run.visits[-1].visit + 1
        out.print(
            f"Stopped after {done:,} of {run.settings.visits:,} visits; the same command goes on from there.",
            highlight=False,
        )


def _bins(run: VisitsRun) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Seconds a visit", title_justify="left")
    for name in ("visits", "mean", "median", "quartiles", "shortest, longest", "select", "store"):
        table.add_column(name, justify="left" if name == "visits" else "right")
    numbers = np.array([visit.visit for visit in run.timed])
    columns = {name: np.array([getattr(visit, name) for visit in run.timed]) for name in ("select_s", "store_s")}
    width = bin_visits(int(numbers[-1] - numbers[0]) + 1)
    taken = [visit.visit_s for visit in run.timed]
    wider = -(-len(boxes(numbers, taken, width)) // MOST_BINS)
    for part in boxes(numbers, taken, wider * width):
        inside = (numbers >= part.first) & (numbers <= part.last)
        table.add_row(
            f"{part.first:,} to {part.last:,}",
            f"{part.mean:.4g}",
            f"{part.median:.4g}",
            f"{part.q1:.3g} to {part.q3:.3g}",
            f"{part.low:.3g}, {part.high:.3g}",
            *(f"{float(columns[name][inside].mean()):.4g}" for name in columns),
        )
    return table


def _rows(run: VisitsRun) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("table", "rows", "by the formula", "difference", "table MiB", "indexes MiB", "bytes a row"):
        table.add_column(name, justify="left" if name == "table" else "right")
    for name in run.sizes or run.counts:
        size = run.sizes.get(name)
        rows = run.counts.get(name, size.rows if size else 0)
        expected = run.expected.get(name)
        estimated = "" if name in run.counts else "about "
        whole = size.table_bytes + size.index_bytes if size else 0
        table.add_row(
            name,
            f"{estimated}{rows:,}",
            "–" if expected is None else f"{expected:,.0f}",
            f"{rows / expected - 1:+.2%}" if expected else "–",
            f"{size.table_bytes / MIB:,.1f}" if size else "–",
            f"{size.index_bytes / MIB:,.1f}" if size else "–",
            f"{whole / rows:,.0f}" if rows and whole else "–",
        )
    return table


LONG_S = 2.0
"""A visit that is under way for so long is shown as such."""


def moment(time_ns: int) -> str:
    """A moment by the clock in UTC, with its day."""
    return datetime.datetime.fromtimestamp(time_ns / 1e9, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def state_words(status: VisitsStatus) -> str:
    """What it does."""
    if status.state is not RunState.RUNNING:
        return status.state
    if status.waits_until_ns is not None:
        return f"waiting until {moment(status.waits_until_ns)} UTC"
    if status.phase is not VisitsPhase.VISITING:
        return status.phase
    # Most visits are over before anybody has read this.
    is_long = status.visiting_s is not None and status.visiting_s >= LONG_S
    return f"visit {status.done:,} for {seconds(status.visiting_s or 0.0)} so far" if is_long else status.state


def visits_lines(status: VisitsStatus) -> list[tuple[str, str]]:
    """How a run is, as names and texts."""
    lines = [
        ("run", f"{status.id} ({status.index_mode}, {status.target})"),
        ("state", state_words(status) if status.problem is None else f"{state_words(status)}: {status.problem}"),
        ("done", f"{status.done:,} of {status.visits:,} visits, {status.here:,} in this run"),
    ]
    if status.lost:
        lines.append(
            ("lost", f"{status.lost:,} visits by the server, which had acknowledged them; they are done again")
        )
    if status.last is not None:
        lines.append(("last", f"visit {status.last.visit:,}: {visit_words(status.last)}"))
    if status.mean_s is not None:
        lines.append(("mean", f"{seconds(status.mean_s)} a visit lately"))
    if status.fit is not None:
        lines.append(("line", line_words(status.fit)))
    if status.compactions:
        lines.append(("upkeep", compaction_words(status.compactions, status.compact_s)))
    if status.over_limit is not None:
        lines.append(("limit", f"{status.over_limit:.1%} of the visits took more than {status.limit_s:g} s"))
    if status.remaining_s is not None and not status.state.is_over:
        lines.append(("left", f"about {duration(status.remaining_s)}"))
    return lines


def visits_table(past: list[VisitsSummary]) -> Table:
    """The archived runs."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("id", "index mode", "visits", "took", "ended"):
        table.add_column(name, justify="right" if name in ("visits", "took") else "left")
    for run in past:
        took = duration(max(0.0, (run.ended_ns - run.began_ns) / 1e9))
        table.add_row(run.id, run.index_mode, f"{run.visits:,}", took, run.problem or "all visits are done")
    return table


MB = 1e6
UNKNOWN = "-"


def percent(value: float | None) -> str:
    """Of a fraction."""
    return UNKNOWN if value is None else f"{value:.1%}"


def count(value: float | None) -> str:
    """A count, or that nobody knows it."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def megabytes(value: float | None) -> str:
    """Three digits, of bytes."""
    return UNKNOWN if value is None else f"{value / MB:.3g}"


def snapshots_lines(status: SnapshotsStatus) -> Iterator[tuple[str, str]]:
    """Name and text of each line about a run."""
    yield "state", f"{status.state}, {status.phase}" + (f": {status.problem}" if status.problem else "")
    yield "in", status.target
    loading = status.loading
    yield "loaded", f"{loading.rows:,} of {loading.rows_in_all:,} rows"
    if status.figures.cycles:
        yield "cycles", f"{status.figures.cycles:,} of {status.cycles:,}; " + figures_words(status.figures)
    if status.remaining_s is not None:
        yield "left", f"about {duration(status.remaining_s)}"


def activity(status: SnapshotsStatus) -> tuple[str, str, int, int]:
    """What a progress bar shows: what is done, a detail, how far it is, and how far it will be."""
    if status.phase is SnapshotsPhase.LOADING:
        loading = status.loading
        rate = "" if loading.row_rate is None else f" {loading.row_rate:,.0f} rows/s"
        words = status.problem or f"{loading.rows:,}/{loading.rows_in_all:,}{rate}"
        return "loading", words, loading.rows, loading.rows_in_all
    if status.phase is SnapshotsPhase.MEASURING:
        return "measuring", "blocks that are read again", 0, 0
    words = status.problem or f"{status.figures.cycles:,}/{status.cycles:,} {figures_words(status.figures)}"
    return "reading", words, status.figures.cycles, status.cycles


def figures_words(found: SnapshotFigures) -> str:
    """Efficiency, seconds and rates, in a few words."""
    words = f"{percent(found.efficiency)} in time, {seconds(found.p50_s)} a snapshot, at most {seconds(found.max_s)}"
    return words + (f", {found.failed:,} failed" if found.failed else "")


def say_snapshots(run: SnapshotsRun, kept: str, out: Console) -> None:
    """What was measured."""
    settings, found = run.settings, run.figures
    if run.cliff:
        out.print(cliff_table(run.cliff))
    lines = {
        "asked": _asked_words(settings),
        "cycles": f"{found.cycles:,}: {figures_words(found)}; slipped {seconds(found.slipped_s)} in all",
        "rates": f"{count(found.row_rate)} rows/s, {megabytes(found.byte_rate)} MB/s",
        "blocks": f"{count(found.blocks_read)} read and {count(found.blocks_hit)} found in the cache, a snapshot",
        "cpu": f"server {count(found.server_percent)} %, clients {count(found.clients_percent)} % of a core; machine"
        f" {count(found.machine_percent)} % of all",
        "kept": kept,
    }
    if not found.cycles:
        lines = {"loaded": f"{run.loading.rows:,} rows", "kept": kept}
    for name, text in lines.items():
        out.print(labelled(name, 7, text), soft_wrap=True)
    for note in run.notes:
        out.print(labelled("note", 7, note), soft_wrap=True)
    if run.state is RunState.STOPPED:
        out.print(labelled("again", 7, run.command), soft_wrap=True)


def _asked_words(settings: SnapshotSettings) -> str:
    """What was asked, in words."""
    return (
        f"{settings.rows_asked:,.0f} rows/s by {settings.clients:,} clients: {settings.folders:,} folders of"
        f" {settings.channels:,} channels, {settings.layout}"
    )


def cliff_table(points: Sequence[CliffPoint]) -> Table:
    """Blocks that a snapshot needs again, against its size."""
    table = Table(box=box.SIMPLE_HEAD, title="A snapshot that was read just before, read again", title_justify="left")
    for name in ("folders", "MB", "blocks read", "blocks found", "time"):
        table.add_column(name, justify="right")
    for point in points:
        size = megabytes(point.value_bytes)
        table.add_row(f"{point.folders:,}", size, count(point.read), count(point.hit), seconds(point.seconds))
    return table


def snapshots_table(past: Sequence[SnapshotsSummary]) -> Table:
    """Runs that are kept."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("id", "began", "layout", "clients", "cycles", "in time", "state"):
        table.add_column(name)
    for each in past:
        began = datetime.datetime.fromtimestamp(each.began_ns / 1e9, datetime.UTC)
        table.add_row(
            *(each.id, f"{began:%Y-%m-%d %H:%M} UTC", each.layout, f"{each.clients:,}", f"{each.cycles:,}"),
            percent(each.efficiency),
            each.state + (f": {each.problem}" if each.problem else ""),
        )
    return table
