"""What a real server counts of the reading of a period: by readers, and by what is not a reader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import numpy as np
import pytest

from backends.base import PeriodTouched, ReadCounters, StoreUnavailable
from backends.postgresql import PostgresqlStore
from daemon.tiers.heat import Reads, reads_between
from schemas.batch import JournalPosition
from schemas.decimation import Bucket
from tests.backends.postgresql.test_moving import database, dsn, slow
from tests.backends.test_store_contract import Make, maker, opened, rng
from tests.backends.test_store_moving import (
    GROUP,
    TRIGGERS,
    make,
    move,
    partition_of,
    period_of,
    places,
    small_steps,
    store,
)
from tests.backends.test_store_retention import noon
from tests.backends.test_store_retention import period_of as day_of
from tests.support.batches import batch_of, group_of, readings_of
from tests.support.places import SLOW

__all__ = ["database", "dsn", "make", "opened", "places", "rng", "slow", "small_steps", "store"]

ROWS = TRIGGERS * GROUP.size
INDEX_ONLY = ("enable_seqscan = off", "enable_bitmapscan = off")


@pytest.fixture
def kind() -> str:
    return "rows"


@pytest.fixture
async def leaf(store: PostgresqlStore, schema: str) -> str:
    """The table of the oldest day."""
    return f'{schema}."bpm${(await period_of(store, noon(2))).name}$leaf"'


class Reader:
    """A client whose statements are counted when they return."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def run(self, *statements: str) -> None:
        for statement in (*statements, "SELECT pg_stat_force_next_flush()", "SELECT 1"):
            await self._connection.execute(statement)


@pytest.fixture
async def reader(postgresql_dsn: str, leaf: str) -> AsyncIterator[Reader]:
    """A reader of that day, which has an index of its triggers."""
    connection = await asyncpg.connect(postgresql_dsn)
    made = Reader(connection)
    await made.run(f"CREATE INDEX ON {leaf} (trigger_id)", f"VACUUM (ANALYZE) {leaf}")
    yield made
    await connection.close()


async def counted(store: PostgresqlStore) -> ReadCounters:
    """Of the oldest day."""
    (found,) = [each for each in (await partition_of(store, noon(2))).counted if each.pages]
    return found


async def read(store: PostgresqlStore, before: ReadCounters) -> Reads:
    return reads_between(before, await counted(store))


async def test_scans_count_their_pages_whatever_they_do_with_the_rows(
    store: PostgresqlStore, reader: Reader, leaf: str
) -> None:
    before = await counted(store)
    assert (before.rows, before.pages > 20) == (ROWS, True)
    await reader.run(f"SELECT sum(ch0) FROM {leaf}")
    found = await read(store, before)
    assert found.scanned == pytest.approx(before.pages)
    assert found.random == 0
    assert found.missed == 0, "all of it was just written"
    before = await counted(store)
    await reader.run(f"SELECT ch0 FROM {leaf} LIMIT 1")
    assert (await read(store, before)).scanned == pytest.approx(before.pages / ROWS)


async def test_rows_from_anywhere_are_random_and_those_of_a_range_are_not(
    store: PostgresqlStore, reader: Reader, leaf: str
) -> None:
    settings = [f"SET {setting}" for setting in INDEX_ONLY]
    of_one = f"(SELECT ch0 FROM {leaf} WHERE trigger_id = 1000 + (i * 151) % {TRIGGERS} LIMIT 1)"
    before = await counted(store)
    await reader.run(*settings, f"SELECT count({of_one}) FROM generate_series(1, 100) i")
    found = await read(store, before)
    assert found.random == pytest.approx(100, rel=0.02)
    assert found.scanned < 2
    before = await counted(store)
    await reader.run(*settings, f"SELECT sum(ch0) FROM {leaf} WHERE trigger_id < 1000 + {TRIGGERS // 2}")
    found = await read(store, before)
    assert found.scanned == pytest.approx(before.pages / 2, rel=0.2)
    assert found.random < 3


async def test_another_server_that_has_the_same_table_counts_for_itself(
    store: PostgresqlStore, reader: Reader, leaf: str, database: asyncpg.Connection
) -> None:
    """As one that was a replica, and was read for months, and is the primary now."""
    found = (await counted(store)).counted_by
    oid = await database.fetchval("SELECT to_regclass($1)::oid::int8", leaf)
    began = await database.fetchval("SELECT pg_postmaster_start_time()")
    assert (found & (2**32 - 1), found >> 32) == (oid, int(began.timestamp()))


