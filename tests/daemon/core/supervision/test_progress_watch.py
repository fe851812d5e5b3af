"""What the watchdog is fed from: which parts of the pipeline move, which may rest, which are stuck."""

import asyncio
import threading
from pathlib import Path

import pytest

from backends.base import StoreUnavailable
from daemon.core.supervision.progress_watch import Part, ProgressWatch
from daemon.pipeline.committer import longest_attempt_s
from daemon.pipeline.log import LogKeeper
from daemon.pipeline.pipeline import Pipeline
from daemon.sources.simulated import SimulatedSource
from daemon.sources.tcp import TcpSource
from daemon.sources.udp import UdpSource
from schemas.config import Config
from schemas.config import SimulatedSource as SimulatedConfig
from schemas.config import TcpSource as TcpConfig
from schemas.config import UdpSource as UdpConfig
from tests.daemon.pipeline.log.test_log import Opened, record
from tests.support.disks import FaultyDisk
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()


def busy(steps: int = 0, extra_s: float = 0.0, name: str = "part") -> Part:
    return Part(name=name, steps=steps, is_busy=True, extra_s=extra_s)


def resting(steps: int = 0) -> Part:
    return Part(name="part", steps=steps, is_busy=False)


# --- the rule -----------------------------------------------------------------------------------------------------


def test_a_part_with_work_that_stays_where_it_is_is_stuck_when_patience_is_over() -> None:
    watch = ProgressWatch(10.0)
    assert [watch.look([busy()], now) for now in (0.0, 5.0, 10.0)] == [[], [], []]
    (stuck,) = watch.look([busy()], 10.5)
    assert str(stuck) == "part without progress for 10 s"
    assert watch.look([busy(steps=1)], 11.0) == []
    assert watch.look([busy(steps=1)], 21.5) != []


def test_a_part_without_work_may_rest_for_ever_and_then_has_its_whole_time() -> None:
    watch = ProgressWatch(10.0)
    assert watch.look([resting()], 0.0) == []
    assert watch.look([resting()], 1000.0) == []
    assert watch.look([busy()], 1009.0) == []
    assert watch.look([busy()], 1010.5) != []


def test_a_part_may_have_more_time_than_the_others() -> None:
    watch = ProgressWatch(10.0)
    parts = [busy(name="slow", extra_s=60.0), busy(name="quick")]
    watch.look(parts, 0.0)
    assert [stuck.name for stuck in watch.look(parts, 70.0)] == ["quick"]
    assert {stuck.name for stuck in watch.look(parts, 70.5)} == {"quick", "slow"}


def test_a_part_that_was_away_begins_anew() -> None:
    watch = ProgressWatch(10.0)
    watch.look([busy()], 0.0)
    watch.look([], 9.0)
    assert watch.look([busy()], 11.0) == []


# --- the parts of a pipeline --------------------------------------------------------------------------------------


def part_of(pipeline: Pipeline, word: str) -> Part:
    (part,) = (part for part in pipeline.parts() if word in part.name)
    return part


async def test_a_committer_that_hangs_stands_still_and_one_that_commits_moves() -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        assert not part_of(pipeline, "committer").is_busy, "nothing waits"
        pipeline.receive(whole(GROUP, 1))
        await eventually(lambda: pipeline.figures().committed.commits == 1)
        moved = part_of(pipeline, "committer").steps
        assert moved
        logger.store.serving.clear()
        pipeline.receive(whole(GROUP, 2))
        await eventually(lambda: logger.store.begun == 2)
        hanging = part_of(pipeline, "committer")
        assert (hanging.is_busy, hanging.steps) == (True, moved)
        await asyncio.sleep(0.1)
        assert part_of(pipeline, "committer") == hanging
        logger.store.serving.set()
        await eventually(lambda: part_of(pipeline, "committer").steps > moved)


async def test_a_committer_that_tries_again_while_the_database_is_away_moves() -> None:
    quick = {"retry_first_ms": 1.0, "retry_most_ms": 5.0}
    async with logging_to_memory(GROUP, committer=quick) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.fail_with(StoreUnavailable("away"))
        pipeline.receive(whole(GROUP, 1))
        for steps in (3, 6, 9):
            await eventually(lambda steps=steps: part_of(pipeline, "committer").steps >= steps)


