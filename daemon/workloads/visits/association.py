"""Association: what a visit's sources and what is known of the sky become, rows of the four tables.

The mock association matches by known id, as the paper's did. All of it follows from (seed, visit, tile) and from what
earlier visits left, and nothing from the order of an answer or from this visit's own rows: a visit that is done again
writes the very same rows.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from backends.visits.rows import taken
from daemon.workloads.visits.pixels import coarse, indexes
from daemon.workloads.visits.sky import Exposure
from daemon.workloads.visits.sphere import unit
from daemon.workloads.visits.tiles import Tile
from daemon.workloads.visits.values import filled
from schemas.readings import Array
from schemas.visits.survey import DAY_NS, FIRST_NEW_ID, Survey
from schemas.visits.tables import DIA_FORCED_SOURCE, DIA_OBJECT, DIA_SOURCE

TAI_BEHIND_UTC_S = 37
"""TAI is ahead of UTC by so much since 2017, in seconds."""
_MJD_OF_1970 = 40_587
CARRIED = ("diaObjectId", "lastNonForcedSource", "ra", "decl", "radecTai", "pixelId")
"""What a forced source leaves as it is: where an object is, and when it was detected."""


class _Drawn(IntEnum):
    """What is drawn at random for a visit: part of the seed."""

    SOURCES = 1
    OBJECTS = 2
    FORCED_OBJECTS = 3
    FORCED_SOURCES = 4


@dataclass(frozen=True, kw_only=True)
class Detections:
    """An exposure as image analysis hands it over: with the rows that its sources become.

    last_object_id, last_source_id: given away before this visit.
    sources: SOURCE_DTYPE; objects: OBJECT_DTYPE; pixels: int64, the coarse pixel of each; all of shape (sources,), by
    position in the exposure.
    """

    survey: Survey
    exposure: Exposure
    last_object_id: int
    last_source_id: int
    sources: Array
    objects: Array
    pixels: Array


@dataclass(frozen=True, kw_only=True)
class Associated:
    """What one tile of a visit writes: detected objects first, then the forced ones by id.

    places: int64: positions in the exposure of the tile's sources.
    objects: OBJECT_DTYPE; known: bool; forced: FORCED_DTYPE; all of shape (objects,).
    """

    places: Array
    objects: Array
    known: Array
    forced: Array


def mjd_tai(time_ns: int) -> float:
    """Modified Julian date, TAI."""
    return _MJD_OF_1970 + (time_ns + TAI_BEHIND_UTC_S * 10**9) / DAY_NS


def detections(
    survey: Survey, exposure: Exposure, *, last_object_id: int, last_source_id: int, pixel_level: int
) -> Detections:
    """Fill in the rows of an exposure's sources, and the new versions of their objects."""
    count, visit = len(exposure.ids), exposure.visit
    sources = filled(DIA_SOURCE, count, (survey.seed, visit, _Drawn.SOURCES))
    objects = filled(DIA_OBJECT, count, (survey.seed, visit, _Drawn.OBJECTS))
    tai = mjd_tai(exposure.time_ns)
    for rows in (sources, objects):
        rows["diaObjectId"] = exposure.ids
        rows["ra"], rows["decl"] = exposure.source_ra, exposure.source_decl
        rows["pixelId"] = exposure.pixel_ids
    sources["diaSourceId"] = last_source_id + 1 + np.arange(count)
    sources["ccdVisitId"] = visit
    sources["midPointTai"] = tai
    objects["validityStart"] = objects["lastNonForcedSource"] = exposure.time_ns
    objects["radecTai"] = tai
    return Detections(
        survey=survey,
        exposure=exposure,
        last_object_id=last_object_id,
        last_source_id=last_source_id,
        sources=sources,
        objects=objects,
        pixels=indexes(coarse(pixel_level), exposure.xyz),
    )


def known_in(tile: Tile, latest: Array, last_object_id: int) -> Array:
    """Trim last versions to those in a tile, known before this visit; ascending by diaObjectId.

    Objects that are new in this visit are there when it is done again, and must not count as known.

    latest: at least the fields of LAST_DTYPE, each object once.
    """
    ids = latest["diaObjectId"]
    earlier = (ids < FIRST_NEW_ID) | (ids <= last_object_id)
    here = latest[earlier & tile.contains(unit(latest["ra"], latest["decl"]))]
    return np.asarray(here[np.argsort(here["diaObjectId"], kind="stable")])


def associate(detected: Detections, tile: Tile, places: Array, known: Array) -> Associated:
    """Match a tile's sources with what is known there, and say what is written.

    Args:
        detected: the whole exposure.
        tile: which tile.
        places: int64: positions in the exposure of the tile's sources.
        known: as `known_in` returns it.

    """
    survey, exposure = detected.survey, detected.exposure
    objects = taken(detected.objects, places)
    rows, is_known = _found(known["diaObjectId"], objects["diaObjectId"])
    if survey.cutoff_since_first:
        # The clock starts with the first detection: it is never set again.
        objects["lastNonForcedSource"][is_known] = known["lastNonForcedSource"][rows[is_known]]
    forced = known[_undetected(detected, known)]
    seed = (survey.seed, exposure.visit, tile.number)
    versions = filled(DIA_OBJECT, len(forced), (*seed, _Drawn.FORCED_OBJECTS))
    for name in CARRIED:
        versions[name] = forced[name]
    versions["validityStart"] = exposure.time_ns
    written = _joined(objects, versions)
    return Associated(
        places=places,
        objects=written,
        known=np.concatenate([is_known, np.ones(len(forced), bool)]),
        forced=_forced_sources(written["diaObjectId"], exposure.visit, (*seed, _Drawn.FORCED_SOURCES)),
    )


def _undetected(detected: Detections, known: Array) -> Array:
    """Which objects get forced photometry though they were not detected: bool, shape (objects,)."""
    _, is_detected = _found(detected.exposure.ids, known["diaObjectId"])
    since = detected.exposure.time_ns - round(detected.survey.forced_cutoff_days * DAY_NS)
    return np.asarray(~is_detected & (known["lastNonForcedSource"] >= since))


def _forced_sources(ids: Array, visit: int, seed: tuple[int, ...]) -> Array:
    forced = filled(DIA_FORCED_SOURCE, len(ids), seed)
    forced["diaObjectId"] = ids
    forced["ccdVisitId"] = visit
    return forced


def _joined(one: Array, other: Array) -> Array:
    """Rows of both, packed, of one dtype; as plain bytes, for the reason that `taken` gives."""
    plain = f"V{one.itemsize}"
    return np.asarray(np.concatenate([one.view(plain), other.view(plain)]).view(one.dtype))


def _found(ascending: Array, wanted: Array) -> tuple[Array, Array]:
    """Where each wanted id is in ids that ascend, and whether it is there at all."""
    if not len(ascending):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places, np.asarray(ascending[places] == wanted)
