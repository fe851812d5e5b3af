"""A finding of a paper, and whether a measurement agrees with it."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Whether the measurement agrees with the paper."""

    REPRODUCED = "reproduced"
    REFUTED = "refuted"
    UNKNOWN = "not known here"


@dataclass(frozen=True, kw_only=True)
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
