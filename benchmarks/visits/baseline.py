"""Ours against the paper's best mode of the same run, by its visits alone, and with the seconds of upkeep. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from benchmarks.visits.estimate import Interval, ends, ratio, slope_ratio, spread
from benchmarks.visits.findings import values, warm
from benchmarks.visits.plan import COMPETING, MAIN, OURS, Comparison, Measured
from daemon.workloads.visits.figures import line
from schemas.api.visits import Line
from schemas.readings import Array

FLAT = 0.1
"""A slope is flat when visits surely change by less than this part of their mean over as many as the window has."""


READ = {"objects_read": "last versions of objects", "sources_read": "sources", "forced_read": "forced sources"}
"""Counts of the rows that a visit selects, and what they are."""


class Flatness(StrEnum):
    """Whether a slope is flat, by its whole interval: one that holds 0 may be of anything that scatters."""

    FLAT = "flat"
    NOT_FLAT = "not flat"
    UNKNOWN = "not known to be flat"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Ours by the paper's best.

    filling: ratio of the slopes while the window of history fills. at_end: ratio of seconds a visit over the last
    tenth. full: line through ours once the window is full. None each when too few visits are left for it. flatness:
    what `full` says.
    """

    filling: Interval | None
    at_end: Interval | None
    full: Line | None
    flatness: Flatness = Flatness.UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Against:
    """Ours against the paper's best mode of the same run on one backend.

    alone: by the visits alone. with_upkeep: by the visits of both, each with its part of the seconds of upkeep.
    read: by count of a visit's rows that are selected, how many ours read for each of the best's.
    best_full: line through the best once the window is full; None when too few visits are left.
    best_flatness: what that says.
    """

    backend: str
    best: str
    window_visits: int
    alone: Figures
    with_upkeep: Figures
    read: Mapping[str, float]
    best_full: Line | None
    best_flatness: Flatness


def best_of(comparison: Comparison, group: str, backend: str) -> Measured | None:
    """The paper's mode with the fewest seconds a visit at the end, over the last tenth of the visits."""
    runs = [run for run in comparison.of(group, backend) if run.condition in COMPETING and run.run.problem is None]
    return min(runs, key=lambda run: ends(np.array([visit.visit_s for visit in run.run.timed]))[1], default=None)


def against(comparison: Comparison) -> list[Against]:
    """By backend; those that lack one of the two are left out."""
    found = []
    for backend in ("postgresql", "mysql"):
        ours, best = comparison.find(MAIN, backend, OURS), best_of(comparison, MAIN, backend)
        if ours is None or best is None:
            continue
        visits, one, other = warm(ours, best)
        filled = window_visits(ours)
        mine, theirs = values(ours, "visit_s")[one], values(best, "visit_s")[other]
        found.append(
            Against(
                backend=backend,
                best=best.condition,
                window_visits=filled,
                alone=_figures(visits, mine, theirs, filled),
                with_upkeep=_figures(visits, mine + upkeep(ours)[one], theirs + upkeep(best)[other], filled),
                read=_read(ours, best, one, other),
                best_full=(best_full := line(visits[visits >= filled], theirs[visits >= filled])),
                best_flatness=flatness(best_full, theirs[visits >= filled], filled),
            )
        )
    return found


def _read(ours: Measured, best: Measured, one: Array, other: Array) -> dict[str, float]:
    rows = {name: (values(ours, name)[one].sum(), values(best, name)[other].sum()) for name in READ}
    return {name: float(mine / theirs) for name, (mine, theirs) in rows.items() if theirs}


def _figures(visits: Array, mine: Array, theirs: Array, filled: int) -> Figures:
    filling, full = visits < filled, visits >= filled
    last = visits >= np.quantile(visits, 0.9) if len(visits) else full
    fit = line(visits[full], mine[full])
    return Figures(
        filling=slope_ratio(visits[filling], mine[filling], theirs[filling]),
        at_end=ratio(mine[last], theirs[last]),
        full=fit,
        flatness=flatness(fit, mine[full], filled),
    )


def flatness(fit: Line | None, seconds: Array, window: int) -> Flatness:
    """Whether a line through seconds a visit is flat to within `FLAT` over as many visits as the window has.

    By equivalence: the whole interval has to lie within the bounds (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15
    (1987) 657).
    """
    if fit is None:
        return Flatness.UNKNOWN
    bound = FLAT * float(seconds.mean()) / max(1, window) * 1000
    if -bound < fit.slope_low and fit.slope_high < bound:
        return Flatness.FLAT
    return Flatness.NOT_FLAT if fit.slope_low > bound or fit.slope_high < -bound else Flatness.UNKNOWN


