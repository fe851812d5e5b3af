"""The findings of the paper on conditions one by one, with the verdict of a run: pure functions."""

from collections.abc import Iterator, Sequence

from benchmarks.conditions.measure import ALONE, FROM_MEMORY, HTTP, READ
from benchmarks.conditions.scenarios import SCENARIOS
from benchmarks.conditions.strategies import OURS, STRATEGIES
from benchmarks.report.formatting import number, times
from benchmarks.report.run import Condition, Run
from benchmarks.report.verdict import Finding, Verdict
from benchmarks.rounds.summary import Ratio, mean_ratio, spread
from schemas.checking.dsn import Backend

BY_FAR = 10.0
"""An index condition is faster by far when a read takes at most a tenth of the time; the paper has 111 times."""
FLAT = (0.9, 1.11)
"""A ratio within these is none that matters."""
INDEXED = "comb_lateral"
"""What the paper calls an index condition."""


def findings(run: Run) -> list[Finding]:
    """All findings; what was not measured is not known."""
    found = [each for each in run.conditions if each.backend is Backend.POSTGRESQL]
    if not found:
        return []
    return [_index_condition(found), *_types(found), *_intervals(found), *_size(found), _older_design()]


def compared(of: Condition, to: Condition) -> Ratio:
    """Seconds by seconds, round by round: the geometric mean of the ratios, with its 95 % interval."""
    return mean_ratio(of.seconds, to.seconds)


def in_words(found: Ratio) -> str:
    """A ratio with its interval."""
    if found.low is None or found.high is None:
        return f"{times(found.value)} (one round)"
    return f"{times(found.value)} ({times(found.low)} to {times(found.high)})"


def above(found: Ratio, limit: float) -> bool:
    """Whether the whole interval is above a limit."""
    return found.low is not None and found.low > limit


def flatness(found: Ratio) -> Verdict:
    """Whether something is flat: the whole interval within the limits, or outside of them."""
    if found.low is None or found.high is None:
        return Verdict.UNKNOWN
    if FLAT[0] <= found.low and found.high <= FLAT[1]:
        return Verdict.REPRODUCED
    return Verdict.REFUTED if found.low > FLAT[1] or found.high < FLAT[0] else Verdict.UNKNOWN


def _index_condition(found: Sequence[Condition]) -> Finding:
    claim, paper = "An index condition is faster than the OR filter by far", "365.2 → 3.30 ms, worst-case"
    names = [name for name in SCENARIOS if _one(found, name, READ, "or_distinct") and _one(found, name, READ, INDEXED)]
    if not names:
        return Finding(claim=claim, paper=paper, verdict=Verdict.UNKNOWN, measured="not measured")
    filtered, indexed = _one(found, names[-1], READ, "or_distinct"), _one(found, names[-1], READ, INDEXED)
    assert filtered is not None
    assert indexed is not None
    ratio = compared(filtered, indexed)
    verdict = Verdict.REPRODUCED if above(ratio, BY_FAR) else Verdict.UNKNOWN
    if names[-1] == "worst-case" and ratio.high is not None and ratio.high < BY_FAR:
        verdict = Verdict.REFUTED
    measured = (
        f"{_ms(filtered)} → {_ms(indexed)} ms in {names[-1]}: the OR filter takes {in_words(ratio)} times as long as "
        f"{STRATEGIES[INDEXED].title}"
    )
    return Finding(claim=claim, paper=paper, verdict=verdict, measured=measured)


WAYS = ((READ, INDEXED, 0), (READ, OURS, 0), (HTTP, FROM_MEMORY, 8))
"""In which the dependence on types and intervals is looked at: the paper's way, ours, and the server."""


def _types(found: Sequence[Condition]) -> Iterator[Finding]:
    for way in WAYS:
        few, many = (_one(found, name, *way) for name in ("tiny-moderate", "moderate"))
        verdict, measured = Verdict.UNKNOWN, "not measured"
        if few is not None and many is not None:
            ratio = compared(many, few)
            verdict = Verdict.REPRODUCED if above(ratio, FLAT[1]) else Verdict.UNKNOWN
            if ratio.high is not None and ratio.high < FLAT[1]:
                verdict = Verdict.REFUTED
            measured = f"{_ms(few)} → {_ms(many)} ms: with ten times the types {in_words(ratio)} times the time"
        claim = f"The rate falls with the number of types ({_title(*way)})"
        yield Finding(claim=claim, paper="a plot", verdict=verdict, measured=measured)


def _intervals(found: Sequence[Condition]) -> Iterator[Finding]:
    for way in WAYS:
        few, many = (_one(found, name, *way) for name in ("moderate", "heavy-usage"))
        verdict, measured = Verdict.UNKNOWN, "not measured"
        if few is not None and many is not None:
            ratio = compared(many, few)
            verdict = flatness(ratio)
            measured = f"{_ms(few)} → {_ms(many)} ms: with 25 times the intervals {in_words(ratio)} times the time"
        claim = f"The rate is flat in the number of intervals ({_title(*way)})"
        yield Finding(claim=claim, paper="a plot", verdict=verdict, measured=measured)


def _size(found: Sequence[Condition]) -> Iterator[Finding]:
    for way in (INDEXED, OURS):
        alone = next((each for each in found if (each.kind, each.way) == (ALONE, way)), None)
        beside = None if alone is None else _one(found, alone.scenario, READ, way)
        verdict, measured = Verdict.UNKNOWN, "not measured"
        if alone is not None and beside is not None:
            ratio = compared(beside, alone)
            verdict = flatness(ratio)
            total = sum({each.scenario: each.intervals for each in found}.values())
            measured = (
                f"{alone.scenario} alone {_ms(alone)} ms, in a database of {total:,} intervals {_ms(beside)} ms: "
                f"{in_words(ratio)} times the time"
            )
        claim = f"The rate is flat in the size of the database ({STRATEGIES[way].title})"
        yield Finding(claim=claim, paper="a plot", verdict=verdict, measured=measured)


def _older_design() -> Finding:
    return Finding(
        claim="The older design fails above 50 Hz with 70,000 payloads",
        paper="50 Hz",
        verdict=Verdict.UNKNOWN,
        measured="that design is not among the strategies",
    )


def _one(found: Sequence[Condition], scenario: str, kind: str, way: str, clients: int = 0) -> Condition | None:
    wanted = (scenario, kind, way, clients)
    return next((each for each in found if (each.scenario, each.kind, each.way, each.clients) == wanted), None)


def _title(kind: str, way: str, clients: int) -> str:
    return f"the server, from memory, {clients} clients" if kind == HTTP else STRATEGIES[way].title


def _ms(found: Condition) -> str:
    return number(1e3 * spread(found.seconds).median)
