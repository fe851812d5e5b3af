"""Visits in MariaDB beyond the contract: rows as MySQL takes them, views of pieces, a session that is ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest

from backends.base import StoreUnavailable
from backends.memory_visits import MemoryVisitStore
from backends.mysql.address import address_of, connect
from backends.mysql.connection import Connection
from backends.mysql.visits import MysqlVisitStore
from schemas.config import DatabaseConfig
from schemas.readings import Array
from schemas.visits.tables import IndexMode, LastColumns, Table, tables_of
from tests.visits import VARIABLES, by_id, history_of, record_of, run_visits, same, tile_write, time_of, visits_config

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


async def test_views_show_what_pieces_hold(make: Make, schema: str, other: Connection) -> None:
    store = await make(PARTITIONED)
    await run_visits(store, range(2))
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
    await other.run(f"LOCK TABLES {schema}.DIAForcedSourcePieces WRITE")

    async def end_it() -> None:
        async with asyncio.timeout(30):
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
