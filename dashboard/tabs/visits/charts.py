"""A run of visits drawn: seconds against visit with fitted lines, boxes by bin, the steps of a visit, what is over.

Each takes what the daemon tells of a run, and returns a figure of Plotly; beside it is what is said of it in words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import Patch

from dashboard.tabs.figures import CALM, GREY, INK, LIMIT, log_axis, plot_axis, plot_layout
from dashboard.words import count, number, plain, seconds, signed
from schemas.api.visits import Box, Line, Over, ReferenceLine, VisitsFigures

TALL = 400
LOW = 230
FEW = 250
"""Points that have room to be larger."""

NEAR = 3
"""A line so many times as far up as the points would flatten them: it is drawn on the logarithmic axis alone."""

LEAST_S = 1e-6
DECADES = 2.5
"""Beyond so many a logarithmic axis has powers of ten alone."""

SAND = "#c3b596"
SERIES = (("visit_s", "total", CALM), ("select_s", "select", GREY), ("store_s", "store", SAND))
STEPS = (
    ("select_object_s", "select object", "#5f87ad"),
    ("select_source_s", "select source", "#7fa8cf"),
    ("select_forced_s", "select forced", "#a9cbea"),
    ("store_last_s", "store last", "#6f675a"),
    ("store_object_s", "store object", "#8d8371"),
    ("store_source_s", "store source", "#aa9f8a"),
    ("store_forced_s", "store forced", "#c6baa3"),
    ("commit_s", "commit", "#e2d7c2"),
)

Figure = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reach:
    """From which visit to which, up to how many seconds; of the paper's line its end, None where there is no line.

    with_paper, with_limit: whether these are not too far up to be drawn.
    """

    first: float
    last: float
    highest: float
    paper_end: float | None
    with_paper: bool
    with_limit: bool


def reach(figures: VisitsFigures, scale: str) -> Reach:
    """How far the chart of the seconds reaches; scale: `linear` or `log`."""
    visit, paper, limit_s = figures.columns["visit"], figures.paper, figures.limit_s
    first, last = (visit[0], visit[-1]) if visit else (0, 1)
    most = max([LEAST_S, *figures.columns["visit_s"]])
    end = None if paper is None else _at(paper, last)

    def is_near(value: float | None) -> bool:
        return value is not None and (scale == "log" or value <= NEAR * most)

    drawn = [value for value in (end, limit_s) if value is not None and is_near(value)]
    return Reach(
        first=first,
        last=last,
        highest=max([most, *drawn]),
        paper_end=end,
        with_paper=is_near(end),
        with_limit=is_near(limit_s),
    )


def seconds_by_visit(figures: VisitsFigures, scale: str) -> Figure:
    """Points, fitted lines, the paper's line and the limit against the number of the visit."""
    columns, far = figures.columns, reach(figures, scale)
    size = 5 if len(columns["visit"]) < FEW else 3.5
    points = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": label,
            "x": columns["visit"],
            "y": [short(value) for value in columns[name]],
            "marker": {"size": size, "color": colour, "opacity": 0.55},
            "hovertemplate": f"%{{y:.3~g}} s {label}<extra></extra>",
        }
        for name, label, colour in SERIES
    ]
    margin = 0.01 * max(1, far.last - far.first)
    across = plot_axis(range=[far.first - margin, far.last + margin], title=_title("visit"), hoverformat=",d")
    up = _logarithmic(figures, far) if scale == "log" else {"range": [0, 1.06 * far.highest]}
    layout = _layout(TALL, hovermode="x unified", xaxis=across, yaxis=plot_axis(title=_title("seconds"), **up))
    return {"data": points + _lines(figures, far, scale), "layout": layout}


def grown(figure: Figure, known: int) -> Patch:
    """What a browser lacks of this figure that has its first points, which stand as they did."""
    change = Patch()
    for place, trace in enumerate(figure["data"]):
        if trace["mode"] == "markers":
            change["data"][place]["x"].extend(trace["x"][known:])
            change["data"][place]["y"].extend(trace["y"][known:])
        else:
            change["data"][place] = trace
    change["layout"] = figure["layout"]
    return change


