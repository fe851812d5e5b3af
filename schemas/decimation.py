"""Decimation: what old readings are reduced to, and the account of periods whose readings were reduced."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from schemas.readings import CHANNEL_DTYPES, InstrumentGroup
from schemas.retention import Period

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Bucket:
    """Figures of each instrument stay for stretches of so many ns, which begin at multiples of it since 1970."""

    ns: int

    def __str__(self) -> str:
        return f"bucket {self.ns}"

    @property
    def words(self) -> str:
        """In words."""
        return f"figures of every {self.ns / SECOND_NS:g} s"


@dataclass(frozen=True)
class Every:
    """Whole triggers stay whose number n divides."""

    n: int

    def __str__(self) -> str:
        return f"every {self.n}"

    @property
    def words(self) -> str:
        """In words."""
        return f"each trigger whose number {self.n} divides"


How = Bucket | Every


def how_of(text: str) -> How:
    """The way that `str` of it says.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"(bucket|every) ([1-9][0-9]*)", text)
    if found is None:
        raise ValueError(f"{text!r} is no way to reduce readings")
    number = int(found[2])
    return Bucket(number) if found[1] == "bucket" else Every(number)


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """What the configuration asks for: partitions that ended after_ns ago are reduced, but for window_ns around marks.

    How a period was reduced once, it stays: what comes late for it is reduced the same way.
    """

    after_ns: int
    how: How
    window_ns: int


@dataclass(frozen=True, kw_only=True)
class Decimated:
    """The account of a period whose readings are reduced, or are being reduced.

    begun_ns, reduced_ns, ended_ns: when it was begun, when all of its readings were reduced, and when their room was
    given back, by the daemon's clock; None before that.
    stored: rows that are there no more, by run: in the `rows` layout readings, in the `arrays` layout triggers.
    readings: how many readings that are. triggers: of the period, by the ledger, which stays; 0 before reduced_ns.
    size_bytes: what the readings took of the server's disk, with indexes, when it was begun.
    """

    period: Period
    how: How
    begun_ns: int
    reduced_ns: int | None = None
    ended_ns: int | None = None
    stored: dict[int, int] = field(default_factory=dict)
    triggers: int = 0
    readings: int = 0
    size_bytes: int = 0


FIGURES = ("n", "mean", "m2", "least", "greatest")
"""What `reduced_dtype` has of every channel."""


@lru_cache
def reduced_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """Readings of one instrument within one bucket: start of the bucket, how many, and the FIGURES of each channel.

    n: values that are not NaN; the others are of these alone: mean, sum of the squared deviations from it (m2), least
    and greatest in the channel's own type. Without any, n and m2 are 0, and the others NaN.
    """
    fields: list[tuple[str, Any]] = [("time_ns", "<i8"), ("instrument", "<i4"), ("readings", "<i8")]
    for channel in group.channels:
        form = CHANNEL_DTYPES[channel.dtype]
        forms = ("<i8", "<f8", "<f8", form, form)
        fields.append((channel.name, np.dtype(list(zip(FIGURES, forms, strict=True)))))
    return np.dtype(fields)


STORED_BESIDE = 40
"""What a row of figures takes of a database beside its values, with its key, in bytes; about."""


def figure_bytes(group: InstrumentGroup) -> int:
    """What a row of figures takes of a database, about: of an instrument and a bucket."""
    return reduced_dtype(group).itemsize + STORED_BESIDE


def figures_bytes(account: Decimated, group: InstrumentGroup) -> int:
    """What the figures of a period take of a database, about: as if each bucket had all instruments."""
    if not isinstance(account.how, Bucket):
        return 0
    buckets = -(-(account.period.end_ns - account.period.start_ns) // account.how.ns)
    return min(account.readings, buckets * group.size) * figure_bytes(group)
