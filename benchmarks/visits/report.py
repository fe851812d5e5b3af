"""The reports of a run of visits and of a comparison: seconds a visit against visits, with the figures of the paper."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.kinds import product_of
from benchmarks.report.model import (
    Axis,
    Cell,
    Chart,
    Facts,
    Panel,
    Part,
    Report,
    Section,
    Table,
    Tile,
    Warnings,
    counted,
    findings_table,
    listed,
    number,
)
from benchmarks.report.model import Series as Drawn
from benchmarks.visits.baseline import (
    FIGURES,
    FLAT,
    MARKS,
    PUBLISHED_LINES,
    READ,
    SOURCE,
    WIDTH_NOTE,
    WIDTHS,
    Against,
    Figures,
    against,
    best_of,
    upkeep,
    window_visits,
)
from benchmarks.visits.estimate import ends, ratio
from benchmarks.visits.findings import DENSE, NAMES, findings, shown, values, warm
from benchmarks.visits.plan import MAIN, SWEEP, TINY, Comparison, Measured
from daemon.workloads.visits.facts import has_dropped
from daemon.workloads.visits.figures import at, bin_visits, boxes, line, over, over_by_bin, thinned
from schemas.api.visits import TIMES, Line, VisitsRun
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.tables import IndexMode

PANELS = {"visit_s": "Visit", "select_s": "Selects", "store_s": "Stores"}
COLOURS = {"visit": "ink", "select": "blue", "store": "orange"}
MOST_POINTS, SMALL_POINTS = 600, 200
GROUPS = {
    MAIN: "Ours against the paper’s modes",
    SWEEP: "One thing changed at a time",
    TINY: "MongoDB’s protocol, a few visits",
}
UNKNOWN = "not known"
AIM_SLOPE, AIM_END = 0.2, 1 / 3
"""The aim: a fifth of the slope while the window fills, a third of the time at the end."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Seconds by visit, float64 and int64, shape (n,).

    fitted_until: where the line through them ends; None is at the last visit.
    """

    name: str
    visits: Array
    seconds: Array
    fit: Line | None
    fitted_until: int | None = None


def series(run: VisitsRun, column: str, until: int | None = None) -> Series:
    """Return a column of a run's visits with the line through it, or through the visits before `until`.

    Without those that were resumed, as `VisitsRun.timed`.
    """
    visits = np.array([visit.visit for visit in run.timed], np.int64)
    found = np.array([getattr(visit, column) for visit in run.timed], np.float64)
    fitted = visits < until if until is not None else visits >= 0
    fit = line(visits[fitted], found[fitted])
    return Series(name=column.removesuffix("_s"), visits=visits, seconds=found, fit=fit, fitted_until=until)


# --- words -----------------------------------------------------------------------------------------------------------


def seconds(value: float) -> str:
    """Write seconds, below one in milliseconds: `84.0 ms`, `2.41 s`."""
    return f"{number(value)} s" if abs(value) >= 1 else f"{number(1e3 * value)} ms"


def _figure(value: float) -> str:
    """A figure without a sign where nothing of it is left."""
    words = number(value)
    return words.removeprefix("-") if not words.strip("-0.") else words


def _range(fit: Line) -> str:
    return f"{_figure(fit.slope_low)} to {_figure(fit.slope_high)}"


def _line_cells(fit: Line | None) -> tuple[str, str | Cell]:
    """The intercept, and the slope with its interval."""
    if fit is None:
        return "", ""
    return seconds(fit.intercept), Cell(_figure(fit.slope_per_1000), _range(fit))


def _settings(settings: VisitsConfig) -> list[tuple[str, str]]:
    """All settings of a run, those of the survey by their path."""
    return [(f"`{name}`", value) for name, value in _flat("", settings.model_dump(mode="json", by_alias=True))]


def _flat(path: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{path}{name}.", value)
        else:
            yield f"{path}{name}", "–" if value is None else str(value)


def _named(found: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", value) for name, value in found.items()]


# --- charts ----------------------------------------------------------------------------------------------------------


def _axes(found: Sequence[Series], others: Sequence[float] = ()) -> tuple[Axis, Axis]:
    """Axes that hold all points and `others`; the upper end cuts off what is far beyond nearly all of them."""
    last = max((int(each.visits.max()) for each in found if len(each.visits)), default=1)
    most = [
        min(float(each.seconds.max()), 2 * float(np.percentile(each.seconds, 98))) for each in found if len(each.visits)
    ]
    return Axis("visit", high=max(last, 1)), Axis("seconds", high=1.08 * max(*most, *others, 1e-6, 0.0))


def _drawn(found: Series, most: int) -> Iterator[Drawn]:
    """Points, and the line through them."""
    colour = COLOURS[found.name]
    few = thinned({"visit": found.visits, "seconds": found.seconds}, most, by=("seconds",))
    yield Drawn(kind="dots", x=few["visit"].tolist(), y=few["seconds"].tolist(), colour=colour)
    if found.fit is not None and len(found.visits):
        last = int(found.visits.max())
        places = [int(found.visits.min()), last if found.fitted_until is None else min(last, found.fitted_until)]
        yield Drawn(
            name=f"{found.name}, measured here, with the straight line through it",
            x=places,
            y=[at(found.fit, visit) for visit in places],
            colour=colour,
        )


def _curves(run: VisitsRun) -> Iterator[Chart]:
    scale = run.settings.survey.scale
    for column, title in PANELS.items():
        found, paper = series(run, column), PUBLISHED_LINES[column]
        last = int(found.visits.max())
        growth = paper.slope_per_1000 * last / scale / 1000
        line_ends = scale * max(0.0, paper.intercept), scale * (paper.intercept + growth)
        across, up = _axes([found], line_ends)
        name = f"the paper’s line: {paper.condition} [{paper.mark}]"
        published = Drawn(name=name, x=[0, last], y=line_ends, colour="red", dashed=True)
        yield Chart(title, across, [Panel(up, [*_drawn(found, MOST_POINTS), published])])


def _boxes(run: VisitsRun) -> Iterator[Part]:
    """Quartiles of bins, with whiskers over the whole range and a mark at the mean, as in the paper."""
    width = bin_visits(len(run.visits))
    across = Axis("visit", high=max(visit.visit for visit in run.timed) + 1)
    for column, title in PANELS.items():
        found = series(run, column)
        bins = boxes(found.visits, found.seconds, width)
        middles = [(box.first + box.last + 1) / 2 for box in bins]
        left, right = ([each + side * width for each in middles] for side in (-0.3, 0.3))
        low, q1, median, mean, q3, high = (
            [float(getattr(box, name)) for box in bins] for name in ("low", "q1", "median", "mean", "q3", "high")
        )
        titles = [
            f"visits {box.first:,} to {box.last:,}: median {number(box.median)} s, mean {number(box.mean)} s, "
            f"{number(box.low)} to {number(box.high)} s"
            for box in bins
        ]
        drawn = [
            Drawn(name="quartiles", kind="bars", x=left, until=right, low=q1, y=q3, colour="steel"),
            Drawn(name="median", kind="bars", x=left, until=right, low=median, y=median, colour="ink"),
            Drawn(
                name="mean, and the whole range",
                kind="dots",
                x=middles,
                y=mean,
                low=low,
                high=high,
                titles=titles,
                colour="red",
            ),
        ]
        yield Chart(title, across, [Panel(Axis("seconds"), drawn)])
    whole, limit = series(run, "visit_s"), run.settings.limit_s
    shares = over_by_bin(whole.visits, whole.seconds, limit, width)
    if not any(each.fraction for each in shares):
        yield f"No visit took longer than {limit:g} s."
        return
    bars = Drawn(
        kind="bars",
        x=[each.first for each in shares],
        until=[each.first + 0.9 * (each.last + 1 - each.first) for each in shares],
        y=[each.fraction for each in shares],
        titles=[f"visits {each.first:,} to {each.last:,}: {100 * each.fraction:.1f} %" for each in shares],
        colour="amber",
    )
    panel = Panel(Axis("fraction of the visits", high=1.0), [bars])
    yield Chart(f"Over {limit:g} s", across, [panel])


# --- a run -----------------------------------------------------------------------------------------------------------


def run_report(run: VisitsRun) -> Report:
    """Make the report of one run."""
    settings, day = run.settings, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.began_ns // 10**9))
    title = f"{product_of(run.product).title} {run.version}"
    found: list[Part] = list(_found(run)) if run.visits else ["Not a single visit was done."]
    if run.problem is not None:
        found.append(Warnings([f"The run ended early: {run.problem}"]))
    return Report(
        title="Seconds a visit against visits",
        facts=f"{title} · {settings.index_mode} · {counted(len(run.visits), 'visit')} at scale "
        f"{settings.survey.scale:g} · {day}",
        date=day,
        command="triggerlog visits",
        sections=[
            Section("", found),
            *(_measured(run) if run.visits else []),
            Section(
                "How and on what it was measured",
                [
                    Facts("Settings of the run", _settings(settings)),
                    Facts(title, _named(run.server)),
                    Facts("Machine", _named(run.machine)),
                ],
            ),
        ],
    )


def _measured(run: VisitsRun) -> list[Section]:
    bins = (
        f"Bins of {bin_visits(len(run.visits)):,} visits: quartiles, whiskers over the whole range, a mark at the mean."
    )
    return [
        Section("Seconds against visit", list(_curves(run)), _curves_note(run)),
        Section("Boxes", list(_boxes(run)), bins),
        Section("What takes the time", [_parts(run)]),
        Section("Compaction", [_compactions(run)]),
        Section("Rows and sizes", [_sizes(run)]),
        _papers_figures(),
    ]


def _found(run: VisitsRun) -> Iterator[Tile]:
    whole, limit = series(run, "visit_s"), run.settings.limit_s
    late = float(whole.seconds[-max(1, len(whole.seconds) // 10) :].mean())
    yield Tile("A visit at the end", seconds(late), lines=["mean of the last tenth of the visits"])
    if whole.fit is not None:
        lines = [f"per 1,000 visits; {_range(whole.fit)}"]
        yield Tile("Slope", f"{_figure(whole.fit.slope_per_1000)} s", lines=lines)
    share = f"{100 * over(whole.seconds, limit):.1f} %"
    yield Tile(f"Over {limit:g} s", share, lines=[f"of {counted(len(whole.seconds), 'visit')}"])


def _curves_note(run: VisitsRun) -> str:
    scale = run.settings.survey.scale
    lines = ", ".join(f"{PANELS[column].lower()}: {fit.condition}" for column, fit in PUBLISHED_LINES.items())
    at_scale = (
        ""
        if scale == 1
        else f" At scale {scale:g} a visit has {scale:g} of the paper’s rows, and a field comes back as often after "
        f"{scale:g} of the visits: the line is drawn at {scale:g} of the seconds, visit {scale * 1000:g} standing for "
        "1,000."
    )
    return (
        "Slopes are by least squares, with 95 % intervals that allow for neighbours being alike. The paper’s lines are "
        f"of {lines}.{at_scale}"
    )


def _parts(run: VisitsRun) -> Table:
    count, rows = max(1, len(run.visits) // 10), []
    for name in (*PANELS, *TIMES, "dia_s", "upkeep_s"):
        found = series(run, name)
        if found.seconds.any():
            early, late = (seconds(float(part.mean())) for part in (found.seconds[:count], found.seconds[-count:]))
            rows.append((f"`{name}`", early, late, *_line_cells(found.fit)))
    return Table(
        "Parts of a visit",
        ("Part", "First tenth", "Last tenth", "Intercept", "Slope, s per 1,000 visits"),
        rows=rows,
        note="Seconds of selects and stores are added up over the tiles. dia_s, the mock image analysis, is not part "
        "of a visit, nor is upkeep_s, beginning and ending it in the database with making and dropping partitions.",
    )


def _compactions(run: VisitsRun) -> Table:
    rows = []
    for name in WIDTHS:
        found = [each for each in run.compactions if each.table == name]
        if found:
            taken = sum(each.compact_s for each in found)
            before = [sum(getattr(each, part) for each in found) for part in ("packs_before", "records_before")]
            after = [sum(getattr(each, part) for each in found) for part in ("packs", "records")]
            changes = (f"{one:,} → {other:,}" for one, other in zip(before, after, strict=True))
            rows.append((f"`{name}`", f"{len(found):,}", seconds(taken), seconds(taken / len(run.visits)), *changes))
    note = (
        "After a night’s last visit, packs of periods that ended are written anew, by pixel and in full pages; of "
        "DIAObjectLast the newest version of each object in a period stays. No visit runs meanwhile, so that these "
        "seconds are in none; spread over all visits they are those of the column “A visit”."
    )
    columns = ("Table", "Periods", "Seconds, in all", "A visit", "Packs", "Records")
    return Table("Compaction of periods", columns, rows, note)


def _sizes(run: VisitsRun) -> Table:
    rows, has_some_gone = [], has_dropped(run.settings, len(run.visits))
    for name, width in WIDTHS.items():
        size, counts, expected = run.sizes.get(name), run.counts.get(name), run.expected.get(name)
        if size is None and counts is None:
            continue
        known = counts if counts is not None else size.rows if size else 0
        row = [f"`{name}`", f"{known:,}" if counts is not None else f"about {known:,}"]
        row += ["" if expected is None else f"{expected:,.0f}"]
        row += [f"{100 * (known / expected - 1):+.1f} %" if expected and known and not has_some_gone else ""]
        row += ["", ""] if size is None else [_mib(size.table_bytes), _mib(size.index_bytes)]
        row += [f"{size.table_bytes / known:,.0f} / {size.index_bytes / known:,.0f}" if size and known else ""]
        rows.append([*row, f"{width.table} / {width.index}", f"{width.declared}"])
    dropped = (
        " What is older than the window of history was dropped, so that fewer rows are there than were written."
        if run.settings.index_mode is IndexMode.PARTITIONED
        else ""
    )
    return Table(
        "Sizes",
        (
            *("Table", "Rows", "By the formula", "Off by", "Table size", "Indexes"),
            *("Bytes a row", "The paper’s", "Declared"),
        ),
        rows=rows,
        note=f"Bytes a row are those of the table / of its indexes. {WIDTH_NOTE}{dropped}",
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _papers_figures() -> Section:
    rows = [(each.condition, f"{each.figure} [{each.mark}]") for each in FIGURES]
    marks = "; ".join(f"[{mark}] {meaning}" for mark, meaning in MARKS.items())
    columns = ("Condition", "Figure")
    table = Table("Figures of the paper", columns, rows, words=columns)
    return Section("The paper’s figures", [table], f"{SOURCE}; seconds, at scale 1. {marks}.")


# --- a comparison ----------------------------------------------------------------------------------------------------


def comparison_report(comparison: Comparison) -> Report:
    """Make the report of a comparison: ours against the paper's modes, its findings, and every condition."""
    scales = sorted({run.run.settings.survey.scale for run in comparison.measured})
    machine = comparison.machine
    warnings = [f"WRONG: {check.result}" for check in comparison.checks if not check.passed]
    if comparison.plan == "quick":
        quick = "The quick plan only tries the benchmark: its runs are too short for their figures to count."
        warnings.insert(0, quick)
    warnings += comparison.notes
    by_best = [part for found in against(comparison) for part in _against(found)]
    return Report(
        title="DIA visits: which way to keep them",
        facts=f"{len(comparison.measured)} conditions · scale {', '.join(f'{scale:g}' for scale in scales)} · "
        f"{machine.get('processor', '')}, {machine.get('cores', '?')} cores · {comparison.date} · "
        f"{comparison.seconds / 60:.0f} minutes",
        date=comparison.date,
        command="make bench-visits",
        sections=[
            Section("", [Warnings(warnings)] if warnings else []),
            Section("Ours against the paper’s best mode", by_best, AGAINST),
            Section("The paper’s findings", [findings_table(findings(comparison), "")], FINDINGS),
            *(_group(comparison, group) for group in GROUPS if comparison.of(group)),
            _papers_figures(),
            Section("How and on what it was measured", list(_conditions(comparison)), _how(comparison)),
        ],
    )


