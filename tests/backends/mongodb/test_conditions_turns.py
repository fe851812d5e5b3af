"""Turns of writers, orders that were cut short, and segments that nothing refers to, on a MongoDB wire server."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from backends.base import SchemaMismatch, StoreUnavailable
from backends.mongodb.conditions import MongodbConditionsStore
from backends.mongodb.conditions import store as store_module
from backends.mongodb.conditions.session import SEGMENTS, TURN, Session
from backends.mongodb.conditions.turns import WRITER, Change, Turns
from schemas.conditions.intervals import TagStatus
from schemas.config import DatabaseConfig
from tests.support.conditions import add, bpm, columns, everything, loose, new, shown, tag_with, valid

Make = Callable[[], MongodbConditionsStore]


@pytest.fixture
async def make(mongodb_dsn: str, schema: str) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        def open_one() -> MongodbConditionsStore:
            store = MongodbConditionsStore(DatabaseConfig(dsn=mongodb_dsn), schema=schema)
            stack.push_async_callback(store.close)
            return store

        stack.push_async_callback(open_one().drop)
        yield open_one


class Cut(BaseException):
    """The process ended here."""


def cut_after(monkeypatch: pytest.MonkeyPatch, commands: int) -> None:
    """Let a store live for so many writing commands more."""
    left = iter(range(commands))

    def cutting(command: Callable[..., object]) -> Callable[..., object]:
        async def run(*arguments: object, **named: object) -> object:
            if next(left, None) is None:
                raise Cut
            return await command(*arguments, **named)  # type: ignore[misc]

        return run

    for name in ("insert", "update", "delete"):
        monkeypatch.setattr(Session, name, cutting(getattr(Session, name)))


async def _insert(store: MongodbConditionsStore) -> None:
    lists = [(await store.tag_lists(tag))["bpm"] for tag in "ab"]
    await store.insert({name: columns([new("n", 5, 15), new("m", 7, 8)]) for name in lists})


async def _attach(store: MongodbConditionsStore) -> None:
    (free,) = await loose(store)
    await store.attach_interval((await store.tag_lists("a"))["bpm"], free.id)


async def _attach_list(store: MongodbConditionsStore) -> None:
    (free,) = [each for each in await store.lists() if each.tag is None]
    await store.attach_list("a", free.name)


async def _clone(store: MongodbConditionsStore) -> None:
    await store.clone_tag("a", "c")


async def _remove_tag(store: MongodbConditionsStore) -> None:
    await store.remove_tag("b")


ORDERS = {"insert": _insert, "attach": _attach, "attach_list": _attach_list, "clone": _clone, "remove": _remove_tag}


def _is_another(mine: str, owner: str) -> bool:
    return owner != mine


def _plain(found: list[object]) -> str:
    """What a store holds, without times."""
    return re.sub(r"(created|updated|inserted)_ns=\d+", "", str(found))


async def _prepared(store: MongodbConditionsStore) -> None:
    await store.create()
    await bpm(store, ("x", 0, 10), ("y", 10, 20))
    (other,) = await tag_with(store, "b", "bpm")
    await add(store, other, "z", 0)
    await add(store, (await store.add_list("bpm")).name, "w", 0, 30)
    await store.add_interval(new("free", 2, 12))


@pytest.mark.parametrize(("what", "part_bytes"), [*((what, None) for what in ORDERS), ("insert", 400)])
async def test_an_order_that_is_cut_after_any_command_is_whole_or_did_not_happen(
    what: str, part_bytes: int | None, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    if part_bytes is not None:
        monkeypatch.setattr("backends.mongodb.conditions.turns.PART_BYTES", part_bytes)
    before = after = ""
    seen = set()
    done = False
    commands = 0
    while not done:
        store = make()
        await store.drop()
        await _prepared(store)
        before = _plain(await everything(store))
        with monkeypatch.context() as cut:
            cut_after(cut, commands)
            try:
                await ORDERS[what](store)
                done = True
            except Cut:
                pass
        # The next one that looks: the process that was cut is gone, as its successor of the same machine knows.
        other = make()
        monkeypatch.setattr(
            "backends.mongodb.conditions.turns.is_dead", lambda owner, mine=other: owner != mine._turns._owner
        )
        await other.revisions()
        found = _plain(await everything(other))
        if done:
            after = found
        seen.add(found)
        # Who writes next is not kept, and changes no more than he is told to.
        await other.add_type(f"next{commands}")
        await other.remove_type(f"next{commands}")
        assert _plain(await everything(other)) == found
        await store.close()
        await other.close()
        commands += 1
    assert commands > 3
    assert seen == {before, after}


async def test_a_turn_that_is_not_renewed_lapses(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = make(), make()
    name = await _with_list(store)
    monkeypatch.setattr("backends.mongodb.conditions.turns.LAPSES_S", 0.3)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def sleep_in_a_turn() -> None:
        session = await store._connected()
        async with store._turns.turn(session) as turn:
            entered.set()
            await go_on.wait()
            await turn.commit([])
            await turn._write({"$set": {"order": b""}}, session.concern)

    sleeper = asyncio.create_task(sleep_in_a_turn())
    await entered.wait()
    await add(other, name, "x", 0, 10)
    go_on.set()
    with pytest.raises(StoreUnavailable, match="took over"):
        await sleeper
    assert await shown(store, name) == [("x", 0, 10)]
    await add(store, name, "y", 10, 20)
    assert await shown(other, name) == [("x", 0, 10), ("y", 10, 20)]


async def test_one_who_slept_does_not_write_over_what_another_did(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order of one document is not written down before it is applied."""
    store, other = make(), make()
    name = await _with_list(store)
    monkeypatch.setattr("backends.mongodb.conditions.turns.LAPSES_S", 0.3)
    monkeypatch.setattr("backends.mongodb.conditions.turns.RENEW_S", 0.1)
    prepared, asleep, awake = store_module.changes_of, asyncio.Event(), asyncio.Event()

    async def sleep(*arguments: Any) -> list[Change]:
        found = await prepared(*arguments)
        if not asleep.is_set():
            asleep.set()
            await awake.wait()
        return found

    monkeypatch.setattr(store_module, "changes_of", sleep)
    sleeper = asyncio.create_task(store.insert({name: columns([new("mine", 20, 30)])}))
    await asleep.wait()
    await other.insert({name: columns([new("other", 40, 50)])})
    awake.set()
    with pytest.raises(StoreUnavailable, match="took over"):
        await sleeper
    assert await shown(other, name) == [("other", 40, 50)]


