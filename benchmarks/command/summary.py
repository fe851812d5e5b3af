"""The summary of `triggerlog bench` on a terminal: the main figures, and which way to choose."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from benchmarks.report.choice import BASELINE, GOAL_HZ, advise, crash_safe, fastest, warn
from benchmarks.report.formatting import between, number, times
from benchmarks.report.run import DAEMON, PAPER, Run, Way
from schemas.checking.dsn import Backend

MAIN = (BASELINE, "daemon_rows", "daemon_arrays")
"""Ways that are shown where they were measured: where the paper began, and the daemon."""


def print_choice(run: Run, console: Console) -> None:
    """Print the main figures, the advice and the warnings."""
    if run.ways:
        console.print(_table(run))
    for advice in advise(run):
        words = Text.assemble((f"{advice.need}. ", "bold"), advice.text)
        console.print(Padding(words, (0, 0, 1, 0)))
    for warning in warn(run):
        console.print(Text.assemble(("▲ ", "yellow"), (warning + ".", "yellow")))


def _table(run: Run) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("", "way", "triggers/s", "", f"times {GOAL_HZ:g} Hz", "crash safe"):
        right = column in ("triggers/s", f"times {GOAL_HZ:g} Hz")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for server in run.servers.values():
        name = server.name
        for way in main_ways(run, server.backend):
            rate = way.rate
            safe = "yes" if crash_safe(run, way) else "no"
            table.add_row(name, way.title, number(rate.median), between(rate), times(rate.median / GOAL_HZ), safe)
            name = ""
    return table


def main_ways(run: Run, backend: Backend) -> list[Way]:
    """Where the paper began, the best crash safe way that commits each trigger alone, and the daemon; slowest first."""
    return sorted({way.slug: way for way in _main(run, backend)}.values(), key=lambda way: way.rate.median)


def _main(run: Run, backend: Backend) -> Iterator[Way]:
    ways = run.ways_of(backend)
    yield from (way for way in ways if way.slug in MAIN)
    alone = [way for way in ways if way.kind == PAPER and crash_safe(run, way)]
    if alone:
        yield max(alone, key=lambda way: way.rate.median)
    best = fastest(run, backend)
    if best is not None:
        yield best
    if not any(way.slug in MAIN and way.kind == DAEMON for way in ways):
        yield from (way for way in ways if way.kind == DAEMON)
