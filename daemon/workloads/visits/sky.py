"""The sky that the telescope looks at, and what an exposure of it finds: all from the survey's seed.

Variable objects lie uniformly on a cap around the south pole. There are 21 million of them at scale 1, so they are
drawn cell by cell, when a field first touches the cell: how many are in each cell is drawn at once, and from that
follow their ids. What is drawn depends on the survey and the number of the visit or cell alone, never on what was drawn
before.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from daemon.workloads.visits.settings import time_of
from daemon.workloads.visits.sphere import degrees, displaced, htm, indexes, unit, within
from schemas.readings import Array
from schemas.visits.survey import FIRST_NEW_ID, Survey

_COUNTS, _CELL, _POINTING, _SOURCES = range(4)
"""Streams of random numbers: they begin at [seed, stream, number of the cell or visit]."""
MOST_CELLS = 20_000
MOST_KEPT = 1_000_000
"""Variables that are kept once drawn, about: 40 MB."""
SOUTH_POLE = np.array([0.0, 0.0, -1.0])


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """What one visit finds. Sources are in the order of their ids: variables, transients, false detections.

    time_ns: when. pointing: unit vector, float64 (3,); ra, decl: the same in degrees.
    ids: of the object of each source, int64 (n,). source_ra, source_decl: degrees, float64 (n,); xyz: exactly `unit`
    of them, float64 (n, 3). pixel_ids: int64 (n,), HTM level 20. variable: bool (n,), false for what is seen only once.
    last_object_id: the highest id given to an object so far, 0 if none.
    """

    visit: int
    time_ns: int
    pointing: Array
    ra: float
    decl: float
    ids: Array
    source_ra: Array
    source_decl: Array
    xyz: Array
    pixel_ids: Array
    variable: Array
    last_object_id: int


@dataclass(frozen=True)
class Places:
    """Places of sources: degrees, and unit vectors, a row each."""

    ra: Array
    decl: Array
    xyz: Array

    @classmethod
    def of(cls, xyz: Array) -> "Places":
        """Take places from vectors: what degrees they have is where they are."""
        ra, decl = degrees(xyz)
        return cls(ra, decl, unit(ra, decl))

    @classmethod
    def joined(cls, parts: "list[Places]") -> "Places":
        """Put places one after another."""
        ra, decl = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ra", "decl"))
        return cls(ra, decl, np.concatenate([part.xyz for part in parts]))


class Sky:
    """The sky of a survey."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self._cells = _Cells(survey)

    def pointing(self, visit: int) -> Array:
        """Where the telescope points: unit vector, uniform on the survey's cap of the sky."""
        distance, around = self._random(_POINTING, visit).random(2)
        # The area of a cap goes as the square of its chord.
        colatitude = 2 * np.arcsin(np.sqrt(distance * self.survey.scale / 2))
        return displaced(SOUTH_POLE, np.array([colatitude]), np.array([2 * math.pi * around])).reshape(3)

    def exposure(self, visit: int, last_object_id: int) -> Exposure:
        """Take the exposure of a visit; the same visit and id give the same, whatever was taken before.

        last_object_id: highest id that was given away so far; new objects get those after it, 1e9 + 1 at least.
        """
        pointing = self.pointing(visit)
        ids, variables = self.variables(pointing)
        once = self._once(visit, pointing)
        first = max(FIRST_NEW_ID, last_object_id + 1)
        places = Places.joined([variables, once])
        ra, decl = degrees(pointing)
        new_ids = np.arange(first, first + len(once.ra))
        return Exposure(
            visit=visit,
            time_ns=time_of(self.survey, visit),
            pointing=pointing,
            ra=float(ra),
            decl=float(decl),
            ids=np.concatenate([ids, new_ids]),
            source_ra=places.ra,
            source_decl=places.decl,
            xyz=places.xyz,
            pixel_ids=indexes(htm, places.xyz),
            variable=np.arange(len(places.ra)) < len(ids),
            last_object_id=first + len(once.ra) - 1 if len(once.ra) else last_object_id,
        )

    def variables(self, pointing: Array) -> tuple[Array, Places]:
        """Variables of a field: their ids, ascending, and their places."""
        ids, places = self._cells.near(pointing, self.survey.field_radius)
        inside = within(places.xyz, pointing, self.survey.field_radius)
        return ids[inside], Places(places.ra[inside], places.decl[inside], places.xyz[inside])

    def _once(self, visit: int, pointing: Array) -> Places:
        """What is seen only once: transients, then false detections, uniform in the field."""
        survey, random = self.survey, self._random(_SOURCES, visit)
        count = int(random.poisson(survey.transients * survey.scale)) + int(
            random.poisson(survey.false_detections * survey.scale)
        )
        distance, around = random.random((2, count))
        apart = 2 * np.arcsin(np.sqrt(distance) * math.sin(survey.field_radius / 2))
        return Places.of(displaced(pointing, apart, 2 * math.pi * around))

    def _random(self, stream: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.survey.seed, stream, number])


