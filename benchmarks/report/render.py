"""Writes a report as one HTML file, which opens offline and runs no script, or as Markdown."""

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from pydantic import ValidationError

from benchmarks.report.model import (
    Advice,
    Axis,
    Cell,
    Chart,
    Details,
    Facts,
    Panel,
    Part,
    Report,
    Section,
    Series,
    Table,
    Tile,
    Warnings,
)

# --- charts ----------------------------------------------------------------------------------------------------------

STEPS = (1, 2, 5)
MOST_NAMED = 120
"""So many points of a series have a mark each that says what it is; more are one shape."""


@dataclass(frozen=True)
class Scale:
    """Places on an axis from `low` to `high`, low < high; of a logarithmic one both are positive."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the percent from the low end; a value beyond the ends lies on them."""
        value = min(max(value, self.low), self.high)
        if self.log:
            return 100 * math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values to name, about so many at most."""
        slack = 1e-9
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in (STEPS, (1,)):
                found = [step * 10.0**power for power in powers for step in steps]
                inside = [each for each in found if self.low * (1 - slack) <= each <= self.high * (1 + slack)]
                if len(inside) <= most + 1:
                    break
            return inside
        width = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(width))
        step = next(step * power for step in (*STEPS, 10) if step * power >= width * (1 - slack))
        first, last = math.ceil(self.low / step - slack), math.floor(self.high / step + slack)
        return [round(k * step, 12) for k in range(first, last + 1)]


def scale_of(axis: Axis, values: Iterable[float], room: float = 0.0) -> Scale:
    """Make the scale of an axis that holds the values, with so much room above the greatest."""
    found = sorted(value for value in values if math.isfinite(value) and (value > 0 or not axis.log)) or [1.0]
    low, high = found[0], found[-1]
    if axis.log:
        low, high = _step(low, up=False), _step(high, up=True)
    elif axis.tight:
        margin = max(0.1 * (high - low), 0.01 * abs(high), 0.05)
        low, high = max(0.0, low - margin), high + margin
    else:
        low, high = min(0.0, low), high * (1 + room)
    low, high = (low if axis.low is None else axis.low), (high if axis.high is None else axis.high)
    return Scale(low, high if high > low else low + 1.0, axis.log)


def _step(value: float, *, up: bool) -> float:
    power = math.floor(math.log10(value))
    tried = [step * 10.0**exponent for exponent in (power - 1, power, power + 1) for step in STEPS]
    return min(each for each in tried if each > value) if up else max(each for each in tried if each < value)


@dataclass(frozen=True)
class Shape:
    """A path, its classes, and what it is."""

    d: str
    style: str
    title: str = ""


@dataclass(frozen=True)
class Plot:
    """A panel with its shapes and the ticks of its side."""

    panel: Panel
    ticks: Sequence[tuple[str, float]]
    shapes: Sequence[Shape]
    label: str


@dataclass(frozen=True)
class Drawing:
    """A chart: its plots, the ticks below the last, and the key: classes, and what they mean."""

    plots: Sequence[Plot]
    ticks: Sequence[tuple[str, float]]
    key: Sequence[tuple[str, str]]


def drawing(chart: Chart) -> Drawing:
    """Place everything of a chart."""
    every = [series for panel in chart.panels for series in panel.series]
    across = scale_of(chart.x, (value for series in every for value in (*series.x, *series.until)))
    x_ticks = across.ticks()
    plots = []
    for panel in chart.panels:
        up = scale_of(panel.y, (value for series in panel.series for value in _heights(series)), room=0.08)
        y_ticks = up.ticks(4) if panel.y.label else []
        grid = "".join(f"M{across.at(each):.2f} 0V100" for each in x_ticks)
        grid += "".join(f"M0 {100 - up.at(each):.2f}H100" for each in y_ticks)
        shapes = [shape for series in panel.series for shape in _shapes(series, across, up)]
        title = ", ".join(each for each in (chart.title, panel.title) if each)
        label = f"{title}: {panel.y.label or 'counts'} against {chart.x.label}"
        ticks = [(short(each), up.at(each)) for each in y_ticks]
        plots.append(Plot(panel, ticks, (Shape(grid, "grid"), *shapes), label))
    key = dict.fromkeys((_style(series, series.kind), series.name) for series in every if series.name)
    return Drawing(plots, [(short(each), across.at(each)) for each in x_ticks], list(key))


def short(value: float) -> str:
    """Write the name of a tick: 0.5, 10, 100, 1k, 10k, 1M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _heights(series: Series) -> Iterator[float]:
    if series.kind not in ("level", "at", "band"):
        yield from (value for value in (*series.y, *series.low, *series.high) if value is not None)


def _style(series: Series, kind: str) -> str:
    return f"{kind} {series.colour}{' dashed' if series.dashed else ''}"


