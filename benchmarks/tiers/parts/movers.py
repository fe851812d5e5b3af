"""Movers beside a writer and a reader: what they lose, how long others wait, and what they leave behind.

The blog's mover copies rows with INSERT and removes them with DELETE, in one transaction at READ COMMITTED: what others
commit between the two statements is removed and was not copied. Its tables are made here of the same readings.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import asyncpg
import numpy as np

from backends.base import Partition, PeriodTouched, Store
from benchmarks.load.workload import INSTRUMENTS
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.tiers.plan import INSERT_DELETE, OURS, OURS_ELSEWHERE, RETURNING, WAYS, Moved, Plan
from benchmarks.tiers.tiered import SLOW, TieredServer, fill, hourly_store, move, periods_of
from schemas.batch import Layout

CACHE_MIB = 64
WRITTEN = 1_000_000_000
"""Number of the writer's first trigger."""
AT_ONCE = 20
"""Rows a commit of the writer."""
PAUSE_S = 0.005
LEAD_IN_S = 0.5
AGAIN_S = 0.2
LIVE, ARCHIVE = "live", "archive"
MAKE = """
    CREATE TABLE {s}.live (LIKE {s}.bpm);
    INSERT INTO {s}.live SELECT * FROM {s}.bpm;
    CREATE INDEX ON {s}.live USING brin (time_ns, trigger_id) WITH (pages_per_range = 32, autosummarize = on);
    CREATE TABLE {s}.archive () INHERITS ({s}.live) TABLESPACE {slow};
    CREATE INDEX ON {s}.archive USING brin (time_ns, trigger_id) WITH (pages_per_range = 32, autosummarize = on);
"""
STATEMENTS = {
    INSERT_DELETE: (
        "INSERT INTO {s}.archive SELECT * FROM ONLY {s}.live WHERE time_ns < {end}",
        "DELETE FROM ONLY {s}.live WHERE time_ns < {end}",
    ),
    RETURNING: (
        """
        WITH moved AS (DELETE FROM ONLY {s}.live WHERE time_ns < {end} RETURNING *)
        INSERT INTO {s}.archive SELECT * FROM moved
        """,
    ),
}
"""Of a transaction; INHERITS lets readers of `live` see both."""
COUNTS = "SELECT count(*) AS everything, count(DISTINCT (trigger_id, instrument)) AS once FROM {table}"
SOURCE = """
    SELECT c.oid::regclass::text AS name, pg_relation_size(c.oid) / current_setting('block_size')::int8 AS pages
    FROM pg_class c WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND reltablespace = 0 AND relname ~ $2
"""
OF_LIVE, OF_GROUP = "^live$", r"^bpm\$[0-9]+\$leaf$"


@dataclass
class Waits:
    """What a writer and a reader saw. rows: acknowledged; the others in s, or counts.

    enough: the writer ends. stop: both end.
    """

    rows: int = 0
    writer_s: float = 0.0
    reader_s: float = 0.0
    asked: int = 0
    wrong: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, kw_only=True)
class _Setup:
    """Readings of two hours, of which the first is moved. table: that is read and written to."""

    dsn: str
    schema: str
    table: str
    store: Store
    old: Partition
    triggers: int


def movers(found: TieredServer, plan: Plan) -> list[Moved]:
    """Every way once, each with tables of its own."""
    done = []
    for way in WAYS:
        begin("tiers", f"movers, {way}")
        schema = found.server.new_name()
        each = asyncio.run(_measured(found, plan, way, schema))
        found.server.drop(schema)
        print_line(
            f"  {way}: {each.seconds:.1f} s, {each.lost} of {each.committed} rows lost, {each.doubled} doubled; writer"
            f" waits {1e3 * each.writer_s:.0f} ms, reader {1e3 * each.reader_s:.0f} ms at most; source"
            f" {each.pages_before:,} -> {each.pages_after:,} pages"
        )
        done.append(each)
    return done


async def _measured(found: TieredServer, plan: Plan, way: str, schema: str) -> Moved:
    store = hourly_store(found.server, schema, Layout.ROWS)
    try:
        await fill(store, 2, plan.moved_triggers)
        old, new = await periods_of(store)
        is_ours = way not in STATEMENTS
        if not is_ours:
            await _execute(found.server.dsn, MAKE.format(s=schema, slow=SLOW))
        name = f"{schema}.{'bpm' if is_ours else LIVE}"
        await _execute(found.server.dsn, f"VACUUM (ANALYZE) {name}")
        setup = _Setup(
            dsn=found.server.dsn, schema=schema, table=name, store=store, old=old, triggers=plan.moved_triggers
        )
        before = await _pages(setup, is_ours)
        written = new if way == OURS_ELSEWHERE else old
        waits = Waits()
        async with _others(setup, waits, written):
            if is_ours:
                seconds, thrown_away = await _move_ours(setup, waits, plan.late_s if way == OURS else 0.0)
            else:
                seconds, thrown_away = await _timed(lambda: _move_rows(setup, way)), 0
        return await _moved(setup, way, waits, seconds=seconds, thrown_away=thrown_away, before=before)
    finally:
        await store.close()


