"""Runs of snapshot readers as lines and tables of a terminal."""

import datetime
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from daemon.core.words import duration
from daemon.tools.console import labelled
from schemas.api.snapshots import (
    CliffPoint,
    SnapshotFigures,
    SnapshotSettings,
    SnapshotsRun,
    SnapshotsStatus,
    SnapshotsSummary,
)
from schemas.states import RunState, SnapshotsPhase

MB = 1e6
UNKNOWN = "-"


def seconds(value: float | None) -> str:
    """Three digits."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g} s" if value >= 0.1 else f"{1000 * value:.3g} ms"


def percent(value: float | None) -> str:
    """Of a fraction."""
    return UNKNOWN if value is None else f"{value:.1%}"


def count(value: float | None) -> str:
    """A count, or that nobody knows it."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def megabytes(value: float | None) -> str:
    """Three digits, of bytes."""
    return UNKNOWN if value is None else f"{value / MB:.3g}"


def status_lines(status: SnapshotsStatus) -> Iterator[tuple[str, str]]:
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


def say_run(run: SnapshotsRun, kept: str, out: Console) -> None:
    """What was measured."""
    settings, found = run.settings, run.figures
    if run.cliff:
        out.print(cliff_table(run.cliff))
    lines = {
        "asked": asked_words(settings),
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


def asked_words(settings: SnapshotSettings) -> str:
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


def runs_table(past: Sequence[SnapshotsSummary]) -> Table:
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