AGAINST = (
    "The same survey, the same window of history, the same visits by turns. The paper’s best mode is that of its modes "
    "in this comparison that took the fewest seconds at the end. Ratios are ours by the paper’s best. All write the "
    "same objects, sources and forced sources; of DIAObjectLast ours writes the versions of objects that were "
    "detected, about half as many rows: the other versions have nothing that a visit reads. Upkeep is beginning and "
    "ending a visit in the database, making and dropping partitions, and compaction: where it is counted, of both, the "
    "seconds of a period are spread over its visits; a visit of a period that was not compacted yet has as many of "
    "compaction as one of the last period that was."
)
FINDINGS = (
    "Conditions did the same visits by turns, in the sweep below, and are compared visit by visit over the second half "
    "of the run, without the first visit of each turn. A finding counts as reproduced or refuted only when the whole "
    f"95 % interval lies on one side, and refuted only near the paper’s conditions: with {DENSE:,} variables a field "
    "or more, and a core for each worker and one for the server."
)


def _against(found: Against) -> Iterator[Part]:
    name = NAMES[found.backend]
    tiles: tuple[tuple[str, Callable[[Figures], tuple[str, str] | None], str, str], ...] = (
        (
            "slope while the window fills",
            _filling,
            f"; aim {AIM_SLOPE:g}",
            "too few visits, or the best has no slope that is sure",
        ),
        ("seconds at the end", at_end, f"; aim {AIM_END:.2f}", "too few visits"),
        ("slope with the window full", _full, "", "too few visits after the window was full"),
    )
    for title, shown_of, aim, why in tiles:
        big, soft = shown_of(found.alone) or (UNKNOWN, why)
        also = shown_of(found.with_upkeep)
        words = "" if also is None else f". With the seconds of upkeep spread over the visits: {also[0]} ({also[1]})"
        yield Tile(f"{name}: {title}", big, lines=[soft + aim + words])
    fit = found.best_full
    best = UNKNOWN if fit is None else f"{_figure(fit.slope_per_1000)} ({_range(fit)}) s per 1,000 visits"
    read = ""
    if found.read:
        rows = listed([f"{100 * part:.0f} % as many {READ[name]}" for name, part in found.read.items()])
        read = f" Of what is selected ours read {rows}: it has forgotten objects last detected before the window."
    yield (
        f"Against {found.best}, whose slope with the window full is {best}: {found.best_flatness}. The window is full "
        f"from visit {found.window_visits:,} on. Flat is what surely changes by less than {FLAT:.0%} over as many "
        f"visits.{read}"
    )


