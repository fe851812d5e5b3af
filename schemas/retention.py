"""Retention: periods of readings that are dropped as a whole, and the account of what was dropped."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from schemas.readings import Array


class Rule(StrEnum):
    """Which limit of the configuration a period was dropped for."""

    AGE = "age"  # `keep_days`
    SIZE = "size"  # `max_gib`
    DISK = "disk"  # `min_free_percent`


@dataclass(frozen=True, kw_only=True)
class Period:
    """The readings of one partition of a group, which are dropped together: start_ns <= time_ns < end_ns.

    name: of the partition, as `backends.base.Partition` has it. Times are ns since 1970-01-01 UTC.
    """

    group: str
    name: str
    start_ns: int
    end_ns: int

    @property
    def label(self) -> tuple[str, str]:
        """Group and name: by these it is known, whatever times it has."""
        return self.group, self.name


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """The account of a period that was dropped; until `dropped_ns` is set, of one that is being dropped.

    begun_ns, dropped_ns: when that began and ended, by the daemon's clock.
    stored: rows (documents) that were dropped, by run: in the `rows` layout readings, in the `arrays` layout triggers.
    triggers, readings, missing, skipped: of the period, by the ledger, which stays; readings are those dropped.
    size_bytes: what the readings took of the server's disk, with indexes.
    """

    period: Period
    rule: Rule
    begun_ns: int
    dropped_ns: int | None = None
    stored: dict[int, int] = field(default_factory=dict)
    triggers: int = 0
    readings: int = 0
    missing: int = 0
    skipped: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of time whose readings were dropped: start_ns <= time_ns < end_ns, ns since 1970-01-01 UTC."""

    start_ns: int
    end_ns: int


def spans_of(periods: Iterable[Period | Span]) -> tuple[Span, ...]:
    """The stretches of time of periods, ascending; those that touch are one stretch."""
    spans: list[Span] = []
    for period in sorted(periods, key=lambda each: each.start_ns):
        if spans and period.start_ns <= spans[-1].end_ns:
            spans[-1] = Span(start_ns=spans[-1].start_ns, end_ns=max(spans[-1].end_ns, period.end_ns))
        else:
            spans.append(Span(start_ns=period.start_ns, end_ns=period.end_ns))
    return tuple(spans)


def overlapping(spans: Iterable[Span], start_ns: int, end_ns: int) -> tuple[Span, ...]:
    """What of the spans lies within start_ns <= time_ns < end_ns."""
    return tuple(
        Span(start_ns=max(span.start_ns, start_ns), end_ns=min(span.end_ns, end_ns))
        for span in spans
        if span.start_ns < end_ns and span.end_ns > start_ns
    )


def are_within(spans: Iterable[Span], times: Array) -> Array:
    """Which times (int64, shape (n,)) lie in one of the spans: bool, shape (n,)."""
    found = np.zeros(len(times), bool)
    for span in spans:
        found |= (times >= span.start_ns) & (times < span.end_ns)
    return found
