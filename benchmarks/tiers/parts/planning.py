"""Cost of a leaf below each period costs the planner: periods that are tables, and periods with a leaf, by turns."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import asyncpg
import numpy as np
import sqlalchemy as sa

from backends.columns.partitions import Partition, partition_of
from backends.postgresql.protocol.sql import compiled, create_partition
from backends.postgresql.reading.figures import select_aggregate, select_means
from backends.postgresql.reading.queries import newest_readings, rows_of
from backends.sql import selects
from backends.sql.tables import GroupTables, group_tables
from benchmarks.load.workload import GROUP
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.tiers.plan import Plan, Planned
from benchmarks.tiers.tiered import HOUR_NS, TieredServer, first_hour_ns, hourly_store
from schemas.batch import Layout
from schemas.ledger import ledger_dtype
from schemas.queries import InstrumentReadings, Means, WindowReadings

CACHE_MIB = 128
SETTINGS = {"max_locks_per_transaction": "512"}
"""A question locks each table that it is planned for, and its indexes."""
TOGETHER = 100
"""Periods that one transaction makes."""
FIRST_ROUNDS = 5
"""With a new session each."""
MINUTE_NS = 60_000_000_000
PLANNING = re.compile(r"Planning Time: ([0-9.]+) ms")
LOCKS = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation > 16384"
"""Of a transaction, on tables and indexes that are not the server's own."""
Connect = Callable[[], Awaitable[asyncpg.Connection]]


@dataclass(frozen=True, kw_only=True)
class _Schema:
    """Tables of a group without readings, with or without leaves."""

    name: str
    with_leaf: bool

    @property
    def tables(self) -> GroupTables:
        return group_tables(self.name, GROUP, Layout.ROWS)


def planning(found: TieredServer, plan: Plan) -> list[Planned]:
    """Planning times of all questions, with more and more periods."""
    schemas = tuple(_Schema(name=found.server.new_name(), with_leaf=with_leaf) for with_leaf in (False, True))
    for schema in schemas:
        asyncio.run(_open(found, schema))
    return asyncio.run(_planning(found.server.dsn, plan, schemas))


async def _planning(dsn: str, plan: Plan, schemas: Sequence[_Schema]) -> list[Planned]:
    done: list[Planned] = []
    begun_ns, made = first_hour_ns(max(plan.planned_periods)), 0
    for periods in plan.planned_periods:
        begin("tiers", f"planning, {periods} periods")
        hours = [partition_of(begun_ns + k * HOUR_NS, "hour") for k in range(made, periods)]
        for schema in schemas:
            await _make(dsn, schema, hours)
        made = periods
        # The last of these hours, and the middle of all.
        newest_ns, middle_ns = begun_ns + (periods - 1) * HOUR_NS, begun_ns + periods // 2 * HOUR_NS
        for is_first in (False, True):
            rounds = FIRST_ROUNDS if is_first else plan.planning_rounds
            done += await _by_turns(dsn, schemas, (newest_ns, middle_ns), periods, rounds, is_first=is_first)
    return done


def questions(tables: GroupTables, newest_ns: int, middle_ns: int) -> Iterator[tuple[str, str]]:
    """The usual questions, and the statement of each for a group of single readings."""
    row = np.zeros(1, ledger_dtype(GROUP.size))
    row["run"], row["trigger"] = 1, 1
    for name in ("time_ns", "first_ns", "last_ns"):
        row[name] = middle_ns
    hour = {"start_ns": newest_ns, "end_ns": newest_ns + HOUR_NS}
    trigger = {"run": 1, "trigger": 1, "time_ns": newest_ns, "first_ns": newest_ns, "last_ns": newest_ns + 1}
    found: dict[str, sa.SelectBase] = {
        "a trigger": selects.readings_of_trigger(tables, **trigger),
        "an old trigger": rows_of(tables, row),
        "snapshot": newest_readings(tables, middle_ns - MINUTE_NS, middle_ns, range(GROUP.size)),
        "an instrument, an hour": selects.readings_of_instrument(
            tables, InstrumentReadings(group=GROUP, instrument=7, most=1000, **hour)
        ),
        "window": selects.readings_in_window(
            tables, WindowReadings(group=GROUP, start_ns=middle_ns, end_ns=middle_ns + MINUTE_NS)
        ),
        "means of a day": select_means(
            tables,
            Means(group=GROUP, start_ns=newest_ns - 23 * HOUR_NS, end_ns=newest_ns + HOUR_NS, step_ns=MINUTE_NS),
        ),
        "everything": select_aggregate(tables),
    }
    for name, select in found.items():
        yield name, compiled(select)


async def _open(found: TieredServer, schema: _Schema) -> None:
    store = hourly_store(found.server, schema.name, Layout.ROWS)
    try:
        await store.open()
    finally:
        await store.close()


async def _make(dsn: str, schema: _Schema, hours: Sequence[Partition]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for first in range(0, len(hours), TOGETHER):
            made = [
                statement
                for hour in hours[first : first + TOGETHER]
                for statement in create_partition(schema.name, GROUP.name, hour, with_leaf=schema.with_leaf)
            ]
            await connection.execute(";".join(made))
    finally:
        await connection.close()


async def _by_turns(
    dsn: str, schemas: Sequence[_Schema], at: tuple[int, int], periods: int, rounds: int, *, is_first: bool
) -> list[Planned]:
    texts = [dict(questions(schema.tables, *at)) for schema in schemas]
    found: list[Planned] = []
    for question in texts[0]:
        locks = [await _locks(dsn, text[question]) for text in texts]
        times: list[list[float]] = [[], []]
        shared = await asyncpg.connect(dsn)
        try:
            for number in range(rounds + 1):
                for of, text in zip(times, texts, strict=True):
                    took_ms = await _planned_ms(dsn, None if is_first else shared, text[question])
                    # Nobody has planned it before the first round.
                    if number:
                        of.append(took_ms)
        finally:
            await shared.close()
        plain, leaves = (tuple(each) for each in times)
        found.append(
            Planned(
                periods=periods,
                question=question,
                first=is_first,
                plain_ms=plain,
                leaves_ms=leaves,
                plain_locks=locks[0],
                leaves_locks=locks[1],
            )
        )
        which = "first in a session" if is_first else "again"
        print_line(
            f"  {periods} periods, {question}, {which}: {np.median(plain):.2f} ms, with leaves {np.median(leaves):.2f};"
            f" {locks[0]:,} and {locks[1]:,} locks"
        )
    return found


async def _locks(dsn: str, text: str) -> int:
    """Tables and indexes that a question locks, while it is planned."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(f"EXPLAIN {text}")
            return int(await connection.fetchval(LOCKS))
    finally:
        await connection.close()


async def _planned_ms(dsn: str, shared: asyncpg.Connection | None, text: str) -> float:
    """What the server says that planning took."""
    connection = shared or await asyncpg.connect(dsn)
    try:
        lines = [row[0] for row in await connection.fetch(f"EXPLAIN (SUMMARY) {text}")]
    finally:
        if shared is None:
            await connection.close()
    return float(next(found[1] for line in lines if (found := PLANNING.search(line))))
