"""Segments: documents that hold some of a list's breakpoints, and are never changed; and directories of them.

A segment has numbers in one binary field and the texts of each kind in another, since FerretDB describes each element
of an array once more. A directory has an entry a segment, in the order of the keys.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from bson import ObjectId

from schemas.conditions.intervals import END, KEY_DTYPE, Intervals, Key
from schemas.conditions.line import Point, texts
from schemas.readings import Array

Document = dict[str, Any]

MOST_POINTS = 256
"""Of a segment. What is valid at a key costs a segment a list, a change one or two; a directory grows as this falls."""
NUMBERS = np.dtype(
    [("major", "<i8"), ("minor", "<i8"), ("id", "<i8"), ("size", "<i8"), ("inserted_ns", "<i8")], align=False
)
"""Of a breakpoint: `id` is 0 at a gap, `size` -1 where nobody said."""
ENTRY = np.dtype(
    [
        *(("major", "<i8"), ("minor", "<i8")),  # of the first breakpoint
        *(("least_id", "<i8"), ("greatest_id", "<i8")),  # of the intervals; 0 where it has gaps alone
        ("points", "<i4"),
        ("segment", "V12"),  # its `_id`
    ]
)
SEPARATOR = "\0"
"""Between texts; no text has it (`schemas.conditions.rules`)."""


class Segment:
    """Breakpoints that were read; texts are taken apart when they are asked for."""

    def __init__(self, document: Document) -> None:
        self.numbers: Array = np.frombuffer(document["numbers"], NUMBERS)
        self._document = document

    @property
    def urls(self) -> list[str]:
        """URL of each breakpoint."""
        return self._texts("urls")

    @property
    def checksums(self) -> list[str]:
        """Checksum of each breakpoint."""
        return self._texts("checksums")

    def points(self) -> list[Point]:
        """All breakpoints."""
        return [
            _point(numbers, url, checksum)
            for numbers, url, checksum in zip(self.numbers.tolist(), self.urls, self.checksums, strict=True)
        ]

    def point(self, position: int) -> Point:
        """One breakpoint."""
        return _point(self.numbers[position].tolist(), self.urls[position], self.checksums[position])

    def key(self, position: int) -> Key:
        """Key of a breakpoint."""
        return key_at(self.numbers, position)

    def _texts(self, name: str) -> list[str]:
        return bytes(self._document[name]).decode().split(SEPARATOR)


def segment_of(points: Sequence[Point]) -> Document:
    """Make a segment of at least one breakpoint."""
    numbers = np.array(
        [(*point.key, point.id or 0, -1 if point.size is None else point.size, point.inserted_ns) for point in points],
        NUMBERS,
    )
    return {
        "_id": ObjectId(),
        "numbers": numbers.tobytes(),
        "urls": SEPARATOR.join(point.url for point in points).encode(),
        "checksums": SEPARATOR.join(point.checksum for point in points).encode(),
    }


def segments_of(points: Sequence[Point], *, is_end: bool) -> list[Document]:
    """Divide breakpoints into segments.

    is_end: they are the last ones of their list, which grows there most: all segments but the last one are full then.
    """
    count = -(-len(points) // MOST_POINTS)
    size = MOST_POINTS if is_end else -(-len(points) // max(1, count))
    return [segment_of(points[first : first + size]) for first in range(0, len(points), max(1, size))]


def directory_of(segments: Sequence[Document]) -> Array:
    """Make the entries of segments."""
    entries = np.zeros(len(segments), ENTRY)
    for entry, document in zip(entries, segments, strict=True):
        numbers = np.frombuffer(document["numbers"], NUMBERS)
        ids = numbers["id"][numbers["id"] > 0]
        entry["major"], entry["minor"], entry["points"] = numbers["major"][0], numbers["minor"][0], len(numbers)
        entry["least_id"], entry["greatest_id"] = ids.min(initial=2**63 - 1) if len(ids) else 0, ids.max(initial=0)
        entry["segment"] = np.void(document["_id"].binary)
    return entries


def ids_in(directory: Array) -> list[ObjectId]:
    """`_id`s of the segments of a directory."""
    return [ObjectId(bytes(each)) for each in directory["segment"].tolist()]


def position(keys: Array, key: Key, side: str) -> int:
    """Where a key belongs among sorted ones, as `numpy.searchsorted`; keys: with fields `major` and `minor`."""
    majors = keys["major"]
    first, after = (int(np.searchsorted(majors, key.major, which)) for which in ("left", "right"))
    return first + int(np.searchsorted(keys["minor"][first:after], key.minor, side))  # type: ignore[call-overload]


def key_at(keys: Array, at: int) -> Key:
    """One of an array's keys; END behind the last one."""
    return Key(int(keys["major"][at]), int(keys["minor"][at])) if at < len(keys) else END


def joined(segments: Iterable[Segment], end: Key = END) -> Intervals:
    """All intervals of segments of a list that follow each other; end: where the breakpoint behind them is."""
    every = list(segments)
    numbers = np.concatenate([np.empty(0, NUMBERS), *(each.numbers for each in every)])
    starts = np.empty(len(numbers) + 1, KEY_DTYPE)
    starts["major"][:-1], starts["minor"][:-1] = numbers["major"], numbers["minor"]
    starts[-1] = tuple(end)
    has_payload = numbers["id"] > 0
    return Intervals(
        ids=numbers["id"][has_payload],
        starts=starts[:-1][has_payload],
        ends=starts[1:][has_payload],
        urls=texts([url for each in every for url in each.urls])[has_payload],
        checksums=texts([checksum for each in every for checksum in each.checksums])[has_payload],
        sizes=numbers["size"][has_payload],
        inserted_ns=numbers["inserted_ns"][has_payload],
    )


def _point(numbers: tuple[int, int, int, int, int], url: str, checksum: str) -> Point:
    major, minor, id_, size, inserted_ns = numbers
    return Point(
        key=Key(major, minor),
        id=id_ or None,
        url=url,
        checksum=checksum,
        size=None if size == -1 else size,
        inserted_ns=inserted_ns,
    )
