"""Readings of a period that retention has dropped: they are set aside, and what comes twice is a double as ever."""

from pathlib import Path

import numpy as np
import pytest

from backends.base import StoreUnavailable
from daemon.pipeline.assembly import Origin
from daemon.pipeline.pipeline import Pipeline
from daemon.telemetry.status.reporter import NO_RATES, _readings
from schemas.batch import Batch
from schemas.queries import Totals
from schemas.readings import Array, join
from schemas.retention import Period, Rule
from schemas.states import AsideReason
from tests.daemon.pipeline.test_placing import epoch_7, unaccounted
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually, journaling, logging_to_memory
from tests.support.readings import START_NS, make_block, make_group, whole

GROUP = make_group()
SMALL = {"window": 256, "max_open": 64, "timeout_ms": 20}
DAY_NS = 86_400_000_000_000
LAST = GROUP.size - 1


def day() -> Period:
    start_ns = START_NS // DAY_NS * DAY_NS
    return Period(group=GROUP.name, name="day", start_ns=start_ns, end_ns=start_ns + DAY_NS)


async def drop_the_day(store: MemoryStore, pipeline: Pipeline) -> Period:
    period = day()
    assert not pipeline.waits_for(period)
    pipeline.dropped.add(period)
    await store.drop(period, Rule.AGE, at_ns=1, patience_s=1)
    return period


def letters(pipeline: Pipeline) -> dict[int, int]:
    asides = [block.aside for block in pipeline._dead_letters.newest_blocks(2**26) if block.aside is not None]
    reasons = np.concatenate([np.empty(0, np.uint8), *(aside.reason for aside in asides)])
    return dict(zip(*(each.tolist() for each in np.unique(reasons, return_counts=True)), strict=True))


def without_last(first: int, last: int) -> Array:
    return epoch_7(make_block(GROUP, [(n, i) for n in range(first, last) for i in range(LAST)]))


async def stored_and_dropped(store: MemoryStore) -> tuple[int, int, int]:
    found = await store.ask(Totals(group=GROUP, within_s=1))
    return int(found["stored"].sum()), int(found["dropped"].sum()), int(found["arrived"].sum())


@pytest.mark.parametrize("last", [100, 600])
async def test_late_readings_of_a_dropped_day_are_set_aside_by_name_and_none_is_lost(last: int) -> None:
    """Those that assembly remembers (all of 100), and those that are placed by the ledger (most of 600)."""
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline, store = logger.pipelines["bpm"], logger.store
        for start in range(1, last, 50):
            pipeline.receive(without_last(start, min(last, start + 50)))
        await eventually(lambda: pipeline.figures().committed.triggers == last - 1)
        await drop_the_day(store, pipeline)
        pipeline.receive(epoch_7(make_block(GROUP, [(n, LAST) for n in range(1, last)])))
        await eventually(lambda: pipeline.figures().letters_aside == last - 1)
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        assert letters(pipeline) == {int(AsideReason.DROPPED): last - 1}
        assert unaccounted(pipeline) == 0
        readings = (last - 1) * LAST
        assert await stored_and_dropped(store) == (0, readings, readings)


@pytest.mark.parametrize("last", [100, 600])
async def test_readings_of_a_dropped_day_that_are_sent_again_are_doubles(last: int) -> None:
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline, store = logger.pipelines["bpm"], logger.store
        sent = [epoch_7(whole(GROUP, *range(start, start + 50))) for start in range(0, last, 50)]
        for block in sent:
            pipeline.receive(block.copy())
        await eventually(lambda: pipeline.figures().committed.triggers == last)
        await drop_the_day(store, pipeline)
        for block in sent:
            pipeline.receive(block.copy())
        await eventually(lambda: pipeline.figures().duplicate == last * GROUP.size)
        assert unaccounted(pipeline) == 0
        assert not pipeline.figures().letters_aside
        assert await stored_and_dropped(store) == (0, last * GROUP.size, last * GROUP.size)


