"""Visit after visit: draw, begin, tiles, finish; what is cut short is done again until it is whole.

A visit is done when `finish` has marked it. Until then it is done again from its beginning: the store tells which steps
of which tiles are committed, and only the others are written. So a visit is never lost and never there twice.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from time import perf_counter

from backends.base import StoreError, StoreUnavailable
from backends.ending import done_before
from backends.visits.base import VisitDone, VisitStore
from daemon.web.rates import Backoff
from daemon.workloads.frame.messages import Message
from daemon.workloads.visits.messages import (
    Begun,
    Compacting,
    CompactionDone,
    Lost,
    Sizes,
    Spec,
    Troubled,
    Visited,
    Visiting,
    Waiting,
)
from daemon.workloads.visits.settings import gap_ns, time_of
from daemon.workloads.visits.sky import Exposure, Sky
from daemon.workloads.visits.sphere import tiles_of
from daemon.workloads.visits.tile import Past, step_of
from daemon.workloads.visits.workers import Crew, Draw, WorkerDied
from schemas.api.visits import COUNTS, TIMES, Compaction, TileMeasure, VisitMeasure
from schemas.config.visits import Cadence, VisitsConfig
from schemas.visits.records import Compacted, VisitRecord
from schemas.visits.survey import Survey
from schemas.visits.tables import IndexMode, Step

PAUSE_S = 0.25
PAUSE_MOST_S = 10.0
"""The pause before a visit is tried again doubles up to this."""
SIZES_EVERY_S = 30.0
SIZES_EVERY_VISITS = 50


AGAIN_S = 60.0
"""What readers stood in the way of is tried again after so long, between two visits."""


class OncePerPeriod:
    """Something that is done once in each period, and again after AGAIN_S where readers stood in the way."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Do it again, whatever was done."""
        self._done: int | None = None
        self._not_before_s = 0.0

    async def do(self, period: int, part: Callable[[], Awaitable[bool]]) -> None:
        """Do it, if it is time. part: gives whether nothing stood in the way."""
        if period == self._done or perf_counter() < self._not_before_s:
            return
        if await part():
            self._done = period
        else:
            self._not_before_s = perf_counter() + AGAIN_S


