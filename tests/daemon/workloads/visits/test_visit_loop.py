"""Association and the loop over visits, on the store in memory: what is written, and that a cut changes nothing."""

import asyncio
import time
from dataclasses import dataclass

import numpy as np
import pytest

from backends.base import StoreError
from daemon.workloads.frame.messages import Message
from daemon.workloads.visits.messages import Visited, Waiting
from daemon.workloads.visits.visit_loop import VisitLoop
from daemon.workloads.visits.workers import Alone
from schemas.config.visits import Cadence
from schemas.readings import Array
from schemas.visits.records import Seconds, TileWrite, VisitRecord
from schemas.visits.survey import DAY_NS, FIRST_NEW_ID
from tests.support.memory.visits import MemoryVisitStore, Schema
from tests.support.visit_runs import assert_same, assert_whole, run_here, small, spec_here, tables_in, undisturbed


class Cut(StoreError):
    """The process ended here."""


@dataclass
class Cutting:
    """How many writes a process lives for."""

    writes: int


class CutStore(MemoryVisitStore):
    """A connection whose process dies as soon as so many writes are committed."""

    def __init__(self, visits, schema: Schema, cutting: Cutting) -> None:
        super().__init__(visits, schema)
        self._cutting = cutting

    async def write(self, write: TileWrite) -> Seconds:
        seconds = await super().write(write)
        self._cutting.writes -= 1
        if not self._cutting.writes:
            raise Cut
        return seconds


@pytest.mark.parametrize(("mode", "since_first"), [("baseline", True), ("partitioned", False), ("partitioned", True)])
async def test_a_run_that_is_cut_after_every_step_of_every_tile_writes_the_same(mode: str, since_first: bool) -> None:
    survey = {"cutoff_since_first": since_first}
    visits = small("cut", survey=survey, visits=5, index_mode=mode, all_history=since_first)
    expected = await undisturbed(visits)
    assert_whole(expected, visits)
    schema, cuts = Schema(), 0
    while True:
        try:
            await run_here(CutStore(visits, schema, Cutting(1)), visits)
            break
        except Cut:
            cuts += 1
    assert cuts > 5 * 3 * 2
    assert_same(await tables_in(MemoryVisitStore(visits, schema), visits), expected)


async def test_a_visit_that_was_cut_short_does_not_go_on_with_other_tiles() -> None:
    # Numbers of other tiles mean other places, so that what is written of them would be taken for something else.
    visits, schema = small("tiling", visits=3, tiles=2), Schema()
    with pytest.raises(Cut):
        await run_here(CutStore(visits, schema, Cutting(2)), visits)
    refused = r"visits\.tiles: visit 0 was cut short with 2, the configuration has 3; set it to what it was until 1"
    with pytest.raises(StoreError, match=refused):
        await run_here(MemoryVisitStore(visits, schema), visits.model_copy(update={"tiles": 3}))
    await run_here(MemoryVisitStore(visits, schema), visits)
    assert_same(await tables_in(MemoryVisitStore(visits, schema), visits), await undisturbed(visits))


class LateStore(MemoryVisitStore):
    """A connection to a server that commits what a killed process had sent after the next one has looked for it."""

    looked = False

    async def last_visit(self) -> VisitRecord | None:
        if self.looked:
            return await super().last_visit()
        self.looked = True
        return None


async def test_a_visit_whose_end_is_committed_meanwhile_is_not_written_again() -> None:
    visits, schema = small("late", visits=2), Schema()
    await run_here(MemoryVisitStore(visits, schema), visits, until=1)
    (second,) = await run_here(LateStore(visits, schema), visits)
    assert second.visit == 1
    assert_same(await tables_in(MemoryVisitStore(visits, schema), visits), await undisturbed(visits))


@pytest.mark.parametrize(("first", "waits_s"), [(0, 22_500), (1, 86_400 - 22_500), (2, 22_500)])
async def test_the_real_cadence_has_the_surveys_interval_by_night_and_a_pause_by_day(first: int, waits_s: int) -> None:
    visits, schema = small("cadence"), Schema()  # two visits a night
    await run_here(MemoryVisitStore(visits, schema), visits, until=first)
    real = visits.model_copy(update={"cadence": Cadence.REAL})
    stop, said = asyncio.Event(), []

    def send(message: Message) -> None:
        said.append(message)
        if isinstance(message, Waiting):
            stop.set()

    store = MemoryVisitStore(real, schema)
    began_ns = time.time_ns()
    # It begins at once, and told to stop it waits for no visit.
    await asyncio.wait_for(VisitLoop(spec_here(real), store, Alone(store, real), send, stop).run(), 60)
    assert [message.visit.visit for message in said if isinstance(message, Visited)] == [first]
    (waiting,) = [message for message in said if isinstance(message, Waiting)]
    assert 0 <= (waiting.until_ns - began_ns) / 1e9 - waits_s < 60


@pytest.mark.parametrize("since_first", [False, True])
async def test_each_written_object_has_one_forced_source_and_forced_photometry_ends(since_first: bool) -> None:
    # The outer tiles reach beyond the circle: variable objects are forced there, too.
    survey = {"cutoff_since_first": since_first}
    tables = await undisturbed(small("cutoff", survey=survey, tiles=3, index_mode="baseline", visits=12))
    objects = tables["DIAObject"]
    _, visits = np.unique(objects["validityStart"], return_inverse=True)
    assert _pairs(objects["diaObjectId"], visits) == _pairs(*_names(tables["DIAForcedSource"]))

    sources = set(_pairs(*_names(tables["DIASource"])))
    detected = np.array([pair in sources for pair in zip(objects["diaObjectId"], visits, strict=True)])
    assert detected.sum() == len(sources)
    age = objects["validityStart"] - objects["lastNonForcedSource"]
    assert 0 < age[~detected].max() <= 2 * DAY_NS
    assert set((objects["diaObjectId"][~detected] < FIRST_NEW_ID).tolist()) == {False, True}
    assert age[detected].min() == 0
    assert (age[detected].max() > 2 * DAY_NS) == since_first


def _names(rows: Array) -> tuple[Array, Array]:
    return rows["diaObjectId"], rows["ccdVisitId"]


def _pairs(ids: Array, visits: Array) -> list[tuple[int, int]]:
    return sorted(zip(ids.tolist(), visits.tolist(), strict=True))


async def test_the_shortest_window_that_is_taken_leaves_out_nothing_that_a_visit_writes() -> None:
    survey = {"seed": 7, "scale": 0.002, "forced_cutoff_days": 2.0}
    window = {"survey": survey, "history_days": 2.0, "period_days": 0.5, "visits": 30}
    written = []
    for mode in ("baseline", "partitioned"):
        visits = small("window", index_mode=mode, **window)
        measures = await run_here(MemoryVisitStore(visits), visits)
        written.append([(each.objects, each.sources, each.forced) for each in measures])
    assert written[0] == written[1]


async def test_sources_are_the_same_whatever_the_tiles() -> None:
    one, many = [await undisturbed(small("tiles", tiles=tiles, index_mode="baseline", visits=6)) for tiles in (1, 3)]
    assert_same({"DIASource": many["DIASource"]}, {"DIASource": one["DIASource"]})
    assert np.array_equal(one["DIASource"]["diaSourceId"], np.arange(len(one["DIASource"])) + 1)
    assert len(many["DIAForcedSource"]) > len(one["DIAForcedSource"])
