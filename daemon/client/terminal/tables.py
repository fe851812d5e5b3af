"""Alarms and reader workloads as a terminal shows them."""

import time
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from daemon.core.words import duration, ms
from schemas.api.alarms import AlarmStatus
from schemas.api.status import ReaderStatus
from schemas.states import AlarmSeverity, Attention, ReaderState

_STYLES = {
    AlarmSeverity.CRITICAL: ("■", "bold red"),
    AlarmSeverity.WARNING: ("▲", "yellow"),
    AlarmSeverity.NOTE: ("●", ""),
}


def alarm_lines(alarms: Sequence[AlarmStatus], now_ns: int, *, with_keys: bool = False) -> list[Text]:
    """An alarm a text: severity, what is wrong and since when; of those that nobody has dealt with, what to do, too.

    Args:
        alarms: as the status has them.
        now_ns: the daemon's time (UTC).
        with_keys: whether to show the keys, by which orders name them.
    """
    return [_text(alarm, now_ns, with_keys=with_keys) for alarm in alarms]


def _text(alarm: AlarmStatus, now_ns: int, *, with_keys: bool) -> Text:
    glyph, style = _STYLES[alarm.severity]
    is_new = alarm.attention is Attention.NEW
    text = Text(f"{glyph} {alarm.severity} ", style if is_new else "dim")
    if with_keys:
        text.append(f"[{alarm.key}] ", "bold" if is_new else "dim")
    text.append(alarm.text, style if is_new else "dim")
    text.append(f" (since {_clock(alarm.since_ns)}, {duration((now_ns - alarm.since_ns) / 1e9)})", "dim")
    if alarm.shelved_until_ns is not None:
        text.append(f"; shelved until {_clock(alarm.shelved_until_ns)}", "dim")
    elif alarm.acknowledged_ns is not None:
        text.append(f"; acknowledged at {_clock(alarm.acknowledged_ns)}", "dim")
    else:
        text.append(f". {alarm.fix}", "")
    return text


def _clock(time_ns: int) -> str:
    """A time of today as such, any other with its day; UTC."""
    moment = time.gmtime(time_ns / 1e9)
    is_today = time.strftime("%j %Y", moment) == time.strftime("%j %Y", time.gmtime())
    return time.strftime("%H:%M:%SZ" if is_today else "%Y-%m-%d %H:%M:%SZ", moment)


_HEAD = ("reader", "kind", "clients", "answers/s", "rows/s", "p50, p99 ms", "in time", "failed")


def readers_table(readers: Mapping[str, ReaderStatus]) -> RenderableType:
    """A line a workload, in the place of its clients its state where it does not run, and under it what is wrong."""
    table = Table(*_HEAD, box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name, status in readers.items():
        latency = status.latency_ms
        table.add_row(
            name,
            status.kind,
            f"{status.admitted} of {status.clients}" if status.state == ReaderState.RUNNING else status.state,
            f"{status.rate:,.1f}",
            f"{status.row_rate:,.0f}",
            f"{ms(latency.p50)}, {ms(latency.p99)}",
            "–" if status.efficiency is None else f"{status.efficiency:.1%}",
            f"{status.failed:,}",
        )
    problems = [Text(f"✗ {name}: {status.problem}", "red") for name, status in readers.items() if status.problem]
    return Group(table, *problems)
