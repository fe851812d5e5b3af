"""The report of one run as one HTML file, with the figures of the paper."""

import time

import numpy as np

from backends.kinds import product_of
from benchmarks.html.axes import LinearAxis
from benchmarks.html.document import document
from benchmarks.html.elements import card, keys, section, settings_card, tile, tiles, warnings
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import NOTHING, Column, figures, table
from benchmarks.report.formatting import counted
from benchmarks.visits.report.charts import Series, axes, box_chart, chart, share_chart, straight
from benchmarks.visits.report.elements import figure, seconds, settings_of, slope
from benchmarks.visits.statistics.paper import FIGURES, MARKS, PUBLISHED_LINES, SOURCE, WIDTH_NOTE, WIDTHS
from daemon.workloads.visits.figures import bin_visits, line, over, over_by_bin
from schemas.api.visits import TIMES, VisitsRun
from schemas.visits.tables import IndexMode

TITLE = "Seconds a visit against visits"
PANELS = {"visit_s": "Visit", "select_s": "Selects", "store_s": "Stores"}


def page(run: VisitsRun) -> str:
    """Write the whole file."""
    settings, survey = run.settings, run.settings.survey
    day = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run.began_ns // 10**9))
    facts = (
        f"{product_of(run.product).title} {run.version} · "
        f"{settings.index_mode} · {counted(len(run.visits), 'visit')} at scale "
        f"{survey.scale:g} · {day}"
    )
    if not run.visits:
        none = tag("p", "Not a single visit was done.", class_="note")
        sections = [none, _warnings(run), _conditions(run)]
        return document(TITLE, facts, sections, date=day, command="triggerlog visits")
    sections = [
        _found(run),
        _warnings(run),
        _curves(run),
        _boxes(run),
        _parts(run),
        _compactions(run),
        _rows(run),
        papers_figures(),
        _conditions(run),
    ]
    return document(TITLE, facts, sections, date=day, command="triggerlog visits")


def series(run: VisitsRun, column: str, until: int | None = None) -> Series:
    """A column of a run's visits, with the line through it; through the visits before `until` if that is given.

    Without those that were resumed, as `VisitsRun.timed`.
    """
    visits = np.array([visit.visit for visit in run.timed], np.int64)
    values = np.array([getattr(visit, column) for visit in run.timed], np.float64)
    fitted = visits < until if until is not None else visits >= 0
    fit = line(visits[fitted], values[fitted])
    return Series(name=column.removesuffix("_s"), visits=visits, seconds=values, fit=fit, fitted_until=until)