def test_a_committer_has_the_time_of_a_whole_attempt() -> None:
    config = Config.model_validate(
        {
            "groups": [{"name": "bpm", "count": 1, "channels": [{"name": "x"}]}],
            "database": {"command_timeout_s": 7.0},
            "committer": {"retry_most_ms": 2000.0},
        }
    )
    assert longest_attempt_s(config) == 16.0


async def test_triggers_that_should_have_closed_are_work() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 50.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(make_block(GROUP, [(1, 0)]))
        assert not part_of(pipeline, "closing").is_busy, "its time is not over"
        pipeline._timer.disarm()
        await eventually(lambda: part_of(pipeline, "closing").is_busy)
        pipeline._close_due()
        assert not part_of(pipeline, "closing").is_busy


async def test_the_journals_keeper_answers_until_it_is_dead(tmp_path: Path) -> None:
    keeper = LogKeeper(Opened(tmp_path), lambda _: None)
    keeper.start()
    keeper.part("keeper")
    for _ in range(3):
        steps = keeper.part("keeper").steps
        await eventually(lambda steps=steps: keeper.part("keeper").steps > steps)
    await keeper.end()
    dead = keeper.part("keeper")
    watch = ProgressWatch(0.5)
    for now in (0.0, 0.5, 1.0):
        stuck = watch.look([keeper.part("keeper")], now)
    assert stuck
    assert keeper.part("keeper").steps == dead.steps


@pytest.mark.parametrize("operation", ["append", "sync"])
async def test_a_thread_that_hangs_in_its_disk_is_stuck_and_an_idle_one_is_not(operation: str, tmp_path: Path) -> None:
    disk, hangs, goes_on = FaultyDisk(), threading.Event(), threading.Event()
    keeper = LogKeeper(Opened(tmp_path, disk), lambda _: None)
    keeper.start()

    def before(name: str, _: Path) -> None:
        if name == operation:
            hangs.set()
            assert goes_on.wait(60)

    idle = ProgressWatch(0.5)
    for now in range(5):
        seen = keeper.part("keeper").steps
        await eventually(lambda seen=seen: keeper.part("keeper").steps > seen)
        assert idle.look([keeper.part("keeper")], now) == [], "it has nothing to do, and answers"
    disk.before = before
    made = record(1)
    keeper.put(made.received_ns, made.runs, made.readings, at_once=True)
    await eventually(hangs.is_set)
    keeper.part("keeper")
    watch = ProgressWatch(0.5)
    assert [bool(watch.look([keeper.part("keeper")], now)) for now in (0.0, 0.5, 1.0)] == [False, False, True]
    goes_on.set()
    seen = keeper.part("keeper").steps
    await eventually(lambda: keeper.part("keeper").steps > seen)
    await keeper.end()


async def test_sources_that_do_not_receive_are_stuck() -> None:
    async with logging_to_memory(GROUP) as logger:
        sources = (
            TcpSource(TcpConfig(kind="tcp", port=0), logger.intakes),
            UdpSource(UdpConfig(kind="udp", port=0), logger.intakes),
            SimulatedSource(SimulatedConfig(kind="simulated", group="bpm"), logger.intakes),
        )
        for source in sources:
            await source.start()
            assert not any(part.is_busy for part in source.parts()), source.status().kind
        for source in sources:
            await source.stop()
            assert source.parts()[0].is_busy, source.status().kind
            await source.close()


async def test_readings_that_have_gathered_are_work_until_they_are_handed_on() -> None:
    async with logging_to_memory(GROUP) as logger:
        source = UdpSource(UdpConfig(kind="udp", port=0), logger.intakes)
        gather = source._gathers["bpm"]
        record = make_block(GROUP, [(1, 0)]).tobytes()
        gather.space(b"")[: len(record)] = record
        gather.take(len(record), -1, 0)
        assert gather.part().is_busy
        gather.flush()
        assert (gather.part().is_busy, gather.part().steps) == (False, 1)
