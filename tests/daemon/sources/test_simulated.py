"""The simulated source."""

import asyncio
import itertools
import time

import numpy as np
import pytest

from daemon.sources.simulated import SimulatedSource, epoch_of_process, make_block
from schemas.config import SimulatedSource as SimulatedConfig
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import make_group, whole

GROUP = make_group()
OTHER = make_group(2, "toroid")
ON_BOTH_LOOPS = True


def simulated(**changes: object) -> SimulatedConfig:
    return SimulatedConfig.model_validate({"kind": "simulated", "group": "bpm", "rate": 500.0, **changes})


async def test_simulated_instruments_are_logged_like_any_others() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 20.0}) as logger:
        source = SimulatedSource(simulated(missing=0.2), logger.intakes)
        await source.start()
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers >= 100)
        await source.stop()
    ledger, stored = await logger.ledger(GROUP), await logger.stored(GROUP)
    assert ledger["trigger"].tolist() == sorted(set(stored["trigger"].tolist()))
    assert ledger["arrived"].sum() == len(stored) == source.status().received
    assert 0.7 < ledger["arrived"].sum() / ledger["expected"].sum() < 0.9


async def test_each_start_is_a_new_epoch_and_waits_while_the_backlog_is_full() -> None:
    limits = {"max_batch_mib": 0.01, "max_waiting_mib": 0.02}
    async with logging_to_memory(GROUP, committer=limits) as logger:
        pipeline = logger.pipelines["bpm"]
        first = SimulatedSource(simulated(), logger.intakes, epoch=8)
        await first.start()
        await eventually(lambda: pipeline.figures().committed.triggers >= 10)
        await first.stop()
        logger.store.serving.clear()
        second = SimulatedSource(simulated(), logger.intakes, epoch=9)
        await second.start()
        await eventually(lambda: pipeline.is_full)
        received = second.status().received
        logger.store.serving.set()
        await eventually(lambda: second.status().received > received)
        await second.stop()
        await second.close()
    stored, ledger = await logger.stored(GROUP), await logger.ledger(GROUP)
    for run in (1, 2):
        triggers = np.unique(stored["trigger"][stored["run"] == run])
        assert len(triggers) >= 10
        assert np.array_equal(triggers, np.arange(1, len(triggers) + 1))
    assert set(ledger[["run", "epoch"]].tolist()) == {(2, 9)}


async def test_one_that_starts_while_the_intake_is_full_waits_for_room() -> None:
    """It was told of changes alone, and went on to put more into the memory that was full."""
    async with logging_to_memory(GROUP, committer={"max_batch_mib": 0.01, "max_waiting_mib": 0.02}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        trigger = itertools.count(1)
        while not logger.intakes["bpm"].is_full:
            pipeline.receive(whole(GROUP, next(trigger)))
            await asyncio.sleep(0)
        source = SimulatedSource(simulated(), logger.intakes)
        await source.start()
        await asyncio.sleep(0.1)
        assert source.status().received == 0
        logger.store.serving.set()
        await eventually(lambda: source.status().received > 0)
        await source.stop()


async def test_the_groups_of_a_process_have_the_same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1_800_000_000)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    epoch_of_process.cache_clear()
    async with logging_to_memory(GROUP, OTHER) as logger:
        for group in (GROUP, OTHER):
            source = SimulatedSource(simulated(group=group.name), logger.intakes)
            await source.start()
            await eventually(lambda name=group.name: logger.pipelines[name].figures().committed.triggers >= 2)
            await source.stop()
        for group in (GROUP, OTHER):
            assert set((await logger.ledger(group))["epoch"].tolist()) == {1_800_000_000}
    epoch_of_process.cache_clear()


def test_integer_channels_stay_in_their_range() -> None:
    block = make_block(GROUP, 1, 50, 10.0, np.random.default_rng(1))
    assert block["gain"].min() >= 0
    assert block["gain"].max() <= 127
    assert len(np.unique(block["trigger"])) == 50