def _filling(figures: Figures) -> tuple[str, str] | None:
    found = figures.filling
    return None if found is None else (number(found.value), shown(found))


def at_end(figures: Figures) -> tuple[str, str] | None:
    """Say how much faster ours is at the end, or slower, where the interval says it."""
    found = figures.at_end
    if found is None:
        return None
    if found.low <= 1 <= found.high:
        return "no difference known", shown(found)
    is_faster = found.high < 1
    by = number(1 / found.value if is_faster else found.value)
    return f"{by} times {'faster' if is_faster else 'slower'}", shown(found)


def _full(figures: Figures) -> tuple[str, str] | None:
    fit = figures.full
    if fit is None:
        return None
    return number(fit.slope_per_1000), f"s per 1,000 visits, {_range(fit)}; {figures.flatness}"


def _group(comparison: Comparison, group: str) -> Section:
    parts: list[Part] = []
    for backend in dict.fromkeys(run.backend for run in comparison.of(group)):
        runs = comparison.of(group, backend)
        parts += [_table(runs, best_of(comparison, group, backend)), *_multiples(runs)]
    first = comparison.of(group)[0].run
    note = (
        f"Scale {first.settings.survey.scale:g}, {max(len(run.run.visits) for run in comparison.of(group)):,} visits. "
        "First and last are means of a tenth of the visits; slopes have their 95 % interval below them; a ratio is to "
        "the paper’s mode that is best at the end, over the last half, visit by visit. In the small plots all of a "
        "database share their axes: points are visits, dark the whole, blue the selects, orange the stores. Settling "
        "is what a server did after each turn, by visits, so that none of it ran on during the next turn."
    )
    if group == MAIN:
        note += (
            " Each condition has a server of its own. Slopes and lines are of the visits in which the window of "
            "history fills."
        )
    return Section(GROUPS[group], parts, note)


