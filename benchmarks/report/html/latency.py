"""Latency curves: p50 and p99 against the rate, a panel a database, on the same axes."""

from collections.abc import Sequence

from benchmarks.html.axes import STEPS, LogAxis, snug
from benchmarks.html.elements import card, chart, keys, section
from benchmarks.html.markup import Markup, join, tag
from benchmarks.report.choice import number_of_rate
from benchmarks.report.formatting import kind_of_spread, number
from benchmarks.report.html.figures import shown
from benchmarks.report.run import BARE_LOOP, DAEMON, SENDER, Latency, MeasuredServer, Run
from benchmarks.report.tables import latency_table
from benchmarks.rounds.summary import spread

ROOM = 1.6
"""Room left and right of the least and the highest rate, as a factor."""
CLASSES = {DAEMON: "daemon", BARE_LOOP: "bare", SENDER: "sender"}


def latency(run: Run) -> Markup:
    """The curves, and a table of what they show; empty where latency was not measured."""
    table = latency_table(run)
    if table is None:
        return Markup()
    across, up = _axes(run.latencies)
    panels = [_panel(run, server, across, up) for server in run.servers.values()]
    note = (
        "From a trigger’s last reading to its commit acknowledged, at a steady rate. A rate that the daemon cannot "
        "keep up with is left out. The bare loop only commits, one trigger at a time. What the sender sees has the "
        f"network, the assembly and the way back in it. {_windows(run.windows)}"
    )
    key = keys(
        (
            ("stroke daemon", "daemon, p99"),
            ("stroke daemon p50", "daemon, p50"),
            ("stroke bare", "bare loop, p99"),
            ("stroke bare p50", "bare loop, p50"),
            ("stroke sender", "as the sender sees it, p99"),
        )
    )
    curves = tag("div", *panels, class_="curves")
    return section("Latency against the rate", key, curves, card(shown(table)), name="latency", note=note)


def _windows(count: int) -> str:
    if count == 1:
        return "A point is one window."
    return f"Points are medians of up to {count} windows taken by turns, upright lines {kind_of_spread(count)}."


def _axes(latencies: Sequence[Latency]) -> tuple[LogAxis, LogAxis]:
    rates = [found.rate for found in latencies]
    across = LogAxis(low=min(rates) / ROOM, high=max(rates) * ROOM)
    values = [value for found in latencies for value in (*found.p50_ms, *found.p99_ms) if value > 0]
    return across, snug(values)


def _panel(run: Run, server: MeasuredServer, across: LogAxis, up: LogAxis) -> Markup:
    found = [item for item in run.latencies if item.backend is server.backend]
    if not found:
        return Markup()
    rates = sorted({item.rate for item in run.latencies})
    levels = up.ticks(steps=STEPS if up.high / up.low < 100 else (1,))
    lines = [
        _line([item for item in found if item.contender == contender], across, up)
        for contender in dict.fromkeys(item.contender for item in found)
    ]
    label = f"Latency in ms against triggers/s on {server.name}; the table below has the figures"
    heading = f"{server.name} {server.version}"
    return chart(heading, "ms against triggers/s", lines, (across, rates), (up, levels), label=label, unit="/s")


def _line(found: Sequence[Latency], across: LogAxis, up: LogAxis) -> Markup:
    name = CLASSES[found[0].contender]
    ordered = sorted(found, key=lambda item: item.rate)
    p99 = [(item.rate, spread(item.p99_ms)) for item in ordered]
    parts = [_path([(rate, value.median) for rate, value in p99], across, up, f"curve {name}")]
    for rate, value in p99:
        x = across.at(rate)
        d = f"M{x:.2f} {100 - up.at(value.low):.2f}V{100 - up.at(value.high):.2f}"
        title = tag("title", f"{found[0].contender} at {number_of_rate(rate)}/s: p99 {number(value.median)} ms")
        parts.append(tag("path", d=d, class_=f"whisker {name}"))
        parts.append(tag("path", title, d=f"M{x:.2f} {100 - up.at(value.median):.2f}h0", class_=f"point {name}"))
    if found[0].contender != SENDER:
        p50 = [(item.rate, spread(item.p50_ms).median) for item in ordered]
        parts.append(_path(p50, across, up, f"curve {name} p50"))
    return join(parts)


def _path(points: Sequence[tuple[float, float]], across: LogAxis, up: LogAxis, style: str) -> Markup:
    d = "L".join(f"{across.at(rate):.2f} {100 - up.at(value):.2f}" for rate, value in points)
    return tag("path", d=f"M{d}", class_=style)
