"""The findings of the paper one by one, with the verdict of the measurement: pure functions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from backends.kinds import KINDS
from benchmarks.report.model import Finding, Verdict, number
from benchmarks.visits.estimate import Interval, bend, paired, ratio
from benchmarks.visits.plan import BASE, PAPERS, SWEEP, Comparison, Measured
from daemon.workloads.visits.figures import LEAST, line
from schemas.api.visits import Line
from schemas.readings import Array

NAMES = {str(kind.backend): next(iter(kind.products.values())).title for kind in KINDS.values()}
NO_EFFECT = 0.1
"""A ratio that is surely within so much of 1, either way, is none that matters."""
DENSE = 1000
"""With fewer variables a field, a tenth of the paper's, what was measured does not refute what was found there."""
HALVES = 0.6
"""A time counts as halved when it is at most this fraction of the other."""
BENT = 0.125
"""A growth that bends by less than this part of itself, half as much as a parabola does, is called linear."""


def findings(comparison: Comparison) -> list[Finding]:
    """All findings; the verdict on what was not measured, or cannot be refuted here, is not known."""
    return [_within_reach(finding, comparison) for rule in RULES for finding in rule(comparison)]


def _within_reach(finding: Finding, comparison: Comparison) -> Finding:
    """A finding; one that was not found again so far from the paper's conditions is not refuted by that."""
    if finding.verdict is not Verdict.REFUTED:
        return finding
    surveys = [run.run.settings.survey for run in comparison.of(SWEEP)]
    fewest = min((survey.variables * survey.scale for survey in surveys), default=0.0)
    cores = int(comparison.machine.get("cores", 0))
    limits = [f"{number(fewest)} variables a field, where the paper has 10,000"] if fewest < DENSE else []
    if finding.processes > 1 and cores <= finding.processes:
        limits.append(f"{cores} cores for {finding.processes} workers and a server")
    if not limits:
        return finding
    words = f"{finding.measured}; it is the other way here, with {' and '.join(limits)}"
    return replace(finding, verdict=Verdict.UNKNOWN, measured=words)


# --- pairs of conditions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A claim that `of` takes less of `column` than `to`. below: the ratio that it has to be below."""

    claim: str
    paper: str
    backend: str
    of: str
    to: str
    column: str
    what: str
    below: float = 1.0
    processes: int = 1


PAIRS = (
    *(
        Pair(
            claim=f"DIAObjectLast halves the select of objects ({NAMES[backend]})",
            paper=paper,
            backend=backend,
            of=BASE,
            to="pix_id_iov",
            column="select_object_s",
            what="seconds of selecting objects, with DIAObjectLast by with the key that begins with the pixel",
            below=HALVES,
        )
        for backend, paper in (("postgresql", "7.4 → 2.7 s, 0.36 [D]"), ("mysql", "4.3 → 2.1 s, 0.49 [D]"))
    ),
    Pair(
        claim="REPLACE beats DELETE and INSERT (MariaDB)",
        paper="4.0 → 2.6 s, 0.65 [D]",
        backend="mysql",
        of=BASE,
        to="delete_insert",
        column="store_last_s",
        what="seconds of updating DIAObjectLast, REPLACE by DELETE and INSERT",
    ),
    Pair(
        claim="Upsert beats DELETE and INSERT (PostgreSQL)",
        paper="0.73 → 0.60 s, 0.82 [D]",
        backend="postgresql",
        of=BASE,
        to="delete_insert",
        column="store_last_s",
        what="seconds of updating DIAObjectLast, INSERT ... ON CONFLICT by DELETE and INSERT",
    ),
    *(
        Pair(
            claim=f"Tiles in processes of their own help ({NAMES[backend]})",
            paper=paper,
            backend=backend,
            of="tiles_3",
            to=BASE,
            column="visit_s",
            what="seconds a visit, 3 x 3 tiles on two persistent workers by one process",
            processes=2,
        )
        for backend, paper in (
            ("postgresql", "39.6 → 8.1 s at 5 x 5, 0.20 [D]"),
            ("mysql", "37.1 → 11.9 s at 5 x 5, 0.32 [D]"),
        )
    ),
    *(
        Pair(
            claim=f"Permanent connections help ({NAMES[backend]})",
            paper="Oracle: 6.11 → 3.90 s, 0.64 [D]",
            backend=backend,
            of="tiles_3",
            to="per_visit",
            column="visit_s",
            what="seconds a visit, 3 x 3 tiles on two persistent workers, permanent by new connections",
            processes=2,
        )
        for backend in ("postgresql", "mysql")
    ),
    Pair(
        claim="The key that begins with the pixel helps InnoDB (MariaDB)",
        paper="data locality and selection got better [S]",
        backend="mysql",
        of="pix_id_iov",
        to="baseline",
        column="select_object_s",
        what="seconds of selecting objects, key with the pixel first by the baseline’s key",
    ),
)