def _series(run: Measured, part: str) -> Series:
    """In the main comparison the line is that of the visits in which the window of history fills."""
    return series(run.run, f"{part}_s", window_visits(run) if run.group == MAIN else None)


def _table(runs: tuple[Measured, ...], best: Measured | None) -> Table:
    rows = []
    for run in runs:
        whole = _series(run, "visit")
        first, last = ends(whole.seconds)
        size = sum(each.table_bytes + each.index_bytes for each in run.run.sizes.values())
        rows.append(
            (
                Cell(run.condition, run.title),
                seconds(first),
                Cell(seconds(last), f"{seconds(last + ends(upkeep(run))[1])} with upkeep"),
                *_line_cells(whole.fit),
                *(seconds(ends(_series(run, part).seconds)[1]) for part in ("select", "store")),
                _by_best(run, best),
                seconds(run.settle_s / len(run.run.visits)),
                f"{size / 2**20:,.0f}" if size else "",
            )
        )
    return Table(
        f"{NAMES[runs[0].backend]} {runs[0].run.version}",
        (
            *("Condition", "First", "Last", "Intercept", "Slope, s per 1,000 visits", "Selects, last", "Stores, last"),
            *("By the paper’s best", "Settling, a visit", "MiB"),
        ),
        rows=rows,
    )


