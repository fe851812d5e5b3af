"""The figure of an orbit, as a pure function, and what of it changes each second."""

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from dash import Patch

from dashboard.tabs.figures import CALM, FAINT, RED, plot_axis, plot_layout
from dashboard.tabs.instruments.orbit import Orbit, Plot, Values

ORBIT_HEIGHT = 330
CROWDED = 400
"""Instruments beyond which markers would hide the line."""

GAP = 0.06
"""Between two plots, of the height."""

STEPS = (1, 2, 5, 10)
MARGIN = 0.1
"""Room above and below the values, of their span."""

Span = tuple[float, float]


def orbit_figure(orbit: Orbit, names: Sequence[str], spans: Sequence[Span]) -> dict[str, Any]:
    """An orbit's plots below each other, as JSON. names: of the instruments. spans: of the axis of values, one a plot.

    Two traces a plot: its values, and a cross for each missing instrument. Made each second while somebody looks: of
    1,000 instruments in 0.4 ms, where a go.Figure takes 26.
    """
    data = []
    layout = plot_layout(ORBIT_HEIGHT, margin={"l": 56, "r": 10, "t": 8, "b": 34})
    for place, (plot, span) in enumerate(zip(orbit.plots, spans, strict=True)):
        axis = str(place + 1) if place else ""
        data += [_values(plot, names, f"y{axis}"), _gone(orbit, names, span, f"y{axis}")]
        layout[f"yaxis{axis}"] = _value_axis(plot, span, place, len(orbit.plots))
    last = str(len(orbit.plots)) if len(orbit.plots) > 1 else ""
    title = {"text": "instrument", "standoff": 6}
    layout["xaxis"] = plot_axis(range=[-1, len(names)], anchor=f"y{last}", nticks=10, title=title)
    layout["annotations"] = [_made(made) for made in {plot.made for plot in orbit.plots} if made]
    return {"data": data, "layout": layout}


def moved(figure: dict[str, Any]) -> Patch:
    """What differs from a figure of the same group and choice: names and looks need not travel each second."""
    patch = Patch()
    for place, trace in enumerate(figure["data"]):
        for name in ("x", "y", "text") if place % 2 else ("y",):
            patch["data"][place][name] = trace[name]
    for name, axis in figure["layout"].items():
        if name.startswith("yaxis"):
            patch["layout"][name]["range"] = axis["range"]
    return patch


def span_of(values: Values, before: Span | None) -> Span:
    """The span of an axis that fits and stays: it grows when a value leaves it, and shrinks when most is empty."""
    plotted = _plotted(values)
    known = plotted[np.isfinite(plotted)]
    if not len(known):
        return before or (-1.0, 1.0)
    low, high = float(known.min()), float(known.max())
    size = max(high - low, abs(high) * 0.01) or 1.0
    if before and before[0] <= low and high <= before[1] and size > (before[1] - before[0]) / 3:
        return before
    step = _nice(size / 4)
    return math.floor((low - size * MARGIN) / step) * step, math.ceil((high + size * MARGIN) / step) * step


def _nice(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return power * next((step for step in STEPS if value <= step * power * 1.000001), 10)


def _plotted(values: Values) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Seven digits: a screen shows fewer. What is too large for that is nowhere on the plot, nor in its span."""
    with np.errstate(over="ignore"):
        return values.astype("<f4")


def _values(plot: Plot, names: Sequence[str], axis: str) -> dict[str, Any]:
    # As plotly.js takes the bytes of an array.
    packed = base64.b64encode(_plotted(plot.values).tobytes()).decode()
    return {
        "type": "scatter",
        "yaxis": axis,
        "y": {"dtype": "f4", "bdata": packed},
        "name": plot.name,
        "mode": "lines" if len(names) > CROWDED else "lines+markers",
        "connectgaps": False,
        "line": {"color": CALM, "width": 1},
        "marker": {"size": 4},
        "text": list(names),
        "hovertemplate": f"%{{text}}: %{{y:.4~g}} {plot.unit}<extra></extra>",
    }


def _gone(orbit: Orbit, names: Sequence[str], span: Span, axis: str) -> dict[str, Any]:
    """Missing instruments are marked on the lower edge: a gap in a line of points is not visible."""
    return {
        "type": "scatter",
        "yaxis": axis,
        "x": orbit.missing,
        "y": [span[0]] * len(orbit.missing),
        "mode": "markers",
        "cliponaxis": False,
        "marker": {"symbol": "x", "size": 7, "color": RED},
        "text": [names[one] for one in orbit.missing],
        "hovertemplate": "%{text}: missing<extra></extra>",
    }


def _made(words: str) -> dict[str, Any]:
    """By what the values were computed, in the upper right corner; plotly.js takes tags of HTML in a text."""
    corner = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "top"}
    return corner | {"text": escape(words), "showarrow": False, "font": {"size": 12, "color": FAINT}}


def _value_axis(plot: Plot, span: Span, place: int, of: int) -> dict[str, Any]:
    top = 1 - place / of
    bottom = top - 1 / of + (GAP if place < of - 1 else 0)
    title = f"{plot.name} ({plot.unit})" if plot.unit else plot.name
    return plot_axis(
        domain=[max(0.0, bottom), top],
        range=list(span),
        zeroline=True,
        zerolinecolor="#3a4654",
        nticks=5,
        title={"text": title, "standoff": 4},
    )
