"""Keys, intervals of keys, and what has them: payload lists, payload types, global tags.

A key is (major, minor), compared in this order; each is an integer of 0 to 2^63 - 1, such as run and trigger, or 0 and
a time in nanoseconds. An interval holds the keys start <= key < end. One whose end is END is open: nobody knows yet
until when it is valid.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

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