def upkeep(run: Measured) -> Array:
    """Each visit's part of the seconds of upkeep: float64, shape (visits,).

    Making and dropping partitions comes at a period's edge, and compaction after its end: the seconds of a period are
    spread over its visits. See `spread` for periods that were not compacted yet.
    """
    periods = np.array([visit.time_ns // run.run.settings.period_ns for visit in run.run.visits], np.int64)
    beside: dict[int, float] = {}
    for period, visit in zip(periods.tolist(), run.run.visits, strict=True):
        beside[period] = beside.get(period, 0.0) + visit.upkeep_s
    tables: dict[str, dict[int, float]] = {"": beside}
    for each in run.run.compactions:
        of_table = tables.setdefault(each.table, {})
        of_table[each.period] = of_table.get(each.period, 0.0) + each.compact_s
    return sum((spread(periods, seconds) for seconds in tables.values()), np.zeros(len(periods)))


def window_visits(run: Measured) -> int:
    """The first visit at which the window of history is full; beyond the last where it never is."""
    window = run.run.settings.window_ns
    visits = run.run.visits
    if window is None or not visits:
        return len(visits)
    return next((visit.visit for visit in visits if visit.time_ns - visits[0].time_ns >= window), visits[-1].visit + 1)


# --- figures of the paper --------------------------------------------------------------------------------------------
# LSST's technical note DMTN-113. Marks: [S] it says so, [D] computed from data published with it, [F] read off a
# published plot's legend, [R] of what came after it.

SOURCE = "DMTN-113, “Performance of prototype of the Prompt Products Database”"
MARKS = {
    "S": "as the paper says it",
    "D": "computed from data published with it",
    "F": "read off the legend of a published plot",
    "R": "of the systems that came after it",
}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A straight line of the paper: `intercept + slope_per_1000 * k`."""

    what: str
    condition: str
    intercept: float
    slope_per_1000: float
    mark: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A condition of the paper, and what it took there."""

    condition: str
    figure: str
    mark: str


@dataclass(frozen=True, kw_only=True)
class Width:
    """Bytes of a row: as declared, and on disk in the paper's table and its indexes [D]."""

    declared: int
    table: int
    index: int


FITS = (
    Fit(
        what="visit_s",
        condition="PostgreSQL, NVMe, 15 x 15 tiles",
        intercept=2.425,
        slope_per_1000=0.164,
        mark="F",
    ),
    Fit(
        what="visit_s",
        condition="Oracle RAC, persistent workers, visits 10k to 35k",
        intercept=0.606,
        slope_per_1000=0.298,
        mark="F",
    ),
    Fit(
        what="select_s",
        condition="Oracle RAC, persistent workers, visits 10k to 35k",
        intercept=-0.441,
        slope_per_1000=0.232,
        mark="F",
    ),
    Fit(
        what="store_s",
        condition="Oracle RAC, persistent workers, visits 10k to 35k",
        intercept=-0.093,
        slope_per_1000=0.040,
        mark="F",
    ),
    Fit(
        what="select_s", condition="PostgreSQL in a cloud, 57k visits", intercept=-0.126, slope_per_1000=0.124, mark="F"
    ),
    Fit(what="store_s", condition="PostgreSQL in a cloud, 57k visits", intercept=0.577, slope_per_1000=0.126, mark="F"),
)

PUBLISHED_LINES = {"visit_s": FITS[0], "select_s": FITS[4], "store_s": FITS[5]}
"""The lines in our plots: those of PostgreSQL."""

FIGURES = (
    Figure(condition="spinning disk, visit 5k", figure="MySQL select 27, store 85; PostgreSQL 17, 143", mark="D"),
    Figure(
        condition="SSD, visit 15k, key begins with the pixel, one process",
        figure="PostgreSQL select 9.4, store 12.7; MySQL 9.5, 24.9",
        mark="D",
    ),
    Figure(
        condition="the same with DIAObjectLast",
        figure="select of objects: PostgreSQL 7.4 → 2.7, MySQL 4.3 → 2.1",
        mark="D",
    ),
    Figure(
        condition="update of DIAObjectLast, visit 15k, MySQL", figure="DELETE and INSERT 4.0 → REPLACE 2.6", mark="D"
    ),
    Figure(
        condition="update of DIAObjectLast, visit 15k, PostgreSQL, 15 x 15 tiles",
        figure="DELETE and INSERT 0.73 → upsert 0.60",
        mark="D",
    ),
    Figure(
        condition="a visit at 15k",
        figure="PostgreSQL: one process 39.6, 5 x 5 tiles 8.1, 15 x 15 5.1; MySQL: 37.1, 11.9, 10.7",
        mark="D",
    ),
    Figure(
        condition="Oracle RAC, new connections for each visit → permanent ones",
        figure="a visit 6.11 → 3.90",
        mark="D",
    ),
    Figure(
        condition="PostgreSQL in a cloud, after 57k visits", figure="4,484 GB, of which 747 GB are indexes", mark="S"
    ),
    Figure(
        condition="fraction of visits over 10 s",
        figure="cloud PostgreSQL 0.03 at 10k, 0.58 at 20k, 0.92 at 30k; Oracle 0 at 20k, 0.25 at 30k, 0.9 at 35k",
        mark="F",
    ),
    Figure(
        condition="its successor, on 12 nodes of Cassandra",
        figure="a visit 1.65 at 100k; with a window of 12 months flat at 4.5 after 300k",
        mark="R",
    ),
)

WIDTHS = {
    "DIAObject": Width(declared=364, table=745, index=99),
    "DIASource": Width(declared=500, table=910, index=147),
    "DIAForcedSource": Width(declared=40, table=85, index=70),
    "DIAObjectLast": Width(declared=96, table=198, index=99),
}
WIDTH_NOTE = (
    "The paper’s 745 bytes of a DIAObject row follow from its FLOAT columns, which are double precision in PostgreSQL: "
    "612 bytes of values and their header, 11 rows to a page of 8 kB. Here they are 4-byte REAL, as declared, hence "
    "shorter rows."
)