def _found(run: VisitsRun) -> Markup:
    whole = series(run, "visit_s")
    late = whole.seconds[-max(1, len(whole.seconds) // 10) :].mean()
    fraction = over(whole.seconds, run.settings.limit_s)
    found = [
        tile("A visit at the end", seconds(float(late)), "mean of the last tenth of the visits"),
        tile(
            f"Over {run.settings.limit_s:g} s", f"{100 * fraction:.1f} %", f"of {counted(len(whole.seconds), 'visit')}"
        ),
    ]
    if whole.fit is not None:
        around = f"{figure(whole.fit.slope_low)} to {figure(whole.fit.slope_high)}"
        found.insert(1, tile("Slope", f"{figure(whole.fit.slope_per_1000)} s", f"per 1,000 visits; {around}"))
    return tag("section", tiles(found), id="found")


def _warnings(run: VisitsRun) -> Markup:
    return warnings([] if run.problem is None else [f"The run ended early: {run.problem}"])


def _curves(run: VisitsRun) -> Markup:
    cards, scale = [], run.settings.survey.scale
    for column, title in PANELS.items():
        found, papers = series(run, column), PUBLISHED_LINES[column]
        last = int(found.visits.max())
        growth = papers.slope_per_1000 * last / scale / 1000
        ends = scale * max(0.0, papers.intercept), scale * (papers.intercept + growth)
        across, up = axes([found], ends)
        published = straight(ends, across, up, "published", f"{papers.condition} [{papers.mark}]")
        cards.append(chart(title, [found], across, up, papers=published))
    key = keys(
        (
            ("stroke visit", "measured here, with the straight line through it"),
            ("stroke published", "the paper’s line"),
        )
    )
    lines = ", ".join(f"{PANELS[column].lower()}: {fit.condition}" for column, fit in PUBLISHED_LINES.items())
    at_scale = (
        ""
        if scale == 1
        else (
            f" At scale {scale:g} a visit has {scale:g} of the paper’s rows, and a field comes back as often after "
            f"{scale:g} of the visits: the line is drawn at {scale:g} of the seconds, visit {scale * 1000:g} standing "
            "for 1,000."
        )
    )
    note = (
        "Slopes are by least squares, with 95 % intervals that allow for neighbours being alike. The paper’s lines are "
        f"of {lines}.{at_scale}"
    )
    return section("Seconds against visit", key, *cards, name="curves", note=note)


def _boxes(run: VisitsRun) -> Markup:
    width = bin_visits(len(run.visits))
    note = f"Bins of {width:,} visits: quartiles, whiskers over the whole range, a mark at the mean."
    cards = []
    for column, title in PANELS.items():
        found = series(run, column)
        cards.append(box_chart(title, found, LinearAxis(low=0, high=int(found.visits.max()) + 1)))
    whole = series(run, "visit_s")
    shares = over_by_bin(whole.visits, whole.seconds, run.settings.limit_s, width)
    across = LinearAxis(low=0, high=int(whole.visits.max()) + 1)
    limits = (
        share_chart(f"Over {run.settings.limit_s:g} s", shares, across)
        if any(each.fraction for each in shares)
        else tag("p", f"No visit took longer than {run.settings.limit_s:g} s.", class_="soft")
    )
    return section("Boxes", *cards, limits, name="boxes", note=note)


def _parts(run: VisitsRun) -> Markup:
    columns = (
        Column("Part"),
        *figures("First tenth", "Last tenth", "Intercept", "Slope, s per 1,000 visits"),
    )
    count, rows = max(1, len(run.visits) // 10), []
    for name in (*PANELS, *TIMES, "dia_s", "upkeep_s"):
        found = series(run, name)
        if found.seconds.any():
            early, late = found.seconds[:count].mean(), found.seconds[-count:].mean()
            intercept = NOTHING if found.fit is None else seconds(found.fit.intercept)
            cells = [tag("code", name), seconds(float(early)), seconds(float(late)), intercept, slope(found.fit)]
            rows.append(("daemon" if name in PANELS else "", cells))
    note = (
        "Seconds of selects and stores are added up over the tiles. dia_s, the mock image analysis, is not part of a "
        "visit, nor is upkeep_s, beginning and ending it in the database with making and dropping partitions."
    )
    return section("What takes the time", card(table("Parts", columns, rows)), name="parts", note=note)


def _compactions(run: VisitsRun) -> Markup:
    if not run.compactions:
        return Markup()
    columns = (
        Column("Table"),
        *figures("Periods", "Seconds, in all", "A visit", "Packs", "Records"),
    )
    rows = []
    for name in WIDTHS:
        of_table = [each for each in run.compactions if each.table == name]
        if of_table:
            taken = sum(each.compact_s for each in of_table)
            packs = [sum(getattr(each, part) for each in of_table) for part in ("packs_before", "packs")]
            records = [sum(getattr(each, part) for each in of_table) for part in ("records_before", "records")]
            cells = [tag("code", name), f"{len(of_table):,}", seconds(taken), seconds(taken / len(run.visits))]
            rows.append(("", [*cells, *(f"{before:,} → {after:,}" for before, after in (packs, records))]))
    note = (
        "After a night’s last visit, packs of periods that ended are written anew, by pixel and in full pages; of "
        "DIAObjectLast the newest version of each object in a period stays. No visit runs meanwhile, so that these "
        "seconds are in none; spread over all visits they are those of the column “A visit”."
    )
    return section("Compaction", card(table("Compaction", columns, rows)), name="compaction", note=note)


def _rows(run: VisitsRun) -> Markup:
    columns = (
        Column("Table"),
        *figures("Rows", "By the formula", "Off by", "Table", "Indexes", "Bytes a row", "The paper’s", "Declared"),
    )
    rows = []
    for name, width in WIDTHS.items():
        size, counts, expected = run.sizes.get(name), run.counts.get(name), run.expected.get(name)
        if size is None and counts is None:
            continue
        known = counts if counts is not None else size.rows if size else 0
        off = NOTHING if not (expected and known) else f"{100 * (known / expected - 1):+.1f} %"
        per_row = (
            NOTHING
            if size is None or not known
            else f"{size.table_bytes / known:,.0f} / {size.index_bytes / known:,.0f}"
        )
        rows.append(
            (
                "",
                [
                    tag("code", name),
                    f"{known:,}" if counts is not None else f"about {known:,}",
                    NOTHING if expected is None else f"{expected:,.0f}",
                    off,
                    NOTHING if size is None else _mib(size.table_bytes),
                    NOTHING if size is None else _mib(size.index_bytes),
                    per_row,
                    f"{width.table} / {width.index}",
                    f"{width.declared}",
                ],
            )
        )
    dropped = (
        " What is older than the window of history was dropped, so that fewer rows are there than were written."
        if run.settings.index_mode is IndexMode.PARTITIONED
        else ""
    )
    note = f"Bytes a row are those of the table / of its indexes. {WIDTH_NOTE}{dropped}"
    return section("Rows and sizes", card(table("Sizes", columns, rows)), name="sizes", note=note)


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def papers_figures() -> Markup:
    """The figures of the paper, a row a condition, with their source and the meaning of their marks."""
    rows = [("", [figure.condition, join([figure.figure, f" [{figure.mark}]"])]) for figure in FIGURES]
    shown = table("The paper’s figures", (Column("Condition"), Column("Figure")), rows)
    marks = "; ".join(f"[{mark}] {meaning}" for mark, meaning in MARKS.items())
    note = f"{SOURCE}; seconds, at scale 1. {marks}."
    return section("The paper’s figures", card(shown), name="paper", note=note)


def _conditions(run: VisitsRun) -> Markup:
    cards = [
        settings_card("Settings of the run", settings_of(run.settings)),
        settings_card(f"{product_of(run.product).title} {run.version}", run.server.items()),
        settings_card("Machine", run.machine.items()),
    ]
    return section("How and on what it was measured", tag("div", *cards, class_="curves"), name="conditions")
