"""The examples of docs/sql.md and docs/decimation.md, asked of databases with gaps, NaN, marks and figures."""

import re
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import asyncpg
import numpy as np

from backends.postgresql import PostgresqlStore
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.decimation import Bucket
from schemas.marks import Mark
from schemas.readings import Channel
from tests.backends.test_store_decimation import at_once
from tests.backends.test_store_retention import noon, period_of
from tests.support.batches import batch_of, by_group, group_of, readings_of

GROUP = replace(group_of(size=3), channels=tuple(Channel(name=name, unit="mm", dtype="float64") for name in ("x", "y")))
ROOT = Path(__file__).parents[3]
EXAMPLES = re.findall(r"^```sql\n(.*?)^```", (ROOT / "docs" / "sql.md").read_text(), re.MULTILINE | re.DOTALL)


async def test_every_example_runs_and_gaps_are_counted_anew(postgresql_dsn: str, schema: str) -> None:
    store = PostgresqlStore(
        DatabaseConfig(dsn=postgresql_dsn, schema=schema, partitions_ahead=1),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout.ROWS},
    )
    await store.open()
    now, rng = time.time_ns() - 60 * 10**9, np.random.default_rng(1)
    for sequence, (numbers, below) in enumerate((([1, 2, 9, 10], [0, 0, 6, 0]), ([5], [1])), start=1):
        times = now + 10**9 * np.array(numbers)
        batch = batch_of(GROUP, sequence, readings_of(GROUP, np.array(numbers), times, rng))
        batch.ledger["skipped"] = below
        await store.commit(batch)
    await store.close()
    connection = await asyncpg.connect(postgresql_dsn, server_settings={"search_path": schema})
    try:
        answers = [await connection.fetch(example) for example in EXAMPLES]
    finally:
        await connection.close()
    complete, gaps, *_ = answers
    assert (complete[0]["triggers"], complete[0]["never_came"]) == (5, 5)
    assert [tuple(row)[:4] for row in gaps] == [(1, 6, 8, 3), (1, 3, 4, 2)]


async def test_figures_and_readings_together_leave_nan_out(postgresql_dsn: str, schema: str) -> None:
    """Read docs/decimation.md on a stretch of NaN alone, another with some, and readings that stayed around a mark."""
    text = (ROOT / "docs" / "decimation.md").read_text()
    (example,) = re.findall(r"^```sql\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    store = PostgresqlStore(
        DatabaseConfig(dsn=postgresql_dsn, schema=schema, partitions_ahead=1),
        logger="main",
        groups=by_group(GROUP),
        layouts={"bpm": Layout.ROWS},
    )
    await store.open()
    rng, begin = np.random.default_rng(1), noon(3)
    readings = readings_of(GROUP, np.arange(400), begin + np.arange(400) * 25_000_000, rng)
    readings["x"][40:80, 1] = readings["x"][100:110, 2] = np.nan
    await store.commit(batch_of(GROUP, 1, readings))
    for day, sequence in ((2, 2), (1, 3)):
        await store.commit(
            batch_of(GROUP, sequence, readings_of(GROUP, np.arange(2), noon(day) + np.arange(2), rng), run=sequence)
        )
    assert await store.keep_mark(Mark(id=uuid4(), time_ns=begin + 4 * 10**9, text="kept whole"))
    period = await period_of(store, GROUP, begin)
    await store.decimate(period, Bucket(10**9), window_ns=10**9, at_ns=1, pace=at_once, patience_s=5)
    await store.close()
    connection = await asyncpg.connect(postgresql_dsn)
    try:
        stayed = await connection.fetchval(f"SELECT count(*) FROM {schema}.bpm WHERE time_ns < {noon(2)}")
        day = np.datetime64(begin, "ns").astype("datetime64[D]")
        example = example.replace("triggerlog.", f"{schema}.")
        rows = await connection.fetch(example.replace("2026-01-01", str(day)).replace("2026-01-02", str(day + 1)))
    finally:
        await connection.close()
    assert 0 < stayed < readings.size
    for instrument, mean, least, greatest in sorted(map(tuple, rows)):
        x = readings["x"][:, instrument]
        np.testing.assert_allclose((mean, least, greatest), (np.nanmean(x), np.nanmin(x), np.nanmax(x)), rtol=1e-12)
    assert len(rows) == GROUP.size