async def _moved(setup: _Setup, way: str, waits: Waits, *, seconds: float, thrown_away: int, before: int) -> Moved:
    """Count what is there."""
    is_ours = way not in STATEMENTS
    stored = 2 * setup.triggers * INSTRUMENTS
    async with _connected(setup.dsn) as connection:
        ((everything, once),) = await connection.fetch(COUNTS.format(table=setup.table))
    # What the mover has removed is room to be used again, once VACUUM has found it.
    await _vacuum(setup, is_ours, "VACUUM")
    after = await _pages(setup, is_ours)
    await _vacuum(setup, is_ours, "VACUUM FULL")
    return Moved(
        way=way,
        seconds=seconds,
        committed=waits.rows,
        lost=waits.rows + stored - once,
        doubled=everything - once,
        thrown_away=thrown_away,
        writer_s=waits.writer_s,
        reader_s=waits.reader_s,
        asked=waits.asked,
        wrong=waits.wrong,
        pages_before=before,
        pages_after=after,
        pages_full=await _pages(setup, is_ours),
    )


# --- movers -----------------------------------------------------------------------------------------------------------


async def _move_rows(setup: _Setup, way: str) -> None:
    async with _connected(setup.dsn) as connection, connection.transaction(isolation="read_committed"):
        for statement in STATEMENTS[way]:
            await connection.execute(statement.format(s=setup.schema, end=setup.old.end_ns))


async def _move_ours(setup: _Setup, waits: Waits, late_s: float) -> tuple[float, int]:
    """Seconds of the move that was done, and copies thrown away: it is tried while rows come, and after that."""
    thrown_away, until = 0, time.monotonic() + late_s
    while time.monotonic() < until:
        with suppress(PeriodTouched):
            return await _timed(lambda: move(setup.store, setup.old, SLOW)), thrown_away
        thrown_away += 1
        await asyncio.sleep(AGAIN_S)
    if late_s:
        waits.enough.set()
    while True:
        with suppress(PeriodTouched):
            return await _timed(lambda: move(setup.store, setup.old, SLOW)), thrown_away
        thrown_away += 1


async def _timed(act: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


# --- a writer and a reader ----------------------------------------------------------------------------------------


@asynccontextmanager
async def _others(setup: _Setup, waits: Waits, written: Partition) -> AsyncIterator[None]:
    """Have both at work a little longer than what is within."""
    tasks = [asyncio.create_task(_write(setup, waits, written)), asyncio.create_task(_read(setup, waits))]
    try:
        await asyncio.sleep(LEAD_IN_S)
        yield
        await asyncio.sleep(LEAD_IN_S)
    finally:
        waits.enough.set()
        waits.stop.set()
        await asyncio.gather(*tasks)


async def _write(setup: _Setup, waits: Waits, written: Partition) -> None:
    """Commit rows of the time of a partition, each with a number of its own."""
    insert = (
        f"INSERT INTO {setup.table} SELECT 1, $1::int8 + n, 0, $2::int8, 0, 0, 0, 0"
        f" FROM generate_series(0, {AT_ONCE - 1}) AS n"
    )
    async with _connected(setup.dsn) as connection:
        while not waits.enough.is_set():
            began = time.perf_counter()
            await connection.execute(insert, WRITTEN + waits.rows, written.start_ns + waits.rows)
            waits.writer_s = max(waits.writer_s, time.perf_counter() - began)
            waits.rows += AT_ONCE
            await asyncio.sleep(PAUSE_S)


async def _read(setup: _Setup, waits: Waits) -> None:
    """Ask for random triggers of what is moved, and see that all of their readings are there."""
    text = f"SELECT count(*) FROM {setup.table} WHERE time_ns = $1::int8 AND trigger_id = $2::int8"
    step_ns = (setup.old.end_ns - setup.old.start_ns) // setup.triggers
    rng = np.random.default_rng(1)
    async with _connected(setup.dsn) as connection:
        while not waits.stop.is_set():
            trigger = int(rng.integers(setup.triggers))
            began = time.perf_counter()
            count = await connection.fetchval(text, setup.old.start_ns + trigger * step_ns, trigger)
            waits.reader_s = max(waits.reader_s, time.perf_counter() - began)
            waits.asked += 1
            waits.wrong += count != INSTRUMENTS
            await asyncio.sleep(PAUSE_S)


# --- tables -------------------------------------------------------------------------------------------------------


async def _pages(setup: _Setup, is_ours: bool) -> int:
    """Pages of what readings are taken from, which lies on the fast disk."""
    return sum(pages for _, pages in await _sources(setup, is_ours))


async def _sources(setup: _Setup, is_ours: bool) -> list[tuple[str, int]]:
    async with _connected(setup.dsn) as connection:
        rows = await connection.fetch(SOURCE, setup.schema, OF_GROUP if is_ours else OF_LIVE)
    return [(row["name"], row["pages"]) for row in rows]


async def _vacuum(setup: _Setup, is_ours: bool, command: str) -> None:
    for name, _ in await _sources(setup, is_ours):
        await _execute(setup.dsn, f"{command} {name}")


async def _execute(dsn: str, text: str) -> None:
    async with _connected(dsn) as connection:
        await connection.execute(text)


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()
