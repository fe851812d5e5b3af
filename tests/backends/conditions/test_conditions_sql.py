"""What is particular to conditions in SQL: locks, copy on write, bulk, plans, and servers that are killed."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import open_conditions_store
from backends.base import SchemaMismatch, StoreUnavailable
from backends.kinds import KINDS
from backends.mysql.conditions import statement
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.sql.conditions.names import attach_list, remove_list
from backends.sql.conditions.reading import found_text
from backends.sql.conditions.store import SqlConditionsStore
from backends.throwaway.base import ThrowawayServer
from schemas.checking.dsn import Backend
from schemas.conditions.intervals import KEY_DTYPE, Intervals, Key, NewInterval, TagStatus
from schemas.conditions.line import Line, Point, texts
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.config import DatabaseConfig
from tests.support.conditions import (
    Span,
    add,
    bpm,
    columns,
    everything,
    held,
    key,
    new,
    refused,
    shown,
    tag_with,
    valid,
)
from tests.support.memory.conditions import MemoryConditionsStore
from tests.support.servers import installed, server_folder

DSNS = {Backend.POSTGRESQL: "postgresql_dsn", Backend.MYSQL: "mariadb_dsn"}
RACES = 200
KILLS = 3

Make = Callable[[], SqlConditionsStore[Any]]


class Opened:
    """Makes stores, which are closed however a test ends."""

    def __init__(self, stack: contextlib.AsyncExitStack, state_dir: Path) -> None:
        self._stack, self._state_dir = stack, state_dir

    def __call__(self, dsn: str | None, schema: str = "conditions", timeout_s: float = 30) -> SqlConditionsStore[Any]:
        store = open_conditions_store(
            DatabaseConfig(dsn=dsn, command_timeout_s=timeout_s), schema=schema, state_dir=self._state_dir
        )
        assert isinstance(store, SqlConditionsStore)
        self._stack.push_async_callback(store.close)
        return store


@pytest.fixture
async def opened(state_dir: Path) -> AsyncIterator[Opened]:
    async with contextlib.AsyncExitStack() as stack:
        yield Opened(stack, state_dir)


@pytest.fixture(params=DSNS)
def dsn(request: pytest.FixtureRequest) -> str:
    """The address of a server that is started outside of the loop of a test."""
    return str(request.getfixturevalue(DSNS[request.param]))


@pytest.fixture
async def make(dsn: str, schema: str, opened: Opened) -> AsyncIterator[Make]:
    """Makes stores in one schema, which is dropped afterwards."""
    yield lambda: opened(dsn, schema)
    await opened(dsn, schema).drop()


@pytest.fixture
async def store(make: Make) -> SqlConditionsStore[Any]:
    made = make()
    await made.create()
    return made


@pytest.fixture(params=DSNS)
def own_server(request: pytest.FixtureRequest) -> Iterator[ThrowawayServer]:
    """A server of the test's own, running, which it may kill."""
    with server_folder() as folder:
        with installed():
            server = KINDS[request.param].throwaway_server(folder)
        server.start()
        yield server
        server.stop()


async def sees(store: SqlConditionsStore[Any], text: str, *values: object) -> Sequence[Sequence[Any]]:
    """What a query answers; {points} and the like are names of tables."""
    async with store._connected() as session:
        tables = {"points": session.breakpoints, "contents": session.contents, "lists": session.lists}
        rows: Sequence[Sequence[Any]] = await session.fetch(text.format(**tables), *values)
        return rows


async def see_nothing_left_over(store: SqlConditionsStore[Any]) -> None:
    """See that each content has a list, and as many intervals as it says; and that each breakpoint has a content."""
    held = "SELECT content, COUNT(id) AS n FROM {points} GROUP BY content"
    wrong = await sees(
        store,
        "SELECT c.id, c.intervals, p.n FROM {contents} c LEFT JOIN (" + held + ") p ON p.content = c.id"
        " WHERE c.intervals <> COALESCE(p.n, 0) OR NOT EXISTS (SELECT 1 FROM {lists} l WHERE l.content = c.id)",
    )
    assert not wrong
    assert not await sees(
        store, "SELECT p.id FROM {points} p LEFT JOIN {contents} c ON c.id = p.content WHERE c.id IS NULL"
    )


