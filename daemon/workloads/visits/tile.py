"""One tile of a visit, in the paper's order: select objects, associate, select history, store; each of them timed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from backends.base import StoreError
from backends.visits.base import StatementTooLong, VisitStore
from backends.visits.rows import taken
from daemon.workloads.visits.association import Associated, Detections, associate, known_in
from daemon.workloads.visits.pixels import coarse, indexes, region_of
from daemon.workloads.visits.sphere import unit
from daemon.workloads.visits.tiles import Tile
from schemas.api.visits import TileMeasure
from schemas.config.visits import MOST_TILES, Transactions, VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.tables import Step

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
