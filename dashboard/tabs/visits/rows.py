"""The tables of the tab Visits: sizes, fitted lines, and past runs."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from dashboard.tabs.tables import Row, cell, choice, links, row
from dashboard.tabs.visits.charts import SERIES
from dashboard.words import NONE, count, lasted, number, signed, size
from schemas.api.visits import VisitsFigures, VisitsSummary

OFF = 0.02
"""Rows that differ from the expected ones by more stand out."""

FILES = {"csv": "CSV", "parquet": "Parquet", "report": "Report"}


def size_rows(figures: VisitsFigures) -> list[Row]:
    """A row a table of the schema."""
    return [_size(name, figures) for name in dict.fromkeys([*figures.sizes, *figures.counts])]


def sizes_note(figures: VisitsFigures) -> str:
    """How much they take together."""
    total = sum(one.table_bytes + one.index_bytes for one in figures.sizes.values())
    return f"{size(total)} in total" if total else ""


def _size(name: str, figures: VisitsFigures) -> Row:
    stored, counted = figures.sizes.get(name), figures.counts.get(name)
    there = counted if counted is not None else None if stored is None else stored.rows
    expected = figures.expected.get(name)
    off = there / expected - 1 if expected and there is not None else None
    table_bytes, index_bytes = (None, None) if stored is None else (stored.table_bytes, stored.index_bytes)
    each = (stored.table_bytes + stored.index_bytes) / there if stored is not None and there else None
    return row(
        name,
        table=name,
        rows=cell(f"{'' if counted is not None or there is None else '≈ '}{count(there)}", there),
        expected=cell(count(expected or None), expected),
        off=cell(
            NONE if off is None else f"{'−' if off < 0 else '+'}{number(100 * abs(off), 1)} %",
            off,
            over=off is not None and counted is not None and abs(off) > OFF,
        ),
        size=cell(size(table_bytes), table_bytes),
        index=cell(size(index_bytes), index_bytes),
        each=cell(count(each), each),
    )


def fit_rows(figures: VisitsFigures) -> list[Row]:
    """A row a line through the points, and the paper's."""
    rows = []
    for name, label, _ in SERIES:
        if (line := figures.fits.get(name)) is not None:
            rows.append(
                row(
                    name,
                    line=label,
                    at=cell(signed(line.intercept), line.intercept),
                    slope=cell(signed(line.slope_per_1000), line.slope_per_1000),
                    interval=cell(f"{signed(line.slope_low)} to {signed(line.slope_high)}", line.slope_low),
                    visits=cell(count(line.visits), line.visits),
                )
            )
    if (paper := figures.paper) is not None:
        at, slope = cell(signed(paper.intercept), paper.intercept), cell(signed(paper.slope_per_1000))
        rows.append(row("paper", line="paper, total", at=at, slope=slope, interval=NONE, visits=NONE))
    return rows


def past_rows(past: Sequence[VisitsSummary], shown: str) -> list[Row]:
    """A row a past run; that of the run that is shown is marked."""
    return [
        row(
            one.id,
            id=choice(one.id, chosen=one.id == shown),
            mode=one.index_mode,
            visits=cell(count(one.visits), one.visits),
            lasted=cell(lasted((one.ended_ns - one.began_ns) / 1e9), one.ended_ns - one.began_ns),
            problem=one.problem or "",
            files=links(*_files(one.id)),
        )
        for one in past
    ]


def _files(run: str) -> Iterator[tuple[str, str, str]]:
    for kind, words in FILES.items():
        yield words, f"/answers/visits/{quote(run, safe='')}/{kind}", f"{words} of {run}, opens in a new tab"


def past_note(past: Sequence[VisitsSummary]) -> str:
    """How many there are."""
    return f"{count(len(past))}, newest first" if past else ""
