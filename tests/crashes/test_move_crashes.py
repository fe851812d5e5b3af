"""kill -9 of a process that moves periods, and of the server: nothing lost, nothing twice, and nothing left over."""

import asyncio
import random
from collections.abc import Iterator

import asyncpg
import numpy as np
import pytest

from backends.base import StoreError
from backends.kinds import KINDS
from backends.postgresql import PostgresqlStore
from backends.throwaway.base import ThrowawayServer
from schemas.checking.dsn import Backend
from schemas.queries import WindowReadings
from schemas.readings import Array
from tests.support.kills import KILLS
from tests.support.lives import Life, random_moments
from tests.support.move_crash_process import SLOW, at_once, live, move_on, periods_of
from tests.support.retention_crash_process import GROUP, HOURS, TRIGGERS, fill, store_at
from tests.support.servers import installed, server_folder

LASTS_S = 0.5
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


@pytest.fixture
def server() -> Iterator[ThrowawayServer]:
    """A server that the test may kill."""
    with server_folder() as folder:
        with installed():
            made = KINDS[Backend.POSTGRESQL].throwaway_server(folder)
            made.start()
        yield made
        made.stop()


async def filled(dsn: str, schema: str) -> PostgresqlStore:
    """A store with hours of readings, and a tablespace in the server's own folder."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("SET allow_in_place_tablespaces = on")
    await connection.execute(f"CREATE TABLESPACE {SLOW} LOCATION ''")
    await connection.close()
    store = store_at(dsn, schema)
    assert isinstance(store, PostgresqlStore)
    await store.open()
    await fill(store)
    return store


async def all_of(store: PostgresqlStore) -> Array:
    return await store.ask(WindowReadings(group=GROUP, start_ns=-(2**63), end_ns=2**63 - 1))


async def see_nothing_left(store: PostgresqlStore, dsn: str, schema: str) -> None:
    """See that after the next start nothing is there but the periods, and that each can be moved."""
    for each in await store.moves():
        await store.give_up_move(each, patience_s=10)
    for period in await periods_of(store):
        await store.move(period, SLOW, pace=at_once, patience_s=10)
    connection = await asyncpg.connect(dsn)
    try:
        left = await connection.fetchval(
            f"SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'"
            " AND relname ~ '(copy|touched)$'"
        )
        assert left == 0
        await connection.execute("CHECKPOINT")
        unknown = await connection.fetch(UNKNOWN, SLOW)
    finally:
        await connection.close()
    assert [tuple(row) for row in unknown if (row["size"] or 0) > FEW_PAGES] == []


async def test_the_daemon_is_killed_in_the_midst_of_moves(
    server: ThrowawayServer, schema: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(server.start)
    store = await filled(dsn, schema)
    before = await all_of(store)
    assert len(before) == HOURS * TRIGGERS * GROUP.size
    await store.close()
    for _ in range(KILLS):
        life = await asyncio.to_thread(Life, live, dsn, schema)
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(life.end)
        looking = store_at(dsn, schema)
        assert isinstance(looking, PostgresqlStore)
        np.testing.assert_array_equal(await all_of(looking), before)
        await looking.close()
    store = store_at(dsn, schema)
    assert isinstance(store, PostgresqlStore)
    await store.open()
    await see_nothing_left(store, dsn, schema)
    np.testing.assert_array_equal(await all_of(store), before)
    await store.close()


async def test_the_server_is_killed_in_the_midst_of_moves(
    server: ThrowawayServer, schema: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(server.start)
    store = await filled(dsn, schema)
    before, periods = await all_of(store), await periods_of(store)

    async def moving() -> None:
        while True:
            try:
                await move_on(store, periods, rng)
            except StoreError:
                return  # it is away

    for _ in range(KILLS):
        under_way = asyncio.create_task(moving())
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(server.kill)
        await under_way
        await asyncio.to_thread(server.start)
        np.testing.assert_array_equal(await all_of(store), before)
    await see_nothing_left(store, dsn, schema)
    np.testing.assert_array_equal(await all_of(store), before)
    await store.close()