def _by_best(run: Measured, best: Measured | None) -> str | Cell:
    if best is None or best is run:
        return "" if best is None else "the best"
    visits, one, other = warm(run, best)
    if not len(visits):
        return ""
    half = visits >= np.median(visits)
    found = ratio(values(run, "visit_s")[one][half], values(best, "visit_s")[other][half])
    return "" if found is None else Cell(number(found.value), f"{number(found.low)} to {number(found.high)}")


def _multiples(runs: tuple[Measured, ...]) -> Iterator[Chart]:
    drawn = {run.condition: [_series(run, part) for part in ("store", "select", "visit")] for run in runs}
    across, up = _axes([each for found in drawn.values() for each in found])
    for condition, found in drawn.items():
        shapes = [shape for each in found for shape in _drawn(each, SMALL_POINTS)]
        yield Chart(condition, across, [Panel(up, shapes)], small=True)


def _how(comparison: Comparison) -> str:
    return (
        "Each visit went through the process that the daemon runs, over its own connection. The order of the turns was "
        f"shuffled in each round (seed {comparison.seed})."
    )


def _conditions(comparison: Comparison) -> Iterator[Part]:
    memory = (
        f"{comparison.memory_limit_mib} MiB for each PostgreSQL with its part of the page cache, by a control group; "
        "MariaDB reads past the page cache (O_DIRECT)"
        if comparison.memory_limit_mib
        else "not limited: PostgreSQL has the system’s page cache behind its own"
    )
    yield from (check.result for check in comparison.checks)
    machine = [("The command that repeats it", f"`{comparison.command}`"), *_named(comparison.machine)]
    yield Facts("Machine", [*machine, ("memory of the servers", memory)])
    for backend, run in {run.backend: run.run for run in comparison.measured}.items():
        yield Facts(f"{NAMES[backend]} {run.version}", _named(run.server))
    for group, words in GROUPS.items():
        for first in comparison.of(group)[:1]:
            title = f"Settings of the base condition, {words}"
            yield Facts(title, _settings(first.run.settings))
