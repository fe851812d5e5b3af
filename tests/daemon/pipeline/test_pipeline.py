"""The pipeline of a group: timeouts, backpressure, runs, and what it says of them."""

import asyncio
import itertools
from pathlib import Path

import pytest

from backends.base import StoreUnavailable
from daemon.pipeline.assembly import Origin
from schemas.batch import Batch
from schemas.readings import Array
from schemas.wire import Ack
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually, journaling, letters_written, logging_to_memory
from tests.support.readings import make_block, make_group, time_of, whole

GROUP = make_group()
SMALL = {"max_batch_mib": 0.02, "max_waiting_mib": 0.04}


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


def conflicts(*instruments: int, value: int = 0) -> Array:
    """Other readings for places of trigger 1."""
    block = make_block(GROUP, [(1, instrument) for instrument in instruments])
    block["epoch"], block["top_in"] = 7, 100 + value
    block["time_ns"] += 1 + value
    return block


async def test_what_blocks_of_a_batch_set_aside_is_kept_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync for each would hold up a group for one instrument whose number stands still."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        column, sequence = pipeline.connect(session=1).column, itertools.count()
        stored = whole(GROUP, 1)
        stored["epoch"] = 7
        pipeline.receive(stored, Origin.of(column, 0, 5))
        await eventually(lambda: logger.store.begun == 1)
        written = letters_written(monkeypatch)
        for value in range(100):
            pipeline.receive(conflicts(1, value=value), Origin.of(column, 5 + next(sequence), 1))
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.blocks == 0)
        letters = pipeline._dead_letters.pending
        assert (written, len(letters)) == ([100], 100)
    assert len(await logger.ledger(GROUP)) == 1


async def test_what_is_a_dead_letter_is_none_twice_and_not_stored_when_it_comes_again(tmp_path: Path) -> None:
    """The daemon was killed before the database had the position that settles it."""
    store = MemoryStore({"bpm": GROUP})
    stored = whole(GROUP, 1)
    stored["epoch"] = 7
    async with journaling(store, GROUP, tmp_path) as logged:
        column = logged.connect(session=1, ack=Ack.RECEIVED).column
        logged.send(column, stored.copy())
        await eventually(lambda: logged.is_idle)
        commit = store.commit

        async def away(_: Batch) -> None:
            raise StoreUnavailable("away")

        store.commit = away  # type: ignore[method-assign]
        logged.send(column, conflicts(1, 2))
        await eventually(lambda: logged.figures().dead_letters.readings == 2)
        await eventually(lambda: logged.acknowledged()[0][column] == 7)
    store.commit = commit  # type: ignore[method-assign]
    async with journaling(store, GROUP, tmp_path) as logged:
        logged.send(logged.connect(session=1, first=7).column, conflicts(3))
        await eventually(lambda: logged.is_idle and logged.figures().dead_letters.readings == 3)
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
