"""Bytes that a reading takes on the disk, in each layout."""

import asyncio
from collections.abc import Iterator

import psycopg

from backends.base import Partition
from benchmarks.load.workload import INSTRUMENTS
from benchmarks.rounds.progress import begin, print_line
from benchmarks.tiers.plan import Plan
from benchmarks.tiers.record import Size
from benchmarks.tiers.stored import fill, hourly_store, periods_of
from benchmarks.tiers.tiered import TieredServer
from schemas.batch import Layout

CACHE_MIB = 64


def sizes(found: TieredServer, plan: Plan) -> Iterator[Size]:
    """Of one period of complete triggers, in each layout."""
    readings = plan.sized_triggers * INSTRUMENTS
    for layout in Layout:
        begin("tiers", f"sizes, {layout}")
        schema = found.server.new_name()
        asyncio.run(_fill(found, plan, layout, schema))
        with psycopg.connect(found.server.dsn, autocommit=True) as connection:
            connection.execute(f"VACUUM (ANALYZE) {schema}.bpm, {schema}.bpm_ledger".encode())
        period = asyncio.run(_period(found, layout, schema))
        found.server.drop(schema)
        total = period.readings_bytes or 0
        size = Size(
            layout=layout,
            readings=readings,
            data=total - period.index_bytes,
            indexes=period.index_bytes,
            ledger=period.size_bytes - total,
        )
        print_line(f"  {layout}: {size.data / readings:.1f} bytes a reading, all {period.size_bytes / readings:.1f}")
        yield size


async def _fill(found: TieredServer, plan: Plan, layout: Layout, schema: str) -> None:
    store = hourly_store(found.server, schema, layout)
    try:
        await fill(store, 1, plan.sized_triggers)
    finally:
        await store.close()


async def _period(found: TieredServer, layout: Layout, schema: str) -> Partition:
    store = hourly_store(found.server, schema, layout)
    try:
        (period,) = await periods_of(store)
    finally:
        await store.close()
    return period
