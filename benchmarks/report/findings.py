"""Findings of a paper, and whether a measurement agrees with each."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.report.model import Cell, Table
from benchmarks.rounds.summary import Ratio


class Verdict(StrEnum):
    """The measurement agrees with the paper, or it does not, or it cannot tell."""

    REPRODUCED = "reproduced"
    REFUTED = "refuted"
    UNKNOWN = "not known here"


STYLES = {Verdict.REPRODUCED: "good", Verdict.REFUTED: "bad", Verdict.UNKNOWN: "soft"}


@dataclass(frozen=True)
class Finding:
    """A finding of the paper, and the verdict on it.

    paper: its own figures; empty without. measured: the figures that the verdict follows from. processes: workers of
    visits that it was measured with, where that matters.
    """

    claim: str
    paper: str
    verdict: Verdict
    measured: str
    processes: int = 1


def holds(found: bool) -> Verdict:
    """Judge a figure without an interval."""
    return Verdict.REPRODUCED if found else Verdict.REFUTED


def within(found: Ratio, most: float, least: float = 0.0) -> Verdict:
    """Judge by the whole interval of a ratio: reproduced within the limits, refuted outside them."""
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    if least <= low and high <= most:
        return Verdict.REPRODUCED
    return Verdict.REFUTED if low > most or high < least else Verdict.UNKNOWN


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on all of several, at least one."""
    found = set(verdicts)
    return next(each for each in (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.REPRODUCED) if each in found)


def findings_table(
    findings: Iterable[Finding], note: str, claim: str = "The paper found", there: str = "There"
) -> Table:
    """Make the table of findings."""
    rows = [
        (each.claim, each.paper, Cell(each.verdict, style=STYLES[each.verdict]), each.measured) for each in findings
    ]
    columns = (claim, there, "Here", "Measured")
    return Table(title="Findings", columns=columns, rows=rows, note=note, words=columns[1:])
