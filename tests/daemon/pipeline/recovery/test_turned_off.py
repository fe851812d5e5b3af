"""A daemon that is to keep no journal any more does not start over one that holds something."""

from pathlib import Path

import pytest

from backends.base import StoreUnavailable
from backends.memory.store import MemoryStore
from daemon.core.outcome import CommandFailed
from tests.daemon.pipeline.intake.test_intake import NOTHING, RunKind, log_of
from tests.support.pipelines import eventually, journaling
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()
OFF = {"max_mib": 0}


async def test_a_journal_that_holds_something_is_not_turned_off(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        pipeline.receive(whole(GROUP, 1))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        store.fail_with(StoreUnavailable("away"))
        pipeline.receive(whole(GROUP, 2))
        pipeline.receive(make_block(GROUP, [(2, 1)]))
    store.fail_with(None)
    with pytest.raises(CommandFailed, match=r"journal/bpm holds 5 readings, and journal.max_mib is 0"):
        async with journaling(store, GROUP, tmp_path, journal=OFF):
            pass
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await eventually(lambda: not pipeline.waiting.blocks)
    async with journaling(store, GROUP, tmp_path, journal=OFF) as pipeline:
        assert not pipeline.has_journal


async def test_what_the_database_has_does_not_count(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=60_000.0) as pipeline:
        pipeline.receive(whole(GROUP, 1))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
    assert list((tmp_path / "journal" / "bpm").glob("*.journal"))  # held for as long as the server may lose it
    async with journaling(store, GROUP, tmp_path, journal=OFF):
        pass


async def test_an_intakes_log_that_holds_something_is_not_turned_off(tmp_path: Path) -> None:
    log_of(tmp_path, [(1, 0, RunKind.JOINED, NOTHING)], [(1, 0, RunKind.READINGS, whole(GROUP, 1))])
    with pytest.raises(CommandFailed, match=r"intake/bpm holds 5 readings, and journal.max_mib is 0"):
        async with journaling(MemoryStore({"bpm": GROUP}), GROUP, tmp_path, journal=OFF):
            pass