# --- changes at the same time ----------------------------------------------------------------------------------------


def spans_of(line: Line) -> list[Span]:
    found = line.intervals()
    return [(each.url, each.start.major, None if each.end == key(None) else each.end.major) for each in found]


def after(line: Line, *intervals: NewInterval) -> Line:
    """A list in memory after attachments; ids do not matter."""
    copy = line.copy()
    for each in intervals:
        copy.attach(Point(key=each.start, id=1, url=each.url), each.end, None, lambda: 2)
    return copy


async def test_two_writers_never_tear_a_list(store: SqlConditionsStore[Any], make: Make) -> None:
    name, other, rng = await bpm(store), make(), random.Random(7)
    line = Line()
    for race in range(RACES):
        start = rng.randrange(40)
        spans = [
            new(f"{race}{who}", start + k, rng.choice([None, start + k + rng.randint(1, 9)]))
            for k, who in enumerate("ab")
        ]
        await asyncio.gather(
            store.insert({name: columns(spans[:1])}),
            add(other, name, spans[1].url, spans[1].start.major, end_of(spans[1])),
        )
        found = await shown(store, name)
        orders = [after(line, *spans), after(line, *reversed(spans))]
        (line, *_) = [each for each in orders if spans_of(each) == found]
    await see_nothing_left_over(store)
    assert (await store.tag("a")).intervals == len(await held(store, name))


def end_of(interval: NewInterval) -> int | None:
    return None if interval.end == key(None) else interval.end.major


async def test_clones_are_changed_and_removed_at_the_same_time(store: SqlConditionsStore[Any], make: Make) -> None:
    names = await tag_with(store, "a", "bpm", "quad", "wire")
    await store.insert({name: columns(new(f"p{k}", k) for k in range(50)) for name in names})
    stores = [store, make(), make()]
    for turn in range(10):
        for tag in "bcd":
            await store.clone_tag("a", tag)
        lists = {tag: list((await store.tag_lists(tag)).values()) for tag in "abcd"}
        many = {each: columns([new(f"t{turn}", 10 + turn, 12 + turn)]) for tag in "abc" for each in lists[tag]}
        turned = dict(reversed(many.items()))
        await asyncio.gather(
            *(stores[0].insert(many), stores[1].insert(turned), stores[2].remove_tag("d")),
            *(
                each.insert({lists[tag][0]: columns([new("s", 5, 60)])})
                for each, tag in zip(stores, "cba", strict=True)
            ),
        )
        for tag in "abc":
            assert await valid(store, tag, 11 + turn) in (
                dict(zip(("bpm", "quad", "wire"), urls, strict=True))
                for urls in [("s", f"t{turn}", f"t{turn}"), (f"t{turn}", f"t{turn}", f"t{turn}")]
            )
        await see_nothing_left_over(store)
        for tag in "bc":
            await store.remove_tag(tag)
    await store.remove_tag("a")
    assert await sees(store, "SELECT COUNT(*) FROM {points}") in ([(0,)], [[0]])
    assert await sees(store, "SELECT COUNT(*) FROM {contents}") in ([(0,)], [[0]])


