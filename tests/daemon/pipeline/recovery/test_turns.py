"""Daemons that write as one logger and take turns: one whose position is another's does not take it for its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.base import StoreUnavailable
from daemon.pipeline.assembly import Origin
from tests.support.kills import copy_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import Logged, eventually, journaling
from tests.support.readings import make_group, whole

GROUP = make_group()
NO_JOURNAL = {"max_mib": 0.0}
SECTIONS = [{}, {"journal": NO_JOURNAL}]


class Way:
    """One daemon's way to the database, which may be cut."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self.is_cut = store, False

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._store, name):
            raise AttributeError(name)  # it can do no more than its store

        async def call(*args: Any) -> Any:
            if self.is_cut:
                raise StoreUnavailable("away")
            return await getattr(self._store, name)(*args)

        return call


@asynccontextmanager
async def two(store: MemoryStore, folder: Path, **sections: dict) -> AsyncIterator[tuple]:
    """A daemon that was cut off after two triggers, and one from a copy of its folder, with their ways and columns."""
    way, other_way = Way(store), Way(store)
    async with journaling(way, GROUP, folder / "here", **sections) as here:
        column = here.connect(session=1).column
        await send(here, column, 0, 1, 2)
        if (folder / "here").exists():
            copy_of(folder / "here", folder / "copied")
        way.is_cut = True
        async with journaling(other_way, GROUP, folder / "copied", **sections) as there:
            yield (here, way, column), (there, other_way, there.connect(session=2).column)


async def send(pipeline: Logged, column: int, first: int, *triggers: int, is_cut: bool = False) -> None:
    for k, trigger in enumerate(triggers):
        block = whole(GROUP, trigger)
        block["epoch"] = 7
        pipeline.receive(block, Origin.of(column, first + 5 * k, 5))
    if not is_cut:
        await eventually(lambda: not pipeline.waiting.blocks)


def triggers_in(store: MemoryStore) -> list[int]:
    return sorted(store._groups["bpm"].rows()["trigger"].tolist())


async def other_journal(pipeline: Logged) -> None:
    await eventually(lambda: "does not follow" in str(pipeline.figures().store_problem))


@pytest.mark.parametrize("sections", SECTIONS)
async def test_what_waits_is_not_taken_for_what_the_other_committed(tmp_path: Path, sections: dict) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with two(store, tmp_path, **sections) as ((here, way, column), (there, _, other)):
        await send(here, column, 10, 3, is_cut=True)
        await send(there, other, 0, 4, 5, 6)
        way.is_cut = False
        await other_journal(here)
        assert here.acknowledged()[0][column] == 10
    assert triggers_in(store) == [1, 2, 4, 5, 6]


@pytest.mark.parametrize("sections", SECTIONS)
async def test_a_daemon_that_is_alive_was_not_put_back_by_going_on(tmp_path: Path, sections: dict) -> None:
    """Its id is a former one of the copy, that has committed nothing yet."""
    store = MemoryStore({"bpm": GROUP})
    async with two(store, tmp_path, **sections) as ((here, way, column), (there, other_way, other)):
        other_way.is_cut, way.is_cut = True, False
        await send(here, column, 10, 4, 5, 6)
        way.is_cut, other_way.is_cut = True, False
        await send(there, other, 0, 7, is_cut=True)
        await other_journal(there)
        assert there.acknowledged()[0][other] == 0
    assert triggers_in(store) == [1, 2, 4, 5, 6]


async def test_without_a_journal_a_database_that_was_put_back_is_gone_on_with(tmp_path: Path) -> None:
    """To where an earlier process left it: what is lost is counted, and what comes is stored."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, journal=NO_JOURNAL) as pipeline:
        await send(pipeline, pipeline.connect(session=1).column, 0, 1, 2)
    position = store._groups["bpm"].positions.copy()
    ledger, readings = store._groups["bpm"].ledger.copy(), list(store._groups["bpm"].readings)
    async with journaling(store, GROUP, tmp_path, journal=NO_JOURNAL) as pipeline:
        column = pipeline.connect(session=2).column
        await send(pipeline, column, 0, 3)
        kept = store._groups["bpm"]
        kept.positions, kept.ledger, kept.readings = position, ledger, readings
        await send(pipeline, column, 5, 4)
        assert pipeline.figures().lost.readings == 5
    assert triggers_in(store) == [1, 2, 4]
