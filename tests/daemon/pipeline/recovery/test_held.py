"""What an asynchronous database may lose is held over a restart of the daemon, too."""

import copy
from pathlib import Path

from backends.base import StoreUnavailable
from backends.memory.store import MemoryStore
from daemon.pipeline.journal.written_with import WrittenWith
from daemon.pipeline.pipeline import Pipeline
from schemas.batch import Durability
from schemas.readings import Array
from tests.daemon.pipeline.journal.test_journal import segments
from tests.daemon.pipeline.journal.test_recovery import drop_record
from tests.support.disks import REAL
from tests.support.pipelines import eventually, journaling
from tests.support.readings import make_group, whole

GROUP = make_group()
RISK_MS = 60_000.0


async def commit(pipeline: Pipeline, *triggers: int) -> None:
    for trigger in triggers:
        pipeline.receive(whole(GROUP, trigger))
    await eventually(lambda: not pipeline.waiting.blocks and not pipeline.figures().open)


def of_epoch(*triggers: int) -> Array:
    block = whole(GROUP, *triggers)
    block["epoch"] = 7
    return block


def triggers_in(store: MemoryStore) -> list[int]:
    return sorted(store._groups["bpm"].rows()["trigger"].tolist())


async def test_what_the_database_loses_after_a_restart_comes_again(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await commit(pipeline, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, *range(2, 6))
    for life in (1, 2):
        async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
            assert pipeline.figures().recovered.triggers == 0
            for again in (1, 2):
                store._groups["bpm"] = copy.deepcopy(flushed)
                newest = 3 + 2 * life + again
                await commit(pipeline, newest)
                assert triggers_in(store) == list(range(1, newest + 1))
            figures = pipeline.figures()
            assert figures.lost.readings == figures.lost_before.get("sender", 0) == 0
            # As if it had found them in the journal beyond the position.
            assert figures.recovered.triggers == 4 + 2 * (life - 1)
            assert figures.committed.triggers == figures.recovered.triggers + 2
            assert (figures.committed.dead_triggers, figures.committed.dead_readings) == (0, 0)
        position = await store.position("bpm")
        assert (position.triggers, position.readings) == (5 + 2 * life, 5 * (5 + 2 * life))


async def test_what_is_safe_by_then_is_held_no_longer(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await commit(pipeline, 1, 2)
    async with journaling(store, GROUP, tmp_path, risk_ms=1.0) as pipeline:
        assert len(pipeline._backlog._held) == 2
        await commit(pipeline, 3)
        await eventually(lambda: pipeline._now().monotonic_ns / 1e9 > pipeline._backlog._held.oldest.since_s + 0.01)
        await commit(pipeline, 4)
        assert len(pipeline._backlog._held) == 1


async def test_what_is_lost_after_a_change_to_synchronous_commits_comes_again(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await commit(pipeline, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, 2, 3)
    async with journaling(store, GROUP, tmp_path) as pipeline:
        store._groups["bpm"] = flushed  # the server crashes before it has flushed
        await commit(pipeline, 4)
        assert triggers_in(store) == [1, 2, 3, 4]
        await commit(pipeline, 5)  # which proves that it has all before
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 6)
        assert not pipeline._backlog._held
    folder = tmp_path / "journal" / "bpm"
    async with journaling(store, GROUP, tmp_path):
        assert WrittenWith.read(folder, REAL.disk) == WrittenWith(durability=Durability.SYNC, window=65_536)


async def test_triggers_far_apart_in_the_journal_are_remembered_by_a_smaller_window(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, assembly={"window": 65536}) as pipeline:
        store.fail_with(StoreUnavailable("away"))
        for numbers in (range(20_000, 20_001), range(10_000, 13_000)):
            pipeline.receive(of_epoch(*numbers))
        await eventually(lambda: pipeline._backlog._journal.state.synced == pipeline._backlog.last)
    store.fail_with(None)
    small = {"window": 64, "max_open": 16, "timeout_ms": 50}
    async with journaling(store, GROUP, tmp_path, assembly=small) as pipeline:
        pipeline.receive(of_epoch(20_000))
        await eventually(lambda: not pipeline.waiting.blocks and not pipeline.figures().open)
        assert pipeline.figures().dead_letters.readings == 0
        assert pipeline.figures().assembled.opened == 0


async def test_of_a_database_that_was_put_back_meanwhile_nothing_is_taken_twice(tmp_path: Path) -> None:
    """What it still has is not taken again with what goes through assembly."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await commit(pipeline, 1)
        before = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, 2)
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        store.fail_with(StoreUnavailable("away"))
        pipeline.receive(whole(GROUP, 3))  # its segment notes where the database is
        await eventually(lambda: pipeline._backlog._journal.state.written > 0)
    store.fail_with(None)
    store._groups["bpm"] = before
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await eventually(lambda: not pipeline.waiting.blocks)
        figures = pipeline.figures()
        assert (figures.letters_aside, figures.assembled.duplicate) == (10, 0)


async def test_what_is_held_before_a_hole_is_not_taken_again(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await commit(pipeline, 1, 2)
        store.fail_with(StoreUnavailable("away"))
        for trigger in (3, 4, 5):
            pipeline.receive(whole(GROUP, trigger))
        await eventually(lambda: pipeline._backlog._journal.state.written == pipeline._backlog.last)
    drop_record(segments(tmp_path / "journal" / "bpm")[-1], -2)
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path, risk_ms=RISK_MS) as pipeline:
        await eventually(lambda: not pipeline.waiting.blocks)
        figures = pipeline.figures()
        assert (figures.committed.triggers, figures.letters_aside, figures.assembled.duplicate) == (1, 5, 0)
    assert triggers_in(store) == [1, 2, 3]