@pytest.mark.parametrize("statement", ["VACUUM", "ANALYZE", "VACUUM (FREEZE, ANALYZE, DISABLE_PAGE_SKIPPING)"])
async def test_looking_after_a_table_asks_for_its_pages_and_does_not_count(
    store: PostgresqlStore, reader: Reader, leaf: str, statement: str
) -> None:
    before = await counted(store)
    await reader.run(f"{statement} {leaf}")
    after = await counted(store)
    assert after.pages_asked > before.pages_asked
    assert after.maintained > before.maintained
    assert reads_between(before, after).gain_s == 0
    # Nor does it where its count is not there yet.
    assert reads_between(before, after._replace(maintained=before.maintained)).gain_s == 0


@pytest.mark.usefixtures("small_steps", "slow")
async def test_a_copy_that_was_thrown_away_does_not_count(
    store: PostgresqlStore, reader: Reader, leaf: str, database: asyncpg.Connection
) -> None:
    before = await counted(store)

    async def pace(done: float) -> None:
        if done == 1.0:
            await database.execute("SET enable_seqscan = off")
            await database.execute(f"UPDATE {leaf} SET run = run WHERE trigger_id = 1000")

    with pytest.raises(PeriodTouched):
        await move(store, SLOW, pace)
    # Its connection reports when it ends.
    async with asyncio.timeout(60):
        while (after := await counted(store)).scanned_rows < before.scanned_rows + ROWS:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert reads_between(before, after._replace(fetched_rows=before.fetched_rows)).gain_s == 0


async def test_what_reduces_a_period_does_not_count(store: PostgresqlStore, reader: Reader, leaf: str) -> None:
    before = await counted(store)

    async def pace(done: float) -> None:
        if done >= 0.5:
            raise StoreUnavailable("the table is not written again")

    period = await period_of(store, noon(2))
    with pytest.raises(StoreUnavailable):
        await store.decimate(period, Bucket(1_000_000_000), window_ns=0, at_ns=1, pace=pace, patience_s=5)
    # Its connection reports when it ends.
    async with asyncio.timeout(120):
        while (after := await counted(store)).scanned_rows < before.scanned_rows + ROWS:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert reads_between(before, after).gain_s == 0


@pytest.mark.usefixtures("small_steps")
async def test_a_table_that_was_moved_counts_what_it_has_served_and_not_how_it_was_made(
    store: PostgresqlStore, reader: Reader, leaf: str, slow: str
) -> None:
    before = await counted(store)
    await move(store, slow)
    after = await counted(store)
    assert (after.counted_by != before.counted_by, after.rows) == (True, ROWS)
    assert (await partition_of(store, noon(2))).rows == ROWS
    # All that the mover has done is counted when it is done.
    for connection in store._idle:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("SELECT 1")
    assert (await read(store, after)).gain_s == 0
    await reader.run(f"SELECT sum(ch0) FROM {leaf}")
    assert (await read(store, after)).scanned == pytest.approx(after.pages)


LARGE = group_of(size=600)
"""Its arrays lie out of line."""


@pytest.fixture
def make_large(request: pytest.FixtureRequest, schema: str) -> Make:
    return maker(request, "arrays", schema)


async def test_what_lies_out_of_line_is_looked_up_for_us_and_counted_apart(
    make_large: Make, opened: Callable[..., Any], rng: np.random.Generator
) -> None:
    large = await opened(make_large(LARGE))
    for run, day in enumerate((3, 2, 1), 1):
        readings = readings_of(LARGE, np.arange(50), noon(day) + np.arange(50) * 1_000_000, rng)
        await large.commit(batch_of(LARGE, run, readings, run=run, position=JournalPosition(sequence=run)))
    period = await day_of(large, LARGE, noon(3))

    async def look() -> tuple[ReadCounters, ...]:
        (found,) = [each for each in (await large.partitions())[LARGE.name] if each.name == period.name]
        return found.counted

    async def pace(done: float) -> None:
        if done >= 0.5:
            raise StoreUnavailable("the table is not written again")

    before = await look()
    with pytest.raises(StoreUnavailable):
        await large.decimate(period, Bucket(1_000_000_000), window_ns=0, at_ns=1, pace=pace, patience_s=5)
    async with asyncio.timeout(120):
        while (after := await look())[0].scanned_rows < before[0].scanned_rows + 50:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    rows, apart = (reads_between(*each) for each in zip(before, after, strict=True))
    assert rows.gain_s == 0
    assert apart.gain_s > 0, "where it does not, heat need not know what we have read ourselves"
