"""Questions of a client on mock DIA visits in one cycle: an object's light curve, or a cone of the sky."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from lsst.sphgeom import Angle, Circle, UnitVector3d

from backends.visits.base import VisitStore
from daemon.workloads.readers.questions import BackgroundRefresh
from daemon.workloads.visits.sphere import displaced, region_of, unit, within
from schemas.config.visits import VisitsConfig
from schemas.config.workloads import Workload, WorkloadKind
from schemas.readings import Array
from schemas.visits.records import POINTING_DTYPE, History, Region
from schemas.visits.tables import LAST_DTYPE

OLD_S = 10.0
"""When what is drawn from is looked for again."""
POINTINGS = 1000
"""Among the pointings of so many of the newest visits a position is drawn."""
OBJECTS = 100
"""Among at least so many objects one is drawn, where the field has them."""
FIRST_RADIUS_DEG = 0.1
"""Objects to draw from are looked for so far around a position, then twice as far, until there are enough."""
SLACK = 1e-7
"""Radians (20 milliarcseconds) by which a region is larger than what is asked for: rounding leaves nothing out."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What there is to draw from. Its length is 0 before the first visit.

    pointings: POINTING_DTYPE, the newest first; objects: at least the fields of LAST_DTYPE, empty for `cone`.
    since_visit, since_ns, before_visit: the history window.
    """

    pointings: Array
    objects: Array
    since_visit: int = 0
    since_ns: int = 0
    before_visit: int = 0

    def __len__(self) -> int:
        return len(self.pointings)


NOTHING = Seen(pointings=np.empty(0, POINTING_DTYPE), objects=np.empty(0, LAST_DTYPE))


class VisitQuestions:
    """The questions of one workload about visits: each client's next one, asked of one of some stores.

    Args:
        workload: of a kind that asks about visits.
        visits: how they are stored, and the history window.
        stores: each asks one question at a time; a client that finds none free waits.
        seed: of what is drawn at random; the same clients with the same seed draw the same numbers.
    """

    def __init__(self, workload: Workload, visits: VisitsConfig, stores: Sequence[VisitStore], seed: int) -> None:
        self._workload = workload
        self._visits = visits
        self._free: asyncio.Queue[VisitStore] = asyncio.Queue()
        for store in stores:
            self._free.put_nowait(store)
        self._random = [np.random.default_rng([seed, client]) for client in range(workload.clients)]
        self._looking = np.random.default_rng([seed, workload.clients])
        self._seen = BackgroundRefresh(self._look, NOTHING, OLD_S)
        self._ask = self._cone if workload.kind is WorkloadKind.CONE else self._light_curve

    async def ask(self, client: int) -> int:
        """Ask the next question of a client (a number from 0); return the rows of its answer, 0 when nothing is stored.

        Raises:
            StoreError: as the methods of `VisitStore`.
        """
        seen = await self._seen.now()
        return await self._ask(seen, self._random[client]) if len(seen) else 0

    async def _cone(self, seen: Seen, random: np.random.Generator) -> int:
        centre = self._position(seen.pointings, random)
        async with self._store() as store:
            return len(await self._objects(store, centre, math.radians(self._workload.radius_deg)))

    async def _light_curve(self, seen: Seen, random: np.random.Generator) -> int:
        if not len(seen.objects):
            return 0
        one = seen.objects[random.integers(len(seen.objects), size=1)]
        history = History(
            ids=np.ascontiguousarray(one["diaObjectId"]),
            region=self._region(unit(one["ra"], one["decl"])[0], 0.0),
            since_visit=seen.since_visit,
            since_ns=seen.since_ns,
            before_visit=seen.before_visit,
        )
        async with self._store() as store:
            return len(await store.sources(history)) + len(await store.forced_sources(history))

    async def _look(self) -> Seen:
        async with self._store() as store:
            pointings = await store.pointings(POINTINGS)
            if not len(pointings):
                return NOTHING
            if self._workload.kind is WorkloadKind.CONE:
                return Seen(pointings=pointings, objects=NOTHING.objects)
            newest, window_ns = pointings[0], self._visits.window_ns
            since_ns = 0 if window_ns is None else max(0, int(newest["time_ns"]) - window_ns)
            return Seen(
                pointings=pointings,
                objects=await self._some_objects(store, self._position(pointings, self._looking)),
                since_visit=await store.first_visit_since(since_ns) or 0,
                since_ns=since_ns,
                before_visit=int(newest["visit"]) + 1,
            )

    async def _some_objects(self, store: VisitStore, centre: Array) -> Array:
        """Objects around a position, about as many as it takes to draw one."""
        radius, most = math.radians(FIRST_RADIUS_DEG), 2 * self._visits.survey.field_radius
        while True:
            objects = await self._objects(store, centre, min(radius, most))
            if len(objects) >= OBJECTS or radius >= most:
                # A store answers in any order; what is drawn can be drawn again.
                return np.asarray(objects[np.argsort(objects["diaObjectId"])])
            radius *= 2

    async def _objects(self, store: VisitStore, centre: Array, radius: float) -> Array:
        """Last versions within a radius (in radians) of a position, none beyond."""
        objects = await store.objects(self._region(centre, radius))
        return np.asarray(objects[within(unit(objects["ra"], objects["decl"]), centre, radius)])

    def _position(self, pointings: Array, random: np.random.Generator) -> Array:
        """A random position in the field of a random visit: unit vector."""
        one = pointings[random.integers(len(pointings), size=1)]
        distance, around = random.random((2, 1))
        # The area of a field goes as the square of its chord.
        apart = 2 * np.arcsin(np.sqrt(distance) * math.sin(self._visits.survey.field_radius / 2))
        return np.asarray(displaced(unit(one["ra"], one["decl"])[0], apart, 2 * math.pi * around)[0])

    def _region(self, centre: Array, radius: float) -> Region:
        circle = Circle(UnitVector3d(*centre.tolist()), Angle(radius + SLACK))
        return region_of(circle, self._visits)

    @asynccontextmanager
    async def _store(self) -> AsyncIterator[VisitStore]:
        store = await self._free.get()
        try:
            await store.connect()
            yield store
        finally:
            self._free.put_nowait(store)