async def test_a_list_that_moves_while_an_order_waits_for_it_is_said_to_have_moved(
    store: SqlConditionsStore[Any], make: Make
) -> None:
    name, other = await bpm(store), make()
    spare = (await store.add_list("bpm")).name
    stored = await store.add_interval(new("x", 0))

    async def late(change: Callable[[Any], Awaitable[object]], order: Awaitable[object]) -> ConditionsRefused:
        """Give an order that has to wait for a change, which is committed then."""
        async with other._transaction() as session:
            await change(session)
            waiting = asyncio.ensure_future(order)
            await asyncio.sleep(0.3)
            assert not waiting.done()
        with pytest.raises(ConditionsRefused) as caught:
            await waiting
        return caught.value

    moved = await late(lambda session: attach_list(session, "a", spare), store.attach_interval(name, stored.id))
    assert (moved.kind, moved.field) == (RefusalKind.CONFLICT, "payload_list")
    assert moved.problem == f"{name} was given to a global tag, or taken from one, at the same moment"
    gone = await late(lambda session: remove_list(session, name), store.attach_interval(name, stored.id))
    assert (gone.kind, gone.problem) == (RefusalKind.UNKNOWN, f"{name} is not there")
    assert await store.interval(stored.id) == stored


# --- bulk ------------------------------------------------------------------------------------------------------------


def batch(rng: random.Random, number: int) -> list[NewInterval]:
    """Intervals in order or not, behind all there is or not, that touch, overlap or leave gaps."""
    at, spans = rng.choice([0, 20 * number, 20 * number]), []
    for k in range(rng.randint(1, 8)):
        at += rng.choice([1, 2, 3]) if rng.random() < 0.8 else -2
        at = max(0, at)
        spans.append(new(f"{number}.{k}", at, rng.choice([None, at + 1, at + 2, at + 3, at + 9])))
    return spans


@pytest.mark.parametrize("seed", range(6))
async def test_bulk_is_as_one_by_one(seed: int, store: SqlConditionsStore[Any]) -> None:
    rng, memory = random.Random(seed), MemoryConditionsStore()
    names = {which: await bpm(which) for which in (store, memory)}
    for number in range(25):
        spans = batch(rng, number)
        for which, name in names.items():
            if which is store:
                await store.insert({name: columns(spans)})
            else:
                for each in spans:
                    await memory.insert({name: columns([each])})
        assert await shown(store, names[store]) == await shown(memory, names[memory])
        if number % 8 == 7:
            for which in names:
                await which.clone_tag("a", f"clone{number}")
    free = [sorted((each.url, each.start, each.end) for each in await loose_of(which)) for which in names]
    assert free[0] == free[1]
    await see_nothing_left_over(store)


async def loose_of(store: Any) -> list[Any]:
    return [each for each in await store.intervals(0, 100_000) if each.list is None]


def many(count: int, step: int = 10) -> Intervals:
    """Intervals of one list, one after the other, the last one open."""
    starts, ends = np.zeros(count, KEY_DTYPE), np.zeros(count, KEY_DTYPE)
    starts["minor"] = np.arange(count) * step
    ends[:-1], ends[-1] = starts[1:], tuple(key(None))
    zeros = np.zeros(count, np.int64)
    return Intervals(
        ids=zeros,
        starts=starts,
        ends=ends,
        urls=texts([f"bpm/gains_{k}.json" for k in range(count)]),
        checksums=texts([f"{k:032x}" for k in range(count)]),
        sizes=np.arange(count) - 1,
        inserted_ns=zeros,
    )


async def test_a_long_list_comes_back_as_it_went_in(store: SqlConditionsStore[Any]) -> None:
    name, given = await bpm(store), many(70_000)
    assert await store.insert({name: given}) == len(given)
    found = await store.timeline(name)
    for column in ("starts", "ends", "urls", "checksums", "sizes"):
        assert (getattr(found, column) == getattr(given, column)).all(), column
    assert len(np.unique(found.ids)) == len(given)
    assert found.ids.min() > 0
    await store.clone_tag("a", "b")
    copy = (await store.tag_lists("b"))["bpm"]
    await add(store, copy, "n", 0, 1)
    assert len(await store.timeline(copy)) == 2
    assert (await store.timeline(name)).urls.tolist() == given.urls.tolist()


