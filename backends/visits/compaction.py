"""What compaction of packs has in common in all databases: how to go through a period, and what to make of it.

A visit reads the packs of its field's pixels, out of each period. As they are written they are small, of one visit
each, and lie between those of others in half-empty pages; those of a period that ended are written once more, in order
of pixels, each pixel's records together. Decision 0045 has the measurements.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from backends.visits.rows import by_pixel, newest_places, taken
from schemas.readings import Array
from schemas.visits.records import Packed
from schemas.visits.tables import DIA_FORCED_SOURCE, DIA_OBJECT_LAST, DIA_SOURCE, Table

COMPACTED = (DIA_OBJECT_LAST.name, DIA_SOURCE.name, DIA_FORCED_SOURCE.name)
"""The tables that visits read. DIAObject is only written."""
LARGE_BYTES = 4 * 1024
"""Larger packs, on average, gain less by compaction than it takes: DIASource at a fiftieth of the density has 5 kB."""
CHUNK_BYTES = 16 * 1024 * 1024
"""About so much is read and written at a time."""
LAST_TILE = -1
"""`tile` of a compacted pack, which no visit has; of a pixel's parts that of the last one, the one before has -2."""


class PixelPacks(NamedTuple):
    """What the packs of one pixel hold together."""

    pixel: int
    packs: int
    records: int


class Part(NamedTuple):
    """A compacted pack: `tile` tells the parts of one pixel apart. records: structured, packed."""

    pixel: int
    tile: int
    records: Array


def is_large(packed: Packed, table: Table) -> bool:
    """Whether packs are so large that compaction would gain nothing; none at all count as large.

    Those of DIAObjectLast never are: most of their records are not the newest of a period.
    """
    if packed.packs and table.name == DIA_OBJECT_LAST.name:
        return False
    return packed.records * table.dtype.itemsize >= packed.packs * LARGE_BYTES


async def worth_it(
    ended: Iterable[tuple[str, int]],
    tables: Mapping[str, Table],
    sample: Callable[[str, int], Awaitable[Packed]],
    note: Callable[[str, int], Awaitable[None]],
) -> list[tuple[str, int]]:
    """Tables and periods to compact, in order of time; the others are noted, never to be looked at again.

    ended: periods that ended, not noted yet. sample: some of the packs of one.
    """
    found = []
    for name, period in sorted(ended, key=lambda each: each[::-1]):
        if is_large(await sample(name, period), tables[name]):
            await note(name, period)
        else:
            found.append((name, period))
    return found


def chunks(found: list[PixelPacks], table: Table) -> Iterator[tuple[int, int]]:
    """First and last pixel of stretches of about CHUNK_BYTES each.

    found: ascending by pixel.
    """
    first, size = None, 0
    for place, each in enumerate(found):
        first = each.pixel if first is None else first
        size += each.records * table.dtype.itemsize
        if size >= CHUNK_BYTES or place == len(found) - 1:
            yield first, each.pixel
            first, size = None, 0


def parts(rows: Array, visits: Array, pixels: Array, table: Table, most_bytes: int) -> Iterator[Part]:
    """Make the compacted packs of what was read, ascending by pixel and tile; records stay in the order of visits.

    rows: `table.dtype`, shape (rows,); visits, pixels: int64, of each. most_bytes: of a pack; it holds one record at
    least.
    """
    if table.name == DIA_OBJECT_LAST.name:
        rows, visits, pixels = _newest(rows, visits, pixels)
    # `by_pixel` keeps the order that it finds.
    order = np.argsort(visits, kind="stable")
    most = max(1, most_bytes // table.dtype.itemsize)
    for pixel, records in by_pixel(taken(rows, order), pixels[order]):
        begins = range(0, len(records), most)
        for tile, at in enumerate(begins, LAST_TILE + 1 - len(begins)):
            yield Part(pixel, tile, records[at : at + most])


def _newest(rows: Array, visits: Array, pixels: Array) -> tuple[Array, Array, Array]:
    """Of each object the row of the highest visit: an object stays in its pixel."""
    places = newest_places(rows, visits)
    return taken(rows, places), visits[places], pixels[places]
