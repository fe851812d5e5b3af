"""A daemon that is to keep no log any more does not start over one that holds something."""

from pathlib import Path

import pytest

from backends.base import StoreUnavailable
from daemon.core.outcome import CommandFailed
from daemon.pipeline.log import folder_of
from daemon.pipeline.log.log import ENDING
from tests.support.kills import copy_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually, journaling
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()
OFF = {"max_mib": 0}
HOLDS_6 = r"intake/bpm holds 6 readings, and journal.max_mib is 0"


async def test_a_log_that_holds_something_is_not_turned_off(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as logged:
        logged.receive(whole(GROUP, 1))
        await eventually(lambda: logged.is_idle)
        store.fail_with(StoreUnavailable("away"))
        logged.receive(whole(GROUP, 2))
        logged.receive(make_block(GROUP, [(3, 1)]))
    store.fail_with(None)
    with pytest.raises(CommandFailed, match=HOLDS_6):
        async with journaling(store, GROUP, tmp_path, journal=OFF):
            pass
    async with journaling(store, GROUP, tmp_path, assembly={"timeout_ms": 5.0}) as logged:
        await eventually(lambda: logged.is_idle)
    async with journaling(store, GROUP, tmp_path, journal=OFF) as logged:
        assert not logged.has_log


async def test_what_the_database_has_does_not_count(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path / "here", risk_ms=60_000.0) as logged:
        logged.receive(whole(GROUP, 1))
        await eventually(lambda: logged.is_idle and logged.intake.state.synced >= 1)
        copy_of(tmp_path / "here", tmp_path / "killed")
    assert list(folder_of(tmp_path / "killed", "bpm").glob(f"*{ENDING}")), "kept for as long as the server may lose it"
    async with journaling(store, GROUP, tmp_path / "killed", journal=OFF):
        pass


async def test_what_another_daemon_calls_settled_counts(tmp_path: Path) -> None:
    """It never had what is in this folder."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path / "here") as logged:
        column = logged.connect(session=1).column
        store.fail_with(StoreUnavailable("away"))
        logged.send(column, whole(GROUP, 1))
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path / "there") as logged:
        logged.send(logged.connect(session=1, first=5).column, whole(GROUP, 2))
        await eventually(lambda: logged.is_idle)
    with pytest.raises(CommandFailed, match="intake/bpm holds 5 readings"):
        async with journaling(store, GROUP, tmp_path / "here", journal=OFF):
            pass
