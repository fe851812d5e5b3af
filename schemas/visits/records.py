"""What the pipeline and a visit store hand each other: arrays, a row an element."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.readings import Array
from schemas.visits.tables import Step

POINTING_DTYPE = np.dtype([("visit", "<i8"), ("time_ns", "<i8"), ("ra", "<f8"), ("decl", "<f8")])
"""Where a visit looked, in degrees, and when, in ns since 1970-01-01 UTC of the survey's time."""


@dataclass(frozen=True, kw_only=True)
class VisitRecord:
    """A visit that is done, as the table `Visits` keeps it: where the next one goes on.

    last_object_id, last_source_id: the highest that were given away so far.
    """

    visit: int
    time_ns: int
    ra: float
    decl: float
    last_object_id: int
    last_source_id: int


@dataclass(frozen=True, kw_only=True)
class Region:
    """What is asked for of the sky. It covers more than the tile or circle it is for: trim the answer.

    ranges: int64, shape (ranges, 2): HTM level-20 indexes, begin <= pixelId < end, ascending, disjoint; what the
    paper's index modes ask by.
    pixels: int64, shape (pixels,): coarse pixels that touch it, ascending; what `partitioned` asks by.
    """

    ranges: Array
    pixels: Array


@dataclass(frozen=True, kw_only=True)
class History:
    """Whose history is asked for. since_visit: of that visit and later ones.

    ids: int64, shape (objects,): ascending, each once. region: they all lie in it. before_visit: and of earlier ones
    than that: a visit that is done again must not read what it wrote.
    since_ns: time of `since_visit`; periods that end before it have nothing of it.
    """

    ids: Array
    region: Region
    since_visit: int
    since_ns: int
    before_visit: int


@dataclass(frozen=True, kw_only=True)
class TileWrite:
    """What one tile of a visit writes; one transaction commits all of `steps`, with the mark that they are done.

    tile: what tells it from the visit's other tiles, at least 0.
    objects: OBJECT_DTYPE, shape (objects,): new versions, detected and forced ones.
    detected: bool, shape (objects,): those that were detected in this visit.
    known: bool, shape (objects,): those that had a version before.
    object_pixels: int64, shape (objects,): coarse pixel of each; that of its forced source, too.
    sources: SOURCE_DTYPE, shape (sources,); source_pixels: int64, coarse pixel of each.
    forced: FORCED_DTYPE, shape (objects,): of the object at the same place.
    """

    visit: int
    time_ns: int
    tile: int
    steps: tuple[Step, ...]
    objects: Array
    detected: Array
    known: Array
    object_pixels: Array
    sources: Array
    source_pixels: Array
    forced: Array


@dataclass(frozen=True, kw_only=True)
class Packed:
    """How many packs hold how many records."""

    packs: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What compaction made of a table's packs of one period: of DIAObjectLast it keeps the newest of each object."""

    before: Packed
    after: Packed


Seconds = Mapping[str, float]
"""By names of `schemas.api.visits.TIMES`."""
