"""`python -m benchmarks.studies.instrument_index`: an index of the instruments on `rows` in PostgreSQL (decision 0069).

A minute of one instrument, asked of a partition without an index of the instruments and of ones with an index: by the
daemon's own question and by the example in docs/sql.md, right after a start of the server and again; then the rate of
the writing, its log and a single trigger's commit, by turns.
"""

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import numpy as np

from backends.postgresql import PostgresqlStore
from backends.throwaway.postgresql import ThrowawayPostgresql
from benchmarks.load.workload import GROUP, LOGGER
from benchmarks.studies.questions import BATCH, SECOND_NS, batches, print_line
from schemas.batch import Batch, Layout
from schemas.config import DatabaseConfig
from schemas.queries import InstrumentReadings

HZ = 44
PERIOD_NS = SECOND_NS // HZ
MINUTE_NS = 60 * SECOND_NS
SINGLE = 200
"""Single triggers that are committed in a round."""
LOGGED = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8"
SIZES = """
    SELECT (sum(pg_table_size(c.oid)) / sum(c.reltuples))::float8 AS data,
           (sum(pg_indexes_size(c.oid)) / sum(c.reltuples))::float8 AS indexes
    FROM pg_class c WHERE c.relname LIKE 'bpm$%' AND c.relkind = 'r' AND c.relnamespace = to_regnamespace($1)
      AND c.reltuples > 0
"""
INDEXES = {
    "no index": "",
    "B-tree": "(instrument, time_ns)",
    "B-tree with all columns": "(instrument, time_ns) INCLUDE (run, trigger_id, "
    + ", ".join(channel.name for channel in GROUP.channels)
    + ")",
}
EXAMPLE = """
    SELECT r.time, r.run, r.trigger_id, r.top_in, r.bot_in, l.arrived = l.expected AS complete
    FROM {schema}.bpm_readings r JOIN {schema}.bpm_ledger l USING (run, trigger_id)
    WHERE r.name = 'bpm_007' AND r.time_ns >= {start_ns} AND r.time_ns < {start_ns} + 60000000000
      AND l.time_ns >= {start_ns} - 60000000000
    ORDER BY r.run, r.trigger_id
"""
"""The example of docs/sql.md, with a time that is given."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A schema with one of the indexes, and what was measured in it.

    rates: readings/s, a round each. wal: bytes a reading. single_ms: of the commits of a single trigger.
    """

    schema: str
    index: str
    rates: list[float] = field(default_factory=list)
    wal: list[float] = field(default_factory=list)
    single_ms: list[float] = field(default_factory=list)

    def store(self, dsn: str) -> PostgresqlStore:
        """One that writes into it."""
        database = DatabaseConfig(dsn=dsn, schema=self.schema, partition="day")
        return PostgresqlStore(
            database, logger=LOGGER, groups={"bpm": GROUP}, layouts={"bpm": Layout.ROWS}, password=None
        )


async def fill(dsn: str, variant: Variant, triggers: int, begun_ns: int) -> None:
    """Make a schema with its index, and fill it with what an hour or so brings."""
    store = variant.store(dsn)
    await store.open()
    connection = await asyncpg.connect(dsn)
    if variant.index:
        await connection.execute(f"CREATE INDEX ON {variant.schema}.bpm {variant.index}")
    for batch in batches(0, triggers, BATCH, begun_ns, PERIOD_NS):
        await store.commit(batch)
    await connection.execute(f"VACUUM ANALYZE {variant.schema}.bpm")
    await connection.execute(f"VACUUM ANALYZE {variant.schema}.bpm_ledger")
    await connection.close()
    await store.close()


async def ask(dsn: str, variant: Variant, start_ns: int, rounds: int) -> list[tuple[float, float]]:
    """Milliseconds of the two questions, a round each; the first finds nothing in the server."""
    store = variant.store(dsn)
    query = InstrumentReadings(group=GROUP, instrument=7, start_ns=start_ns, end_ns=start_ns + MINUTE_NS, most=500_000)
    connection = await asyncpg.connect(dsn)
    text = EXAMPLE.format(schema=variant.schema, start_ns=start_ns)
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        readings = await store.ask(query)
        asked = time.perf_counter()
        rows = await connection.fetch(text)
        found.append((1000 * (asked - began), 1000 * (time.perf_counter() - asked)))
        assert abs(len(readings) - HZ * 60) <= 1, len(readings)
        assert len(rows) >= len(readings)
    await connection.close()
    await store.close()
    return found


