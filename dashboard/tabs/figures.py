"""Figures as plain functions of their data. Colours: grey and ice blue are normal; amber and red are not."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from dashboard import zone
from dashboard.feed.sentences import words
from schemas.api.readings import Missing, Readings, Reduced
from schemas.marks import Mark

INK = "#c9d3de"
FAINT = "#8b98a8"
RULE = "#222b35"
CALM = "#9cc3e6"  # what the eye should follow
GREY = "#76839a"  # what stands beside it for comparison
LIMIT = "#d98a86"
RED = "#ff8178"
CHOSEN = "#ffd479"
REDUCED = "#c3b596"  # figures of readings that are there no more
BAND = "rgba(195, 181, 150, 0.28)"
COLOURS = {"ink": INK, "limit": LIMIT, "chosen": CHOSEN}
"""What the scripts draw with."""

CHART_HEIGHT = 190
GRAPH_HEIGHT = 360
TREND_HEIGHT = 112
STRIP_HEIGHT = 84
SPARSE = 120
MARK_LETTERS = 32
DAY_NS = 86_400_000_000_000
TRENDS = 8
"""Channels drawn for one instrument; more would be a scroll of stamps."""

FONT = {"family": "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif", "size": 11}


def graph_config() -> Any:
    """Every graph's configuration: without the bar of plotly.js, which offers a cloud service."""
    return {"displayModeBar": False, "displaylogo": False, "scrollZoom": False, "responsive": True}


def empty(height: int) -> dict[str, Any]:
    """A figure that nothing is in yet: axes without data would be labelled with made-up numbers."""
    unseen = {"visible": False}
    return {"data": [], "layout": _layout(height) | {"xaxis": unseen, "yaxis": unseen}}


def chart(
    *traces: tuple[str, str, str], unit: str, height: int = CHART_HEIGHT, axis: Mapping[str, Any] | None = None
) -> go.Figure:
    """An empty live chart; the script in assets fills it.

    traces: (name, column of frames.COLUMNS, colour) each, drawn in that order. The column travels as the trace's
    `meta`, by which the script finds it.
    axis: `from`: where the axis of values begins: `zero`, or `around` the values, so that a dip of a few percent shows;
        `least`: how far it goes at least; `limit`: the path of a figure that is drawn as a line while the values are
        near it. As the layout's `meta`.
    """
    figure = go.Figure(
        [
            go.Scatter(
                x=[],
                y=[],
                name=name,
                meta=column,
                mode="lines",
                connectgaps=False,
                line={"color": colour, "width": 1.5, "shape": "linear"},
                hovertemplate=f"%{{y:,.4~g}} {unit} {name}<extra></extra>",
            )
            for name, column, colour in traces
        ]
    )
    # Without data the axes would be labelled with made-up numbers; the script shows them with the first point.
    blank = {"showticklabels": False}
    meta = {"from": "zero", "least": 1} | dict(axis or {})
    return figure.update_layout(**_layout(height), meta=meta, xaxis=_time_axis() | blank, yaxis=_value_axis() | blank)


def house_style(figure: go.Figure, *, height: int = GRAPH_HEIGHT) -> go.Figure:
    """Give any figure the look of the page; what it sets itself of its axes, such as title and type, stays."""
    axis = _value_axis() | {"automargin": True, "title": {"standoff": 10}, "exponentformat": "power"}
    figure.update_layout(**_layout(height), colorway=[CALM, GREY, CHOSEN])
    return figure.update_xaxes(axis | {"nticks": 12}).update_yaxes(axis)


