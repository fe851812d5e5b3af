"""The pipeline of a group: timeouts, backpressure, runs, and what it says of them."""

import asyncio
from pathlib import Path

import numpy as np

from backends.memory.store import MemoryStore
from daemon.pipeline.assembly import Origin
from schemas.batch import Aside, ClosedBlock
from schemas.ledger import ledger_dtype
from schemas.readings import Array
from schemas.states import AsideReason
from tests.support.pipelines import eventually, journaling, logging_to_memory
from tests.support.readings import make_block, make_group, time_of, whole

GROUP = make_group()
SMALL = {"max_batch_mib": 0.02, "max_waiting_mib": 0.04}


def set_aside(readings: Array, reason: AsideReason) -> ClosedBlock:
    """A closed block of nothing but readings that are set aside."""
    return ClosedBlock(
        readings=np.empty((0, GROUP.size), GROUP.record),
        present=np.empty((0, GROUP.size), bool),
        ledger=np.empty(0, ledger_dtype(GROUP.size)),
        late=np.empty(0, GROUP.record),
        late_of=np.empty(0, np.intp),
        revised=np.empty(0, ledger_dtype(GROUP.size)),
        aside=Aside.of(readings, 0, reason),
    )


async def test_incomplete_triggers_close_by_timeout_without_further_readings() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 20.0}) as logger:
        logger.pipelines["bpm"].receive(whole(GROUP, 1))
        logger.pipelines["bpm"].receive(make_block(GROUP, [(2, 0), (3, 1)]))
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 3)
    assert (await logger.ledger(GROUP))["arrived"].tolist() == [5, 1, 1]


