"""Visits in MariaDB beyond the contract: rows as MySQL takes them, views of packs, a session that is ended, compaction
that is cut short or has to wait."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from backends.base import StoreError, StoreUnavailable
from backends.mysql.protocol.connection import Connection
from backends.mysql.server.address import address_of, connect
from backends.mysql.visits import MysqlVisitStore
from backends.mysql.visits.session import Session
from backends.throwaway import ServerNotInstalled
from backends.throwaway.mariadb import ThrowawayMariadb
from backends.visits.compaction import COMPACTED
from schemas.config import DatabaseConfig
from schemas.readings import Array
from schemas.visits.tables import SOURCE_DTYPE, IndexMode, LastColumns, Table, tables_of
from tests.support.memory.visits import MemoryVisitStore
from tests.support.visits import (
    VARIABLES,
    by_id,
    history_of,
    record_of,
    run_visits,
    same,
    tile_write,
    time_of,
    visits_config,
)

MODES: dict[str, dict[str, str]] = {
    "baseline": {"index_mode": "baseline"},
    "pix_id_iov": {"index_mode": "pix_id_iov"},
    "delete_insert": {"index_mode": "last_object_table", "last_update": "delete_insert"},
    "upsert": {"index_mode": "last_object_table", "last_update": "upsert"},
    "partitioned": {"index_mode": "partitioned"},
}
PARTITIONED = MODES["partitioned"]
WAITING = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%'"
Make = Callable[..., Awaitable[MysqlVisitStore]]


@pytest.fixture
async def make(mariadb_dsn: str, schema: str) -> AsyncIterator[Make]:
    """Makes stores with their tables in one schema, which is dropped afterwards."""
    made: list[MysqlVisitStore] = []

    async def make_one(mode: dict[str, str], *, bulk: bool = True) -> MysqlVisitStore:
        store = MysqlVisitStore(DatabaseConfig(dsn=mariadb_dsn), visits_config(schema, mode), bulk=bulk)
        made.append(store)
        await store.create()
        return store

    yield make_one
    await made[0].drop()
    for store in made:
        await store.close()


@pytest.fixture
async def other(mariadb_dsn: str) -> AsyncIterator[Connection]:
    """A connection beside the store's."""
    connection = await connect(address_of(mariadb_dsn), program="test", timeout_s=30)
    yield connection
    connection.terminate()


@pytest.fixture
async def own_mariadb(state_dir: Path) -> AsyncIterator[ThrowawayMariadb]:
    """A server that a test may kill."""
    server = ThrowawayMariadb(state_dir, innodb_log_file_size="16M")
    try:
        await asyncio.to_thread(server.start)
    except ServerNotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield server
    await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("mode", MODES)
async def test_rows_go_as_mysql_takes_them_too(mode: str, make: Make, schema: str) -> None:
    store, model = await make(MODES[mode], bulk=False), MemoryVisitStore(visits_config(schema, MODES[mode]))
    await model.create()
    for one in (store, model):
        await run_visits(one, range(3))
    for table in await model.counts():
        assert same(await store.whole(table), await model.whole(table)), table
    history = history_of(range(VARIABLES), 0, 3)
    assert same(by_id(await store.sources(history)), by_id(await model.sources(history)))


async def seen_through(view: Table, schema: str, connection: Connection) -> Array:
    """What a view has, NULL as NaN; columns that are NULL in every row are left out."""
    rows = await connection.fetch(f"SELECT * FROM {schema}.{view.name}")
    columns = [column.name for column in view.columns]
    answer = np.empty(len(rows), view.dtype)
    for name, values in zip(columns, zip(*rows, strict=True), strict=True):
        if name in view.dtype.names:
            answer[name] = [np.nan if value is None else value for value in values]
        else:
            assert set(values) == {None}, name
    return answer