def trends(readings: Readings, *, now_ns: int, start_ns: int, marks: Sequence[Mark] = ()) -> go.Figure:
    """One instrument's channels below each other over a common time axis from start_ns to now_ns, with the marks.

    What was reduced is a band from the least to the greatest with the mean in it, in another colour.
    """
    names = list(readings.channels)[:TRENDS]
    ahead = zone.offset_ms(now_ns / 1e6)
    times = [time_ns / 1e6 + ahead for time_ns in readings.time_ns]
    figure = go.Figure()
    share = 1.0 / max(1, len(names))
    layout: dict[str, Any] = _layout(TREND_HEIGHT * max(1, len(names)) + 24)
    for place, name in enumerate(names):
        number = "" if place == 0 else str(place + 1)
        top = 1.0 - place * share
        if readings.reduced is not None:
            _add_band(figure, readings.reduced, name, f"y{number}", ahead)
        figure.add_scatter(
            x=times,
            y=readings.channels[name],
            name=name,
            yaxis=f"y{number}",
            # Single readings are to be seen as such, but hundreds of dots would hide the line.
            mode="lines+markers" if len(times) < SPARSE else "lines",
            connectgaps=False,
            line={"color": CALM, "width": 1},
            marker={"size": 3},
            hovertemplate=f"{name} %{{y:.6~g}} {readings.units.get(name, '')}<extra></extra>",
        )
        layout[f"yaxis{number}"] = _value_axis() | {"domain": [top - share * 0.72, top - share * 0.16]}
        figure.add_annotation(text=_titled(name, readings), **_corner(top))
    days = {"tickformat": "%m-%d %H:%M"} if now_ns - start_ns > DAY_NS // 4 else {}
    axis = (
        _time_axis()
        | days
        | {
            "range": [start_ns / 1e6 + ahead, now_ns / 1e6 + ahead],
            "anchor": f"y{len(names)}" if len(names) > 1 else "y",
        }
    )
    return _marked(figure.update_layout(**layout, xaxis=axis), marks, start_ns / 1e6, now_ns / 1e6)


def _add_band(figure: go.Figure, reduced: Reduced, name: str, axis: str, ahead: float) -> None:
    """The figures of a channel."""
    found = reduced.channels.get(name)
    if found is None:
        return
    edge = {"width": 0, "color": BAND}
    common = {"x": _ends(reduced, ahead), "yaxis": axis, "mode": "lines", "connectgaps": False, "hoverinfo": "skip"}
    figure.add_scatter(**common, y=_flat(reduced, found.least), name=f"least {name}", line=edge)
    filled = {"fill": "tonexty", "fillcolor": BAND}
    figure.add_scatter(**common, **filled, y=_flat(reduced, found.greatest), name=f"greatest {name}", line=edge)
    mean = {"line": {"color": REDUCED, "width": 1}, "hoverinfo": "x+y+name"}
    figure.add_scatter(**(common | mean), y=_flat(reduced, found.mean), name=f"mean of {name}")


def _ends(reduced: Reduced, ahead: float) -> list[float]:
    """Where each step begins and ends, in ms, and the end once more: nothing joins steps that do not touch."""
    found = []
    for at_ns, step_s in zip(reduced.time_ns, reduced.step_s, strict=True):
        begin_ms = at_ns / 1e6 + ahead
        found += [begin_ms, begin_ms + step_s * 1e3, begin_ms + step_s * 1e3]
    return found


def _flat(reduced: Reduced, values: Sequence[float | None]) -> list[float | None]:
    """A value a step as `_ends` has the times of them."""
    follows = [*reduced.time_ns[1:], None]
    found: list[float | None] = []
    for at_ns, step_s, next_ns, value in zip(reduced.time_ns, reduced.step_s, follows, values, strict=True):
        found += [value, value, value if next_ns == at_ns + round(step_s * 1e9) else None]
    return found


def missing_strip(history: Missing, instrument: int, marks: Sequence[Mark] = ()) -> go.Figure:
    """When an instrument was missing: a bar a range of triggers, as high as the share of them that lack it, in %.

    marks: are drawn without their words, for which the strip is too low.
    """
    counts = history.missing.get(str(instrument), [0] * len(history.stretches.triggers))
    shares = [100 * count / of for count, of in zip(counts, history.stretches.triggers, strict=True)]
    end_ms = (history.end_ns or 0) / 1e6
    ahead = zone.offset_ms(end_ms)
    times = [time_ns / 1e6 + ahead for time_ns in history.stretches.time_ns]
    figure = go.Figure(
        go.Bar(x=times, y=shares, marker={"color": RED}, hovertemplate="%{y:.3~g} % missing<extra></extra>")
    )
    axis = _time_axis() | {"range": [times[0], end_ms + ahead]} if times else _time_axis()
    values = _value_axis() | {"range": [0, 100], "nticks": 3, "ticksuffix": " %"}
    figure.update_layout(**_layout(STRIP_HEIGHT), bargap=0.1, xaxis=axis, yaxis=values)
    return _marked(figure, marks, times[0] - ahead, end_ms, named=0) if times else figure


