"""Checks whether conditions wrote the same rows, and as many as they should: pure functions."""

import math
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.visits.record import Check, Measured
from schemas.visits.survey import Survey
from schemas.visits.tables import IndexMode

WRITTEN = {"DIAObject": "objects", "DIASource": "sources", "DIAForcedSource": "forced"}
"""Tables that only grow, and the counts of a visit that say by how much."""
TOLERANCE = 0.02
"""How far a run may be from the formula, as a fraction, beyond the chance of its sky."""


def written(run: Measured) -> dict[str, int]:
    """Rows that a run's visits wrote, by table."""
    return {table: sum(getattr(visit, count) for visit in run.run.visits) for table, count in WRITTEN.items()}


def tolerance(survey: Survey) -> float:
    """How far a run may be from the formula, as a fraction.

    The formula knows where a run looked, and not how many variables its sky has there: a small sky has few.
    """
    return TOLERANCE + 2 / math.sqrt(max(1, survey.variables_in_all))


def checked(runs: Sequence[Measured]) -> Iterator[Check]:
    """Compare the runs of a group with each other, with what they stored, and with the formula."""
    for alike in _alike(runs).values():
        yield from _same(alike)
    for run in runs:
        yield from _stored(run)


def _alike(runs: Sequence[Measured]) -> Mapping[tuple[object, ...], list[Measured]]:
    """Runs that have to write the same rows: tiles widen the area that is read, and so what is forced."""
    found: dict[tuple[object, ...], list[Measured]] = {}
    for run in runs:
        settings = run.run.settings
        found.setdefault((settings.survey.model_dump_json(), settings.tiles), []).append(run)
    return found


def _same(runs: Sequence[Measured]) -> Iterator[Check]:
    first, *others = runs
    visits = {visit.visit: visit for visit in first.run.visits}
    different = []
    for run in others:
        for visit in run.run.visits:
            other = visits.get(visit.visit)
            if other and any(getattr(visit, count) != getattr(other, count) for count in WRITTEN.values()):
                different.append(f"{run.backend} {run.condition} at visit {visit.visit}")
                break
    what = f"{first.group}, {first.run.settings.tiles} x {first.run.settings.tiles} tiles"
    if different:
        where = f"{first.backend} {first.condition}"
        yield Check(passed=False, result=f"{what}: rows differ from those of {where} in {'; '.join(different)}.")
    elif others:
        total = sum(written(first).values())
        result = f"{what}: all {len(runs)} conditions wrote the same {total:,} rows, visit by visit."
        yield Check(passed=True, result=result)


def _stored(run: Measured) -> Iterator[Check]:
    name = f"{run.group}, {run.backend} {run.condition}"
    counts = written(run)
    for table, rows in run.run.counts.items():
        if table not in counts:
            continue
        dropped = run.run.settings.index_mode is IndexMode.PARTITIONED and rows < counts[table]
        if rows != counts[table] and not dropped:
            result = f"{name}: {table} has {rows:,} rows, and {counts[table]:,} were written."
            yield Check(passed=False, result=result)
        expected = run.run.expected.get(table)
        if expected and abs(counts[table] / expected - 1) > tolerance(run.run.settings.survey):
            off = 100 * (counts[table] / expected - 1)
            result = f"{name}: {counts[table]:,} rows of {table} are {off:+.1f} % from the formula’s {expected:,.0f}."
            yield Check(passed=False, result=result)