async def test_a_turn_that_is_renewed_is_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = make(), make()
    name = await _with_list(store)
    monkeypatch.setattr("backends.mongodb.conditions.turns.LAPSES_S", 1.0)
    monkeypatch.setattr("backends.mongodb.conditions.turns.RENEW_S", 0.02)
    monkeypatch.setattr(other, "_timeout_s", 2.0)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with store._turns.turn(await store._connected()) as turn:
            entered.set()
            while not go_on.is_set():
                await turn.keep()
                await asyncio.sleep(0.03)

    holder = asyncio.create_task(hold())
    await entered.wait()
    with pytest.raises(StoreUnavailable, match="has been writing conditions for 2 s"):
        await other.add_type("x")
    go_on.set()
    await holder
    await add(other, name, "x", 0, 10)


async def test_what_a_store_could_not_give_back_it_takes_again(make: Make) -> None:
    store = make()
    await store.create()
    session = await store._connected()
    stale = {"_id": WRITER, "owner": store._turns._owner, "mark": "stale", "renewed": 0}
    assert await session.insert(TURN, [stale]) == 1
    await store.add_type("x")
    assert await session.one(TURN, WRITER) is None
    assert isinstance(store._turns, Turns)


async def test_segments_that_nothing_refers_to_are_removed_later(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.mongodb.conditions.segments.MOST_POINTS", 4)
    store = make()
    name = await _with_list(store)
    await store.insert({name: columns(new(f"n{k}", k) for k in range(30))})
    await store.clone_tag("a", "b")
    # The first change of a stretch leaves its segments to the clone, and the second one leaves those of the first.
    for k in range(6):
        await add(store, name, f"m{k}", 6 * (k % 3), 6 * (k % 3) + 1)
    session = await store._connected()
    before, kept = await everything(store), len(await session.segment_ids())

    async def sweep() -> int:
        async with store._turns.turn(session) as turn:
            return await store._sweeper.sweep(turn)

    assert await sweep() == 0
    monkeypatch.setattr("backends.mongodb.conditions.sweeping.GRACE_S", 0.0)
    removed = await sweep()
    assert removed > 0
    assert len(await session.segment_ids()) == kept - removed
    assert await sweep() == 0
    assert await everything(store) == before
    await store.remove_tag("a")
    await store.remove_tag("b")
    assert await sweep() == kept - removed
    assert await session.all(SEGMENTS, {}) == []


async def test_who_asks_for_revisions_sweeps(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.mongodb.conditions.sweeping.GRACE_S", 0.0)
    store = make()
    name = await _with_list(store)
    for k in range(5):
        await add(store, name, f"m{k}", k)
    session = await store._connected()
    for _ in range(2):
        await store.revisions()
    assert len(await session.segment_ids()) == 1
    assert await valid(store, "a", 2) == {"bpm": "m2"}


async def test_another_database_is_left_alone(make: Make, mongodb_dsn: str, schema: str) -> None:
    store = make()
    session = await store._connected()
    await session.insert("readings", [{"_id": "x"}])
    for order in (store.create(), store.drop()):
        with pytest.raises(SchemaMismatch, match="'readings' and no conditions; set another `schema`"):
            await order
    await session.database.drop_collection("readings")


async def _with_list(store: MongodbConditionsStore) -> str:
    await store.create()
    name = await bpm(store)
    assert (await store.tag("a")).status is TagStatus.UNLOCKED
    return name