def mark_shapes(
    marks: Sequence[Mark], from_ms: float, to_ms: float, *, named: int = 8, at: Callable[[float], float] = float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Shapes and annotations of marks, as assets/marks.js draws them.

    named: so many have words, the newest. at: where a time, in ms, lies on the axis `x`.
    """
    seen = [mark for mark in marks if mark.time_ns / 1e6 <= to_ms and mark.last_ns / 1e6 >= from_ms]
    shapes, annotations = [], []
    for mark in seen:
        line = {"color": CHOSEN, "width": 1 if mark.until_ns is None else 0, "dash": "dot"}
        ends = {"x0": at(max(mark.time_ns / 1e6, from_ms)), "x1": at(min(mark.last_ns / 1e6, to_ms))}
        kind = "line" if mark.until_ns is None else "rect"
        shape = {"type": kind, "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": line}
        shapes.append(shape | ends | ({"fillcolor": f"{CHOSEN}1c"} if kind == "rect" else {}))
    for place, mark in enumerate(seen[-named:] if named else ()):
        text = mark.text if len(mark.text) <= MARK_LETTERS else f"{mark.text[:MARK_LETTERS]}…"
        is_right = mark.time_ns / 1e6 > from_ms + 0.7 * (to_ms - from_ms)
        annotations.append(
            {
                "x": at(max(mark.time_ns / 1e6, from_ms)),
                "y": 1,
                "xref": "x",
                "yref": "paper",
                "yanchor": "top",
                "yshift": -12 * (place % 4),
                "xanchor": "right" if is_right else "left",
                "showarrow": False,
                "text": escape(text, quote=False),
                "hovertext": escape(words(mark), quote=False),
                "font": {"size": 10, "color": INK},
            }
        )
    return shapes, annotations


def _marked(figure: go.Figure, marks: Sequence[Mark], from_ms: float, to_ms: float, *, named: int = 8) -> go.Figure:
    ahead = zone.offset_ms(to_ms)
    shapes, annotations = mark_shapes(marks, from_ms, to_ms, named=named, at=lambda ms: ms + ahead)
    for shape in shapes:
        figure.add_shape(shape)
    for annotation in annotations:
        figure.add_annotation(annotation)
    return figure


def _titled(name: str, readings: Readings) -> str:
    unit = readings.units.get(name, "")
    known = [value for value in readings.channels[name] if value is not None]
    newest = f"  <b>{known[-1]:,.6g}</b> {unit}" if known else "  no value"
    return f"{name}{newest}"


def _corner(top: float) -> dict[str, Any]:
    return {
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": top,
        "xanchor": "left",
        "yanchor": "top",
        "showarrow": False,
        "font": {"color": INK, "size": 12},
    }


def plot_layout(height: int, **further: Any) -> dict[str, Any]:
    """The layout of a figure that Python draws, with room for the titles of its axes."""
    return _layout(height) | {"margin": {"l": 56, "r": 12, "t": 8, "b": 40}, "hovermode": "closest"} | further


def plot_axis(**further: Any) -> dict[str, Any]:
    """An axis of such a figure."""
    return _value_axis() | {"nticks": 6} | further


def log_axis(low: float, high: float, wide: float) -> dict[str, Any]:
    """A logarithmic axis with 1, 2, 5, 10, ... written out, where high / low is more than `wide` only powers of ten.

    plotly.js shortens those between two powers of ten to their first digit.
    """
    digits = (1,) if high / low > wide else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(1.3 * high)) + 1)
    ticks = [(digit, power) for power in powers for digit in digits]
    return {
        "type": "log",
        "tickmode": "array",
        "tickvals": [digit * 10.0**power for digit, power in ticks],
        "ticktext": [f"{digit * 10.0**power:,.{max(0, -power)}f}" for digit, power in ticks],
    }


def _layout(height: int) -> dict[str, Any]:
    return {
        # All of the look is here: the usual template is 7 kB a chart, looked through by plotly.js at each drawing.
        "template": "none",
        "height": height,
        "autosize": True,
        "margin": {"l": 48, "r": 10, "t": 6, "b": 24},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": FONT | {"color": FAINT},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "#0b0f14", "bordercolor": RULE, "font": FONT | {"color": INK}},
        "dragmode": False,
    }


def _time_axis() -> dict[str, Any]:
    return {
        "type": "date",
        "fixedrange": True,
        "gridcolor": RULE,
        "zeroline": False,
        "tickformat": "%H:%M:%S",
        "hoverformat": f"%H:%M:%S.%L {zone.label()}",
        "nticks": 5,
        "automargin": False,
    }


def _value_axis() -> dict[str, Any]:
    return {"fixedrange": True, "gridcolor": RULE, "zeroline": False, "nticks": 5, "automargin": False}
