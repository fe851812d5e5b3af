"""kill -9 of a process that moves periods, and of the server: nothing lost, nothing twice, and nothing left over."""

import asyncio
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends.base import Store, StoreBusy, StoreError, Tiered
from backends.kinds import KINDS
from backends.throwaway.base import ThrowawayServer
from schemas.queries import WindowReadings
from schemas.readings import Array
from schemas.retention import Period
from tests.support.kills import KILLS
from tests.support.lives import SQL_SERVERS, Life, random_moments
from tests.support.move_crash_process import at_once, live, move_on, periods_of
from tests.support.places import SLOW, MysqlPlaces, Places, PostgresqlPlaces
from tests.support.retention_crash_process import GROUP, HOURS, TRIGGERS, fill, store_at
from tests.support.servers import installed, server_folder

LASTS_S = 0.5
MOVED_WITHIN_S = 60.0
FEW_PAGES = 4 * 8192
"""PostgreSQL itself leaves the files of a table that was being made when it crashed: without rows they are as small."""
UNKNOWN = """
    WITH folders AS (
        SELECT 'base/' || d.oid AS folder FROM pg_database d WHERE datname = current_database()
        UNION ALL SELECT 'pg_tblspc/' || t.oid || '/' || version || '/' || d.oid
        FROM pg_tablespace t, pg_database d, pg_ls_dir('pg_tblspc/' || t.oid) AS version
        WHERE spcname = $1 AND datname = current_database()
    )
    SELECT file, (pg_stat_file(folder || '/' || file, true)).size AS size
    FROM folders, pg_ls_dir(folder, true, false) AS file
    WHERE file ~ '^[0-9]+(\\.[0-9]+)?$'
      AND split_part(file, '.', 1)::oid NOT IN (SELECT pg_relation_filenode(oid) FROM pg_class
                                               WHERE pg_relation_filenode(oid) IS NOT NULL)
"""


@pytest.fixture
def rng() -> random.Random:
    return random_moments()


@pytest.fixture(params=SQL_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with server_folder() as made:
        yield made


@pytest.fixture
def server(kind: str, folder: Path) -> Iterator[ThrowawayServer]:
    """A server that the test may kill."""
    with installed():
        made = KINDS[SQL_SERVERS[kind]].throwaway_server(folder / "server")
        made.start()
    yield made
    made.stop()


@pytest.fixture
def slow(kind: str, folder: Path) -> str:
    """The other place."""
    return SLOW if kind == "postgresql" else str(folder / SLOW)


def elsewhere(dsn: str, schema: str, slow: str, group: str = GROUP.name) -> AbstractAsyncContextManager[Places]:
    if slow == SLOW:
        return PostgresqlPlaces.opened(dsn, schema, group)
    return MysqlPlaces.opened(dsn, schema, Path(slow), group)


async def filled(dsn: str, schema: str, slow: str) -> Store:
    """A store with hours of readings."""
    async with elsewhere(dsn, schema, slow):
        store = store_at(dsn, schema)
        await store.open()
        await fill(store)
    return store


async def all_of(store: Store) -> Array:
    return await store.ask(WindowReadings(group=GROUP, start_ns=-(2**63), end_ns=2**63 - 1))


async def see_nothing_left(store: Store, dsn: str, schema: str, slow: str) -> None:
    """See that after the next start nothing is there but the periods, and that each can be moved."""
    assert isinstance(store, Tiered)
    for each in await store.moves():
        await store.give_up_move(each, patience_s=10)
    await move_each(store, await periods_of(store), slow)
    async with elsewhere(dsn, schema, slow) as places:
        await see_no_files_left(places)


async def move_each(store: Tiered, periods: Iterable[Period], place: str | None) -> None:
    """Move each period, whatever is in the way for a moment."""
    until_s = time.monotonic() + MOVED_WITHIN_S
    for period in periods:
        while True:
            try:
                await store.move(period, place, pace=at_once, patience_s=10)
            except StoreBusy:
                assert time.monotonic() < until_s
                continue
            break


async def see_no_files_left(places: Places) -> None:
    """See that there is no table of a move, and no file of no table."""
    left = {name for name in await places.tables() if name.endswith(("copy", "touched", ".ibd"))}
    assert left == set()
    if isinstance(places, PostgresqlPlaces):
        await see_no_unknown_file(places.connection)


async def see_no_unknown_file(connection: asyncpg.Connection) -> None:
    await connection.execute("CHECKPOINT")
    unknown = await connection.fetch(UNKNOWN, SLOW)
    assert [tuple(row) for row in unknown if (row["size"] or 0) > FEW_PAGES] == []


async def test_the_daemon_is_killed_in_the_midst_of_moves(
    server: ThrowawayServer, schema: str, slow: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(server.start)
    store = await filled(dsn, schema, slow)
    before = await all_of(store)
    assert len(before) == HOURS * TRIGGERS * GROUP.size
    await store.close()
    for _ in range(KILLS):
        life = await asyncio.to_thread(Life, live, dsn, schema, slow)
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(life.end)
        looking = store_at(dsn, schema)
        np.testing.assert_array_equal(await all_of(looking), before)
        await looking.close()
    store = store_at(dsn, schema)
    await store.open()
    await see_nothing_left(store, dsn, schema, slow)
    np.testing.assert_array_equal(await all_of(store), before)
    await store.close()


async def test_the_server_is_killed_in_the_midst_of_moves(
    server: ThrowawayServer, schema: str, slow: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(server.start)
    store = await filled(dsn, schema, slow)
    before, periods = await all_of(store), await periods_of(store)

    async def moving() -> None:
        while True:
            try:
                await move_on(store, slow, periods, rng)
            except StoreError:
                return  # it is away

    for _ in range(KILLS):
        under_way = asyncio.create_task(moving())
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(server.kill)
        await under_way
        await asyncio.to_thread(server.start)
        np.testing.assert_array_equal(await all_of(store), before)
    await see_nothing_left(store, dsn, schema, slow)
    np.testing.assert_array_equal(await all_of(store), before)
    await store.close()