async def test_a_trigger_half_received_when_senders_are_held_back_is_not_closed_for_it() -> None:
    async with logging_to_memory(GROUP, committer=SMALL, assembly={"timeout_ms": 50.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        pipeline.receive(whole(GROUP, 1))
        pipeline.receive(make_block(GROUP, [(2000, 0), (2000, 1)]))
        trigger = 2
        while not pipeline.is_full:
            pipeline.receive(whole(GROUP, trigger))
            trigger += 1
        await asyncio.sleep(0.2)  # four times the timeout, in which nothing is to happen
        assert (pipeline.figures().open, pipeline.figures().assembled.incomplete) == (1, 0)
        logger.store.serving.set()
        await eventually(lambda: not pipeline.is_full)
        pipeline.receive(make_block(GROUP, [(2000, 2), (2000, 3), (2000, 4)]))
        await eventually(lambda: pipeline.waiting.triggers == 0)
        assert (pipeline.figures().assembled.late, pipeline.figures().assembled.incomplete) == (0, 0)


async def test_timeouts_go_on_after_backpressure() -> None:
    async with logging_to_memory(GROUP, committer=SMALL, assembly={"timeout_ms": 20.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        pipeline.receive(whole(GROUP, 1))
        pipeline.receive(make_block(GROUP, [(2000, 0)]))
        trigger = 2
        while not pipeline.is_full:
            pipeline.receive(whole(GROUP, trigger))
            trigger += 1
        logger.store.serving.set()
        await eventually(lambda: pipeline.figures().assembled.incomplete == 1)


async def test_backpressure_that_flutters_is_said_once() -> None:
    async with logging_to_memory(GROUP, committer=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        trigger = 1
        for _ in range(5):
            logger.store.serving.clear()
            while not pipeline.is_full:
                pipeline.receive(whole(GROUP, trigger))
                trigger += 1
            logger.store.serving.set()
            await eventually(lambda: pipeline.waiting.triggers == 0)
        assert [event.text for event in logger.events.newest()] == [
            "group bpm: the backlog is full, senders are held back"
        ]


async def test_groups_that_notice_a_restart_one_after_the_other_share_its_run() -> None:
    other = make_group(3, "toroid")
    async with logging_to_memory(GROUP, other) as logger:
        for trigger in range(1, 6):
            logger.pipelines["bpm"].receive(whole(GROUP, trigger))
            logger.pipelines["toroid"].receive(whole(other, trigger))
        found = {name: pipeline.announce_run(7) for name, pipeline in logger.pipelines.items()}
        assert found == {"bpm": 2, "toroid": 2}
        assert logger.pipelines["bpm"].announce_run(8) == 3
        assert logger.pipelines["toroid"].announce_run(8) == 3


async def test_a_restart_that_is_announced_always_begins_a_run() -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(whole(GROUP, 1))
        assert [pipeline.announce_run(epoch) for epoch in range(1, 200)] == [*range(2, 201)]
        pipeline.receive(whole(GROUP, 1))
        assert pipeline.announce_run(0) is None
        assert logger.events.newest()[0].text == (
            "group bpm: a restart was announced; a new run begins with the next reading"
        )
        pipeline.receive(make_block(GROUP, [(1, 2)], when=lambda trigger: time_of(trigger) + 1))
        assert pipeline.figures().run == 201


async def test_an_epoch_that_changes_with_each_trigger_is_reported_at_once() -> None:
    async with logging_to_memory(GROUP) as logger:
        for epoch in range(1, 5):
            block = whole(GROUP, 1)
            block["epoch"] = epoch
            logger.pipelines["bpm"].receive(block)
        assert "the epoch changes with each trigger" in logger.events.newest()[0].text
        assert logger.pipelines["bpm"].figures().brief_runs == 3


async def test_nothing_is_refused_of_what_was_acknowledged_before_however_much_it_is(tmp_path: Path) -> None:
    """Readings of a journal that comes back, without an epoch: what becomes of them cannot be proven, and is kept."""
    async with journaling(MemoryStore({"bpm": GROUP}), GROUP, tmp_path) as pipeline:
        readings = make_block(GROUP, [(trigger, 1) for trigger in range(3000)])
        pipeline.take_again([set_aside(readings, AsideReason.AMBIGUOUS)])
        await eventually(lambda: pipeline.figures().dead_letters.readings == 3000)
        assert pipeline.figures().refused == {}


async def test_what_blocks_of_a_batch_set_aside_is_kept_together(tmp_path: Path) -> None:
    """A sync for each would hold up a group for one instrument whose number stands still."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        pipeline.receive(whole(GROUP, 0))
        await eventually(lambda: logger.store.begun == 1)
        for trigger in range(1, 101):
            pipeline.receive(whole(GROUP, trigger))
            aside = make_block(GROUP, [(trigger, 1)])
            pipeline.take_again([set_aside(aside, AsideReason.CONFLICT)])
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.triggers == 0)
        letters = pipeline._dead_letters.pending
        assert [letter.parts for letter in letters] == [100] * 100
    assert len(await logger.ledger(GROUP)) == 101


async def test_what_is_a_dead_letter_is_none_twice_and_not_stored_when_its_block_comes_again(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    ahead, conflict, other = (make_block(GROUP, [(trigger, 1)]) for trigger in (9, 1, 1))
    stored = whole(GROUP, 1)
    other["time_ns"] += 1
    for block in (ahead, conflict, other, stored):
        block["epoch"] = 7
    async with journaling(store, GROUP, tmp_path) as pipeline:
        pipeline.receive(stored.copy())
        pipeline.take_again([set_aside(ahead, AsideReason.AHEAD), set_aside(conflict, AsideReason.CONFLICT)])
        await eventually(lambda: pipeline.figures().dead_letters.readings == 2)
    async with journaling(store, GROUP, tmp_path) as pipeline:
        pipeline.take_again([set_aside(ahead, AsideReason.AHEAD), set_aside(other, AsideReason.CONFLICT)])
        await eventually(lambda: pipeline.figures().dead_letters.readings == 3)
        await eventually(lambda: not pipeline.waiting.blocks)
        assert len(store._groups["bpm"].everything()) == GROUP.size


async def test_with_the_dead_letters_full_is_refused_by_name_what_would_be_one(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path, assembly={"window": 256, "max_open": 64}) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline._dead_letters._quota_bytes = 0
        pipeline.look()
        blocks = [whole(GROUP, *range(start, start + 50)) for start in range(1, 1001, 50)]
        for block in blocks:
            block["epoch"] = 7
            pipeline.receive(block)
        conflict, older = make_block(GROUP, [(1000, 1)]), make_block(GROUP, [(5, 1)])
        conflict["epoch"] = older["epoch"] = 7
        pipeline.receive(conflict, Origin.of(pipeline.connect(session=1).column, 0, 1))
        pipeline.receive(older)
        assert pipeline.figures().refused == {"no_room_aside": 1}
        await eventually(lambda: pipeline.figures().committed.placed == 1)
        pipeline._dead_letters._quota_bytes = 2**20
        pipeline.look()
        assert pipeline._assembly._triggers.sets_aside
