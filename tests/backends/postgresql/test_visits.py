"""What is PostgreSQL's own about visits: views of the packs, partitions, what it lacks, a server that is gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends.base import StoreError, StoreUnavailable
from backends.postgresql.protocol.copy import RowFormat
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.visits import open_visit_store
from backends.postgresql.visits.tables import names_sql, row_format
from backends.visits.base import VisitStore
from backends.visits.rows import tables_by_name
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.tables import Table
from tests.support.visits import TILES, record_of, run_visits, tile_write, time_of, visits_config

PARTITIONED = {"index_mode": "partitioned"}
EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.pi)


def store_of(dsn: str | None, config: VisitsConfig, state_dir: Path = Path()) -> VisitStore:
    return open_visit_store(DatabaseConfig(dsn=dsn), config, state_dir=state_dir)


async def selected(connection: asyncpg.Connection, schema: str, table: Table) -> Array:
    """All rows of a table or view in the order of its key, by its name in the paper."""
    answer = bytearray()

    async def take(pack: bytes) -> None:
        answer.extend(pack)

    columns, key = names_sql(table.dtype.names), names_sql(table.key)
    query = f"SELECT {columns} FROM {quoted(schema, table.name)} ORDER BY {key}"
    await connection.copy_from_query(query, output=take, format="binary")
    form: RowFormat = row_format(table)
    return form.parse(answer)


async def test_views_show_the_rows_that_are_packed(postgresql_dsn: str, schema: str) -> None:
    config = visits_config(schema, PARTITIONED)
    store = store_of(postgresql_dsn, config)
    await store.create()
    await run_visits(store, range(3))
    write = tile_write(3, 0)
    # Of each kind of float what a decoder may get wrong; the smallest are no normal numbers.
    floats = [name for name in write.sources.dtype.names if write.sources.dtype[name].kind == "f"]
    for k, name in enumerate(floats):
        info = np.finfo(write.sources.dtype[name])
        edges = [*EDGES, info.max, info.min, info.tiny, info.smallest_subnormal, -3 * info.smallest_subnormal]
        write.sources[name] = np.resize(np.roll(edges, k), len(write.sources))
    write.sources["flags"][:2] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    write.sources["prv_procOrder"][:2] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    await store.begin(3, time_of(3))
    await store.write(write)
    connection = await asyncpg.connect(postgresql_dsn)
    try:
        for table in tables_by_name(config).values():
            there, shown = await store.whole(table.name), await selected(connection, schema, table)
            for name in there.dtype.names:
                # NaN is NaN, whatever its bits.
                assert np.array_equal(shown[name], there[name], equal_nan=shown[name].dtype.kind == "f"), name
                assert np.array_equal(np.signbit(shown[name]), np.signbit(there[name])) or name != "ra"
        nulls = await connection.fetchrow(
            f'SELECT count(*) AS rows, count("validityEnd") + count("uLcPeriodic") AS filled'
            f" FROM {quoted(schema, 'DIAObject')} WHERE period >= 0 AND visit = 3"
        )
        assert tuple(nulls) == (len(write.objects), 0)
        # What a reader asks of one object finds its packs by their pixel.
        plan = await connection.fetch(
            f'EXPLAIN SELECT * FROM {quoted(schema, "DIAObjectLast")} WHERE pixel = 1001 AND "diaObjectId" = 1'
        )
        assert any("Index Cond" in row[0] or "pixel = 1001" in row[0] for row in plan)
    finally:
        await connection.close()
        await store.drop()
        await store.close()


@asynccontextmanager
async def visited(dsn: str, schema: str, visits: int) -> AsyncIterator[tuple[VisitStore, asyncpg.Connection]]:
    """A store of packs after some visits, two a period, and a connection beside it."""
    store, connection = store_of(dsn, visits_config(schema, PARTITIONED)), await asyncpg.connect(dsn)
    try:
        await store.create()
        await run_visits(store, range(visits))
        yield store, connection
    finally:
        await connection.close()
        await store.drop()
        await store.close()


async def shown(connection: asyncpg.Connection, schema: str) -> dict[str, bytes]:
    """What the views of the paper's tables show, as bytes."""
    tables = tables_by_name(visits_config(schema, PARTITIONED))
    return {name: (await selected(connection, schema, table)).tobytes() for name, table in tables.items()}