def seconds_words(figures: VisitsFigures, scale: str) -> str:
    """How the seconds grow, and what is too far up to be drawn."""
    far, fit, points = reach(figures, scale), figures.fits.get("visit_s"), len(figures.columns["visit"])
    parts = [f"total grows by {signed(fit.slope_per_1000)} s in 1,000 visits"] if fit else []
    above = [f"the paper’s line ({seconds(far.paper_end)} s)"] if far.paper_end is not None else []
    above = ([] if far.with_paper else above) + ([] if far.with_limit else [f"the limit of {plain(figures.limit_s)} s"])
    if above:
        parts.append(f"{' and '.join(above)} {'are' if len(above) > 1 else 'is'} above")
    if figures.visits > points:
        parts.append(f"{count(points)} of {count(figures.visits)} visits, the extremes included")
    return " · ".join(parts)


def seconds_described(figures: VisitsFigures, words: str) -> str:
    """The chart in words."""
    paper = f"; the paper’s line: {figures.paper.label}" if figures.paper else ""
    return f"Seconds per visit against visit: {len(figures.columns['visit'])} points; {words}{paper}"


def boxes(figures: VisitsFigures) -> Figure:
    """Quartiles, the whole range and the mean of the seconds by bin of visits."""
    bins = figures.boxes
    x = [_middle(box) for box in bins]
    drawn = {
        "type": "box",
        "name": "visits",
        "x": x,
        "q1": [box.q1 for box in bins],
        "median": [box.median for box in bins],
        "q3": [box.q3 for box in bins],
        "lowerfence": [box.low for box in bins],
        "upperfence": [box.high for box in bins],
        "width": 0.6 * figures.bin,
        "whiskerwidth": 0.5,
        "line": {"color": CALM, "width": 1.2},
        "fillcolor": "rgba(156,195,230,0.18)",
        "hoverinfo": "skip",
    }
    means = {
        "type": "scatter",
        "mode": "markers",
        "name": "mean",
        "x": x,
        "y": [box.mean for box in bins],
        "text": [_box_words(box) for box in bins],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": "diamond", "size": 7, "color": INK, "line": {"color": "#0b0f14", "width": 1}},
    }
    up = plot_axis(range=[0, 1.06 * max([LEAST_S, *(box.high for box in bins)])], title=_title("seconds"))
    layout = _layout(LOW, hovermode="x", hoverdistance=-1, xaxis=_binned(figures), yaxis=up)
    return {"data": [drawn, means], "layout": layout}


def boxes_words(figures: VisitsFigures) -> str:
    """What a box is."""
    return f"quartiles, the whole range, ◆ mean · {count(figures.bin)} visits per bin"


def boxes_described(figures: VisitsFigures) -> str:
    """The boxes in words."""
    bins = figures.boxes
    ends = "none yet"
    if bins:
        ends = f"median {seconds(bins[0].median)} s in the first, {seconds(bins[-1].median)} s in the last"
    return f"Boxes of the seconds per visit, {count(figures.bin)} visits per bin: {ends}"


def used_steps(figures: VisitsFigures) -> list[tuple[str, str, str]]:
    """Column, label and colour of the steps that took any time."""
    return [step for step in STEPS if any(value > 0 for value in figures.parts.get(step[0], []))]


def steps(figures: VisitsFigures) -> Figure:
    """The mean seconds of the steps of a visit by bin, on top of each other."""
    traces = [
        _bars(figures, figures.boxes, figures.parts[name], colour)
        | {"name": label, "hovertemplate": f"%{{y:.3~g}} s {label}<extra></extra>"}
        for name, label, colour in used_steps(figures)
    ]
    up = plot_axis(rangemode="tozero", title=_title("seconds, mean"))
    across = _binned(figures) | {"hoverformat": ",d"}
    return {"data": traces, "layout": _layout(LOW, barmode="stack", hovermode="x unified", xaxis=across, yaxis=up)}


def steps_described(figures: VisitsFigures) -> str:
    """The steps in words."""
    last = ", ".join(f"{label} {seconds(figures.parts[name][-1])} s" for name, label, _ in used_steps(figures))
    return f"Mean seconds per visit by step; in the last bin: {last or 'none yet'}"


def over(figures: VisitsFigures) -> Figure:
    """The fraction of the visits of a bin that took longer than the limit, in %."""
    shares = [100 * one.fraction for one in figures.over]
    bars = _bars(figures, figures.over, shares, LIMIT) | {
        "name": "over",
        "text": [_span(one) for one in figures.over],
        "textposition": "none",
        "hovertemplate": "%{y:.3~g} % of visits %{text}<extra></extra>",
    }
    top = next(top for top in (5, 20, 100) if max([0.0, *shares]) <= top)
    up = plot_axis(range=[0, top], ticksuffix=" %")
    layout = _layout(LOW, hovermode="x", hoverdistance=-1, xaxis=_binned(figures), yaxis=up)
    return {"data": [bars], "layout": layout}