async def test_what_is_detached_in_a_row_is_deleted_as_one_range(
    store: SqlConditionsStore[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, deleted = await bpm(store), []
    await store.insert({name: many(5_000)})
    over = await store.add_interval(NewInterval(url="over", start=Key(0, 5), end=Key(0, 49_985)))
    async with store._connected() as session:
        kind = type(session)
    run = kind.run

    async def counted(session: Any, text: str, *values: object) -> None:
        deleted.extend([text] * text.startswith(f"DELETE FROM {session.breakpoints}"))
        await run(session, text, *values)

    monkeypatch.setattr(kind, "run", counted)
    await store.attach_interval(name, over.id)
    assert len(deleted) == 1
    found = await held(store, name)
    assert [(each.url, each.start.minor, each.end.minor) for each in found[:3]] == [
        ("bpm/gains_0.json", 0, 5),
        ("over", 5, 49_985),
        ("bpm/gains_4998.json", 49_985, 49_990),
    ]
    assert (len(found), len(await loose_of(store))) == (4, 4_997)
    await see_nothing_left_over(store)


async def test_texts_come_back_as_they_went_in(store: SqlConditionsStore[Any]) -> None:
    urls = [
        "",
        "a\tb",
        "a\nb",
        "\\N",
        "\\",
        "\\\\",
        "a\\nb",
        "\\.",
        "é ü 計",
        "x ",
        "'",
        '"',
        "$1",
        "%s",
        "a\r\nb",
        "x" * 2048,
    ]
    name = await bpm(store)
    spans = [NewInterval(url=url, checksum=url[:255], start=key(k)) for k, url in enumerate(urls)]
    await store.insert({name: columns(spans)})
    assert (await store.timeline(name)).urls.tolist() == urls
    assert [each.checksum for each in await held(store, name)] == [url[:255] for url in urls]
    assert [(await valid(store, "a", k))["bpm"] for k in range(len(urls))] == urls
    for odd in ("x", "x ", "X", "é", "e", "a'b\\"):
        await store.add_tag(odd, TagStatus.UNLOCKED)
        assert (await store.tag(odd)).name == odd


async def test_texts_that_no_column_holds_are_refused(store: SqlConditionsStore[Any]) -> None:
    name = await bpm(store)
    url = NewInterval(url="x" * 2049, start=key(0))
    orders: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("payload_type", lambda: store.add_type("x" * 256)),
        ("payload_type", lambda: store.add_type("")),
        ("global_tag", lambda: store.add_tag("a\0", TagStatus.UNLOCKED)),
        ("author", lambda: store.add_tag("b", TagStatus.UNLOCKED, "x" * 256)),
        ("payload_url", lambda: store.add_interval(url)),
        ("checksum", lambda: store.add_interval(NewInterval(url="", checksum="0" * 256, start=key(0)))),
        (f"{name}[0].payload_url", lambda: store.insert({name: columns([url])})),
    ]
    for field, order in orders:
        assert (await refused(store, RefusalKind.INVALID, order())).field == field
    await store.add_type("x" * 255)
    assert (await store.add_list("x" * 255)).name.startswith("x" * 255)


async def test_no_id_is_taken_twice(store: SqlConditionsStore[Any], make: Make) -> None:
    counts = [1, 70_000, 3, 1, 65_535, 100, 1, 65_536, 2]
    other = make()

    async def taken(which: SqlConditionsStore[Any], count: int) -> Sequence[int]:
        async with which._transaction() as session:
            return list(await session.take_ids(count))

    found = await asyncio.gather(*(taken([store, other][k % 2], count) for k, count in enumerate(counts)))
    assert [len(ids) for ids in found] == counts
    every = [id_ for ids in found for id_ in ids]
    assert len(set(every)) == len(every)
    assert all(list(ids) == sorted(ids) for ids in found)
    free = await store.add_interval(new("x", 0))
    assert free.id > max(every)


# --- plans -----------------------------------------------------------------------------------------------------------


async def test_postgresql_steps_into_the_key_of_each_list(postgresql_dsn: str, schema: str, opened: Opened) -> None:
    store = opened(postgresql_dsn, schema)
    await store.create()
    names = await tag_with(store, "a", "bpm", "quad")
    # No ANALYZE has seen them.
    await store.insert(dict.fromkeys(names, many(5_000)))
    async with store._connected() as session:
        text = session._valid_at.replace("$1", "'a'").replace("$2", "0").replace("$3", "24000")
        rows = await session.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}")
    scans = [each for each in nodes(json.loads(rows[0][0])[0]["Plan"]) if "Scan" in each["Node Type"]]
    assert not [each for each in scans if each["Node Type"] == "Seq Scan"]
    of_points = [each for each in scans if each.get("Relation Name") == "breakpoints"]
    assert len(of_points) == 2
    for each in of_points:
        assert "ROW(major, minor)" in each["Index Cond"]
        assert each["Actual Loops"] == 2
        assert each["Actual Rows"] <= 1
    async with store._connected() as session:
        text = found_text(session, ">", 25).replace("$1", "4000")
        rows = await session.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}")
    for each in nodes(json.loads(rows[0][0])[0]["Plan"]):
        assert each["Actual Rows"] * each["Actual Loops"] < 200, each
    await store.drop()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