def _pairs(comparison: Comparison) -> Iterator[Finding]:
    for pair in PAIRS:
        one = comparison.find(SWEEP, pair.backend, pair.of)
        other = comparison.find(SWEEP, pair.backend, pair.to)
        found = compared(one, other, pair.column) if one and other else None
        yield Finding(
            claim=pair.claim,
            paper=pair.paper,
            verdict=Verdict.UNKNOWN if found is None else _below(found, pair.below),
            measured="not measured" if found is None else f"{shown(found)} ({pair.what})",
            processes=pair.processes,
        )


def _below(found: Interval, bound: float) -> Verdict:
    return Verdict.REPRODUCED if found.high < bound else Verdict.REFUTED if found.low > bound else Verdict.UNKNOWN


def compared(of: Measured, to: Measured, column: str) -> Interval | None:
    """Ratio of a column, visit by visit, over the second half of the visits that both did."""
    visits, one, other = warm(of, to)
    half = visits >= np.median(visits) if len(visits) else visits.astype(bool)
    return ratio(values(of, column)[one][half], values(to, column)[other][half])


def values(run: Measured, column: str) -> Array:
    """A column of a run's visits: float64, shape (visits,)."""
    return np.array([getattr(visit, column) for visit in run.run.visits], np.float64)


def _resumed(run: Measured) -> Array:
    return np.array([visit.resumed for visit in run.run.visits], bool)


def warm(of: Measured, to: Measured) -> tuple[Array, Array, Array]:
    """Visits that both did in one go and that began no turn, and where they are in each."""
    # The seconds of one that was resumed are those of the rest.
    numbers = [
        [each.visit for each in run.run.visits if each.visit % of.chunk and not each.resumed] for run in (of, to)
    ]
    visits, _, _ = paired(*numbers)
    one, other = (np.searchsorted([visit.visit for visit in run.run.visits], visits) for run in (of, to))
    return visits, one, other


def shown(found: Interval) -> str:
    """A ratio with its interval."""
    high = number(found.high) if np.isfinite(found.high) else "no end"
    return f"ratio {number(found.value)}, {number(found.low)} to {high}"


# --- what is not a pair ----------------------------------------------------------------------------------------------


def _nothing_for_postgresql(comparison: Comparison) -> Iterator[Finding]:
    one, other = (comparison.find(SWEEP, "postgresql", name) for name in ("pix_id_iov", "baseline"))
    found = compared(one, other, "select_object_s") if one and other else None
    verdict = Verdict.UNKNOWN
    least, most = 1 - NO_EFFECT, 1 / (1 - NO_EFFECT)
    if found is not None and least < found.low and found.high < most:
        verdict = Verdict.REPRODUCED
    elif found is not None and (found.high < least or found.low > most):
        verdict = Verdict.REFUTED
    yield Finding(
        claim="The key that begins with the pixel does nothing for PostgreSQL",
        paper="no effect on data locality [S]",
        verdict=verdict,
        measured="not measured"
        if found is None
        else f"{shown(found)} (seconds of selecting objects; less than {NO_EFFECT:.0%} counts as nothing)",
    )