class _Cells:
    """Variables by cell: rings around the south pole, each divided into cells that are about a field radius across."""

    def __init__(self, survey: Survey) -> None:
        self._seed = survey.seed
        rim = survey.rim_radius
        side = max(survey.field_radius, math.sqrt(2 * math.pi * (1 - math.cos(rim)) / MOST_CELLS))
        rings = math.ceil(rim / side)
        self._edges = np.linspace(0.0, rim, rings + 1)
        middle = (self._edges[1:] + self._edges[:-1]) / 2
        self._sectors = np.maximum(1, np.ceil(2 * math.pi * np.sin(middle) / side)).astype(np.int64)
        self._first = np.concatenate([[0], np.cumsum(self._sectors)])
        areas = np.diff(-np.cos(self._edges)) / self._sectors
        shares = np.repeat(areas, self._sectors)
        random = np.random.default_rng([survey.seed, _COUNTS, 0])
        counts = random.multinomial(survey.variables_in_all, shares / shares.sum())
        self._offsets = np.concatenate([[0], np.cumsum(counts)])
        kept = MOST_KEPT * len(shares) // max(1, survey.variables_in_all)
        self._drawn = lru_cache(max(64, kept))(self._draw)

    def near(self, pointing: Array, radius: float) -> tuple[Array, Places]:
        """Variables of the cells that a field touches, with their ids, ascending."""
        cells = self._touched(pointing, radius * (1 + 1e-6))
        ids = [np.arange(self._offsets[cell], self._offsets[cell + 1]) for _, cell in cells]
        return np.concatenate(ids), Places.joined([self._drawn(ring, cell) for ring, cell in cells])

    def _touched(self, pointing: Array, radius: float) -> list[tuple[int, int]]:
        """Cells by ring and number, ascending, that have a part of a circle; some have none of it."""
        colatitude = math.atan2(math.hypot(pointing[0], pointing[1]), -pointing[2])
        longitude = math.atan2(pointing[1], pointing[0])
        span = np.searchsorted(self._edges, [colatitude - radius, colatitude + radius], side="right") - 1
        sideways = math.sin(radius) / math.sin(colatitude) if radius < colatitude < math.pi - radius else 1.0
        half = math.asin(sideways) if sideways < 1 else math.pi
        return [
            (ring, int(self._first[ring]) + sector)
            for ring in range(max(0, int(span[0])), min(len(self._sectors) - 1, int(span[1])) + 1)
            for sector in _sectors(longitude, half, int(self._sectors[ring]))
        ]

    def _draw(self, ring: int, cell: int) -> Places:
        random = np.random.default_rng([self._seed, _CELL, cell])
        count = int(self._offsets[cell + 1] - self._offsets[cell])
        height, along = random.random((2, count))
        # Uniform in area: by the square of the sine of half the distance from the pole.
        low, high = np.sin(self._edges[ring : ring + 2] / 2) ** 2
        colatitude = 2 * np.arcsin(np.sqrt(low + height * (high - low)))
        longitude = (cell - self._first[ring] + along) * (360.0 / self._sectors[ring])
        ra, decl = longitude, np.degrees(colatitude) - 90.0
        return Places(ra, decl, unit(ra, decl))


def _sectors(longitude: float, half: float, sectors: int) -> list[int]:
    """Sectors of a ring that have a part of a stretch of longitude, ascending."""
    width = 2 * math.pi / sectors
    first, last = math.floor((longitude - half) / width), math.floor((longitude + half) / width)
    return list(range(sectors)) if last - first >= sectors - 1 else sorted(i % sectors for i in range(first, last + 1))
