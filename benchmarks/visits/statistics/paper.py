"""The figures of the paper, for comparison with ours. k is visit / 1000; everything is in seconds.

LSST's technical note DMTN-113. Marks: [S] it says so, [D] computed from data published with it, [F] read off a
published plot's legend, [R] of what came after it.
"""

from dataclasses import dataclass

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
