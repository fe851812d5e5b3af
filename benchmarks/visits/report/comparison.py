"""The report of a comparison as one HTML file: ours against the paper's modes, its findings, and every condition."""

from collections.abc import Iterator

import numpy as np

from benchmarks.html.document import document
from benchmarks.html.elements import card, repeated_by, section, settings_card, tile, tiles, warnings, with_small
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import NOTHING, Column, figures, table
from benchmarks.report.formatting import listed, number
from benchmarks.report.verdict import Verdict
from benchmarks.visits.measuring.plan import MAIN, OURS, SWEEP, TINY
from benchmarks.visits.record import Comparison, Measured
from benchmarks.visits.report.charts import Series, axes, chart
from benchmarks.visits.report.elements import figure, seconds, settings_of, slope
from benchmarks.visits.report.run import papers_figures, series
from benchmarks.visits.statistics.baseline import FLAT, READ, Against, Figures, against, best_of, upkeep, window_visits
from benchmarks.visits.statistics.estimate import ends, ratio
from benchmarks.visits.statistics.findings import DENSE, NAMES, findings, shown, values, warm
from schemas.api.visits import Line

TITLE = "DIA visits: which way to keep them"
GROUPS = {
    MAIN: "Ours against the paper’s modes",
    SWEEP: "One thing changed at a time",
    TINY: "MongoDB’s protocol, a few visits",
}
UNKNOWN = "not known"
AIM_SLOPE, AIM_END = 0.2, 1 / 3
"""What was aimed at: a fifth of the slope while the window fills, a third of the time at the end."""


def page(comparison: Comparison) -> str:
    """Write the whole file."""
    scales = sorted({run.run.settings.survey.scale for run in comparison.measured})
    facts = (
        f"{len(comparison.measured)} conditions · scale {', '.join(f'{scale:g}' for scale in scales)} · "
        f"{comparison.machine.get('processor', '')}, {comparison.machine.get('cores', '?')} cores · "
        f"{comparison.date} · {comparison.seconds / 60:.0f} minutes"
    )
    sections = [_against(comparison), _warnings(comparison), _findings(comparison)]
    sections += [_group(comparison, group) for group in GROUPS if comparison.of(group)]
    sections += [papers_figures(), _conditions(comparison)]
    return document(TITLE, facts, sections, date=comparison.date, command="make bench-visits")


# --- ours against the best -------------------------------------------------------------------------------------------


def _against(comparison: Comparison) -> Markup:
    found = against(comparison)
    if not found:
        return Markup()
    note = (
        "The same survey, the same window of history, the same visits by turns. The paper’s best mode is that of its "
        "modes in this comparison that took the fewest seconds at the end. Ratios are ours by the paper’s best. All "
        "write the same objects, sources and forced sources; of DIAObjectLast ours writes the versions of objects that "
        "were detected, about half as many rows: the other versions have nothing that a visit reads. Upkeep is "
        "beginning and ending a visit in the database, making and dropping partitions, and compaction: where it is "
        "counted, of both, the seconds of a period are spread over its visits; a visit of a period that was not "
        "compacted yet has as many of compaction as one of the last period that was."
    )
    tiled = (_tiles(each) for each in found)
    return section("Ours against the paper’s best mode", *tiled, name="against", note=note)


def _tiles(found: Against) -> Markup:
    name = NAMES[found.backend]
    kinds = {
        f"{name}: slope while the window fills": (
            _filling,
            f"; aim {AIM_SLOPE:g}",
            "too few visits, or the best has no slope that is sure",
        ),
        f"{name}: seconds at the end": (_at_end, f"; aim {AIM_END:.2f}", "too few visits"),
        f"{name}: slope with the window full": (_flat, "", "too few visits after the window was full"),
    }
    tiled = []
    for heading, (shown_of, aim, why) in kinds.items():
        big, soft = shown_of(found.alone) or (UNKNOWN, why)
        soft += aim
        also = shown_of(found.with_upkeep)
        if also is not None:
            soft += f". With the seconds of upkeep spread over the visits: {also[0]} ({also[1]})"
        tiled.append(tile(heading, big, soft))
    note = (
        f"Against {found.best}, whose slope with the window full is {_slope_words(found.best_full)}: "
        f"{found.best_flatness}. The window is full from visit {found.window_visits:,} on. Flat is what surely changes "
        f"by less than {FLAT:.0%} over as many visits.{_read_words(found)}"
    )
    return join([tiles(tiled), tag("p", note, class_="note")])


def _read_words(found: Against) -> str:
    if not found.read:
        return ""
    rows = listed([f"{100 * part:.0f} % as many {READ[name]}" for name, part in found.read.items()])
    return f" Of what is selected ours read {rows}: it has forgotten objects that were last detected before the window."


def _filling(figures: Figures) -> tuple[str, str] | None:
    found = figures.filling
    return None if found is None else (number(found.value), shown(found))


def _at_end(figures: Figures) -> tuple[str, str] | None:
    found = figures.at_end
    if found is None:
        return None
    if found.low <= 1 <= found.high:
        return "no difference known", shown(found)
    return (
        f"{number(1 / found.value)} times faster" if found.high < 1 else f"{number(found.value)} times slower",
        shown(found),
    )


def _flat(figures: Figures) -> tuple[str, str] | None:
    fit = figures.full
    if fit is None:
        return None
    words = f"s per 1,000 visits, {figure(fit.slope_low)} to {figure(fit.slope_high)}; {figures.flatness}"
    return number(fit.slope_per_1000), words


def _slope_words(fit: Line | None) -> str:
    if fit is None:
        return UNKNOWN
    return f"{figure(fit.slope_per_1000)} ({figure(fit.slope_low)} to {figure(fit.slope_high)}) s per 1,000 visits"


