"""Commands of a batch that were given up without an answer, and that the server carries out later."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from bson import Int64
from pymongo.asynchronous.database import AsyncDatabase

from backends.base import StoreUnavailable
from backends.mongodb import MongodbStore
from backends.mongodb.writing.conflicts import arrays_to_set
from backends.mongodb.writing.putting import Put
from schemas.batch import Batch, Layout
from tests.backends.mongodb.test_retention import before_write
from tests.backends.mongodb.test_unfinished import (
    BOTH,
    GROUP,
    WRITES,
    Dead,
    Make,
    Story,
    database,
    holds,
    make,
    opened,
    rng,
)

__all__ = ["database", "make", "rng"]

ROUNDS = 8
"""Of commands that are given up by chance."""


@contextmanager
def held_back(monkeypatch: pytest.MonkeyPatch, is_it: Callable[..., bool]) -> Iterator[list[Any]]:
    """Hold the first command that is it: the list gets what carries it out."""
    command, held = AsyncDatabase.command, list[Any]()

    async def holding(database: Any, name: Any, *args: Any, **options: Any) -> Any:
        if not held and is_it(name, *args, **options):
            held.append(lambda: command(database, name, *args, **options))
            raise Dead("it does not answer in time")
        return await command(database, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncDatabase, "command", holding)
        yield held


def given_up(sets: str, monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[list[Any]]:
    """Hold the first command that sets a field beside the position."""

    def is_it(name: Any, *args: Any, **options: Any) -> bool:
        sets_it = name == "update" and sets in options["updates"][0]["u"].get("$set", {})
        return sets_it and args[0] == "positions"

    return held_back(monkeypatch, is_it)


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


def taking_out_given_up(number: int, monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[list[Any]]:
    """Hold the so many-th command that takes out documents."""
    left = number

    def is_it(name: Any, *args: Any, **_: Any) -> bool:
        nonlocal left
        if name == "insert":
            left = -1  # all was taken out
        if name in ("update", "delete") and args[0] in (GROUP.name, f"{GROUP.name}_ledger"):
            left -= 1
            return left == -1
        return False

    return held_back(monkeypatch, is_it)


@BOTH
@pytest.mark.parametrize(
    ("closes", "guarded"), [("as-before", False), ("again", True)], ids=["as-before", "again-guarded"]
)
async def test_what_takes_a_batch_out_late_removes_nothing_of_what_was_committed_since(
    make: Make,
    rng: np.random.Generator,
    layout: Layout,
    closes: str,
    guarded: bool,
    monkeypatch: pytest.MonkeyPatch,
    database: Any,
) -> None:
    """Each command of it, before every other one with which a batch is taken out once more and committed again."""
    if guarded:
        monkeypatch.setattr("backends.mongodb.writing.writer.arrays_to_set", partial(_guarded, arrays_to_set))
    commands = 0
    for number in count():
        for writes in count(number % 2, 2):
            story, came = Story(rng), False
            store = await opened(make(layout))
            await store.commit(story.acknowledged)
            with given_up("sequence", monkeypatch), pytest.raises(StoreUnavailable):
                await store.commit(story.unfinished)
            with taking_out_given_up(number, monkeypatch) as held, suppress(StoreUnavailable):
                await store.commit(story.unfinished)
            again = story.unfinished if closes == "as-before" else story.closed_again()

            async def comes(_: str, held: list[Any] = held) -> None:
                nonlocal came
                came = True
                await held[0]()

            if held:
                with before_write(writes, comes, monkeypatch):
                    await _committed(store, again)
                if not came:
                    await held[0]()
                await holds(store, story.acknowledged, again)
            await store.close()
            await database.client.drop_database(database.name)
            if not came:
                break
        if not held:
            break
        assert writes >= 5
        commands += 1
    assert commands == 4


@BOTH
@pytest.mark.parametrize("guarded", [False, True], ids=["unguarded", "guarded"])
async def test_whatever_is_given_up_and_comes_late_the_batch_is_there_in_the_end(
    make: Make, rng: np.random.Generator, layout: Layout, guarded: bool, monkeypatch: pytest.MonkeyPatch, database: Any
) -> None:
    if guarded:
        monkeypatch.setattr("backends.mongodb.writing.writer.arrays_to_set", partial(_guarded, arrays_to_set))
    for _ in range(ROUNDS):
        story = Story(rng)
        store = await opened(make(layout))
        await store.commit(story.acknowledged)
        with now_and_then_given_up(rng, monkeypatch) as held:
            await _committed(store, story.unfinished)
        await holds(store, story.acknowledged, story.unfinished)
        while held:
            await held.pop(rng.integers(len(held)))()
        await holds(store, story.acknowledged, story.unfinished)
        await store.close()
        await database.client.drop_database(database.name)


@contextmanager
def now_and_then_given_up(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Hold commands that write, and carry out some of what is held before others: the list is what is held."""
    command, held, left = AsyncDatabase.command, list[Any](), 8

    async def holding(database: Any, name: Any, *args: Any, **options: Any) -> Any:
        nonlocal left
        if name in WRITES:
            while held and rng.random() < 0.2:
                await held.pop(rng.integers(len(held)))()
            if left and rng.random() < 0.3 and not _is_of_lease(options):
                left -= 1
                held.append(lambda: command(database, name, *args, **options))
                raise Dead("it does not answer in time")
        return await command(database, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncDatabase, "command", holding)
        yield held


def _is_of_lease(options: dict[str, Any]) -> bool:
    return any("owner" in update["u"].get("$set", {}) for update in options.get("updates", []))


@BOTH
async def test_what_is_there_already_gets_the_mark_of_the_batch_that_acknowledges_it(
    make: Make, rng: np.random.Generator, layout: Layout, monkeypatch: pytest.MonkeyPatch, database: Any
) -> None:
    """Or the batch begins anew, where somebody changes it between being compared and being marked."""
    story = Story(rng)
    first = await opened(make(layout))
    await first.commit(story.acknowledged)
    before = await database[GROUP.name].distinct("B")
    await first.close()
    await database["positions"].update_one({"_id": GROUP.name}, {"$set": {"sequence": Int64(0), "journal": Int64(0)}})
    second, update, changed = await opened(make(layout)), Put.update, 0

    async def changing(self: Put, name: str, updates: list[dict[str, Any]]) -> int:
        nonlocal changed
        if name == GROUP.name and not changed:
            changed = (await database[name].update_one({"trigger_id": 3}, {"$set": {"B": 5}})).modified_count
        return await update(self, name, updates)

    with monkeypatch.context() as patched:
        patched.setattr(Put, "update", changing)
        with pytest.raises(StoreUnavailable, match="were changed while they were compared"):
            await second.commit(story.acknowledged)
    assert changed
    await second.commit(story.acknowledged)
    after = await database[GROUP.name].distinct("B")
    assert len(before) == len(after) == 1
    assert before != after
    await holds(second, story.acknowledged)


async def _committed(store: MongodbStore, batch: Batch) -> None:
    for _ in range(30):
        with suppress(StoreUnavailable):
            return await store.commit(batch)
    raise AssertionError("it was never committed")


def _guarded(compare: Callable[..., Any], *documents: Any, **options: Any) -> Any:
    """As on a server that uses indexes."""
    return compare(*documents, **{**options, "guarded": True})
