"""Does the database hold exactly what was sent? Asked after every round of the daemon."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import numpy as np
import psycopg

from backends.base import Store
from benchmarks.load.workload import CHANNELS, GROUP, INSTRUMENTS
from benchmarks.servers.base import Server
from schemas.batch import Layout
from schemas.checking.dsn import Backend
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array

SAMPLE = 20
"""Triggers whose values are compared bit by bit in PostgreSQL, whose SQL counts the others."""

SLICE = 20_000
"""Triggers that are read at once where all are read: some 130 MB, and 200 s on the instruments' clock. In the arrays
layout a store looks a minute around for readings that were late, so that much shorter slices would cost more."""

LEDGER = """
    SELECT count(*), count(DISTINCT trigger_id), min(trigger_id), max(trigger_id),
           count(*) FILTER (WHERE arrived <> expected OR expected <> {n} OR duplicates <> 0)
    FROM {schema}.bpm_ledger
"""
LATE = "SELECT count(*) FROM {schema}.bpm_ledger WHERE late <> 0"
# 120 readings of a trigger whose two masks are full are one of each instrument.
ROWS = """
    SELECT count(*), count(*) FILTER (WHERE n = {n} AND low = (1::int8 << 60) - 1 AND high = (1::int8 << 60) - 1)
    FROM (SELECT count(*) AS n, bit_or(CASE WHEN instrument < 60 THEN 1::int8 << instrument ELSE 0 END) AS low,
                 bit_or(CASE WHEN instrument >= 60 THEN 1::int8 << (instrument - 60) ELSE 0 END) AS high
          FROM {schema}.bpm GROUP BY run, trigger_id) AS triggers
"""
ARRAYS = """
    SELECT count(*), count(DISTINCT trigger_id) FILTER (
        WHERE array_length(time_offset_ns, 1) = {n}
          AND array_position(time_offset_ns, (-9223372036854775808)::int8) IS NULL
    ) FROM {schema}.bpm
"""


class WrongInDatabase(Exception):
    """The database does not hold what was sent."""


def verify(server: Server, schema: str, layout: Layout, triggers: int, bank: Array) -> int:
    """Check that triggers 1 to `triggers` are there, each reading once, and the values.

    Returns how many triggers got readings after their timeout: those a sender was held back with in between.

    bank: `GROUP.record`, shape (k, INSTRUMENTS): trigger n was sent with the values of bank[(n - 1) % k].

    Raises:
        WrongInDatabase: something is missing, double or different.
    """
    if server.backend is Backend.POSTGRESQL:
        return _by_sql(server.dsn, schema, layout, triggers, bank)
    return asyncio.run(_by_store(server.store(schema, layout), triggers, bank))


def _by_sql(dsn: str, schema: str, layout: Layout, triggers: int, bank: Array) -> int:
    """Count in the tables themselves, and compare the values of a sample as the view shows them."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(LEDGER.format(schema=schema, n=INSTRUMENTS)).fetchone()
        _expect("the ledger", found, (triggers, triggers, 1, triggers, 0))
        text = ROWS if layout is Layout.ROWS else ARRAYS
        found = connection.execute(text.format(schema=schema, n=INSTRUMENTS)).fetchone()
        _expect("the readings", found, (triggers, triggers))
        sample = sorted({1, triggers, *np.random.default_rng(triggers).integers(1, triggers + 1, SAMPLE).tolist()})
        columns = ", ".join(CHANNELS)
        values = connection.execute(
            f"SELECT {columns} FROM {schema}.{GROUP.name}_readings WHERE trigger_id = ANY(%s)"
            " ORDER BY trigger_id, instrument",
            [sample],
        ).fetchall()
        late = connection.execute(LATE.format(schema=schema)).fetchone()
    sent = bank[(np.array(sample) - 1) % len(bank)]
    wanted = np.stack([sent[name].ravel() for name in CHANNELS], axis=1)
    if not np.array_equal(np.array(values), wanted):
        raise WrongInDatabase(f"{schema}: values differ from those sent, in a sample of {len(sample)} triggers")
    assert late is not None
    return int(late[0])


async def _by_store(store: Store, triggers: int, bank: Array) -> int:
    """Read everything back, as the store gives it, and compare each reading."""
    await store.open()
    try:
        ledger = await store.ask(LedgerTail(group=GROUP, most=2 * triggers))
        wrong = (ledger["arrived"] != ledger["expected"]) | (ledger["expected"] != INSTRUMENTS)
        _expect("ledger rows", len(ledger), triggers)
        _expect("the ledger's triggers", bool((ledger["trigger"] == np.arange(1, triggers + 1)).all()), True)
        _expect("wrong ledger rows", int((wrong | (ledger["duplicates"] != 0)).sum()), 0)
        first = 1
        async for found in _slices(store, ledger):
            _compare(found, first, bank)
            first += len(found) // INSTRUMENTS
        _expect("the readings' triggers", first - 1, triggers)
        return int((ledger["late"] != 0).sum())
    finally:
        await store.close()


async def _slices(store: Store, ledger: Array) -> AsyncIterator[Array]:
    """All readings there are, in the order of their triggers, and times beyond those of the ledger with them."""
    edges = [-(2**62), *ledger["time_ns"][SLICE::SLICE].tolist(), 2**62]
    for start, end in pairwise(edges):
        yield await store.ask(WindowReadings(group=GROUP, start_ns=start, end_ns=end))


def _compare(found: Array, first: int, bank: Array) -> None:
    count = len(found) // INSTRUMENTS
    numbers = np.arange(first, first + count)
    _expect("readings of a slice", len(found), count * INSTRUMENTS)
    shaped = found.reshape(count, INSTRUMENTS)
    whole = (shaped["trigger"] == numbers[:, None]).all() and (shaped["instrument"] == np.arange(INSTRUMENTS)).all()
    _expect(f"whether triggers {first} to {first + count - 1} have each instrument once", bool(whole), True)
    sent = bank[(numbers - 1) % len(bank)]
    for name in CHANNELS:
        if not np.array_equal(shaped[name], sent[name]):
            raise WrongInDatabase(f"values of {name} differ from those sent, in triggers from {first} on")


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongInDatabase(f"{what}: counted {found}, sent {wanted}")
