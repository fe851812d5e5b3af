"""Where two lists of the same type have different payloads."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schemas.conditions.intervals import END, KEY_DTYPE, Intervals, Key
from schemas.conditions.stretches import valid_at
from schemas.readings import Array

SEPARATOR = "\x1f"
"""It is in no checksum."""


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What an interval names."""

    url: str
    checksum: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """From `start` to before `end` one list has the payload `left`, the other one `right`; None is nothing."""

    start: Key
    end: Key
    left: Payload | None
    right: Payload | None


def differences(left: Intervals, right: Intervals) -> Iterator[Difference]:
    """The stretches in which the payloads differ, by URL or checksum, in order; each as long as it can be."""
    borders = np.unique(np.concatenate([left.starts, left.ends, right.starts, right.ends]))
    borders = borders[borders != np.array(tuple(END), KEY_DTYPE)]
    mine, other = _payloads(left, borders), _payloads(right, borders)
    changes = np.flatnonzero(np.append(True, (mine[1:] != mine[:-1]) | (other[1:] != other[:-1]))[: len(borders)])
    keys = [*(Key(*border) for border in borders[changes].tolist()), END]
    for k, position in enumerate(changes):
        if mine[position] != other[position]:
            left_one, right_one = _payload(mine[position]), _payload(other[position])
            yield Difference(start=keys[k], end=keys[k + 1], left=left_one, right=right_one)


def _payloads(intervals: Intervals, keys: Array) -> Array:
    """The payload at each key as one text, "" where there is none: object, shape (n)."""
    known = np.append(intervals.urls + SEPARATOR + intervals.checksums, "")
    return known[valid_at(intervals, keys["major"], keys["minor"])]  # the last one is of -1, where none is valid


def _payload(text: str) -> Payload | None:
    url, separator, checksum = text.rpartition(SEPARATOR)
    return Payload(url=url, checksum=checksum) if separator else None
