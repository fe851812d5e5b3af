"""Does the database hold exactly what was sent? Asked after every round of the daemon, with SQL of its own."""

import numpy as np
import psycopg

from benchmarks.servers.base import Server
from benchmarks.workload import CHANNELS, GROUP, INSTRUMENTS
from schemas.batch import Layout
from schemas.readings import Array

SAMPLE = 20
"""Triggers whose values are compared bit by bit."""

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
    """Check that triggers 1 to `triggers` are there, each reading once, and the values of a sample.

    Returns how many triggers got readings after their timeout: those a sender was held back with in between.

    bank: `GROUP.record`, shape (k, INSTRUMENTS): trigger n was sent with the values of bank[(n - 1) % k].

    Raises:
        WrongInDatabase: something is missing, double or different.
    """
    with psycopg.connect(server.dsn) as connection:
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


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongInDatabase(f"{what}: counted {found}, sent {wanted}")
