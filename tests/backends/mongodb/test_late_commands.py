"""Commands of a batch that were given up without an answer, and that the server carries out later."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import StoreUnavailable
from schemas.batch import Layout
from tests.backends.mongodb.test_retention import before_write
from tests.backends.mongodb.test_unfinished import BOTH, GROUP, Dead, Make, Story, database, holds, make, opened, rng

__all__ = ["database", "make", "rng"]


@contextmanager
def given_up(sets: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Hold the first command that sets a field beside the position: the list gets what carries it out."""
    command, held = AsyncDatabase.command, list[Any]()

    async def holding(database: Any, name: Any, *args: Any, **options: Any) -> Any:
        is_it = name == "update" and sets in options["updates"][0]["u"].get("$set", {})
        if is_it and args[0] == "positions" and not held:
            held.append(lambda: command(database, name, *args, **options))
            raise Dead("it does not answer in time")
        return await command(database, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncDatabase, "command", holding)
        yield held


@BOTH
@pytest.mark.parametrize("dies", [False, True], ids=["goes-on", "dies"])
@pytest.mark.parametrize("sets", ["sequence", "unfinished"])
async def test_a_position_or_a_note_that_is_written_late_acknowledges_nothing_that_is_not_there(
    make: Make,
    rng: np.random.Generator,
    layout: Layout,
    sets: str,
    dies: bool,
    monkeypatch: pytest.MonkeyPatch,
    database: Any,
) -> None:
    """Before each command with which the same writer takes its batch out, and commits it again."""
    for writes in count():
        story, came = Story(rng), False
        store = await opened(make(layout))
        await store.commit(story.acknowledged)
        with given_up(sets, monkeypatch) as held, pytest.raises(StoreUnavailable):
            await store.commit(story.unfinished)

        async def comes(_: str) -> None:
            nonlocal came
            came = True
            await held[0]()
            if dies:
                raise Dead("killed")

        with before_write(writes, comes, monkeypatch):
            while not (came and dies):
                with suppress(StoreUnavailable):
                    await store.commit(story.unfinished)
                    break
        if came and dies:
            store._writers[GROUP.name]._lease.is_held = False
            store = await opened(make(layout))
            is_there = await store.position(GROUP.name) == story.unfinished.position
            await holds(store, story.acknowledged, *([story.unfinished] if is_there else []))
            await store.commit(story.unfinished)
        await holds(store, story.acknowledged, story.unfinished)
        if not came:
            break
        await store.close()
        await database.client.drop_database(database.name)
    assert writes >= 5
