"""A database that is put back to an older state while no daemon runs: what it lacks is counted, and nothing else is."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.base import BatchRejected
from daemon.core.monitoring.events import Events
from daemon.pipeline.files.acknowledged import read_acknowledged
from daemon.pipeline.intake import open_intake
from daemon.pipeline.log import folder_of
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import ask_store, recover_group
from schemas.batch import Batch, Stream
from tests.support.disks import REAL
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import configured, eventually, journaling
from tests.support.readings import make_group, whole

GROUP = make_group()
NO_JOURNAL = {"journal": {"max_mib": 0}}


async def commit(pipeline: Pipeline, *triggers: int) -> None:
    for trigger in triggers:
        pipeline.receive(whole(GROUP, trigger))
    await eventually(lambda: not pipeline.waiting.blocks and not pipeline.figures().open)


def lost(pipeline: Pipeline) -> int:
    return pipeline.figures().lost_before.get("database", 0)


async def said(store: MemoryStore, folder: Path) -> list[str]:
    """What a start says, that goes no further."""
    config, events = configured(), Events()
    intake = await open_intake(GROUP, config, folder, events, outside=REAL)
    in_store = await ask_store(store, GROUP, config)
    await recover_group(
        in_store, GROUP, config, folder, events, outside=REAL, log=intake.log, in_log=intake.found_readings
    )
    return [event.text for event in events.newest()]


async def test_what_it_lacks_is_counted_once_something_was_committed_no_more(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 1, 2)
    older = copy.deepcopy(store._groups["bpm"])
    async with journaling(store, GROUP, tmp_path) as pipeline:
        assert lost(pipeline) == 0
        await commit(pipeline, *range(3, 11))
    store._groups["bpm"] = older
    for _ in (1, 2):
        async with journaling(store, GROUP, tmp_path) as pipeline:
            assert lost(pipeline) == 40
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 11)
    async with journaling(store, GROUP, tmp_path) as pipeline:
        assert lost(pipeline) == 0


async def test_it_is_said_with_the_number_and_the_triggers_are_not_said_to_have_never_come(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 1, 2)
        older = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, *range(3, 11))
    store._groups["bpm"] = older
    assert any("lost 40 readings" in text for text in await said(store, tmp_path))
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 11, 13)
        texts = [event.text for event in pipeline._announcements._events.newest()]
        assert any("3 to 10 of run 1 are not there, and may be among what the database lost" in text for text in texts)
        assert pipeline.figures().committed.dead_readings == 0


async def test_a_new_empty_database_in_its_place_is_said_to_lack_all(tmp_path: Path) -> None:
    async with journaling(MemoryStore({"bpm": GROUP}), GROUP, tmp_path) as pipeline:
        await commit(pipeline, *range(1, 11))
    async with journaling(MemoryStore({"bpm": GROUP}), GROUP, tmp_path) as pipeline:
        assert lost(pipeline) == 50


async def test_a_position_that_an_operator_removed_is_no_loss(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 1, 2)
    del store._groups["bpm"].positions[Stream.JOURNAL]
    async with journaling(store, GROUP, tmp_path) as pipeline:
        assert lost(pipeline) == 0


async def test_what_the_log_still_has_is_not_lost(tmp_path: Path) -> None:
    """It holds what an asynchronous database may lose: of that nothing is lost, and of what it let go all is."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 1)
        oldest = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, 2, 3)
    async with journaling(store, GROUP, tmp_path, risk_ms=60_000.0) as pipeline:
        older = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, 4, 5)
    assert read_acknowledged(folder_of(tmp_path, "bpm"), REAL.disk).triggers == 5
    for kept, count in ((older, 0), (oldest, 10)):
        store._groups["bpm"] = copy.deepcopy(kept)
        assert [f"lost {count} readings" in " ".join(await said(store, tmp_path))] == [count > 0]