def _warnings(comparison: Comparison) -> Markup:
    found = [f"WRONG: {check.result}" for check in comparison.checks if not check.passed]
    if comparison.plan == "quick":
        found.insert(0, "The quick plan only tries the benchmark: its runs are too short for their figures to count.")
    return warnings([*found, *comparison.notes])


# --- findings --------------------------------------------------------------------------------------------------------


def _findings(comparison: Comparison) -> Markup:
    styles = {Verdict.REPRODUCED: "yes", Verdict.REFUTED: "no"}
    rows = []
    for found in findings(comparison):
        verdict = tag("span", found.verdict, class_=styles.get(found.verdict, "soft"))
        rows.append(("", [found.claim, found.paper or NOTHING, verdict, found.measured]))
    columns = (Column("The paper found"), Column("There"), Column("Here"), Column("Measured", style="wide"))
    note = (
        "Conditions did the same visits by turns, in the sweep below, and are compared visit by visit over the second "
        "half of the run, without the first visit of each turn. A finding counts as reproduced or refuted only when "
        "the whole 95 % interval lies on one side, and refuted only near the paper’s conditions: with "
        f"{DENSE:,} variables a field or more, and a core for each worker and one for the server."
    )
    return section("The paper’s findings", card(table("Findings", columns, rows)), name="findings", note=note)


# --- groups ----------------------------------------------------------------------------------------------------------


def _group(comparison: Comparison, group: str) -> Markup:
    parts = []
    for backend in dict.fromkeys(run.backend for run in comparison.of(group)):
        runs, best = comparison.of(group, backend), best_of(comparison, group, backend)
        heading = f"{NAMES[backend]} {runs[0].run.version}"
        parts.append(card(tag("h3", heading), _table(runs, best)))
        parts.append(tag("div", *_multiples(runs), class_="multiples"))
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
    return section(GROUPS[group], *parts, name=group, note=note)


def _table(runs: tuple[Measured, ...], best: Measured | None) -> Markup:
    columns = (
        Column("Condition"),
        *figures("First", "Last", "Intercept", "Slope, s per 1,000 visits", "Selects, last", "Stores, last"),
        *figures("By the paper’s best", "Settling, a visit", "MiB"),
    )
    rows = []
    for run in runs:
        whole = _series(run, "visit")
        first, last = ends(whole.seconds)
        size = sum(each.table_bytes + each.index_bytes for each in run.run.sizes.values())
        rows.append(
            (
                "daemon" if run.condition == OURS else "",
                [
                    with_small(tag("b", run.condition), run.title),
                    seconds(first),
                    _with_upkeep(last, run),
                    NOTHING if whole.fit is None else seconds(whole.fit.intercept),
                    slope(whole.fit),
                    seconds(ends(_series(run, "select").seconds)[1]),
                    seconds(ends(_series(run, "store").seconds)[1]),
                    _by_best(run, best),
                    seconds(run.settle_s / len(run.run.visits)),
                    f"{size / 2**20:,.0f}" if size else NOTHING,
                ],
            )
        )
    return table("Conditions", columns, rows)


def _with_upkeep(last: float, run: Measured) -> Markup:
    return with_small(seconds(last), f"{seconds(last + ends(upkeep(run))[1])} with upkeep")


def _series(run: Measured, part: str) -> Series:
    """In the main comparison the line is that of the visits in which the window of history fills."""
    return series(run.run, f"{part}_s", window_visits(run) if run.group == MAIN else None)


def _by_best(run: Measured, best: Measured | None) -> str:
    if best is None:
        return NOTHING
    if best is run:
        return "the best"
    visits, one, other = warm(run, best)
    if not len(visits):
        return NOTHING
    half = visits >= np.median(visits)
    found = ratio(values(run, "visit_s")[one][half], values(best, "visit_s")[other][half])
    if found is None:
        return NOTHING
    return with_small(number(found.value), f"{number(found.low)} to {number(found.high)}")


def _multiples(runs: tuple[Measured, ...]) -> Iterator[Markup]:
    drawn = {run.condition: [_series(run, part) for part in ("store", "select", "visit")] for run in runs}
    across, up = axes([each for found in drawn.values() for each in found])
    for condition, found in drawn.items():
        yield chart(condition, found, across, up, small=True)


# --- conditions ------------------------------------------------------------------------------------------------------


def _conditions(comparison: Comparison) -> Markup:
    servers = {run.backend: run.run for run in comparison.measured}
    memory = (
        f"{comparison.memory_limit_mib} MiB for each PostgreSQL with its part of the page cache, by a control group; "
        "MariaDB reads past the page cache (O_DIRECT)"
        if comparison.memory_limit_mib
        else "not limited: PostgreSQL has the system’s page cache behind its own"
    )
    cards = [
        settings_card("Machine", {**comparison.machine, "memory of the servers": memory}.items()),
        *(settings_card(f"{NAMES[backend]} {run.version}", run.server.items()) for backend, run in servers.items()),
    ]
    cards += [
        settings_card(f"Settings of the base condition, {GROUPS[group]}", settings_of(first.run.settings))
        for group in GROUPS
        for first in comparison.of(group)[:1]
    ]
    checks = [tag("li", check.result) for check in comparison.checks]
    return section(
        "How and on what it was measured",
        tag("ul", *checks, class_="checks") if checks else Markup(),
        card(repeated_by(comparison.command)),
        tag("div", *cards, class_="curves"),
        name="conditions",
        note="Each visit went through the process that the daemon runs, over its own connection. The order of the turns"
        f" was shuffled in each round (seed {comparison.seed}).",
    )
