"""Where the telescope looked: an equal-area map around the south celestial pole."""

import math
from collections.abc import Sequence
from typing import Any

from dashboard.tabs.figures import CALM, FAINT, RULE, plot_layout
from dashboard.tabs.visits.runs import Visit
from dashboard.words import count, number, plain
from schemas.api.visits import VisitsFigures
from schemas.visits.survey import Survey

HEIGHT = 400
CAPS = ((10, 2.5), (15, 5), (20, 5), (30, 10), (45, 15), (60, 15), (90, 15), (180, 30))
"""How far a map reaches, and the step of its circles, in degrees from the pole."""

HOUR_DEG = 15
FIELD_POINTS = 60
FIELD = 1
"""Place of the trace with the field among those of the figure."""


def sky(figures: VisitsFigures | None, last: Visit | None) -> dict[str, Any]:
    """The field of the last visit in its true size, over earlier pointings as faint points."""
    columns = {"ra": [], "decl": []} if figures is None else figures.columns
    ra, decl, field_deg = columns["ra"], columns["decl"], field_of(figures)
    widest = max([0.0, *(one + 90 for one in decl), *([] if last is None else [last.decl + 90])]) + field_deg / 2
    cap, step = next(((degrees, step) for degrees, step in CAPS if degrees >= widest), CAPS[-1])
    seen = {
        "type": "scatterpolar",
        "mode": "markers",
        "r": [distance(one) for one in decl],
        "theta": list(ra),
        "marker": {"color": CALM, "size": 2.6, "opacity": 0.4},
        "hoverinfo": "skip",
    }
    layout = plot_layout(HEIGHT, margin={"l": 30, "r": 30, "t": 26, "b": 26}, hovermode=False, polar=_map(cap, step))
    return {"data": [seen, field(last, field_deg)], "layout": layout}


def field(last: Visit | None, field_deg: float) -> dict[str, Any]:
    """The trace of the field that a visit looked at; empty before the first visit."""
    circle = [] if last is None else outline(last.ra, last.decl, field_deg / 2)
    return {
        "type": "scatterpolar",
        "mode": "lines",
        "theta": [ra for ra, _ in circle],
        "r": [distance(decl) for _, decl in circle],
        "line": {"color": "#ffffff", "width": 1.8},
        "fill": "toself",
        "fillcolor": "rgba(255,255,255,0.16)",
        "hoverinfo": "skip",
    }


def field_of(figures: VisitsFigures | None) -> float:
    """Diameter of the field of view, in degrees."""
    return Survey.model_fields["field_deg"].default if figures is None else figures.settings.survey.field_deg


def pointing(last: Visit | None, field_deg: float) -> str:
    """Where a visit looked, in words."""
    if last is None:
        return "no visit yet"
    decl = number(last.decl, 1).replace("-", "−")
    return f"visit {count(last.visit)} at RA {number(last.ra, 1)}°, Dec {decl}° · field {plain(field_deg)}° across"


def described(words: str, figures: VisitsFigures | None) -> str:
    """The map in words."""
    earlier = 0 if figures is None else len(figures.columns["visit"])
    return f"Map of the sky around the south celestial pole: {words}, {count(earlier)} earlier pointings faint"


def distance(decl: float) -> float:
    """From the map's middle, of Lambert's equal-area projection; decl in degrees, 2 is the other pole."""
    return 2 * math.sin(math.radians(decl + 90) / 2)


def outline(ra: float, decl: float, radius: float) -> Sequence[tuple[float, float]]:
    """Right ascension and declination of points on a circle on the sky, closed; all in degrees."""
    a, d, r = math.radians(ra), math.radians(decl), math.radians(radius)
    found = []
    for step in range(FIELD_POINTS + 1):
        bearing = 2 * math.pi * step / FIELD_POINTS
        other = math.asin(math.sin(d) * math.cos(r) + math.cos(d) * math.sin(r) * math.cos(bearing))
        along = math.atan2(math.sin(bearing) * math.sin(r) * math.cos(d), math.cos(r) - math.sin(d) * math.sin(other))
        found.append((math.degrees(a + along), math.degrees(other)))
    return found


def _map(cap: float, step: float) -> dict[str, Any]:
    """As seen from the ground: right ascension runs clockwise, 0h is on top."""
    circles = [step * place for place in range(1, math.ceil(cap / step))]
    grid = {"gridcolor": RULE, "linecolor": "#3a4654", "tickfont": {"color": FAINT, "size": 11}}
    hours = range(0, 24, 2)
    return {
        "bgcolor": "#0d1218",
        "angularaxis": grid
        | {
            "direction": "clockwise",
            "rotation": 90,
            "tickvals": [HOUR_DEG * hour for hour in hours],
            "ticktext": [f"{hour}h" for hour in hours],
            "ticks": "",
        },
        "radialaxis": grid
        | {
            "range": [0, distance(cap - 90)],
            "tickvals": [distance(circle - 90) for circle in circles],
            "ticktext": [f"{'−' if circle < 90 else '+'}{plain(abs(90 - circle))}°" for circle in circles],
            # Declinations stand along 1h, where no line of right ascension runs.
            "angle": 90 - HOUR_DEG,
            "tickangle": 90 - HOUR_DEG,
            "ticks": "",
            "showline": False,
        },
    }