async def test_mariadb_reads_a_few_rows_of_each_list(mariadb_dsn: str, schema: str, opened: Opened) -> None:
    store, at = opened(mariadb_dsn, schema), Key(0, 24_000)
    await store.create()
    names = await tag_with(store, "a", "bpm", "quad")
    await store.insert(dict.fromkeys(names, many(5_000)))
    async with store._connected() as session:
        contents = [row[0] for row in await session.fetch(f"SELECT id FROM {session.contents}")]
        plan = await session.fetch("EXPLAIN " + statement(session, contents, at))
        assert [row for row in plan if "Using index for group-by" in str(row[-1])]
        assert not [row for row in plan if row[3] in {"ALL", "index"} and row[2] in {"b", "x", "breakpoints"}]
        asks: list[Callable[[], Awaitable[object]]] = [
            lambda: session.valid_at("a", at),
            lambda: session.around(contents[0], at, at._replace(minor=24_005)),
            lambda: session.ends([(contents[0], at)]),
            lambda: session.delete_points(contents[0], [(at, at), (Key(0, 10), Key(0, 40))]),
        ]
        for ask in asks:
            before = await rows_read(session)
            await ask()
            assert await rows_read(session) - before < 100
    await store.drop()


async def rows_read(session: Any) -> int:
    return sum(int(value) for _, value in await session.fetch("SHOW SESSION STATUS LIKE 'Handler_read%'"))


# --- servers ---------------------------------------------------------------------------------------------------------


async def test_a_killed_server_has_all_of_an_insert_or_nothing(own_server: ThrowawayServer, opened: Opened) -> None:
    store = opened(await asyncio.to_thread(own_server.start))
    await store.create()
    names = await tag_with(store, "a", "bpm", "quad")
    tried = acknowledged = 0
    for kill in range(KILLS):
        under_way = asyncio.Event()

        async def write(under_way: asyncio.Event) -> None:
            nonlocal tried, acknowledged
            while True:
                tried += 1
                await store.insert({name: columns(hundred(tried)) for name in names})
                acknowledged += 1
                under_way.set()

        writing = asyncio.create_task(write(under_way))
        await asyncio.wait_for(under_way.wait(), 60)
        await asyncio.sleep(0.01 * kill)
        await asyncio.to_thread(own_server.kill)
        with pytest.raises(StoreUnavailable):
            await writing
        await asyncio.to_thread(own_server.start)
        there = await whole_batches(store, names)
        # The one whose answer was lost is there or not; the next one goes behind both.
        assert acknowledged <= there <= acknowledged + 1
        acknowledged = there
    await see_nothing_left_over(store)


