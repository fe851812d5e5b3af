"""The index of the instruments that docs/sql.md describes: partitions that are there get it, and those that come."""

import re
import time
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends.columns.partitions import DAY_NS
from backends.postgresql import PostgresqlStore
from backends.postgresql.protocol.sql import compiled
from backends.sql.selects import readings_of_instrument
from backends.sql.tables import group_tables
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import InstrumentReadings
from tests.backends.postgresql.test_check import fed_to_psql
from tests.support.batches import batch_of, by_group, group_of, readings_of

GROUP = group_of(size=4)
ROOT = Path(__file__).parents[3]
MAKE, REMOVE = re.findall(r"^```psql\n(.*?)^```", (ROOT / "docs" / "sql.md").read_text(), re.MULTILINE | re.DOTALL)
INDEXED = """
    SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM pg_index WHERE indrelid = relid AND indisvalid
        AND pg_get_indexdef(indexrelid) LIKE '%(instrument, time_ns)')), count(*)
    FROM pg_partition_tree(to_regclass($1)) WHERE isleaf
"""


@pytest.fixture
async def database(postgresql_dsn: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(postgresql_dsn)
    yield connection
    await connection.close()


async def written(dsn: str, schema: str, sequence: int, times: list[int]) -> None:
    """Log a trigger at each of some times."""
    store = PostgresqlStore(
        DatabaseConfig(dsn=dsn, schema=schema, partitions_ahead=1),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout.ROWS},
    )
    await store.open()
    numbers = np.arange(len(times)) + 1000 * sequence
    await store.commit(batch_of(GROUP, sequence, readings_of(GROUP, numbers, times, np.random.default_rng(1))))
    query = InstrumentReadings(group=GROUP, instrument=2, start_ns=min(times), end_ns=max(times) + DAY_NS, most=100)
    assert set(numbers) <= set((await store.ask(query))["trigger"])
    await store.close()


async def test_partitions_have_it_and_the_question_uses_it(
    database: asyncpg.Connection, postgresql_dsn: str, schema: str
) -> None:
    now = time.time_ns()
    await written(postgresql_dsn, schema, 1, [now - DAY_NS, now])
    before = await database.fetchrow(INDEXED, f"{schema}.bpm")
    fed_to_psql(postgresql_dsn, f"SET search_path = {schema};\n{MAKE}")
    indexed, there = await database.fetchrow(INDEXED, f"{schema}.bpm")
    await written(postgresql_dsn, schema, 2, [now + 1, now + DAY_NS])
    later = await database.fetchrow(INDEXED, f"{schema}.bpm")
    # Yesterday, today, tomorrow and the default one; then the day after tomorrow comes.
    assert [tuple(before), (indexed, there), tuple(later)] == [(0, 4), (4, 4), (5, 5)]

    query = InstrumentReadings(group=GROUP, instrument=2, start_ns=now - DAY_NS, end_ns=now + DAY_NS, most=100)
    select = compiled(readings_of_instrument(group_tables(schema, GROUP, Layout.ROWS), query))
    await database.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")  # a few rows are read whole else
    plan = "\n".join(row[0] for row in await database.fetch(f"EXPLAIN (COSTS OFF) {select}"))
    assert plan.count("Index Cond: ((instrument = 2) AND (time_ns >= ") == 3, plan

    fed_to_psql(postgresql_dsn, f"SET search_path = {schema};\n{REMOVE}")
    assert tuple(await database.fetchrow(INDEXED, f"{schema}.bpm")) == (0, 5)
    await written(postgresql_dsn, schema, 3, [now + 2, now + 2 * DAY_NS])
    assert (await database.fetchrow(INDEXED, f"{schema}.bpm"))[0] == 0
