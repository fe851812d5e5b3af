"""Reader workloads as a terminal shows them."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from daemon.core.words import ms
from schemas.api.status import ReaderStatus
from schemas.states import ReaderState

_HEAD = ("reader", "kind", "clients", "answers/s", "rows/s", "p50, p99 ms", "in time", "failed")


def readers_table(readers: Mapping[str, ReaderStatus]) -> RenderableType:
    """A line a workload, in the place of its clients its state where it does not run, and under it what is wrong."""
    table = Table(*_HEAD, box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name, status in readers.items():
        latency = status.latency_ms
        table.add_row(
            name,
            status.kind,
            f"{status.admitted} of {status.clients}" if status.state is ReaderState.RUNNING else status.state,
            f"{status.rate:,.1f}",
            f"{status.row_rate:,.0f}",
            f"{ms(latency.p50)}, {ms(latency.p99)}",
            "–" if status.efficiency is None else f"{status.efficiency:.1%}",
            f"{status.failed:,}",
        )
    problems = [Text(f"✗ {name}: {status.problem}", "red") for name, status in readers.items() if status.problem]
    return Group(table, *problems)