def hundred(number: int) -> Iterator[NewInterval]:
    """A batch behind those before it; its last interval is open."""
    at = 100 * number
    return (new(f"n{number}", at + k, None if k == 99 else at + k + 1) for k in range(100))


async def whole_batches(store: SqlConditionsStore[Any], names: Sequence[str]) -> int:
    """How many batches of 100 intervals all lists have, none of which has a part of one."""
    found = {tuple((await store.timeline(name)).urls.tolist()) for name in names}
    (urls,) = found
    batches = dict.fromkeys(urls)
    assert all(urls.count(each) == 100 for each in batches)
    return len(batches)


async def test_a_store_outlives_its_server(own_server: ThrowawayServer, opened: Opened) -> None:
    store = opened(await asyncio.to_thread(own_server.start))
    await store.create()
    name = await bpm(store, ("x", 0, 10))
    await asyncio.gather(*(store.revisions() for _ in range(8)))
    assert len(store._idle) <= 4
    own_server.freeze()
    frozen = [store.valid_at("a", key(0)), store.insert({name: columns([new("y", 5)])})]
    waiting = [asyncio.create_task(each) for each in frozen]
    await asyncio.sleep(0.1)
    own_server.thaw()
    await asyncio.gather(*waiting)
    await asyncio.to_thread(own_server.kill)
    with pytest.raises(StoreUnavailable):
        await store.valid_at("a", key(0))
    await asyncio.to_thread(own_server.start)
    assert await valid(store, "a", 6) == {"bpm": "y"}


async def test_a_server_that_does_not_answer_is_given_up(own_server: ThrowawayServer, opened: Opened) -> None:
    dsn = await asyncio.to_thread(own_server.start)
    patient, store = opened(dsn), opened(dsn, timeout_s=3)
    await patient.create()
    await patient.add_type("bpm")
    own_server.freeze()
    for ask in (store.types, store.revisions):
        with pytest.raises(StoreUnavailable):
            await ask()
    own_server.thaw()
    assert [each.name for each in await store.types()] == ["bpm"]


async def test_tables_of_somebody_else_are_left_alone(store: SqlConditionsStore[Any], make: Make) -> None:
    await bpm(store, ("x", 0, 10))
    before = await everything(store)
    async with store._connected() as session:
        await session.run(f"ALTER TABLE {session.tags} ADD COLUMN colour INT")
    with pytest.raises(SchemaMismatch, match="'tags'"):
        await make().create()
    async with store._connected() as session:
        await session.run(f"ALTER TABLE {session.tags} DROP COLUMN colour")
    await make().create()
    assert await everything(store) == before


async def test_a_postgresql_session_is_named_and_durable(postgresql_dsn: str, schema: str, opened: Opened) -> None:
    store = opened(postgresql_dsn, schema)
    async with store._connected() as session:
        await session.run("CREATE ROLE hasty SUPERUSER LOGIN")
        await session.run("ALTER ROLE hasty SET synchronous_commit = off")
        await session.run("ALTER ROLE hasty SET default_transaction_isolation = 'serializable'")
    hasty = opened(postgresql_dsn.replace("postgres@", "hasty@", 1), schema)
    async with hasty._transaction() as session:
        shows = "SELECT current_setting(name) FROM unnest(ARRAY['application_name', 'synchronous_commit', $1]) name"
        found = [row[0] for row in await session.fetch(shows, "transaction_isolation")]
    assert found == ["triggerlog conditions", "on", "read committed"]
    async with store._connected() as session:
        await session.run("DROP ROLE hasty")


async def test_without_a_dsn_the_embedded_server_has_to_run(opened: Opened, state_dir: Path) -> None:
    store = opened(None)
    with pytest.raises(StoreUnavailable, match="does not run"):
        await store.create()
    server = EmbeddedPostgresql(state_dir)
    await server.start()
    await store.create()
    await bpm(store, ("x", 0, 10))
    assert await valid(store, "a", 3) == {"bpm": "x"}
    await server.stop()