def _shapes(series: Series, across: Scale, up: Scale) -> Iterator[Shape]:
    kind, titles = series.kind, series.titles or [series.name] * max(len(series.x), len(series.y))
    if kind in ("level", "at"):
        inside = [value for value in series.y if value is not None and up.low <= value <= up.high]
        drawn = [f"M0 {100 - up.at(value):.2f}H100" for value in inside] if kind == "level" else []
        drawn += [f"M{across.at(value):.2f} 0V100" for value in series.x]
        yield from (Shape(d, _style(series, kind), title) for d, title in zip(drawn, titles, strict=False))
    elif kind in ("bars", "band"):
        for k, (left, right, title) in enumerate(zip(series.x, series.until, titles, strict=True)):
            value, foot = series.y[k] if series.y else up.high, series.low[k] if series.low else up.low
            base = 100 - up.at(up.low if foot is None else foot)
            top = min(100 - up.at(value or 0.0), base - 1.5)  # the smallest is still to be seen
            d = f"M{across.at(left):.2f} {base:.2f}V{top:.2f}H{across.at(right):.2f}V{base:.2f}Z"
            yield Shape(d, _style(series, kind), title)
    else:
        yield from _points(series, across, up)


def _points(series: Series, across: Scale, up: Scale) -> Iterator[Shape]:
    places = [(across.at(x), None if y is None else 100 - up.at(y)) for x, y in zip(series.x, series.y, strict=True)]
    if series.kind == "line":
        d, pen = "", "M"
        for x, y in places:
            d, pen = (d, "M") if y is None else (f"{d}{pen}{x:.2f} {y:.2f}", "L")
        yield Shape(d, _style(series, "line"), series.name)
    for (x, _), low, high in zip(places, series.low, series.high, strict=False):
        if low is not None and high is not None:
            yield Shape(f"M{x:.2f} {100 - up.at(low):.2f}V{100 - up.at(high):.2f}", _style(series, "whisker"))
    marks = [f"M{x:.2f} {y:.2f}h0" for x, y in places if y is not None]
    style = _style(series, "dots" if len(marks) > MOST_NAMED else "point")
    if series.titles:
        yield from (Shape(d, style, title) for d, title in zip(marks, series.titles, strict=True))
    elif series.kind == "dots":
        yield Shape("".join(marks), _style(series, "dots"), series.name)


def render(report: Report) -> str:
    """Write the whole HTML file."""
    return _template_environment().get_template("page.html").render(report=report)


@cache
def _template_environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).parent)
    found = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found.filters |= {"drawing": drawing, "slug": _slug, "grouped": _grouped}
    return found


def _slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower().replace("’", "")))


def _grouped(parts: list[Part]) -> list[tuple[str, list[Part]]]:
    """Put neighbours of a kind together: tiles, charts and facts go side by side."""
    return [(kind, list(found)) for kind, found in groupby(parts, lambda part: type(part).__name__)]


def text(report: Report, *, heading: bool = True) -> str:
    """Write it as Markdown, without its charts."""
    blocks = [f"# {report.title}", report.facts] if heading else []
    for section in report.sections:
        blocks += [block for block in _section(section, heading=heading) if block]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, *, heading: bool) -> Iterator[str]:
    if section.parts and section.title and heading:
        yield f"## {section.title}"
    if section.parts:
        yield section.note
    for part in section.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
    match part:
        case Table():
            yield _table(part)
        case Tile():
            yield f"- {part.title}: {f'{part.figure} {part.unit}'.strip()} ({'; '.join(part.lines)})"
        case Advice():
            yield "\n\n".join(f"**{about}** {sentence}" if about else sentence for about, sentence in part.sentences)
        case Warnings():
            yield "\n".join(f"- Warning: {line}" for line in part.lines)
        case Facts():
            yield f"**{part.title}**\n\n" + "\n".join(f"- {name}: {value}" for name, value in part.items)
        case Details():
            yield "\n\n".join([f"**{part.title}**", *(f"```\n{each}\n```" for each in part.texts)])
        case str():
            yield part


def _table(table: Table) -> str:
    rule = ["---", *("---" if column in table.words else "---:" for column in table.columns[1:])]
    rows = [[_cell(each) for each in row] for row in table.rows]
    lines = [f"| {' | '.join(row)} |" for row in (table.columns, rule, *rows)]
    return "\n".join([f"**{table.title}**", "", *lines, *(["", table.note] if table.note else [])])


def _cell(found: str | Cell) -> str:
    words = found if isinstance(found, str) else f"{found.text} ({found.small})" if found.small else found.text
    return words.replace("|", "\\|").replace("\n", " ")


def report_command(package: str, description: str | None, report: Callable[[Path], tuple[Report, str | None]]) -> int:
    """Run the command line of `python -m PACKAGE`; the exit code is 1, with a line on stderr, for another file.

    report: makes the report of the file of a record, and the new content of the record where it changes. Each file is
    replaced as a whole.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("record", type=Path, help="the JSON file of a record")
    parser.add_argument("--output", "--html", type=Path, help="the HTML file; default: next to the record")
    options = parser.parse_args()
    record: Path = options.record
    try:
        made, changed = report(record)
        if changed is not None:
            _replace(record, changed)
        _replace(options.output or record.with_suffix(".html"), render(made))
    except (OSError, ValidationError, ValueError) as error:
        reason = str(error).replace("\n", "; ")
        sys.stderr.write(f"triggerlog: {record} cannot be reported: {reason}\n")
        return 1
    return 0


def _replace(path: Path, content: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(content, encoding="utf-8")
    new.replace(path)