async def test_views_show_what_packs_hold(make: Make, schema: str, other: Connection) -> None:
    store = await make(PARTITIONED)
    await run_visits(store, range(3))
    for each in await store.uncompacted(time_of(2)):
        assert await store.compact(*each) is not None
    for table in tables_of(IndexMode.PARTITIONED, LastColumns.NARROW):
        seen, whole = await seen_through(table, schema, other), await store.whole(table.name)
        order = np.lexsort([seen[name] for name in reversed(table.key)])
        assert same(seen[order], whole), table.name
    some = await store.whole("DIAObjectLast")
    ((visits,),) = await other.fetch(
        f"SELECT COUNT(*) FROM {schema}.DIASource WHERE diaObjectId = {some['diaObjectId'][0]}"
    )
    assert visits >= 1


async def test_a_tile_whose_session_was_ended_is_written_again(make: Make, schema: str, other: Connection) -> None:
    """As after a deadlock or an outage: nothing of it is there, the store says that it may be tried, and it may."""
    store = await make(PARTITIONED)
    await store.begin(0, time_of(0))
    await other.run(f"LOCK TABLES {schema}.DIAForcedSourcePacks WRITE")

    async def end_it() -> None:
        async with asyncio.timeout(60):
            while not (waiting := await other.fetch(WAITING)):  # noqa: ASYNC110 - the server says it to nobody
                await asyncio.sleep(0.01)
        await other.run(f"KILL {waiting[0][0]}")

    ending = asyncio.create_task(end_it())
    with pytest.raises(StoreUnavailable):
        await store.write(tile_write(0, 0))
    await ending
    await other.run("UNLOCK TABLES")
    assert await store.begin(0, time_of(0)) == frozenset()
    assert set((await store.counts()).values()) == {0}
    await store.write(tile_write(0, 0))
    await store.finish(record_of(0))
    assert (await store.counts())["DIAForcedSource"] == len(tile_write(0, 0).forced)


class Cut(StoreError):
    """The process ended here."""


async def left_staging(other: Connection, schema: str) -> list[tuple[str]]:
    return await other.fetch(f"SHOW TABLES FROM {schema} LIKE '%Compacted'")


async def assert_as(store: MysqlVisitStore, model: MemoryVisitStore) -> None:
    """Rows and histories are those of the model, also from and to within a period."""
    for table in COMPACTED:
        assert same(await store.whole(table), await model.whole(table)), table
    for since, before in ((0, 6), (1, 3)):
        history = history_of(range(VARIABLES), since, before)
        assert same(by_id(await store.sources(history)), by_id(await model.sources(history)))


