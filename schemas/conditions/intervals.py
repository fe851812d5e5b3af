"""Keys, intervals of keys, and what has them: payload lists, payload types, global tags.

A key is (major, minor), compared in this order; each is an integer of 0 to 2^63 - 1, such as run and trigger, or 0 and
a time in nanoseconds. An interval holds the keys start <= key < end. One whose end is END is open: nobody knows yet
until when it is valid.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from schemas.readings import Array

LARGEST = 2**63 - 1
NAME_MOST, URL_MOST = 255, 2_048
"""Characters that a name, an author or a checksum may have; and a URL."""
KEY_DTYPE = np.dtype([("major", "<i8"), ("minor", "<i8")])


class Key(NamedTuple):
    """A key; compared as a pair."""

    major: int
    minor: int


END = Key(LARGEST, LARGEST)
"""The end of an open interval. As a key it is behind everything: nothing is valid at it."""


class TagStatus(StrEnum):
    """What may be done to a global tag."""

    UNLOCKED = "unlocked"  # everything: an interval that is attached trims and splits its neighbours
    LOCKED = "locked"  # only what changes no answer for a key that had one, and a newer open interval at the end
    FROZEN = "frozen"  # nothing, for ever


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An interval and its payload.

    id: the number that the REST contract gives. Lists that share an interval, since a tag was cloned, have it under the
    same id; each may trim it in its own way.
    url: of the payload, relative to where the site keeps payloads.
    checksum: of the payload, in hexadecimal; may be empty.
    size: of the payload, in bytes; None where nobody said.
    list: name of the payload list that has it, of the one with the smallest id where several do; None if none has.
    inserted_ns: when it was stored, ns since 1970-01-01 UTC.
    """

    id: int
    url: str
    checksum: str
    size: int | None
    start: Key
    end: Key
    list: str | None
    inserted_ns: int


@dataclass(frozen=True, kw_only=True)
class NewInterval:
    """An interval that is to be stored; fields as of Interval."""

    url: str
    checksum: str = ""
    size: int | None = None
    start: Key
    end: Key = END


@dataclass(frozen=True, kw_only=True)
class PayloadType:
    """A kind of payload, such as `bpm_gain`."""

    id: int
    name: str
    created_ns: int


@dataclass(frozen=True, kw_only=True)
class PayloadList:
    """A list of intervals of one type; its name is TYPE_ID.

    tag: name of the global tag that has it, None if none has. intervals: how many it holds.
    """

    id: int
    name: str
    type: str
    tag: str | None
    created_ns: int
    intervals: int


@dataclass(frozen=True, kw_only=True)
class GlobalTag:
    """A global tag.

    revision: grows with every change of what the tag answers, its status included.
    lists, intervals: how many it has.
    """

    id: int
    name: str
    author: str
    status: TagStatus
    revision: int
    created_ns: int
    updated_ns: int
    lists: int
    intervals: int


@dataclass(frozen=True, kw_only=True)
class TagRevision:
    """What tells whether what is in memory of a tag is still true.

    updated_ns: when the tag became of this revision. In a database that was put back, or made again, other content may
    get the same id and the same revision.
    """

    id: int
    name: str
    status: TagStatus
    revision: int
    updated_ns: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Many intervals of one list, in columns of the same length n, in the order of their starts.

    ids: int64 (n), 0 where they are not stored yet. starts, ends: KEY_DTYPE (n).
    urls, checksums: object arrays of str (n). sizes: int64 (n), -1 where nobody said.
    inserted_ns: int64 (n), 0 where they are not stored yet.
    """

    ids: Array
    starts: Array
    ends: Array
    urls: Array
    checksums: Array
    sizes: Array
    inserted_ns: Array

    def __len__(self) -> int:
        return len(self.starts)

    def between(self, first: Key, last: Key) -> "Intervals":
        """Those that hold a key from `first` to `last`."""
        starts, ends = self.starts, self.ends
        is_over = (ends["major"] < first.major) | ((ends["major"] == first.major) & (ends["minor"] <= first.minor))
        is_later = (starts["major"] > last.major) | ((starts["major"] == last.major) & (starts["minor"] > last.minor))
        there = ~(is_over | is_later)
        return Intervals(**{each.name: getattr(self, each.name)[there] for each in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False)
class ListContent:
    """All that a tag has of one type: for who keeps a tag in memory."""

    list_id: int
    list_name: str
    type: str
    intervals: Intervals


@dataclass(frozen=True, kw_only=True)
class ValidAt:
    """What one type has at a key: `interval`, whose list is named."""

    type: str
    interval: Interval


def comb_iov(key: Key) -> str:
    """A key as the reference writes it: major + minor / 10^19, exactly, with 19 decimals."""
    return f"{key.major}.{key.minor:019d}"


def valid_at(intervals: Intervals, major: Array, minor: Array) -> Array:
    """The interval that is valid at each key.

    Args:
        intervals: of one list.
        major: int64, shape (n).
        minor: int64, shape (n).

    Returns:
        Positions in `intervals`, int64, shape (n); -1 where none is valid.
    """
    starts, ends = intervals.starts, intervals.ends
    # Pairs are compared as single numbers: their ranks among the majors and the minors of the starts.
    majors, minors = np.unique(starts["major"]), np.unique(starts["minor"])
    width = len(minors) + 1
    ranks = np.searchsorted(majors, starts["major"]) * width + np.searchsorted(minors, starts["minor"], "right")
    at = np.searchsorted(majors, major, "right") - 1
    has_major = (at >= 0) & (majors[at] == major) if len(majors) else np.zeros(len(at), bool)
    within = np.where(has_major, np.searchsorted(minors, minor, "right"), len(minors))
    found = np.searchsorted(ranks, at * width + within, "right") - 1
    begun = np.flatnonzero(found >= 0)
    end = ends[found[begun]]
    is_over = (major[begun] > end["major"]) | ((major[begun] == end["major"]) & (minor[begun] >= end["minor"]))
    found[begun[is_over]] = -1
    return found


def stretches(valid: Array) -> Iterator[tuple[int, Array]]:
    """Each interval that `valid_at` found, and where: its position, and the indices of its keys in ascending order."""
    order = np.argsort(valid, kind="stable")
    borders = np.flatnonzero(np.diff(valid[order])) + 1
    for where in np.split(order, borders) if len(order) else ():
        yield int(valid[where[0]]), where


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


FLAT = 8
"""Fields of a row that are looked at: type, url, checksum, size, start and end."""


def intervals_of_rows(rows: Sequence[Sequence[Any]]) -> Intervals:
    """Flat rows (type, url, checksum, size, major, minor, major_end, minor_end, ...) of one list as columns."""
    keys = np.array([row[4:FLAT] for row in rows], np.int64).reshape(-1, 4)
    return Intervals(
        ids=np.zeros(len(rows), np.int64),
        starts=_keys(keys[:, :2]),
        ends=_keys(keys[:, 2:]),
        urls=np.array([row[1] for row in rows], object),
        checksums=np.array([row[2] for row in rows], object),
        sizes=np.array([-1 if row[3] is None else row[3] for row in rows], np.int64),
        inserted_ns=np.zeros(len(rows), np.int64),
    )


def _keys(pairs: Array) -> Array:
    return np.ascontiguousarray(pairs).view(KEY_DTYPE)[:, 0]
