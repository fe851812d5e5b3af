"""The simulated source."""

import numpy as np

from daemon.sources.simulated import SimulatedSource, make_block
from schemas.config import SimulatedSource as SimulatedConfig
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import make_group

GROUP = make_group()
ON_BOTH_LOOPS = True


def simulated(**changes: float) -> SimulatedConfig:
    return SimulatedConfig.model_validate({"kind": "simulated", "group": "bpm", "rate": 500.0, **changes})


async def test_simulated_instruments_are_logged_like_any_others() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 20.0}) as logger:
        source = SimulatedSource(simulated(missing=0.2), logger.pipelines)
        await source.start()
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers >= 100)
        await source.stop()
    ledger, stored = await logger.ledger(GROUP), await logger.stored(GROUP)
    assert ledger["trigger"].tolist() == sorted(set(stored["trigger"].tolist()))
    assert ledger["arrived"].sum() == len(stored) == source.status().received
    assert 0.7 < ledger["arrived"].sum() / ledger["expected"].sum() < 0.9


async def test_it_goes_on_after_the_newest_trigger_and_waits_while_the_backlog_is_full() -> None:
    limits = {"max_batch_mib": 0.01, "max_waiting_mib": 0.02}
    async with logging_to_memory(GROUP, committer=limits) as logger:
        pipeline = logger.pipelines["bpm"]
        first = SimulatedSource(simulated(), logger.pipelines)
        await first.start()
        await eventually(lambda: pipeline.figures().committed.triggers >= 10)
        await first.stop()
        newest = pipeline.newest
        logger.store.serving.clear()
        second = SimulatedSource(simulated(), logger.pipelines)
        await second.start()
        await eventually(lambda: pipeline.is_full)
        received = second.status().received
        logger.store.serving.set()
        await eventually(lambda: second.status().received > received)
        await second.stop()
        await second.close()
    triggers = (await logger.ledger(GROUP))["trigger"]
    assert newest + 1 in triggers
    assert np.all(np.diff(triggers) == 1)


def test_integer_channels_stay_in_their_range() -> None:
    block = make_block(GROUP, 1, 50, 10.0, np.random.default_rng(1))
    assert block["gain"].min() >= 0
    assert block["gain"].max() <= 127
    assert len(np.unique(block["trigger"])) == 50
