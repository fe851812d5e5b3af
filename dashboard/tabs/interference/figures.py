"""The figures of an experiment: panels on one time axis with bands where readers read, and p99 against readers."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dashboard.tabs.figures import CALM, CHOSEN, FAINT, INK, LIMIT, log_axis, mark_shapes, plot_axis, plot_layout
from dashboard.tabs.interference.measured import Shown, by_neighbours, figure_of, geometric_mean
from dashboard.words import coarse, count, counted, factor, number, plain
from schemas.api.interference import Block, Dose, Mean, Sample
from schemas.marks import Mark

HEIGHT = 430
LOG_FROM = 12
"""Values that vary by more are drawn on a logarithmic axis."""
NAMED = 14
"""Bands that have room for words above them."""
BRIEFLY = 8
"""Bands above which there is room for a number alone."""
TOP = 0.9
"""Of the drawing: above it are the words of the bands."""
POINTS = 1500
"""Of a line; beyond it a screen shows no more."""
SMOOTHED = 4
"""Samples that a point of the rate is the mean of."""

Figure = dict[str, Any]
"""As Plotly takes it. Not a `go.Figure`, whose check of each band would take a page with thousands of them seconds."""


# --- over time --------------------------------------------------------------------------------------------------------


def time_figure(shown: Shown, mark: int | None, began_ms: float = 0.0, marks: Sequence[Mark] = ()) -> Figure:
    """Commit p99, commit rate and readers over time.

    mark: the number of readers whose bands stand out. began_ms: when it began; marks: what people marked, whenever.
    """
    samples = shown.samples
    places = thinned(samples)
    until = max([1.0, *(block.end_s for block in shown.blocks[-1:]), *(sample.t_s for sample in samples[-1:])])
    rates = smoothed(samples)
    known = [rate for rate in rates if rate is not None]
    axis, has_budget = latency_axis([sample.p99_ms for sample in samples], shown.budget_ms)
    # By what is at a point a click finds its block.
    at = readers_at(shown.blocks, [samples[i].t_s for i in places])
    median = quiet_median(shown.blocks)
    bands = [*shown.blocks, *under_way(shown, until)]
    x = [samples[i].t_s for i in places]
    traces = [
        _line(x, [samples[i].p99_ms for i in places], "p99", "y", "%{y:,.3~g} ms p99 of the sample", customdata=at),
        _line(x, [rates[i] for i in places], "rate", "y2", "%{y:,.4~g} triggers/s committed", customdata=at),
        _readers(x, [samples[i].readers for i in places], at),
    ]
    if median is not None:
        traces.append(_level([0, until], median, f"A, median {number(median)} ms", INK, "dash"))
    if has_budget:
        traces.append(_level([0, until], shown.budget_ms, f"budget {number(shown.budget_ms)} ms", LIMIT, "dot"))
    noted, names = mark_shapes(marks, began_ms, began_ms + until * 1e3, at=lambda time_ms: (time_ms - began_ms) / 1e3)
    layout = plot_layout(
        HEIGHT,
        hovermode="x unified",
        shapes=[*(shape for band in bands for shape in _shapes(band, mark)), *noted],
        annotations=[*_names(shown.blocks, bands, mark), *names],
        xaxis=plot_axis(range=[0, until], anchor="y3", title=_title("elapsed, s", standoff=6), hoverformat=".1f"),
        yaxis=plot_axis(**axis, domain=[0.47, TOP], title=_title("commit p99, ms")),
        yaxis2=plot_axis(range=_around(known), domain=[0.2, 0.41], title=_title("commits/s"), nticks=4),
        yaxis3=plot_axis(
            range=[0, 1.15 * max([1, *(sample.readers for sample in samples)])],
            domain=[0, 0.14],
            title=_title("readers"),
            nticks=3,
        ),
    )
    return {"data": traces, "layout": layout}


def time_note(shown: Shown) -> str:
    """What the lines mean that are no measurements."""
    has_budget = latency_axis([sample.p99_ms for sample in shown.samples], shown.budget_ms)[1]
    median = "" if quiet_median(shown.blocks) is None else "dashed: median of the blocks without readers"
    return "; ".join(filter(None, [median, "dotted: budget" if has_budget else ""]))


def thinned(samples: Sequence[Sample], most: int = POINTS) -> list[int]:
    """The places of at most so many samples: of each stretch those with the lowest and the highest p99."""
    step = math.ceil(2 * len(samples) / most)
    if step <= 2:
        return list(range(len(samples)))

    def p99(place: int) -> float:
        return samples[place].p99_ms or 0.0

    stretches = [range(begin, min(begin + step, len(samples))) for begin in range(0, len(samples), step)]
    return sorted({place for stretch in stretches for place in (min(stretch, key=p99), max(stretch, key=p99))})


def smoothed(samples: Sequence[Sample]) -> list[float | None]:
    """The commit rate as a mean over SMOOTHED samples; None where there are not so many yet."""
    rates = [sample.rate for sample in samples]
    if len(rates) < SMOOTHED:
        return list(rates)
    means = [sum(rates[i - SMOOTHED : i]) / SMOOTHED for i in range(SMOOTHED, len(rates) + 1)]
    return [*[None] * (SMOOTHED - 1), *means]


def quiet_median(blocks: Sequence[Block]) -> float | None:
    """The median of p99 of the blocks without readers, in ms."""
    values = [value for block in blocks if block.kind == "A" and (value := figure_of(block, "p99_ms"))]
    return statistics.median(values) if values else None


def readers_at(blocks: Sequence[Block], times_s: Sequence[float]) -> list[int | None]:
    """How many readers the block at each of some growing times asks for; None outside of all blocks."""
    found: list[int | None] = []
    place = 0
    for t_s in times_s:
        while place < len(blocks) and blocks[place].end_s <= t_s:
            place += 1
        inside = place < len(blocks) and blocks[place].begin_s <= t_s
        found.append(blocks[place].readers if inside else None)
    return found


def under_way(shown: Shown, until_s: float) -> list[Block]:
    """A block is told when it is over; until then its readers show that it is under way."""
    if shown.record is not None or not shown.samples or not shown.samples[-1].readers:
        return []
    from_s = shown.blocks[-1].end_s if shown.blocks else 0.0
    if until_s <= from_s:
        return []
    given: dict[str, Any] = {"number": 0, "kind": "B", "readers": shown.samples[-1].readers, "whole": False}
    return [Block.model_construct(**given, begin_s=from_s, from_s=from_s, end_s=until_s)]


def latency_axis(values: Sequence[float | None], budget_ms: float) -> tuple[dict[str, Any], bool]:
    """How an axis of p99 in ms lies, and whether the budget is near enough to be drawn."""
    known = [value for value in values if value]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    is_near = 0 < budget_ms < 1.5 * high
    top = max(high, budget_ms) if is_near else high
    if high / low <= LOG_FROM:
        return {"type": "linear", "range": [0, 1.12 * top]}, is_near
    return log_axis(low / 1.2, top, 500) | {"range": [math.log10(low / 1.2), math.log10(1.3 * top)]}, is_near


def _around(values: Sequence[float]) -> list[float]:
    """Not from zero: a dip of a few percent has to be visible. At least 4 % wide, or noise would look like dips."""
    if not values:
        return [0, 1]
    low, high = min(values), max(values)
    span = max(high - low, 0.04 * high, 0.1)
    middle = (high + low) / 2
    return [max(-0.02 * span, middle - 0.65 * span), middle + 0.65 * span]


def _title(text: str, **further: Any) -> dict[str, Any]:
    return {"text": text} | further


def _line(x: Sequence[float], y: Sequence[float | None], name: str, axis: str, hover: str, **further: Any) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "name": name,
        "yaxis": axis,
        "connectgaps": False,
        "line": {"color": CALM, "width": 1.4},
        "hovertemplate": f"{hover}<extra></extra>",
    } | further


def _readers(x: Sequence[float], y: Sequence[float], at: Sequence[int | None]) -> Figure:
    line = {"color": FAINT, "width": 1.4, "shape": "hv"}
    area = {"fill": "tozeroy", "fillcolor": "rgba(118,131,154,0.25)"}
    return _line(x, y, "readers", "y3", "%{y} readers", line=line, customdata=at) | area


def _level(x: Sequence[float], y: float, name: str, colour: str, dash: str) -> Figure:
    line = {"color": colour, "width": 1, "dash": dash}
    return _line(x, [y, y], name, "y", "", line=line, hoverinfo="skip", hovertemplate=None)


def _shapes(block: Block, mark: int | None) -> list[Figure]:
    def band(x0: float, x1: float, colour: str) -> Figure:
        place = {"xref": "x", "yref": "paper", "x0": x0, "x1": x1, "y0": 0, "y1": TOP}
        return {"type": "rect", "layer": "below", "line": {"width": 0}, "fillcolor": colour} | place

    # The warm-up is paler.
    warm_up = band(block.begin_s, block.from_s, "rgba(11,15,20,0.4)")
    if block.readers == mark:
        return [band(block.begin_s, block.end_s, "rgba(255,212,121,0.3)"), warm_up]
    if block.kind == "A":
        return [warm_up]
    return [band(block.begin_s, block.end_s, f"rgba(156,195,230,{0.13 if mark is None else 0.06})"), warm_up]


def _names(blocks: Sequence[Block], bands: Sequence[Block], mark: int | None) -> list[Figure]:
    """The readers of each band, and what they do to p99; of many bands in fewer digits, which fit on a phone."""
    read = [band for band in bands if band.kind == "B"]
    is_brief = len(read) > BRIEFLY
    return [
        {
            "text": f"<b>{count(band.readers) if is_brief else counted(band.readers, 'reader')}</b>"
            + ("" if ratio is None else f"<br>×{plain(coarse(ratio))}" if is_brief else f"<br>p99 ×{factor(ratio)}"),
            "x": (band.begin_s + band.end_s) / 2,
            "y": TOP,
            "xref": "x",
            "yref": "paper",
            "yanchor": "bottom",
            "showarrow": False,
            "font": {"size": 9 if is_brief else 11, "color": CHOSEN if band.readers == mark else INK},
        }
        for band in (read if len(read) <= NAMED else [])
        for ratio in [by_neighbours(blocks, band, "p99_ms")]
    ]


# --- against the number of readers ------------------------------------------------------------------------------------


def dose_figure(shown: Shown, mark: int | None) -> Figure:
    """Commit p99 against the number of readers, 0 being A. mark: the number whose point stands out."""
    blocks = [(block.readers, value) for block in shown.blocks if (value := figure_of(block, "p99_ms"))]
    points = dose_points(shown)
    x = [readers for readers, _ in points]
    bounds = [bound for _, mean in points for bound in (mean.value, mean.high)]
    axis, has_budget = latency_axis([*(value for _, value in blocks), *bounds], shown.budget_ms)
    widest = max([1, *x])

    def colours(doses: Sequence[int], usual: str) -> list[str]:
        return [CHOSEN if dose == mark else usual for dose in doses]

    doses = [readers for readers, _ in blocks]
    each = {"mode": "markers", "marker": {"size": 5, "color": colours(doses, "rgba(139,152,168,0.55)")}}
    sizes = [13 if dose == mark else 9 for dose in x]
    mean = {"mode": "lines+markers", "marker": {"size": sizes, "color": colours(x, CALM)}}
    means = [value for _, value in points]
    traces = [
        _line(doses, [value for _, value in blocks], "blocks", "y", "%{y:,.3~g} ms in one block with %{x} readers")
        | each,
        _line(x, [one.value for one in means], "mean", "y", "%{y:,.3~g} ms with %{x} readers")
        | mean
        | {"line": {"color": CALM, "width": 1.6}, "error_y": _intervals(means)},
    ]
    if has_budget:
        traces.append(_level([-widest, 2 * widest], shown.budget_ms, "budget", LIMIT, "dot"))
    layout = plot_layout(
        HEIGHT,
        xaxis=plot_axis(
            range=[-0.06 * widest, 1.06 * widest],
            title=_title("clients that read; 0 is A", standoff=6),
            tickmode="array",
            tickvals=apart(x),
        ),
        yaxis=plot_axis(**axis, title=_title("commit p99, ms")),
    )
    return {"data": traces, "layout": layout}


def dose_note(shown: Shown) -> str:
    """What the marks mean."""
    has_bars = any(mean.low is not None for _, mean in dose_points(shown))
    return "bars: 95 % confidence; dots: blocks" if has_bars else "dots: blocks; line: their means"


def dose_points(shown: Shown) -> list[tuple[int, Mean]]:
    """Readers and their mean p99; while it runs without intervals."""
    found: Sequence[Dose] = shown.result.doses if shown.result else []
    if found:
        return [(dose.readers, dose.p99_ms) for dose in found]
    points = []
    for readers in [0, *shown.doses]:
        blocks = [block for block in shown.blocks if block.readers == readers]
        if values := [value for block in blocks if (value := figure_of(block, "p99_ms"))]:
            mean = Mean(value=geometric_mean(values), low=None, high=None, blocks=len(values))
            points.append((readers, mean))
    return points


def apart(x: Sequence[int]) -> list[int]:
    """The numbers that stand at an axis: those that would overlap are left out."""
    least = 0.04 * max([1, *x])
    inner = pairwise(x)
    return [*x[:1], *(one for before, one in inner if one - before > least and x[-1] - one > least), *x[1:][-1:]]


def _intervals(means: Sequence[Mean]) -> Figure:
    return {
        "type": "data",
        "symmetric": False,
        "color": CALM,
        "thickness": 1.4,
        "width": 5,
        "array": [(mean.value if mean.high is None else mean.high) - mean.value for mean in means],
        "arrayminus": [mean.value - (mean.value if mean.low is None else mean.low) for mean in means],
    }