async def write(dsn: str, variant: Variant, begun_ns: int, first: int, seconds: float) -> int:
    """Commit large batches for some seconds, then single triggers; return the number of the trigger that comes next."""
    store = variant.store(dsn)
    await store.open()
    connection = await asyncpg.connect(dsn)
    before = await connection.fetchval(LOGGED)
    taken, triggers = 0.0, 0
    for batch in batches(first, 10_000_000, BATCH, begun_ns, PERIOD_NS):
        taken += await _commit(store, batch)
        triggers += BATCH
        if taken > seconds:
            break
    readings = triggers * GROUP.size
    variant.rates.append(readings / taken)
    variant.wal.append((await connection.fetchval(LOGGED) - before) / readings)
    for batch in batches(first + triggers, SINGLE, 1, begun_ns, PERIOD_NS):
        variant.single_ms.append(1000 * await _commit(store, batch))
    await connection.close()
    await store.close()
    return first + triggers + SINGLE


async def _commit(store: PostgresqlStore, batch: Batch) -> float:
    """Seconds that a commit takes; to make its readings is no part of it."""
    began = time.perf_counter()
    await store.commit(batch)
    return time.perf_counter() - began


async def _measure(server: ThrowawayPostgresql, options: argparse.Namespace) -> None:
    dsn = await asyncio.to_thread(server.start)
    triggers = options.minutes * 60 * HZ
    begun_ns = time.time_ns() - triggers * PERIOD_NS
    variants = {name: Variant(schema=f"bench_{k}", index=index) for k, (name, index) in enumerate(INDEXES.items())}
    for variant in variants.values():
        await fill(dsn, variant, triggers, begun_ns)
    await _print_sizes(dsn, variants)
    print_line(f"\n{'a minute of one instrument, ms':32}{'question':>10}{'again':>10}{'SQL':>10}{'again':>10}")
    for name, variant in variants.items():
        # The server keeps nothing over a restart; the operating system does.
        await asyncio.to_thread(server.stop)
        dsn = await asyncio.to_thread(server.start)
        (question, sql), *again = await ask(dsn, variant, begun_ns + triggers // 2 * PERIOD_NS, options.rounds + 1)
        questions_ms, sql_ms = (statistics.median(column) for column in zip(*again, strict=True))
        print_line(f"{name:32}{question:>10.1f}{questions_ms:>10.1f}{sql:>10.1f}{sql_ms:>10.1f}")
    first = dict.fromkeys(variants, triggers)
    for name, variant in itertools.chain.from_iterable([variants.items()] * options.rounds):
        first[name] = await write(dsn, variant, begun_ns, first[name], options.seconds)
    _print_writing(variants)


async def _print_sizes(dsn: str, variants: Mapping[str, Variant]) -> None:
    connection = await asyncpg.connect(dsn)
    print_line(f"{'bytes a reading on the disk':32}{'table':>10}{'indexes':>10}")
    for name, variant in variants.items():
        found = await connection.fetchrow(SIZES, variant.schema)
        assert found is not None
        print_line(f"{name:32}{found['data']:>10.1f}{found['indexes']:>10.1f}")
    await connection.close()


def _print_writing(variants: Mapping[str, Variant]) -> None:
    print_line(f"\n{'the writing':32}{'readings/s':>12}{'rounds':>22}{'log, bytes':>12}{'single, ms p50 p99':>20}")
    for name, variant in variants.items():
        rates = f"{min(variant.rates):,.0f} to {max(variant.rates):,.0f}"
        p50, p99 = np.percentile(variant.single_ms, [50, 99])
        print_line(
            f"{name:32}{statistics.median(variant.rates):>12,.0f}{rates:>22}{statistics.median(variant.wal):>12.0f}"
            f"{f'{p50:.2f} {p99:.1f}':>20}"
        )


def main() -> None:
    """Fill a server, ask it, write into it, and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.instrument_index")
    parser.add_argument("--minutes", type=int, default=15, help="how much is stored before, at 44 triggers/s")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is asked, and written, by turns")
    parser.add_argument("--seconds", type=float, default=3, help="how long large batches are committed in a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="triggerlog-bench-") as folder:
        Path(folder).chmod(0o711)  # as root the server runs under another account
        server = ThrowawayPostgresql(Path(folder))
        try:
            asyncio.run(_measure(server, options))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
