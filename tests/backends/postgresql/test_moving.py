"""Moving a period into another tablespace of PostgreSQL: what the contract of moves says nothing of."""

import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import pytest

from backends.base import PeriodTouched, StoreBusy, StoreError
from backends.columns.partitions import Partition as Interval
from backends.postgresql import PostgresqlStore
from backends.postgresql.moving import PostgresqlMoving
from backends.postgresql.protocol.sql import create_partition
from schemas.retention import Period, Rule
from tests.backends.test_store_contract import Make, everything, opened, rng
from tests.backends.test_store_moving import (
    GROUP,
    TRIGGERS,
    at_once,
    make,
    partition_of,
    period_of,
    places,
    small_steps,
    store,
    try_to_move,
    write,
)
from tests.backends.test_store_retention import DAY_NS, noon
from tests.support.places import SLOW, PostgresqlPlaces

__all__ = ["make", "opened", "places", "rng", "small_steps", "store"]


@pytest.fixture(params=["rows", "arrays"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dsn(postgresql_dsn: str) -> str:
    return postgresql_dsn


@pytest.fixture
async def database(postgresql_dsn: str, schema: str) -> AsyncIterator[asyncpg.Connection]:
    async with PostgresqlPlaces.opened(postgresql_dsn, schema) as made:
        yield made.connection


@pytest.fixture
def slow(database: asyncpg.Connection) -> str:
    """A tablespace, in the server's own folder."""
    return SLOW


INDEXES = """
    SELECT regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', '') AS text, c.reltablespace AS place
    FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = to_regclass($1) ORDER BY 1
"""


async def move(store: PostgresqlStore, place: str | None = SLOW, pace: Any = at_once, patience_s: float = 5) -> None:
    await try_to_move(store, place, pace, patience_s)


@pytest.mark.usefixtures("small_steps")
async def test_indexes_statistics_and_constraints_are_as_they_were(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, slow: str
) -> None:
    leaf = f'{schema}."bpm${(await period_of(store, noon(2))).name}$leaf"'
    await database.execute(f"CREATE INDEX ON {leaf} (trigger_id DESC, time_ns) WHERE run > 0")
    indexes = await database.fetch(INDEXES, leaf)
    for place in (slow, None):
        await move(store, place)
        assert await database.fetch(INDEXES, leaf) == indexes
        told = "SELECT reltuples, relallvisible = relpages, obj_description(oid) FROM pg_class WHERE oid = $1::regclass"
        readings = TRIGGERS * GROUP.size if layout_of_rows(store) else TRIGGERS
        assert tuple(await database.fetchrow(told.replace("$1", f"'{leaf}'"))) == (readings, True, None)
        checks = f"SELECT count(*) FROM pg_constraint WHERE conrelid = '{leaf}'::regclass AND contype = 'c'"
        assert await database.fetchval(checks) == 0


def layout_of_rows(store: PostgresqlStore) -> bool:
    return "instrument" in store._tables[GROUP.name].data.c


async def test_who_reads_by_an_older_snapshot_finds_all_of_it(
    store: PostgresqlStore,
    database: asyncpg.Connection,
    schema: str,
    slow: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a backup, whose snapshot may be from before a move, and its first look at the period from after it."""
    monkeypatch.setattr("backends.postgresql.moving.SNAPSHOTS_WITHIN_S", 0.2)
    count = f"SELECT count(*) FROM {schema}.bpm"
    stored = await database.fetchval(count)
    async with database.transaction(isolation="repeatable_read"):
        await database.fetchval("SELECT pg_current_snapshot()::text")
        for _ in range(2):
            with pytest.raises(StoreBusy, match="waits for who reads by an older snapshot"):
                await move(store)
        assert [each.place for each in await store.moves()] == [slow]
        assert await database.fetchval(count) == stored
    await move(store)
    assert (await partition_of(store, noon(2))).place == slow
    assert await database.fetchval(count) == stored


@pytest.mark.usefixtures("small_steps", "slow")
async def test_the_exchange_scans_nothing(store: PostgresqlStore) -> None:
    said: list[str] = []
    async with store._reader() as connection:
        connection.add_log_listener(lambda _, message: said.append(message.message))
        await connection.execute("SET client_min_messages = debug1")
        moving = PostgresqlMoving(connection, store._tables[GROUP.name], patience_s=5)
        await moving.move(await period_of(store, noon(2)), SLOW, at_once)
        await connection.execute("RESET client_min_messages")
    assert [text for text in said if "partition constraint" in text and "is implied by existing constraints" in text]
    assert not [text for text in said if "verifying table" in text]


@pytest.mark.usefixtures("small_steps", "slow")
async def test_rows_that_were_put_in_another_order_are_not_copied_half(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    name = (await period_of(store, noon(2))).name
    before = await everything(store, GROUP)

    async def pace(done: float) -> None:
        if 0 < done < 0.5:
            await database.execute(f'VACUUM FULL {schema}."bpm${name}$leaf"')

    with pytest.raises(PeriodTouched):
        await move(store, pace=pace)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("slow")
async def test_what_is_written_again_as_soon_as_its_copy_is_begun_is_noticed(
    store: PostgresqlStore, database: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, before = PostgresqlMoving._begin, await everything(store, GROUP)

    async def begin(self: PostgresqlMoving, period: Period, *arguments: Any) -> None:
        await really(self, period, *arguments)
        await database.execute(f'VACUUM FULL "bpm${period.name}$leaf"')

    with monkeypatch.context() as patched:
        patched.setattr(PostgresqlMoving, "_begin", begin)
        with pytest.raises(PeriodTouched):
            await move(store)
    assert await store.moves() == ()
    await move(store)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


async def test_who_writes_while_it_begins_is_waited_for(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    name = (await period_of(store, noon(2))).name
    before = await everything(store, GROUP)
    async with database.transaction():
        await database.execute(f'UPDATE {schema}."bpm${name}$leaf" SET run = run')
        with pytest.raises(StoreBusy):
            await move(store, patience_s=0.05)
    assert await store.moves() == ()
    await move(store)
    np.testing.assert_array_equal(await everything(store, GROUP), before)


@pytest.mark.usefixtures("slow")
async def test_readers_of_other_periods_do_not_put_it_off(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    async with database.transaction():
        await database.execute(f"SELECT run FROM {schema}.bpm WHERE time_ns > {noon(1) - DAY_NS // 4} LIMIT 1")
        await move(store, patience_s=0.05)
    assert (await partition_of(store, noon(2))).place == SLOW


@pytest.mark.usefixtures("slow")
async def test_rights_on_a_leaf_go_along(store: PostgresqlStore, database: asyncpg.Connection, schema: str) -> None:
    leaf = f'{schema}."bpm${(await period_of(store, noon(2))).name}$leaf"'
    role = f"reader_{schema}"
    await database.execute(f"CREATE ROLE {role}; GRANT SELECT ON {leaf} TO {role} WITH GRANT OPTION")
    await database.execute(f"GRANT INSERT ON {leaf} TO PUBLIC")
    rights = f"SELECT relacl::text FROM pg_class WHERE oid = '{leaf}'::regclass"
    before = await database.fetchval(rights)
    await move(store)
    assert set(re.split("[{},]", await database.fetchval(rights))) == set(re.split("[{},]", before))


async def test_a_tablespace_that_is_not_there_changes_nothing(store: PostgresqlStore, places: PostgresqlPlaces) -> None:
    there = await places.tables()
    with pytest.raises(StoreError, match='Tablespace "nowhere" does not exist'):
        await move(store, "nowhere")
    assert await places.tables() == there


async def test_a_partition_of_an_older_triggerlog_is_written_read_dropped_and_not_moved(
    make: Make, opened: Callable[..., Any], database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    store = await opened(make(GROUP))
    day = noon(2) // DAY_NS * DAY_NS
    label = str(np.datetime64(day, "ns").astype("datetime64[D]")).replace("-", "")
    old = Interval(start_ns=day, end_ns=day + DAY_NS, label=label)
    for table in ("bpm", "bpm_ledger"):
        await database.execute(";".join(create_partition(schema, table, old)))
    await write(store, rng, 1, noon(2))
    await write(store, rng, 2, noon(1))
    found = await partition_of(store, noon(2))
    assert (found.name, found.place) == (label, None)
    assert await database.fetchval(f'SELECT count(*) > 0 FROM {schema}."bpm${label}"')
    with pytest.raises(StoreError, match="has no leaf that could be moved"):
        await move(store, SLOW)
    dropped = await store.drop(await period_of(store, noon(2)), Rule.AGE, at_ns=5, patience_s=5)
    assert dropped.size_bytes > 0
    assert len(await everything(store, GROUP)) == TRIGGERS * GROUP.size


async def test_readings_go_into_the_leaf_by_its_name(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, rng: np.random.Generator
) -> None:
    """Where a batch fits one period, the server does not have to find it."""
    now = time.time_ns()
    writer = store._writers[GROUP.name]
    async with writer._session() as connection:
        await writer._partitioner.make(connection, np.array([now]))  # finds that it is another than before
        into = await writer._partitioner.make(connection, np.array([now]))
    assert into.startswith("$2")
    kinds = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)"
    ends = {end: await database.fetchval(kinds, f'{schema}."bpm{into}{end}"') for end in ("", "$leaf")}
    assert ends == {"": "p", "$leaf": "r"}
    assert await database.fetchval(kinds, f'{schema}."bpm_ledger{into}"') == "r"
    written = await write(store, rng, 3, now)
    rows = await database.fetchval(f'SELECT count(*) FROM ONLY {schema}."bpm{into}$leaf"')
    assert rows == (written.size if layout_of_rows(store) else TRIGGERS)


async def test_readings_whose_files_cannot_be_found_are_not_exchanged_for_an_empty_copy(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str, slow: str
) -> None:
    """As where the disk of a tablespace is not mounted: the server takes a table without a file for an empty one."""
    before = await everything(store, GROUP)
    await move(store)
    leaf = f'{schema}."bpm${(await period_of(store, noon(2))).name}$leaf"'
    folder = Path(await database.fetchval("SHOW data_directory"))
    file = folder / await database.fetchval("SELECT pg_relation_filepath(to_regclass($1))", leaf)
    # Nobody has to have it open, nor in memory.
    await database.execute("CHECKPOINT")
    away = file.with_name(f"{file.name}.away")
    file.rename(away)
    try:
        with pytest.raises(StoreError, match="could not open file"):
            await move(store, None)
    finally:
        away.rename(file)
    assert (await partition_of(store, noon(2))).place == slow
    np.testing.assert_array_equal(await everything(store, GROUP), before)
    await move(store, None)
    np.testing.assert_array_equal(await everything(store, GROUP), before)
