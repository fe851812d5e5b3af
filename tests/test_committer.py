"""The committer: batching, retry, rejection, backlog."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from backends.base import BatchRejected, StoreUnavailable
from backends.memory import MemoryStore
from daemon.assembly import Origin
from schemas.batch import Batch, JournalPosition
from tests.pipelines import Logger, eventually, logging_to_memory
from tests.readings import make_block, make_group, time_of, whole

GROUP = make_group()


def put(logger: Logger, *triggers: int) -> None:
    for trigger in triggers:
        logger.pipelines["bpm"].receive(whole(GROUP, trigger))


async def test_an_idle_system_commits_a_single_trigger_at_once() -> None:
    async with logging_to_memory(GROUP) as logger:
        put(logger, 1)
        await eventually(lambda: logger.store.commits == 1)
        put(logger, 2)
        await eventually(lambda: logger.store.commits == 2)
        counts = logger.pipelines["bpm"].committer.counts
        assert (counts.commits, counts.triggers, counts.readings) == (2, 2, 10)


async def test_while_one_transaction_is_under_way_the_next_batch_gathers() -> None:
    async with logging_to_memory(GROUP) as logger:
        logger.store.serving.clear()
        put(logger, 1)
        await eventually(lambda: logger.store.begun == 1)
        put(logger, *range(2, 101))
        assert logger.pipelines["bpm"].backlog.waiting.triggers == 100
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].backlog.waiting.triggers == 0)
        assert logger.store.commits == 2
    assert len(await logger.stored(GROUP)) == 500


async def test_a_batch_is_not_larger_than_configured() -> None:
    async with logging_to_memory(GROUP, committer={"max_batch_mib": 0.005}) as logger:
        logger.store.serving.clear()
        put(logger, *range(1, 101))
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].backlog.waiting.triggers == 0)
        assert 3 < logger.store.commits < 100
    assert (await logger.store.position("bpm")).sequence == 100


async def test_late_readings_and_revised_rows_of_one_batch_belong_together() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        put(logger, 1)
        for trigger in (2, 3, 4):
            pipeline.receive(make_block(GROUP, [(trigger, 0), (trigger, 1)]))
        await eventually(lambda: pipeline.assembly.open == 0)
        for instrument in (2, 3, 3, 4):
            pipeline.receive(make_block(GROUP, [(trigger, instrument) for trigger in (4, 2, 3)]))
        logger.store.serving.set()
        await eventually(lambda: pipeline.backlog.waiting.readings == 0)
        assert logger.store.commits <= 2
    stored = await logger.stored(GROUP)
    assert [(int(r["trigger"]), int(r["instrument"])) for r in stored] == [
        (t, i) for t in (1, 2, 3, 4) for i in range(5)
    ]
    assert stored["top_in"].tolist() == pytest.approx([t + i / 1000 for t in (1, 2, 3, 4) for i in range(5)])
    ledger = await logger.ledger(GROUP)
    assert ledger["arrived"].tolist() == [5, 5, 5, 5]
    assert ledger["late"].tolist() == [0, 3, 3, 3]
    assert ledger["duplicates"].tolist() == [0, 1, 1, 1]
    assert not ledger["missing"].any()


async def test_database_away_loses_nothing_and_is_said() -> None:
    settings = {"retry_first_ms": 1.0, "retry_most_ms": 4.0}
    async with logging_to_memory(GROUP, committer=settings) as logger:
        committer = logger.pipelines["bpm"].committer
        logger.store.fail_with(StoreUnavailable("connection refused"))
        put(logger, 1, 2)
        await eventually(lambda: committer.counts.retries >= 3)
        assert committer.problem == "connection refused"
        assert committer.counts.triggers == 0
        logger.store.fail_with(None)
        await eventually(lambda: logger.pipelines["bpm"].backlog.waiting.triggers == 0)
        assert committer.problem is None
    assert len(await logger.stored(GROUP)) == 10


class Picky(MemoryStore):
    """Rejects what holds trigger 3."""

    async def commit(self, batch: Batch) -> None:
        if 3 in batch.ledger["trigger"]:
            raise BatchRejected("trigger 3 is not welcome")
        await super().commit(batch)


async def test_a_rejected_piece_is_kept_on_disk_and_takes_no_other_with_it(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path / "dead") as logger:
        pipeline = logger.pipelines["bpm"]
        column = pipeline.assembly.receipts.connect()
        logger.store.serving.clear()
        logger.store.__class__ = Picky
        pipeline.receive(whole(GROUP, *range(1, 3)), Origin.of(column, 0, 10))
        for trigger in (3, 4, 5):
            pipeline.receive(whole(GROUP, trigger), Origin.of(column, 5 * trigger - 5, 5))
        logger.store.serving.set()
        await eventually(lambda: pipeline.backlog.waiting.triggers == 0)
        assert (pipeline.committer.counts.dead_triggers, pipeline.committer.counts.dead_readings) == (1, 5)
        assert pipeline.assembly.receipts.acknowledged()[0][column] == 25
        assert "trigger 3 is not welcome" in logger.events.newest()[0].text
    assert sorted(set((await logger.stored(GROUP))["trigger"].tolist())) == [1, 2, 4, 5]
    (path,) = (tmp_path / "dead").iterdir()
    with np.load(path) as kept:
        assert json.loads(str(kept["about"]))["reason"] == "trigger 3 is not welcome"
        assert kept["readings"]["top_in"][0].tolist() == [3 + i / 1000 for i in range(5)]
        assert kept["ledger"]["time_ns"].tolist() == [time_of(3)]


async def test_the_account_counts_on_and_leaves_out_what_was_rejected(tmp_path: Path) -> None:
    before = JournalPosition(sequence=9, triggers=100, readings=500)
    async with logging_to_memory(GROUP, folder=tmp_path / "dead", position=before) as logger:
        logger.store.serving.clear()
        logger.store.__class__ = Picky
        put(logger, *range(1, 6))
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].backlog.waiting.triggers == 0)
        position = await logger.store.position("bpm")
        assert position == JournalPosition(sequence=14, triggers=104, readings=520)


async def test_a_rejected_piece_waits_while_it_cannot_be_kept(tmp_path: Path) -> None:
    blocked = tmp_path / "dead"
    blocked.write_text("a file where the folder should be")
    settings = {"retry_first_ms": 1.0, "retry_most_ms": 4.0}
    async with logging_to_memory(GROUP, folder=blocked, committer=settings) as logger:
        committer = logger.pipelines["bpm"].committer
        logger.store.__class__ = Picky
        put(logger, 3)
        await eventually(lambda: committer.problem is not None)
        assert "cannot be kept on disk" in committer.problem
        assert logger.pipelines["bpm"].backlog.waiting.triggers == 1
        blocked.unlink()
        await eventually(lambda: logger.pipelines["bpm"].backlog.waiting.triggers == 0)
        assert committer.counts.dead_triggers == 1


async def test_backlog_at_its_limit_is_told_and_again_when_there_is_room() -> None:
    async with logging_to_memory(GROUP, committer={"max_batch_mib": 0.01, "max_waiting_mib": 0.02}) as logger:
        told: list[bool] = []
        pipeline = logger.pipelines["bpm"]
        pipeline.subscribe(settled=lambda: None, full=told.append)
        logger.store.serving.clear()
        put(logger, *range(1, 101))
        assert (told, pipeline.is_full) == ([True], True)
        logger.store.serving.set()
        await eventually(lambda: told == [True, False])
        assert not pipeline.is_full


async def test_latency_runs_from_closing_to_the_stores_acknowledgement() -> None:
    async with logging_to_memory(GROUP) as logger:
        committer = logger.pipelines["bpm"].committer
        logger.store.serving.clear()
        put(logger, 1)
        await asyncio.sleep(0.05)
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].backlog.waiting.triggers == 0)
        assert committer.latencies.total == 1
        assert committer.latencies.sum_ms >= 50
