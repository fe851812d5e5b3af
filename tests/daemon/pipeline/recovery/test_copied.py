"""A copy of the state folder was written from meanwhile: the journal of the other is not taken for what it has."""

from pathlib import Path

from backends.base import StoreUnavailable
from backends.memory.store import MemoryStore
from daemon.pipeline.assembly import Origin
from daemon.pipeline.pipeline import Pipeline
from tests.support.kills import copy_of
from tests.support.pipelines import eventually, journaling
from tests.support.readings import make_group, whole

GROUP = make_group()


def send(pipeline: Pipeline, column: int, *triggers: int) -> None:
    for trigger in triggers:
        block = whole(GROUP, trigger)
        block["epoch"] = 7
        pipeline.receive(block, Origin.of(column, 5 * (trigger - 1), 5))


async def test_what_was_spooled_before_a_daemon_ran_from_a_copy_is_stored(tmp_path: Path) -> None:
    store, here, copied = MemoryStore({"bpm": GROUP}), tmp_path / "here", tmp_path / "copied"
    async with journaling(store, GROUP, here) as pipeline:
        column = pipeline.connect(session=1).column
        send(pipeline, column, 1, 2)
        await eventually(lambda: not pipeline.waiting.blocks)
        copy_of(here, copied)
        store.fail_with(StoreUnavailable("away"))
        send(pipeline, column, 3, 4)
        await eventually(lambda: pipeline.acknowledged()[0][column] == 20)
    store.fail_with(None)
    async with journaling(store, GROUP, copied) as pipeline:
        send(pipeline, pipeline.connect(session=1, first=20).column, *range(5, 10))
        await eventually(lambda: pipeline.figures().committed.triggers == 5)
    async with journaling(store, GROUP, here) as pipeline:
        await eventually(lambda: not pipeline.waiting.blocks)
        assert pipeline.figures().letters_aside == 0
    assert sorted(store._groups["bpm"].rows()["trigger"].tolist()) == list(range(1, 10))


async def test_over_many_starts_what_is_left_is_committed_as_it_stands(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    for life in range(4):
        async with journaling(store, GROUP, tmp_path) as pipeline:
            column = pipeline.connect(session=1, first=5 * life).column
            if not life:
                send(pipeline, column, 1)
                await eventually(lambda p=pipeline: not p.waiting.blocks)
            store.fail_with(StoreUnavailable("away"))
            send(pipeline, column, life + 2)
            await eventually(lambda p=pipeline, c=column, n=life: p.acknowledged()[0][c] == 5 * n + 10)
        store.fail_with(None)
    async with journaling(store, GROUP, tmp_path) as pipeline:
        assert pipeline.figures().recovered.triggers == 4
        await eventually(lambda: not pipeline.waiting.blocks)
        assert pipeline.figures().assembled.received == 0
    assert sorted(store._groups["bpm"].rows()["trigger"].tolist()) == [1, 2, 3, 4, 5]
