"""Distributions of 1/dt, as the paper plots them: a panel a way, all on one logarithmic axis."""

from benchmarks.html.axes import LogAxis, bottom, decades, grid_x, plot
from benchmarks.html.elements import keys, section
from benchmarks.html.markup import Markup, join, tag
from benchmarks.report.choice import BASELINE_HZ, GOAL_HZ, crash_safe
from benchmarks.report.formatting import number
from benchmarks.report.run import MeasuredServer, Run, Way
from benchmarks.rounds.summary import spread
from schemas.checking.dsn import Backend

PAPER_HZ = {
    "insert_each_table": (BASELINE_HZ, BASELINE_HZ),
    "threads_one_connection": (20 * BASELINE_HZ, 20 * BASELINE_HZ),
    "processes_same_tables": (100.0, 1000.0),
    "processes_own_tables": (3 * BASELINE_HZ, 3 * BASELINE_HZ),
}
"""The paper's figures in Hz, from and to, by way (workloads.md, section 1): about 44 Hz, up to 20 times that, "the bulk
in the hundreds", and 3 times that. It measured PostgreSQL alone."""


def distributions(run: Run) -> Markup:
    """All panels, a figure a database; empty where no way has a distribution."""
    shown = [way for way in run.ways if sum(way.counts)]
    if not shown:
        return Markup()
    axis = _axis(shown)
    figures = [_figure(run, server, axis) for server in run.servers.values()]
    note = (
        "Each panel counts triggers by 1/dt, dt being the time since the trigger before; a commit of n triggers after "
        "dt counts n times n/dt. All panels share the axis; each is as high as its own highest bin. The bar below a "
        "panel spans the quartiles, with the median marked."
    )
    meanings = {
        "paper": "the paper's ways",
        "ceiling": "bare copies, the ceiling",
        "daemon": "the daemon",
        "unsafe": "not known to be safe",
        "goal": f"the goal, {GOAL_HZ:g} Hz",
        "published": "the paper's figure",
    }
    key = keys((f"swatch {name}", meaning) for name, meaning in meanings.items())
    return section("Distributions of 1/dt", key, *figures, name="distributions", note=note)


def published_hz(way: Way) -> tuple[float, float] | None:
    """The paper's figure for a way in Hz, from and to; None where it gives none."""
    if way.backend is not Backend.POSTGRESQL or way.paper is None:
        return None
    return PAPER_HZ.get(way.slug)


def style_of(run: Run, way: Way) -> str:
    """The class of a way: what it is, and whether it may be trusted."""
    return way.kind if crash_safe(run, way) else f"{way.kind} unsafe"


def _axis(ways: list[Way]) -> LogAxis:
    reached = [GOAL_HZ, BASELINE_HZ]
    for way in ways:
        filled = [k for k, count in enumerate(way.counts) if count]
        reached += [way.edges[filled[0]], way.edges[filled[-1] + 1]]
        reached += published_hz(way) or ()
    return decades(reached)


def _figure(run: Run, server: MeasuredServer, axis: LogAxis) -> Markup:
    ways = [way for way in run.ways_of(server.backend) if sum(way.counts)]
    if not ways:
        return Markup()
    rule = tag("div", tag("div"), tag("div", bottom(axis, "Hz", axis.ticks())), class_="panel rule")
    heading = tag("h3", f"{server.name} {server.version}")
    return tag("div", heading, rule, *(_panel(run, way, axis) for way in ways), rule, class_="card figure")


def _panel(run: Run, way: Way, axis: LogAxis) -> Markup:
    low, middle, high = (spread(values).median if values else None for values in way.hz)
    words = f"median {number(middle)} Hz" if middle else f"{number(way.rate.median)} triggers/s"
    inner = f"quartiles {number(low)} to {number(high)} Hz" if low and high else ""
    lines = [tag("b", way.title), tag("span", words, class_="soft"), tag("span", inner, class_="soft")]
    shapes = [grid_x(axis, axis.ticks()), _goal(axis), _bars(way, axis), _published(way, axis)]
    if low and middle and high:
        shapes.append(_quartiles(axis, low, middle, high))
    label = f"{way.title}: {words}" + (f", {inner}" if inner else "")
    return tag(
        "div",
        tag("div", *lines, class_="name"),
        tag("div", plot(*shapes, label=label), class_="plot"),
        class_=f"panel {style_of(run, way)}",
    )


def _bars(way: Way, axis: LogAxis) -> Markup:
    highest, total = max(way.counts), sum(way.counts)
    bars = []
    for k, count in enumerate(way.counts):
        if count:
            left, right = axis.at(way.edges[k]), axis.at(way.edges[k + 1])
            height = max(88 * count / highest, 1.5)  # a single trigger is still to be seen
            share = (
                f"{number(way.edges[k])} to {number(way.edges[k + 1])} Hz: {100 * count / total:.2g} % of the triggers"
            )
            x, y, width = round(left, 2), round(90 - height, 2), round(right - left, 2)
            bars.append(tag("rect", tag("title", share), x=x, y=y, width=width, height=round(height, 2)))
    return tag("g", *bars, class_="bars")


def _quartiles(axis: LogAxis, low: float, middle: float, high: float) -> Markup:
    box = tag("path", d=f"M{axis.at(low):.2f} 96H{axis.at(high):.2f}", class_="quartiles")
    return join([box, tag("path", d=f"M{axis.at(middle):.2f} 96h0", class_="median")])


def _goal(axis: LogAxis) -> Markup:
    return tag("path", d=f"M{axis.at(GOAL_HZ):.2f} 0V100", class_="goal")


def _published(way: Way, axis: LogAxis) -> Markup:
    found = published_hz(way)
    if found is None:
        return Markup()
    low, high = (axis.at(value) for value in found)
    title = tag("title", f"the paper: {way.paper}")
    if low == high:
        return tag("path", title, d=f"M{low:.2f} 0V90", class_="published")
    return tag("rect", title, x=round(low, 2), y=0, width=round(high - low, 2), height=90, class_="published")
