"""Bytes that a reading takes on the disk: in each layout, and reduced to figures."""

import asyncio
import time
from collections.abc import Iterator

import psycopg

from backends.base import Decimating, Partition, StoreError
from benchmarks.load.workload import GROUP, INSTRUMENTS
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.tiers.plan import REDUCED, Plan, Size
from benchmarks.tiers.tiered import HOUR_NS, UNPACED, TieredServer, fill, hourly_store, period_of, periods_of
from daemon.tiers.pace import Paced
from schemas.batch import Layout
from schemas.decimation import Bucket

CACHE_MIB = 64
PATIENCE_S = 10.0
SIZES = "SELECT pg_table_size('{s}.bpm_reduced'), pg_indexes_size('{s}.bpm_reduced')"


def sizes(found: TieredServer, plan: Plan) -> Iterator[Size]:
    """Of one period of complete triggers: in each layout, and once it is reduced."""
    readings = plan.sized_triggers * INSTRUMENTS
    for layout in Layout:
        begin("tiers", f"sizes, {layout}")
        schema = found.server.new_name()
        asyncio.run(_fill(found, plan, layout, schema))
        with psycopg.connect(found.server.dsn, autocommit=True) as connection:
            connection.execute(f"VACUUM (ANALYZE) {schema}.bpm, {schema}.bpm_ledger".encode())
        period = asyncio.run(_period(found, layout, schema))
        total = period.readings_bytes or 0
        size = Size(
            layout=layout,
            readings=readings,
            data=total - period.index_bytes,
            indexes=period.index_bytes,
            ledger=period.size_bytes - total,
        )
        yield _told(size)
        if layout is Layout.ROWS:
            yield _told(_reduced(found, plan, schema, period, size))
        found.server.drop(schema)


def _told(size: Size) -> Size:
    everything = size.data + size.indexes + size.ledger
    print_line(
        f"  {size.layout}: {size.data / size.readings:.2f} bytes a reading, all {everything / size.readings:.2f}"
    )
    return size


def _reduced(found: TieredServer, plan: Plan, schema: str, period: Partition, whole: Size) -> Size:
    """The same readings as figures, with what is left of the partition that they were in."""
    left = asyncio.run(_reduce(found, schema, period, Bucket(HOUR_NS // plan.buckets)))
    with psycopg.connect(found.server.dsn, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) {schema}.bpm_reduced".encode())
        figures, their_index = connection.execute(SIZES.format(s=schema).encode()).fetchall()[0]
    return whole.model_copy(update={"layout": REDUCED, "data": figures + left, "indexes": their_index})


async def _reduce(found: TieredServer, schema: str, partition: Partition, bucket: Bucket) -> int:
    """Reduce the readings of a partition; bytes of what is left of them."""
    store = hourly_store(found.server, schema, Layout.ROWS)
    try:
        if not isinstance(store, Decimating):
            raise StoreError("this store reduces nothing")
        pace = Paced(partition.readings_bytes or 0, UNPACED)
        at_ns = time.time_ns()
        await store.decimate(period_of(partition), bucket, window_ns=0, at_ns=at_ns, pace=pace, patience_s=PATIENCE_S)
        partitions = (await store.partitions())[GROUP.name]
        return next(each.readings_bytes or 0 for each in partitions if each.name == partition.name)
    finally:
        await store.close()


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