async def test_another_host_that_went_on_is_no_loss(tmp_path: Path) -> None:
    store, here, there = MemoryStore({"bpm": GROUP}), tmp_path / "here", tmp_path / "there"
    async with journaling(store, GROUP, here) as pipeline:
        await commit(pipeline, *range(1, 11))
    async with journaling(store, GROUP, there) as pipeline:
        assert lost(pipeline) == 0
        await commit(pipeline, 11)
        older = copy.deepcopy(store._groups["bpm"])
        await commit(pipeline, 12, 13)
    async with journaling(store, GROUP, here) as pipeline:
        assert lost(pipeline) == 0
    store._groups["bpm"] = older
    async with journaling(store, GROUP, here) as pipeline:
        assert lost(pipeline) == 0
    async with journaling(store, GROUP, there) as pipeline:
        assert lost(pipeline) == 10


async def test_a_running_daemon_notes_it_every_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.pipeline.log.keeper.ROOM_EVERY_S", 0.01)
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, 1, 2)
        await eventually(lambda: read_acknowledged(folder_of(tmp_path, "bpm"), REAL.disk).triggers == 2)


class Refusing(MemoryStore):
    """Takes none of some triggers."""

    bad: frozenset[int] = frozenset()

    def _see_good(self, batch: Batch) -> None:
        if np.isin(batch.ledger["trigger"], list(self.bad)).any():
            raise BatchRejected("value out of range")

    async def rehearse(self, batch: Batch) -> None:
        self._see_good(batch)
        await super().rehearse(batch)

    async def commit(self, batch: Batch) -> None:
        self._see_good(batch)
        await super().commit(batch)


async def retried_and_older(pipeline: Pipeline, store: Refusing, *, all_of_it: bool) -> Any:
    """Retry the dead letters of triggers 3 and 5, of which the database takes one, or all; what it had before."""
    store.bad = frozenset({3, 5})
    await commit(pipeline, *range(1, 7))
    await eventually(lambda: pipeline.figures().dead_letters.blocks == 2)
    before = copy.deepcopy(store._groups["bpm"])
    store.bad = frozenset() if all_of_it else frozenset({5})
    assert (await pipeline.letters.retry()).committed == (2 if all_of_it else 1)
    store.bad = frozenset()
    return before


def triggers_in(store: MemoryStore) -> list[int]:
    return sorted(store._groups["bpm"].rows()["trigger"].tolist())


@pytest.mark.parametrize("is_running", [False, True], ids=["down", "running"])
async def test_what_was_retried_is_counted_and_what_was_not_is_pending_still(tmp_path: Path, is_running: bool) -> None:
    store = Refusing({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        before = await retried_and_older(pipeline, store, all_of_it=False)
        if is_running:
            store._groups["bpm"] = before
            outcome = await pipeline.letters.retry()
            assert (outcome.committed, outcome.lost, lost(pipeline)) == (1, GROUP.size, GROUP.size)
    if not is_running:
        store._groups["bpm"] = before
    async with journaling(store, GROUP, tmp_path) as pipeline:
        assert lost(pipeline) == (0 if is_running else GROUP.size)
        assert pipeline.figures().dead_letters.blocks == (0 if is_running else 1)
        assert (await pipeline.letters.retry()).rejected == 0
    assert triggers_in(store) == [1, 2, 4, 5, 6]


@pytest.mark.parametrize("is_running", [False, True], ids=["down", "running"])
async def test_what_was_retried_and_is_nowhere_any_more_is_counted_once(tmp_path: Path, is_running: bool) -> None:
    store = Refusing({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        before = await retried_and_older(pipeline, store, all_of_it=True)
        assert not list((tmp_path / "dead-letters" / "bpm").glob("*.dead"))
        if is_running:
            store._groups["bpm"] = before
            assert [(await pipeline.letters.retry()).lost for _ in (1, 2)] == [2 * GROUP.size, 0]
            assert lost(pipeline) == 2 * GROUP.size
    if not is_running:
        store._groups["bpm"] = before
    for count in (0 if is_running else 2 * GROUP.size, 0):
        async with journaling(store, GROUP, tmp_path) as pipeline:
            assert lost(pipeline) == count
    assert triggers_in(store) == [1, 2, 4, 6]
