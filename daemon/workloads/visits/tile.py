"""One tile of a visit, in the paper's order: select objects, associate, select history, store; each of them timed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from time import perf_counter

import numpy as np

from backends.base import StoreError
from backends.visits.base import StatementTooLong, VisitStore
from backends.visits.rows import taken
from daemon.workloads.visits.sky import Exposure
from daemon.workloads.visits.sphere import Tile, coarse, indexes, region_of, unit
from schemas.api.visits import TileMeasure
from schemas.config.visits import MOST_TILES, Transactions, VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.survey import DAY_NS, FIRST_NEW_ID, Survey
from schemas.visits.tables import DIA_FORCED_SOURCE, DIA_OBJECT, DIA_SOURCE, Column, Step, Table

# --- values of columns -----------------------------------------------------------------------------------------------
# Of plausible size, and as little compressible as real ones. A row is a row of 32-bit words. Its bits are drawn at
# random, and then those that say how large a number is are set to what its column has: floats lie between one power of
# two and the next. So it costs a fraction of a microsecond a row.

_SIZES: tuple[tuple[tuple[str, ...], tuple[str, ...], int, bool], ...] = (
    # beginnings, endings, a power of two that is the least magnitude, either sign
    ((), ("_Cov",), -30, True),
    ((), ("raSigma", "declSigma", "RaSigma", "DeclSigma"), -17, False),  # degrees: 0.03 seconds of arc
    (("ps", "trail", "dip"), ("Ra",), 7, False),  # degrees
    (("pmRa", "pmDecl", "parallax"), ("pmRa", "pmDecl", "parallax"), 3, True),  # milliseconds of arc
    ((), ("LnL", "LnP"), 4, True),
    ((), ("Chi2",), 5, False),
    (("x", "y"), ("x", "y"), 11, False),  # pixels
    (("extendedness", "spuriousness"), (), -2, False),
    (("ixx", "iyy", "ixy"), (), 1, False),  # pixels squared
    ((), ("Sigma", "Err"), 4, False),
    ((), ("Flux", "FluxMean", "FluxDiff", "fpBkgd"), 10, True),  # nJy
    ((), ("snr",), 3, False),
)
_OTHERWISE = (2, False)
_COUNT = np.int64(0xFF)
"""Counts of data points are below 256."""
_ID = np.int64(0xFFFF_FFFF)
"""Ids of objects near by are below 2^32."""


def filled(table: Table, count: int, seed: tuple[int, ...]) -> Array:
    """Rows of a table: its filled columns set at random, the others 0.

    Args:
        table: of schemas.visits.tables.
        count: rows.
        seed: non-negative integers; the same ones give the same rows.

    Returns:
        `table.dtype`, shape (count,).

    """
    random, fixed = _words(table)
    size = count * len(random)
    # The fastest generator of numpy, and whole words of it: twice as fast as uint32 of the default one.
    words = np.random.SFC64(seed).random_raw((size + 1) // 2).view(np.uint32)[:size].reshape(count, len(random))
    words &= random
    words |= fixed
    return words.view(table.dtype).reshape(count)


@lru_cache
def _words(table: Table) -> tuple[Array, Array]:
    """Of a row as uint32 words: which bits are random, and which are set."""
    random, fixed = np.zeros(1, table.dtype), np.zeros(1, table.dtype)
    for column in table.columns:
        if column.filled:
            kind = np.dtype(column.dtype)
            bits, value = _bits(column, kind)
            whole = np.dtype(f"<i{kind.itemsize}")
            random[column.name] = bits.astype(whole).view(kind)
            fixed[column.name] = value
    return random.view(np.uint32), fixed.view(np.uint32)


def _bits(column: Column, kind: np.dtype[np.generic]) -> tuple[Array, Array]:
    """Of one column: the bits that are random as an integer, and a value that the others are set to."""
    if kind.kind == "i":
        return np.array([_COUNT if kind.itemsize == 4 else _ID]), np.zeros(1, kind)
    power, signed = _size(column.name)
    mantissa, sign = (2**23 - 1, 2**31) if kind.itemsize == 4 else (2**52 - 1, 2**63)
    bits = np.array([mantissa | (sign if signed else 0)], np.uint64)
    value = -(2.0**5) if column.name.endswith("Decl") and kind.itemsize == 8 else 2.0**power
    return bits, np.array([value], kind)


def _size(name: str) -> tuple[int, bool]:
    for beginnings, endings, power, signed in _SIZES:
        if name.startswith(beginnings or "") and name.endswith(endings or ""):
            return power, signed
    return _OTHERWISE


# --- association -----------------------------------------------------------------------------------------------------
# Rows of the four tables from a visit's sources and from what is known of the sky. The mock association matches by
# known id, as the paper's did. All of it follows from (seed, visit, tile) and from what earlier visits left, and
# nothing from the order of an answer or from this visit's own rows: a visit that is done again writes the very same
# rows.

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


# --- a tile ----------------------------------------------------------------------------------------------------------

TILINGS = MOST_TILES * MOST_TILES
"""Numbers of tiles are below this."""


def key_of(tiles: int, number: int) -> int:
    """What a store knows a tile by: its number, and into how many tiles a side the field was divided.

    So a visit that was cut short cannot go on with other tiles, whose numbers mean other places.
    """
    return tiles * TILINGS + number


@dataclass(frozen=True, kw_only=True)
class Past:
    """What a visit reads of the past, and what an earlier try of it has committed.

    since_visit, since_ns: first visit of the history that is read, and its time. done: (key of the tile, step).
    """

    since_visit: int
    since_ns: int
    done: frozenset[tuple[int, Step]]

    def tilings(self) -> set[int]:
        """Into how many tiles a side the field was divided when `done` was committed."""
        return {key // TILINGS for key, _ in self.done}

    def missing(self, tile: int) -> tuple[Step, ...]:
        """Steps of a tile, by its key, that are to be written yet."""
        return tuple(step for step in Step if (tile, step) not in self.done)


@contextmanager
def step_of(visit: int, step: str, tile: int | None = None) -> Iterator[None]:
    """Say which step of a visit took too long, also where the message has to pass through a pipe.

    Raises:
        StoreError: in place of StatementTooLong.
    """
    try:
        yield
    except StatementTooLong as error:
        where = f"visit {visit}" if tile is None else f"tile {tile} of visit {visit}"
        raise StoreError(
            f"visits.statement_timeout_s: `{step}` of {where} took longer than {error.limit_s:g} s and was given up,"
            " while the server answers; set it to more, or take an `index_mode` or a `history_days` that reads less"
        ) from error


class TileWork:
    """Does the tiles of a visit over one store."""

    def __init__(self, store: VisitStore, visits: VisitsConfig, detected: Detections, past: Past) -> None:
        self._store = store
        self._visits = visits
        self._detected = detected
        self._past = past

    async def do(self, tile: Tile) -> TileMeasure:
        """Do one tile: read, associate, write what is missing.

        Raises:
            StoreError: as the store's methods.
        """
        began = perf_counter()
        exposure, visits = self._detected.exposure, self._visits
        places = np.flatnonzero(tile.contains(exposure.xyz))
        region = region_of(tile.region, visits)
        asked = perf_counter()
        with self._step("select objects", tile):
            latest = await self._store.objects(region)
        select_object_s = perf_counter() - asked
        known = known_in(tile, latest, self._detected.last_object_id)
        associated = associate(self._detected, tile, places, known)
        history = self._history(known["diaObjectId"], region)
        asked = perf_counter()
        with self._step("select sources", tile):
            sources_read = len(await self._store.sources(history)) if len(known) else 0
        between = perf_counter()
        with self._step("select forced sources", tile):
            forced_read = len(await self._store.forced_sources(history)) if len(known) else 0
        select_forced_s = perf_counter() - between
        stored = await self._store_all(tile, associated)
        return TileMeasure(
            visit=exposure.visit,
            tile=tile.number,
            select_object_s=select_object_s,
            select_source_s=between - asked,
            select_forced_s=select_forced_s,
            **stored,
            tile_s=perf_counter() - began,
            objects_read=len(known),
            sources_read=sources_read,
            forced_read=forced_read,
            objects=len(associated.objects),
            sources=len(places),
            forced=len(associated.forced),
        )

    def _step(self, step: str, tile: Tile) -> AbstractContextManager[None]:
        return step_of(self._detected.exposure.visit, step, tile.number)

    def _history(self, ids: Array, region: Region) -> History:
        return History(
            ids=np.ascontiguousarray(ids),
            region=region,
            since_visit=self._past.since_visit,
            since_ns=self._past.since_ns,
            before_visit=self._detected.exposure.visit,
        )

    async def _store_all(self, tile: Tile, associated: Associated) -> dict[str, float]:
        """Write the missing steps in one transaction or in three; seconds by name."""
        missing = self._past.missing(key_of(self._visits.tiles, tile.number))
        if not missing or not len(associated.objects):
            return {}
        write = self._write(tile, associated, missing)
        together = self._visits.transactions is Transactions.ONE
        seconds: dict[str, float] = {}
        for part in [write] if together else [replace(write, steps=(step,)) for step in missing]:
            with self._step(f"store {', '.join(part.steps)}", tile):
                written = await self._store.write(part)
            for name, part_s in written.items():
                seconds[name] = seconds.get(name, 0.0) + part_s
        return seconds

    def _write(self, tile: Tile, associated: Associated, steps: tuple[Step, ...]) -> TileWrite:
        detected, places, objects = self._detected, associated.places, associated.objects
        forced = objects[len(places) :]
        forced_pixels = indexes(coarse(self._visits.pixel_level), unit(forced["ra"], forced["decl"]))
        return TileWrite(
            visit=detected.exposure.visit,
            time_ns=detected.exposure.time_ns,
            tile=key_of(self._visits.tiles, tile.number),
            steps=steps,
            objects=objects,
            detected=np.arange(len(objects)) < len(places),
            known=associated.known,
            object_pixels=np.concatenate([detected.pixels[places], forced_pixels]),
            sources=taken(detected.sources, places),
            source_pixels=detected.pixels[places],
            forced=associated.forced,
        )