class VisitLoop:
    """Runs visits until enough are done, or until it is to stop.

    Args:
        spec: which visits, of which sky.
        store: where they go; the loop connects it, who made it closes it.
        crew: does the tiles.
        send: gets every message.
        stop: ends the run after the visit that is under way.
        acknowledged: is awaited before each visit.

    """

    def __init__(
        self,
        spec: Spec,
        store: VisitStore,
        crew: Crew,
        send: Callable[[Message], None],
        stop: asyncio.Event,
        *,
        acknowledged: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._spec = spec
        self._visits = spec.visits
        self._store = store
        self._crew = crew
        self._send = send
        self._stop = stop
        self._acknowledged = acknowledged
        self._compacts = spec.visits.compact and spec.visits.index_mode is IndexMode.PARTITIONED
        self._sky = Sky(spec.visits.survey)
        self._last: VisitRecord | None = None
        self._expired = OncePerPeriod()
        self._prepared = OncePerPeriod()
        self._troubled = False
        self._tried: int | None = None
        self._upkeep_s = 0.0  # for the visit that is next, or under way
        self._sized_s = perf_counter()
        self._since_sizes = 0

    async def run(self) -> None:
        """Do all visits that are wanted and not done.

        Raises:
            SchemaMismatch: the tables are of other settings.
            StoreError: what trying again cannot fix.
        """
        try:
            await self._run()
        finally:
            await self._store.release()

    async def _run(self) -> None:
        if not await self._insist(self._open):
            return
        self._send(Begun(last=self._last, done=self._done))
        due_s = perf_counter()
        while self._done < self._spec.wanted and await self._until(due_s):
            began_s = perf_counter()
            if not await self._insist(self._visit):
                return
            due_s = self._due_after(began_s)
            await self._insist(self._prepare)
            await self._insist(self._compact)
            await self._insist(self._send_sizes)
        await self._insist(self._sizes)

    @property
    def _done(self) -> int:
        return 0 if self._last is None else self._last.visit + 1

    async def _open(self) -> None:
        await self._store.create()
        await self._store.hold()
        self._last = await self._store.last_visit()

    async def _insist(self, part: Callable[[], Awaitable[None]]) -> bool:
        """Do a part of the run, again and again while the database or a worker is away; False when it is to stop."""
        backoff = Backoff(PAUSE_S, PAUSE_MOST_S)
        reported = None
        while True:
            try:
                await part()
            except (StoreUnavailable, WorkerDied) as error:
                self._troubled = True
                if (reason := str(error)) != reported:
                    self._send(Troubled(problem=reason))
                    reported = reason
            else:
                return True
            if await self._stopped_within(backoff.next_s()):
                return False

    async def _visit(self) -> None:
        """Do the next visit."""
        await self._store.connect()
        if self._troubled:  # a server that crashed may have kept less than it acknowledged
            self._go_back(await self._store.last_visit())
            self._expired.forget()
            self._prepared.forget()
            self._upkeep_s = 0.0
        again = self._tried == self._done
        self._tried = self._done
        exposure, draw, dia_s = await self._draw(self._last)
        self._send(Visiting(visit=exposure.visit))
        try:
            with self._upkeep():
                await self._expire(exposure.time_ns)
                past = await self._past(exposure)
        except VisitDone:
            self._last = await self._store.last_visit()
            return
        tiles = [
            tile.number for tile in tiles_of(exposure.pointing, self._visits.survey.field_radius, self._visits.tiles)
        ]
        began = perf_counter()
        measures = await self._crew.do(past, tiles)
        visit_s = perf_counter() - began
        record = _record_of(exposure, draw)
        with step_of(exposure.visit, "finish"), self._upkeep():
            await self._store.finish(record, sum(len(Step) for measure in measures if measure.objects))
        self._last = record
        self._troubled = False
        measure = measure_of(
            exposure,
            measures,
            visit_s=visit_s,
            dia_s=dia_s,
            upkeep_s=self._upkeep_s,
            resumed=again or bool(past.done),
        )
        self._upkeep_s = 0.0
        self._send(Visited(visit=measure, tiles=tuple(measures)))

    @contextlib.contextmanager
    def _upkeep(self) -> Iterator[None]:
        """Time what a visit needs of the database beside itself."""
        began = perf_counter()
        try:
            yield
        finally:
            self._upkeep_s += perf_counter() - began

    def _go_back(self, last: VisitRecord | None) -> None:
        """The server has this visit as its last one, which may be one before ours."""
        done, self._last = self._done, last
        if self._done < done:
            self._send(Lost(done=self._done))

    async def _draw(self, last: VisitRecord | None) -> tuple[Exposure, Draw, float]:
        """The next exposure, prepared for the crew, and how long that took."""
        began = perf_counter()
        draw = Draw(
            visit=0 if last is None else last.visit + 1,
            last_object_id=0 if last is None else last.last_object_id,
            last_source_id=0 if last is None else last.last_source_id,
        )
        exposure = self._sky.exposure(draw.visit, draw.last_object_id)
        await self._crew.draw(draw, exposure)
        return exposure, draw, perf_counter() - began

    async def _expire(self, time_ns: int) -> None:
        """Drop what has left the window, before the visit reads: when it is done again, it finds the same."""
        window_ns, period_ns = self._visits.window_ns, self._visits.period_ns
        if window_ns is None:
            return
        before_ns = time_ns - window_ns
        with step_of(self._done, "drop what has left the window"):
            await self._expired.do(before_ns // period_ns, partial(self._store.expire, before_ns))

    async def _past(self, exposure: Exposure) -> Past:
        window_ns = self._visits.window_ns
        with step_of(exposure.visit, "begin"):
            since = 0 if window_ns is None else await self._store.first_visit_since(exposure.time_ns - window_ns)
            done = await self._store.begin(exposure.visit, exposure.time_ns)
        since_visit = exposure.visit if since is None else since
        past = Past(since_visit=since_visit, since_ns=time_of(self._visits.survey, since_visit), done=done)
        _check_tiles(past, self._visits, exposure.visit)
        return past

    async def _prepare(self) -> None:
        """Between visits: have made ahead what those of the next periods need."""
        if self._last is None:
            return
        time_ns = self._last.time_ns
        with self._upkeep():
            await self._prepared.do(time_ns // self._visits.period_ns, partial(self._store.prepare, time_ns))

    async def _compact(self) -> None:
        """When a night is over: have periods that ended compacted; what is in somebody's way is, another night."""
        if self._last is None or not self._compacts or not _ends_night(self._visits.survey, self._last.visit):
            return
        await self._store.connect()
        for table, period in await self._store.uncompacted(self._last.time_ns):
            self._send(Compacting(table=table, period=period))
            began = perf_counter()
            work = await done_before(self._stop, self._store.compact(table, period))
            if self._stop.is_set():
                return
            if work is not None and (compacted := work.result()) is not None:
                compaction = _compaction(compacted, table, period, self._last.visit, perf_counter() - began)
                self._send(CompactionDone(compaction=compaction))

    async def _until(self, due_s: float) -> bool:
        """Wait until the last visits were acknowledged, and the next one is due; False when it is to stop."""
        if self._acknowledged is not None:
            await self._acknowledged()
        wait_s = due_s - perf_counter()
        if wait_s > 0:
            self._send(Waiting(until_ns=time.time_ns() + round(wait_s * 1e9)))
        return not await self._stopped_within(max(wait_s, 0.0))

    def _due_after(self, began_s: float) -> float:
        """When the visit after the last one, which began then, is due: a late one moves all that follow."""
        if self._visits.cadence is not Cadence.REAL or self._last is None:
            return began_s
        return began_s + gap_ns(self._visits.survey, self._last.visit) / 1e9

    async def _stopped_within(self, patience_s: float) -> bool:
        if patience_s > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), patience_s)
        else:
            await asyncio.sleep(0)
        return self._stop.is_set()

    async def _send_sizes(self) -> None:
        self._since_sizes += 1
        if self._since_sizes >= SIZES_EVERY_VISITS and perf_counter() - self._sized_s >= SIZES_EVERY_S:
            await self._sizes()

    async def _sizes(self) -> None:
        await self._store.connect()
        self._send(Sizes(sizes=dict(await self._store.sizes())))
        self._since_sizes, self._sized_s = 0, perf_counter()


def _ends_night(survey: Survey, visit: int) -> bool:
    return (visit + 1) % survey.visits_a_night == 0


def _check_tiles(past: Past, visits: VisitsConfig, visit: int) -> None:
    """See that what an earlier try committed of a visit is of the tiles that it goes on with."""
    others = sorted(past.tilings() - {visits.tiles})
    if others:
        raise StoreError(
            f"visits.tiles: visit {visit} was cut short with {others[0]}, the configuration has {visits.tiles}; set it "
            f"to what it was until {visit + 1} visits are done, or take another `schema` in [visits]"
        )


def _compaction(compacted: Compacted, table: str, period: int, after_visit: int, compact_s: float) -> Compaction:
    return Compaction(
        table=table,
        period=period,
        after_visit=after_visit,
        compact_s=compact_s,
        packs_before=compacted.before.packs,
        packs=compacted.after.packs,
        records_before=compacted.before.records,
        records=compacted.after.records,
    )


def _record_of(exposure: Exposure, draw: Draw) -> VisitRecord:
    return VisitRecord(
        visit=exposure.visit,
        time_ns=exposure.time_ns,
        ra=exposure.ra,
        decl=exposure.decl,
        last_object_id=exposure.last_object_id,
        last_source_id=draw.last_source_id + len(exposure.ids),
    )


def measure_of(
    exposure: Exposure, tiles: Iterable[TileMeasure], *, visit_s: float, dia_s: float, upkeep_s: float, resumed: bool
) -> VisitMeasure:
    """Sum up the tiles of a visit."""
    measures = list(tiles)
    seconds = {name: sum(getattr(tile, name) for tile in measures) for name in TIMES}
    return VisitMeasure(
        visit=exposure.visit,
        time_ns=exposure.time_ns,
        ra=exposure.ra,
        decl=exposure.decl,
        tiles=len(measures),
        visit_s=visit_s,
        select_s=sum(taken for name, taken in seconds.items() if name.startswith("select_")),
        store_s=sum(taken for name, taken in seconds.items() if not name.startswith("select_")),
        **seconds,
        dia_s=dia_s,
        upkeep_s=upkeep_s,
        slowest_tile_s=max((tile.tile_s for tile in measures), default=0.0),
        **{name: sum(getattr(tile, name) for tile in measures) for name in COUNTS},
        resumed=resumed,
    )
