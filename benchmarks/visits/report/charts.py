"""Plots of seconds against visit: points with lines through them, and boxes of bins."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.html import elements
from benchmarks.html.axes import Axis, LinearAxis
from benchmarks.html.markup import Markup, join, tag
from benchmarks.report.formatting import number
from daemon.workloads.visits.figures import at, bin_visits, boxes, thinned
from schemas.api.visits import Line, Over
from schemas.readings import Array

MOST_POINTS = 600
SMALL_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class Series:
    """Seconds by visit, float64 and int64, shape (n,), to be drawn in a colour of the style sheet.

    fitted_until: where the line through them ends; None is at the last visit.
    """

    name: str
    visits: Array
    seconds: Array
    fit: Line | None = None
    fitted_until: int | None = None


def axes(series: Sequence[Series], others: Sequence[float] = ()) -> tuple[LinearAxis, LinearAxis]:
    """Axes that hold all points and `others`; the upper end cuts off what is far beyond nearly all of them."""
    last = max((int(each.visits.max()) for each in series if len(each.visits)), default=1)
    high = max((_nearly_all(each.seconds) for each in series if len(each.seconds)), default=1.0)
    return LinearAxis(low=0, high=max(last, 1)), LinearAxis(low=0, high=1.08 * max(high, *others, 1e-6))


def _nearly_all(seconds: Array) -> float:
    return min(float(seconds.max()), 2 * float(np.percentile(seconds, 98)))


def chart(
    title: str,
    series: Sequence[Series],
    across: LinearAxis,
    up: LinearAxis,
    *,
    papers: Markup | None = None,
    small: bool = False,
) -> Markup:
    """A card with points and lines; what lies beyond the axis is drawn on its edge."""
    most = SMALL_POINTS if small else MOST_POINTS
    shapes = [join([_points(each, across, up, most), _line(each, across, up)]) for each in series]
    return _card(title, [*shapes, papers or Markup()], across, up, small=small)


def straight(line: tuple[float, float], across: LinearAxis, up: Axis, style: str, meaning: str) -> Markup:
    """A line from its seconds at the first visit of the axis to those at the last."""
    d = f"M0 {100 - up.at(line[0]):.2f}L100 {100 - up.at(line[1]):.2f}"
    return tag("path", tag("title", meaning), d=d, class_=f"curve {style}")


def box_chart(title: str, series: Series, across: LinearAxis) -> Markup:
    """Quartiles of bins, with whiskers over the whole range and a mark at the mean, as in the paper."""
    found = boxes(series.visits, series.seconds, bin_visits(len(series.visits)))
    up = LinearAxis(low=0, high=1.05 * max((box.high for box in found), default=1.0))
    shapes = []
    for box in found:
        left, right = across.at(box.first), across.at(box.last + 1)
        middle, room = (left + right) / 2, (right - left) * 0.3
        meaning = tag(
            "title",
            f"visits {box.first:,} to {box.last:,}: median {number(box.median)} s, mean {number(box.mean)} s, "
            f"{number(box.low)} to {number(box.high)} s",
        )
        whisker = f"M{middle:.2f} {100 - up.at(box.low):.2f}V{100 - up.at(box.high):.2f}"
        top, base = 100 - up.at(box.q3), 100 - up.at(box.q1)
        shapes += [
            tag("path", d=whisker, class_="range"),
            tag("rect", meaning, x=middle - room, y=top, width=2 * room, height=max(0.3, base - top), class_="box"),
            tag(
                "path",
                d=f"M{middle - room:.2f} {100 - up.at(box.median):.2f}H{middle + room:.2f}",
                class_="middle",
            ),
            tag("path", d=f"M{middle:.2f} {100 - up.at(box.mean):.2f}h0", class_="mean"),
        ]
    return _card(title, shapes, across, up)


def share_chart(title: str, shares: Sequence[Over], across: LinearAxis) -> Markup:
    """The fraction of each bin that took longer than a limit, from 0 to 1."""
    up = LinearAxis(low=0, high=1)
    shapes = []
    for each in shares:
        left, right, height = across.at(each.first), across.at(each.last + 1), up.at(each.fraction)
        meaning = tag("title", f"visits {each.first:,} to {each.last:,}: {100 * each.fraction:.1f} %")
        shapes.append(
            tag("rect", meaning, x=left, y=100 - height, width=0.9 * (right - left), height=height, class_="share")
        )
    return _card(title, shapes, across, up, axis="fraction against visit")


def _card(
    title: str,
    shapes: Sequence[Markup],
    across: LinearAxis,
    up: LinearAxis,
    *,
    small: bool = False,
    axis: str = "seconds against visit",
) -> Markup:
    x_values, y_values = across.ticks(3 if small else 6), up.ticks(3 if small else 5)
    legend = "" if small else axis
    label = f"{title}: {axis}"
    return elements.chart(title, legend, shapes, (across, x_values), (up, y_values), label=label, small=small)


def _points(series: Series, across: Axis, up: Axis, most: int) -> Markup:
    kept = thinned({"visit": series.visits, "seconds": series.seconds}, most, by=("seconds",))
    pairs = zip(kept["visit"].tolist(), kept["seconds"].tolist(), strict=True)
    d = "".join(f"M{across.at(visit):.2f} {100 - up.at(seconds):.2f}h0" for visit, seconds in pairs)
    return tag("path", d=d, class_=f"dots {series.name}")


def _line(series: Series, across: Axis, up: Axis) -> Markup:
    if series.fit is None or not len(series.visits):
        return Markup()
    last = int(series.visits.max())
    ends = [int(series.visits.min()), last if series.fitted_until is None else min(last, series.fitted_until)]
    d = "L".join(f"{across.at(visit):.2f} {100 - up.at(at(series.fit, visit)):.2f}" for visit in ends)
    return tag("path", d=f"M{d}", class_=f"curve {series.name}")