def over_words(figures: VisitsFigures) -> str:
    """Whether any took longer."""
    is_any = any(one.fraction > 0 for one in figures.over)
    return f"{'took' if is_any else 'none took'} longer than {plain(figures.limit_s)} s"


def over_described(figures: VisitsFigures) -> str:
    """The fractions in words."""
    is_any = any(one.fraction > 0 for one in figures.over)
    last = f"{number(100 * figures.over[-1].fraction, 0)} % of the last bin " if is_any else ""
    return f"Visits over the limit by bin: {last}{over_words(figures)}"


def notes(figures: VisitsFigures, scale: str) -> dict[str, tuple[str, str]]:
    """By chart what stands beside its title, and what a screen reader says in place of it."""
    grows = seconds_words(figures, scale)
    return {
        "time": (grows, seconds_described(figures, grows)),
        "boxes": (boxes_words(figures), boxes_described(figures)),
        "parts": ("", steps_described(figures)),
        "over": (over_words(figures), over_described(figures)),
    }


def short(value: float) -> float:
    """To what a chart can show: it travels to every browser."""
    return float(f"{value:.4g}")


def _at(line: Line | ReferenceLine, visit: float) -> float:
    return line.intercept + line.slope_per_1000 * visit / 1000


def _lines(figures: VisitsFigures, far: Reach, scale: str) -> list[dict[str, Any]]:
    def straight(name: str, line: Line | ReferenceLine | None, colour: str, **look: Any) -> dict[str, Any]:
        ends = [None, None] if line is None else [_at(line, far.first), _at(line, far.last)]
        return {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [far.first, far.last],
            "y": [None if value is None or (scale == "log" and value <= 0) else value for value in ends],
            "line": {"color": colour, "width": 1.4} | look,
            "hoverinfo": "skip",
        }

    level = ReferenceLine(label="limit", intercept=figures.limit_s, slope_per_1000=0)
    return [
        *(straight(f"{label}, line", figures.fits.get(name), colour, width=2) for name, label, colour in SERIES),
        straight("paper", figures.paper if far.with_paper else None, INK, dash="dot"),
        straight("limit", level if far.with_limit else None, LIMIT, dash="dash"),
    ]


def _logarithmic(figures: VisitsFigures, far: Reach) -> dict[str, Any]:
    """Steps of 1, 2 and 5, and no more decades than there are."""
    values = (value for name, _, _ in SERIES for value in figures.columns[name] if value > 0)
    low = min([far.highest, *values])
    ends = {"range": [math.log10(low) - 0.1, math.log10(far.highest) + 0.1]}
    return log_axis(low, far.highest, 10**DECADES) | ends


def _box_words(box: Box) -> str:
    quartiles = ", ".join(map(seconds, (box.q1, box.median, box.q3)))
    ends = f"{seconds(box.low)} to {seconds(box.high)} s"
    return f"visits {_span(box)}<br>{ends}<br>quartiles {quartiles} s<br>mean {seconds(box.mean)} s"


def _bars(figures: VisitsFigures, bins: Sequence[Box | Over], values: list[float], colour: str) -> dict[str, Any]:
    look = {"color": colour, "line": {"width": 0}}
    return {"type": "bar", "x": [*map(_middle, bins)], "y": values, "width": 0.86 * figures.bin, "marker": look}


def _binned(figures: VisitsFigures) -> dict[str, Any]:
    bins = figures.boxes
    begin = bins[0].first if bins else 0
    end = max(bins[-1].last, begin + figures.bin) if bins else 1
    margin = 0.03 * (end - begin)
    return plot_axis(range=[begin - margin, end + margin], title=_title("visit"))


def _middle(box: Box | Over) -> float:
    return (box.first + box.last) / 2


def _span(box: Box | Over) -> str:
    return f"{count(box.first)}–{count(box.last)}"


def _title(text: str) -> dict[str, Any]:
    return {"text": text, "standoff": 6}


def _layout(height: int, **further: Any) -> dict[str, Any]:
    return plot_layout(height, margin={"l": 52, "r": 12, "t": 8, "b": 38}, **further)