@pytest.mark.parametrize("instrument", [0, LAST])
async def test_what_was_set_aside_for_a_day_that_stays_is_not_in_its_ledger(instrument: int) -> None:
    """Assembly remembers that it arrived, and says so when anything more comes for its trigger."""
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline, store = logger.pipelines["bpm"], logger.store
        pipeline.receive(without_last(1, 11))
        await eventually(lambda: pipeline.figures().committed.triggers == 10)
        pipeline.dropped.add(day())
        pipeline.receive(epoch_7(make_block(GROUP, [(1, LAST)])))
        await eventually(lambda: pipeline.figures().letters_aside == 1)
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        pipeline.dropped.take_out(day())
        pipeline.receive(epoch_7(make_block(GROUP, [(1, instrument)])))
        pipeline.receive(epoch_7(make_block(GROUP, [(2, LAST)])))
        await eventually(lambda: pipeline.figures().committed.readings == 10 * LAST + 1)
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        assert await stored_and_dropped(store) == (10 * LAST + 1, 0, 10 * LAST + 1)
        assert letters(pipeline) == {int(AsideReason.DROPPED): 1}
        assert unaccounted(pipeline) == 0


async def test_nor_is_it_where_the_daemon_was_killed_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has it as late, the dead letters have it, and the day was only claimed by the process before."""

    async def away(_: Batch) -> None:
        raise StoreUnavailable("away")

    store = MemoryStore({GROUP.name: GROUP})
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(without_last(1, 11))
        await eventually(lambda: pipeline.figures().committed.triggers == 10)
        pipeline.dropped.add(day())
        monkeypatch.setattr(store, "commit", away)
        pipeline.receive(epoch_7(make_block(GROUP, [(1, LAST)])))
        await eventually(lambda: pipeline.figures().letters_aside == 1)
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(epoch_7(make_block(GROUP, [(1, 0), (2, LAST)])))
        monkeypatch.undo()
        await eventually(lambda: pipeline.figures().committed.readings == 1)
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        assert await stored_and_dropped(store) == (10 * LAST + 1, 0, 10 * LAST + 1)
        assert letters(pipeline) == {int(AsideReason.DROPPED): 1}


async def test_a_trigger_of_a_dropped_day_that_never_closed_makes_no_new_one() -> None:
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline, store = logger.pipelines["bpm"], logger.store
        for start in range(100, 700, 50):
            pipeline.receive(epoch_7(whole(GROUP, *range(start, start + 50))))
        await eventually(lambda: pipeline.figures().committed.triggers == 600)
        await drop_the_day(store, pipeline)
        pipeline.receive(epoch_7(whole(GROUP, 50)))
        await eventually(lambda: pipeline.figures().letters_aside == GROUP.size)
        assert letters(pipeline) == {int(AsideReason.DROPPED): GROUP.size}
        assert pipeline.figures().committed.triggers == 600


async def test_a_daemon_that_is_started_later_knows_what_was_dropped(tmp_path: Path) -> None:
    store = MemoryStore({GROUP.name: GROUP})
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(without_last(1, 101))
        await eventually(lambda: pipeline.figures().committed.triggers == 100)
        await drop_the_day(store, pipeline)
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(join([without_last(1, 101), epoch_7(make_block(GROUP, [(n, LAST) for n in range(1, 101)]))]))
        await eventually(lambda: pipeline.figures().letters_aside == 100)
        await eventually(lambda: pipeline.figures().duplicate == 100 * LAST)
        assert letters(pipeline) == {int(AsideReason.DROPPED): 100}
        assert await stored_and_dropped(store) == (0, 100 * LAST, 100 * LAST)


async def test_what_a_later_start_sets_aside_is_counted(tmp_path: Path) -> None:
    """The daemon is killed while late readings wait for the database; their day is dropped, and they come again."""
    store = MemoryStore({GROUP.name: GROUP})
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(without_last(1, 11))
        await eventually(lambda: pipeline.figures().committed.triggers == 10)
        await drop_the_day(store, pipeline)
        store.fail_with(StoreUnavailable("away"))
        pipeline.receive(epoch_7(make_block(GROUP, [(n, LAST) for n in range(1, 11)])))
        await eventually(lambda: pipeline.figures().waiting.readings == 10)
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        readings = _readings(pipeline.figures(), NO_RATES)
        assert (readings.received, readings.aside, readings.unaccounted) == (10, {"older": 10}, 0)
        assert letters(pipeline) == {int(AsideReason.DROPPED): 10}


async def test_what_waits_holds_its_day_and_no_other() -> None:
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        pipeline.receive(epoch_7(whole(GROUP, 1)))
        await eventually(lambda: pipeline.figures().waiting.blocks > 0)
        start_ns = START_NS // DAY_NS * DAY_NS
        day, before = (
            Period(group=GROUP.name, name="day", start_ns=start_ns - back, end_ns=start_ns - back + DAY_NS)
            for back in (0, DAY_NS)
        )
        assert (pipeline.waits_for(day), pipeline.waits_for(before)) == (True, False)
        logger.store.serving.set()
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        assert not pipeline.waits_for(day)


@pytest.mark.parametrize("are_told", [True, False])
async def test_with_what_was_reduced_nothing_is_compared(are_told: bool) -> None:
    """A sender of which nobody knows what came before sends again what the ledger has."""
    sent = epoch_7(whole(GROUP, 1, 2))
    async with logging_to_memory(GROUP) as logger:
        pipeline, store = logger.pipelines["bpm"], logger.store
        pipeline.receive(sent.copy())
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        start_ns = START_NS // DAY_NS * DAY_NS
        period = Period(group=GROUP.name, name="day", start_ns=start_ns, end_ns=start_ns + DAY_NS)
        if are_told:
            pipeline.dropped.reduce([period])
        await store.drop(period, Rule.AGE, at_ns=1, patience_s=1)  # the memory has nothing that reduces
        column = pipeline.connect(session=7, first=5).column
        pipeline.receive(sent.copy(), Origin.of(column, 5, len(sent)))
        await eventually(lambda: pipeline.acknowledged()[0][column] == 5 + len(sent))
        assert unaccounted(pipeline) == 0
        assert pipeline.figures().duplicate == (len(sent) if are_told else 0)
        assert letters(pipeline) == ({} if are_told else {int(AsideReason.CONFLICT): len(sent)})


async def send_again(pipeline: Pipeline, block: Array) -> None:
    """A sender of which nobody knows what came before."""
    column = pipeline.connect(session=7, first=5).column
    pipeline.receive(block.copy(), Origin.of(column, 5, len(block)))
    await eventually(lambda: pipeline.acknowledged()[0][column] == 5 + len(block))


async def test_what_is_still_there_of_a_reduced_period_is_compared() -> None:
    """It lies near a mark, or its step has not come yet: what comes with another value is set aside, and not lost."""
    sent = epoch_7(whole(GROUP, 1, 2))
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(sent.copy())
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        start_ns = START_NS // DAY_NS * DAY_NS
        pipeline.dropped.reduce([Period(group=GROUP.name, name="day", start_ns=start_ns, end_ns=start_ns + DAY_NS)])
        others = sent.copy()
        others[GROUP.channels[0].name][:3] += 1
        await send_again(pipeline, others)
        assert letters(pipeline) == {int(AsideReason.CONFLICT): 3}
        assert pipeline.figures().duplicate == len(sent) - 3
        assert unaccounted(pipeline) == 0


@pytest.mark.parametrize("of_trigger", [True, False])
async def test_a_trigger_at_the_end_of_a_period_is_of_both_sides(of_trigger: bool) -> None:
    """Its readings lie by their own times, or by its time: what was reduced of it may be of either period."""
    sent = epoch_7(whole(GROUP, 1))
    sent["time_ns"] = START_NS + np.arange(len(sent))
    async with logging_to_memory(GROUP) as logger:
        pipeline, store = logger.pipelines["bpm"], logger.store
        pipeline.receive(sent.copy())
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        (row,) = await logger.ledger(GROUP)
        cut_ns = int(row["time_ns"]) + (1 if of_trigger else 0)
        ends = (cut_ns - DAY_NS, cut_ns) if of_trigger else (cut_ns + 1, cut_ns + DAY_NS)
        period = Period(group=GROUP.name, name="day", start_ns=ends[0], end_ns=ends[1])
        pipeline.dropped.reduce([period])
        await store.drop(period, Rule.AGE, at_ns=1, patience_s=1)  # the memory has nothing that reduces
        await send_again(pipeline, sent)
        assert letters(pipeline) == {}
        assert pipeline.figures().duplicate == len(sent)
        assert unaccounted(pipeline) == 0