async def test_a_compaction_cut_after_any_statement_is_done_another_time(
    make: Make, schema: str, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, model = await make(PARTITIONED, bulk=False), MemoryVisitStore(visits_config(schema, PARTITIONED))
    await model.create()
    for one in (store, model):
        await run_visits(one, range(5))
    _, period = (await store.uncompacted(time_of(2)))[0]
    # Some chunks of pixels, each pixel in some parts.
    monkeypatch.setattr("backends.visits.compaction.CHUNK_BYTES", 6 * SOURCE_DTYPE.itemsize)
    monkeypatch.setattr("backends.mysql.visits.compaction.MOST_BYTES", 2 * SOURCE_DTYPE.itemsize)
    run = Session.run

    async def cut_after(statements: int) -> bool:
        """Whether the compaction ended before it was cut."""
        left = statements

        async def run_or_end(session: Session, text: str) -> int:
            nonlocal left
            changed = await run(session, text)
            left -= 1
            if not left:
                raise Cut
            return changed

        with monkeypatch.context() as patched:
            patched.setattr(Session, "run", run_or_end)
            try:
                made = await store.compact("DIASource", period)
            except Cut:
                return False
        assert made is not None
        return True

    cuts = 1
    while not await cut_after(cuts):
        await assert_as(store, model)
        cuts += 1
    assert cuts > 12  # two chunks and more
    tiles = await other.fetch(f"SELECT DISTINCT tile FROM {schema}.DIASourcePacks WHERE period = {period}")
    assert min(tile for (tile,) in tiles) < -1
    assert max(tile for (tile,) in tiles) == -1
    await cut_after(2)
    assert await left_staging(other, schema)
    remaining = await store.uncompacted(time_of(2))
    assert not await left_staging(other, schema)
    assert ("DIASource", period) not in remaining
    assert len(remaining) == 2
    for each in remaining:
        assert await store.compact(*each) is not None
    await assert_as(store, model)
    assert not await store.uncompacted(time_of(2))


async def test_compaction_gives_way_to_who_reads(make: Make, schema: str, other: Connection) -> None:
    store = await make(PARTITIONED)
    await run_visits(store, range(3))
    found = await store.uncompacted(time_of(2))
    name, period = found[0]
    there = f"SELECT pixel, visit, tile, n FROM {schema}.{name}Packs ORDER BY pixel, visit, tile"
    await other.run("START TRANSACTION")
    before = await other.fetch(there)
    assert await store.compact(name, period) is None
    assert await other.fetch(there) == before
    assert await store.uncompacted(time_of(2)) == found
    assert not await left_staging(other, schema)
    await other.run("COMMIT")
    made = await store.compact(name, period)
    assert made is not None
    after = await other.fetch(there)
    assert len(before) - len(after) == made.before.packs - made.after.packs > 0
    assert {visit for _, visit, tile, _ in after if tile < 0} == {1}


async def test_an_exchange_whose_connection_broke_meets_no_table_that_is_not_whole(
    make: Make, schema: str, other: Connection
) -> None:
    """The server goes on with it, and another compaction has to wait for it."""
    store, model = await make(PARTITIONED), MemoryVisitStore(visits_config(schema, PARTITIONED))
    await model.create()
    for one in (store, model):
        await run_visits(one, range(3))
    found = await store.uncompacted(time_of(2))

    async def until(state: str) -> None:
        async with asyncio.timeout(60):
            while not await other.fetch(  # noqa: ASYNC110 - the server says it to nobody
                f"SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = '{state}'"
            ):
                await asyncio.sleep(0.01)

    await other.run(f"START TRANSACTION; DELETE FROM {schema}.{found[0][0]}Packs WHERE period = {found[0][1] - 1}")
    broken = asyncio.create_task(store.compact(*found[0]))
    await until("Waiting for table metadata lock")
    broken.cancel()
    with pytest.raises(asyncio.CancelledError):
        await broken
    again = asyncio.create_task(store.compact(*found[0]))
    await until("User lock")
    await other.run("COMMIT")
    assert await again is not None
    await assert_as(store, model)
    assert await store.uncompacted(time_of(2)) == found[1:]


async def test_a_server_killed_while_packs_take_the_place_of_others_has_either(
    own_mariadb: ThrowawayMariadb, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = visits_config("visits", PARTITIONED)
    model = MemoryVisitStore(visits)
    await model.create()
    store = MysqlVisitStore(DatabaseConfig(dsn=await asyncio.to_thread(own_mariadb.start)), visits)
    await store.create()
    for one in (store, model):
        await run_visits(one, range(3))
    ended = await store.uncompacted(time_of(2))
    run = Session.run

    async def run_until_killed(session: Session, text: str) -> int:
        if "EXCHANGE" not in text:
            return await run(session, text)
        running = asyncio.create_task(run(session, text))
        await asyncio.sleep(random.uniform(0, 0.03))
        await asyncio.to_thread(own_mariadb.kill)
        return await running

    for name, period in ended:
        with monkeypatch.context() as patched:
            patched.setattr(Session, "run", run_until_killed)
            with pytest.raises(StoreUnavailable):
                await store.compact(name, period)
        await asyncio.to_thread(own_mariadb.start)
        await store.connect()
        await assert_as(store, model)
        assert (name, period) in await store.uncompacted(time_of(2))
        assert await store.compact(name, period) is not None
        await assert_as(store, model)
    assert not await store.uncompacted(time_of(2))
    await store.close()