def _history(comparison: Comparison) -> Iterator[Finding]:
    """The slope of the select of sources against that of each other part, of the same visits."""
    parts = ("select_object_s", "select_forced_s", "store_last_s", "store_object_s", "store_source_s", "store_forced_s")
    for backend in ("postgresql", "mysql"):
        run = comparison.find(SWEEP, backend, BASE)
        claim = f"The select of the sources’ history grows fastest ({NAMES[backend]})"
        paper = "fastest DIASource, closely followed by DIAForcedSource (Oracle) [S]"
        visits = np.array([] if run is None else [visit.visit for visit in run.run.visits], np.int64)
        kept = visits % (1 if run is None else run.chunk) != 0
        if run is not None:
            kept &= ~_resumed(run)
        if run is None or np.count_nonzero(kept) < LEAST:
            yield Finding(claim=claim, paper=paper, verdict=Verdict.UNKNOWN, measured="not measured, or too few visits")
            continue
        slopes = {part: _slope(visits[kept], values(run, part)[kept]) for part in ("select_source_s", *parts)}
        beaten = [_slope(visits[kept], (values(run, "select_source_s") - values(run, part))[kept]) for part in parts]
        fastest = max(parts, key=lambda part: slopes[part].slope_per_1000)
        verdict = Verdict.UNKNOWN
        if all(each.slope_low > 0 for each in beaten):
            verdict = Verdict.REPRODUCED
        elif any(each.slope_high < 0 for each in beaten):
            verdict = Verdict.REFUTED
        yield Finding(
            claim=claim,
            paper=paper,
            verdict=verdict,
            measured=f"select of sources {_per_1000(slopes['select_source_s'])}; of the rest {fastest} grows fastest: "
            f"{_per_1000(slopes[fastest])}",
        )


def _slope(visits: Array, seconds: Array) -> Line:
    fit = line(visits, seconds)
    assert fit is not None  # the callers have enough visits
    return fit


def _per_1000(fit: Line) -> str:
    return f"{fit.slope_per_1000:.3f} ({fit.slope_low:.3f} to {fit.slope_high:.3f}) s per 1,000 visits"


def _products(comparison: Comparison) -> Iterator[Finding]:
    for condition, what, paper in (
        (BASE, "in one process", "very similar: 39.6 and 37.1 s [S, D]"),
        ("tiles_3", "with tiles", "8.1 and 11.9 s at 5 x 5, 0.68 [D]"),
    ):
        one, other = (comparison.find(SWEEP, backend, condition) for backend in ("postgresql", "mysql"))
        found = compared(one, other, "visit_s") if one and other else None
        claim = f"PostgreSQL {'is as fast as' if condition == BASE else 'performs better than'} MySQL {what}"
        verdict = Verdict.UNKNOWN
        if found is not None and condition == BASE:
            verdict = Verdict.REPRODUCED if found.low > 0.67 and found.high < 1.5 else Verdict.UNKNOWN
            verdict = Verdict.REFUTED if found.high < 0.67 or found.low > 1.5 else verdict
        elif found is not None:
            verdict = _below(found, 1.0)
        measured = "not measured" if found is None else f"{shown(found)} (seconds a visit, PostgreSQL by MariaDB)"
        processes = 1 if condition == BASE else 2
        yield Finding(claim=claim, paper=paper, verdict=verdict, measured=measured, processes=processes)


def _linear(comparison: Comparison) -> Iterator[Finding]:
    """How far each of the paper's modes is from a straight line."""
    for backend in ("postgresql", "mysql"):
        for condition in PAPERS:
            run = comparison.find(SWEEP, backend, condition)
            if run is None:
                continue
            visits = np.array([visit.visit for visit in run.run.visits])
            kept = (visits % run.chunk != 0) & ~_resumed(run)
            fit = line(visits[kept], values(run, "visit_s")[kept])
            verdict, measured = _bent(visits[kept], values(run, "visit_s")[kept], fit)
            yield Finding(
                claim=f"Time grows linearly with the visits ({NAMES[backend]}, {condition})",
                paper="approximately linear [S]",
                verdict=verdict,
                measured=measured,
            )


def _bent(visits: Array, seconds: Array, fit: Line | None) -> tuple[Verdict, str]:
    if fit is None:
        return Verdict.UNKNOWN, "too few visits"
    found = bend(visits, seconds)
    if found is None:
        verdict = Verdict.REFUTED if fit.slope_high < 0 else Verdict.UNKNOWN
        return verdict, f"{_per_1000(fit)}: no growth that is sure"
    verdict = Verdict.UNKNOWN
    if found.low > -BENT and found.high < BENT:
        verdict = Verdict.REPRODUCED
    elif found.high < -BENT or found.low > BENT:
        verdict = Verdict.REFUTED
    return verdict, (
        f"{_per_1000(fit)}; bend {found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f}) of the growth, where a "
        "parabola that begins level has 0.25"
    )


RULES: tuple[Callable[[Comparison], Iterator[Finding]], ...] = (
    _pairs,
    _nothing_for_postgresql,
    _history,
    _products,
    _linear,
)
