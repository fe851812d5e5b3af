"""Small visits for tests of stores: made-up rows of a made-up sky, some hundred of them, the same each time."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from backends.visits.base import VisitStore
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite, VisitRecord
from schemas.visits.survey import Survey
from schemas.visits.tables import FORCED_DTYPE, OBJECT_DTYPE, SOURCE_DTYPE, IndexMode, Step

DAY_NS = 86_400_000_000_000
BEGAN_NS = 18_000 * DAY_NS
PERIOD_DAYS = 2
TILES = 2
PIXELS = 6
PIXEL_BITS = 40
VARIABLES = 12
NEW = 3
STEPS = tuple(Step)


def visits_config(schema: str, mode: dict[str, str], **settings: object) -> VisitsConfig:
    """The configuration of an index mode: visits are a day apart, a period has two days."""
    fields = {"schema": schema, "period_days": PERIOD_DAYS, **mode, **settings}
    return VisitsConfig.model_validate({"survey": Survey(seed=3), **fields})


def time_of(visit: int) -> int:
    return BEGAN_NS + visit * DAY_NS


def coarse_pixel(ids: Array) -> Array:
    """Which coarse pixel an object is in: one that no other tile has."""
    return np.asarray(1_000 + ids % PIXELS)


def region_of(pixels: Iterable[int]) -> Region:
    """Just these coarse pixels; HTM indexes begin with the number of theirs."""
    wanted = np.array(sorted(pixels), np.int64)
    ranges = np.stack([wanted << PIXEL_BITS, (wanted + 1) << PIXEL_BITS], axis=1)
    return Region(ranges=ranges.reshape(-1, 2), pixels=wanted)


EVERYWHERE = region_of(range(1_000, 1_000 + PIXELS))


def history_of(ids: Sequence[int], since: int, before: int) -> History:
    wanted = np.unique(np.array(ids, np.int64))
    region = region_of(np.unique(coarse_pixel(wanted)).tolist())
    return History(ids=wanted, region=region, since_visit=since, since_ns=time_of(since), before_visit=before)


def filled(rng: np.random.Generator, dtype: np.dtype, rows: int) -> Array:
    """Rows with numbers of every kind: negative ones, fractions, and NaN."""
    answer = np.empty(rows, dtype)
    for name in dtype.names:
        if dtype[name].kind == "f":
            answer[name] = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(0, 1e3, rows))
        else:
            answer[name] = rng.integers(-(2**31), 2**31, rows)
    return answer


def tile_write(visit: int, tile: int, steps: tuple[Step, ...] = STEPS, *, known_until: int = VARIABLES) -> TileWrite:
    """What one tile writes: variables that were detected or not, and new objects of each visit.

    known_until: variables with ids below were seen in visits before.
    """
    rng = np.random.default_rng([visit, tile])
    variables = np.arange(tile, VARIABLES, TILES)
    first_new = 1_000_000_000 + TILES * NEW * visit
    ids = np.concatenate([variables, first_new + tile + TILES * np.arange(NEW)])
    detected = rng.random(len(ids)) < 0.7
    detected[-NEW:] = True
    known = (ids < known_until) & (visit > 0)
    # An object that was not detected before is none; order is as a pipeline has it, not that of ids.
    kept = rng.permutation(np.flatnonzero(detected | known))
    ids, detected, known = ids[kept], detected[kept], known[kept]
    pixels = coarse_pixel(ids)
    objects = filled(rng, OBJECT_DTYPE, len(ids))
    objects["diaObjectId"], objects["validityStart"] = ids, time_of(visit)
    objects["pixelId"] = (pixels << PIXEL_BITS) + ids % 2**30
    sources = filled(rng, SOURCE_DTYPE, int(detected.sum()))
    sources["diaSourceId"] = (visit * TILES + tile) * 10_000 + np.arange(len(sources))
    sources["diaObjectId"], sources["ccdVisitId"] = ids[detected], visit
    sources["pixelId"] = objects["pixelId"][detected]
    forced = filled(rng, FORCED_DTYPE, len(ids))
    forced["diaObjectId"], forced["ccdVisitId"] = ids, visit
    return TileWrite(
        visit=visit,
        time_ns=time_of(visit),
        tile=tile,
        steps=steps,
        objects=objects,
        detected=detected,
        known=known,
        object_pixels=pixels,
        sources=sources,
        source_pixels=pixels[detected],
        forced=forced,
    )


def record_of(visit: int) -> VisitRecord:
    return VisitRecord(
        visit=visit,
        time_ns=time_of(visit),
        ra=10.0 + visit / 3,
        decl=-30.0 - visit / 7,
        last_object_id=1_000_000_000 + TILES * NEW * (visit + 1),
        last_source_id=(visit + 1) * TILES * 10_000,
    )


async def run_visits(store: VisitStore, visits: Iterable[int], *, at_once: bool = False) -> None:
    """Run whole visits, each step in a transaction of its own, or all steps of a tile in one."""
    for visit in visits:
        assert await store.begin(visit, time_of(visit)) == frozenset()
        for tile in range(TILES):
            for steps in [STEPS] if at_once else [(step,) for step in STEPS]:
                await store.write(tile_write(visit, tile, steps))
        await store.finish(record_of(visit))


def tables_in(store_config: VisitsConfig) -> Iterator[str]:
    yield from ("DIAObject", "DIASource", "DIAForcedSource")
    if store_config.index_mode in (IndexMode.LAST_OBJECT_TABLE, IndexMode.PARTITIONED):
        yield "DIAObjectLast"


def by_id(rows: Array) -> Array:
    """Rows in an order that does not depend on who answered."""
    keys = [rows["diaObjectId"], *([rows["ccdVisitId"]] if "ccdVisitId" in rows.dtype.names else [])]
    return rows[np.lexsort(keys)]


def same(one: Array, other: Array) -> bool:
    """Whether two structured arrays have the same bytes in every field of the second one."""
    return len(one) == len(other) and all(
        np.ascontiguousarray(one[name]).tobytes() == np.ascontiguousarray(other[name]).tobytes()
        for name in other.dtype.names
    )