async def test_views_show_the_rows_of_compacted_packs(
    postgresql_dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pixel a chunk, and two records of DIASource a pack.
    monkeypatch.setattr("backends.visits.compaction.CHUNK_BYTES", 1)
    monkeypatch.setattr("backends.postgresql.visits.compaction.MOST_BYTES", 1000)
    async with visited(postgresql_dsn, schema, 3) as (store, connection):
        before = await shown(connection, schema)
        # Who took a look before, and has not come to these tables yet, finds their rows, too.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetch(f"SELECT * FROM {quoted(schema, 'VisitSettings')}")
            made = {table: await store.compact(table, period) for table, period in await store.uncompacted(time_of(2))}
            assert await shown(connection, schema) == before
        assert await shown(connection, schema) == before
        assert set(made) == {"DIAObjectLast", "DIASource", "DIAForcedSource"}
        parts = await connection.fetch(
            f"SELECT pixel, array_agg(tile ORDER BY tile) AS tiles, max(n) AS most FROM"
            f" {quoted(schema, 'DIASourcePacks')} WHERE visit = 1 GROUP BY pixel"
        )
        assert max(row["most"] for row in parts) == 2
        assert all(row["tiles"] == list(range(-len(row["tiles"]), 0)) for row in parts)
        assert max(len(row["tiles"]) for row in parts) > 1


async def test_the_server_counts_each_compacted_pack_once(postgresql_dsn: str, schema: str) -> None:
    """The estimate of rows is made of this; what COPY has written must not be added to what ANALYZE has found."""
    async with visited(postgresql_dsn, schema, 5) as (store, connection):
        compacted = list(await store.uncompacted(time_of(4)))
        for wanted in compacted:
            assert await store.compact(*wanted) is not None
        await store.close()  # the session reports what it has not yet
        session = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'triggerlog visits%'"
        while await connection.fetch(session):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for table, period in compacted:
            name = quoted(schema, f"{table}Packs${period}")
            counted = await connection.fetchval(f"SELECT count(*) FROM {name}")
            live = await connection.fetchval("SELECT pg_stat_get_live_tuples($1::regclass)", name)
            assert (table, live) == (table, counted)


async def test_a_compaction_that_is_in_the_way_or_cut_short_leaves_what_was_there(
    postgresql_dsn: str, schema: str
) -> None:
    async with visited(postgresql_dsn, schema, 3) as (store, connection):
        before, (wanted, *others) = await shown(connection, schema), await store.uncompacted(time_of(2))
        names = f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace ORDER BY 1"
        tables = await connection.fetch(names)
        waiting = "SELECT FROM pg_locks WHERE relation = $1 AND mode = 'AccessExclusiveLock' AND NOT granted"
        read = quoted(schema, f"{wanted[0]}Packs")
        held = await connection.fetchval("SELECT to_regclass($1)::oid", read)
        async with connection.transaction():
            await connection.fetch(f"SELECT n FROM {read} LIMIT 1")
            # All is copied, and only the exchange waits, when the run is stopped.
            work = asyncio.create_task(store.compact(*wanted))
            while not await connection.fetch(waiting, held):
                assert not work.done()
                await asyncio.sleep(0.01)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert await store.compact(*wanted) is None
            assert await shown(connection, schema) == before
        assert await connection.fetch(names) == tables
        assert list(await store.uncompacted(time_of(2))) == [wanted, *others]
        assert await store.compact(*wanted) is not None
        assert list(await store.uncompacted(time_of(2))) == others
        assert await shown(connection, schema) == before


async def test_what_needs_no_compaction_is_noted_until_it_is_dropped(
    postgresql_dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visited(postgresql_dsn, schema, 3) as (store, connection):
        notes = quoted(schema, "VisitCompactions")
        # As it is in a schema that was made before there were notes.
        await connection.execute(f"DROP TABLE {notes}")
        await store.create()
        with monkeypatch.context() as large:
            large.setattr("backends.visits.compaction.LARGE_BYTES", 1)
            # Large packs of DIAObjectLast are compacted all the same: most of their versions are not the newest.
            last = list(await store.uncompacted(time_of(2)))
            assert [table for table, _ in last] == ["DIAObjectLast"]
        assert list(await store.uncompacted(time_of(2))) == last
        assert await store.compact(*last[0]) is not None
        assert list(await store.uncompacted(time_of(2))) == []
        assert await connection.fetchval(f"SELECT count(*) FROM {notes}") == 3
        await store.expire(time_of(2))
        assert await connection.fetchval(f"SELECT count(*) FROM {notes}") == 0


async def test_old_versions_end_when_new_ones_begin(postgresql_dsn: str, schema: str) -> None:
    config = visits_config(schema, {"index_mode": "baseline"})
    store = store_of(postgresql_dsn, config)
    await store.create()
    await run_visits(store, range(3))
    connection = await asyncpg.connect(postgresql_dsn)
    try:
        # Each version ends when the object's next one begins, and the newest does not end.
        wrong = await connection.fetchval(
            'SELECT count(*) FROM (SELECT "validityEnd" AS ends, lead("validityStart") OVER'
            f' (PARTITION BY "diaObjectId" ORDER BY "validityStart") AS next FROM {quoted(schema, "DIAObject")}) AS v'
            " WHERE ends IS DISTINCT FROM next"
        )
        assert wrong == 0
    finally:
        await connection.close()
        await store.drop()
        await store.close()


async def test_expired_periods_are_gone_as_partitions(postgresql_dsn: str, schema: str) -> None:
    store = store_of(postgresql_dsn, visits_config(schema, PARTITIONED))
    await store.create()
    await run_visits(store, range(4))
    connection = await asyncpg.connect(postgresql_dsn)
    count = (
        f"SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relname LIKE '%Packs$%'"
        " AND relkind = 'r'"
    )
    try:
        assert await connection.fetchval(count) == 8
        await store.expire(time_of(2))
        assert await connection.fetchval(count) == 4
        # One that is being read is left for another time, and nobody waits for it.
        async with connection.transaction():
            await connection.fetch(f"SELECT n FROM {quoted(schema, 'DIASourcePacks')} LIMIT 1")
            await store.expire(time_of(4))
        assert await connection.fetchval(count) >= 1
        await store.expire(time_of(4))
        assert await connection.fetchval(count) == 0
    finally:
        await connection.close()
        await store.drop()
        await store.close()


async def test_a_store_whose_schema_was_dropped_makes_it_anew(postgresql_dsn: str, schema: str) -> None:
    store = store_of(postgresql_dsn, visits_config(schema, PARTITIONED))
    try:
        for _ in range(2):
            await store.create()
            await run_visits(store, range(2))
            # A table this small is counted and not estimated.
            assert {name: size.rows for name, size in (await store.sizes()).items()} == await store.counts()
            await store.drop()
    finally:
        await store.close()


async def test_replace_is_refused_in_one_line(tmp_path: Path, schema: str) -> None:
    config = visits_config(schema, {"index_mode": "last_object_table", "last_update": "replace"})
    with pytest.raises(StoreError, match=r"visits\.last_update: .*REPLACE; set it to \"upsert\""):
        store_of(None, config, tmp_path)


async def test_a_schema_of_something_else_is_left_alone(postgresql_dsn: str, schema: str) -> None:
    connection = await asyncpg.connect(postgresql_dsn)
    store = store_of(postgresql_dsn, visits_config(schema, PARTITIONED))
    try:
        await connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.bpm (run int4)")
        with pytest.raises(StoreError, match=r"visits\.schema: .*'bpm'.*take another `schema`"):
            await store.create()
    finally:
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")
        await connection.close()
        await store.close()


async def test_a_lost_connection_is_made_again(postgresql_dsn: str, schema: str) -> None:
    store = store_of(postgresql_dsn, visits_config(schema, PARTITIONED))
    await store.create()
    await store.begin(0, time_of(0))
    connection = await asyncpg.connect(postgresql_dsn)
    try:
        ended = await connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'triggerlog visits' AND query LIKE $1",
            f"%{schema}%",
        )
        assert ended == 1
        # The loop may know already that the server has hung up, and then the store connects at once.
        with suppress(StoreUnavailable):
            await store.write(tile_write(0, 0))
        for tile in range(TILES):
            await store.write(tile_write(0, tile))
        await store.finish(record_of(0))
        assert (await store.counts())["DIAForcedSource"] == len(await store.whole("DIAForcedSource")) > 0
    finally:
        await connection.close()
        await store.drop()
        await store.close()


async def test_without_a_running_server_it_says_so(tmp_path: Path, schema: str) -> None:
    store = store_of(None, visits_config(schema, PARTITIONED), tmp_path)
    with pytest.raises(StoreUnavailable, match="the embedded PostgreSQL does not run"):
        await store.connect()
