"""The ceiling: rows encoded beforehand, COPYed on one bare connection (asyncpg) into the daemon's own tables.

Nothing is received, put together or encoded while the clock runs: what is measured is what the server takes from one
connection in batches of a given size. A batch is a transaction. Optionally the ledger rows go with it.
"""

import time
from dataclasses import dataclass
from typing import Any

import asyncpg
import numpy as np

from backends.postgresql.protocol.copy import (
    SIGNATURE,
    TRAILER,
    arrays_format,
    encode_arrays,
    encode_ledger,
    encode_rows,
    ledger_format,
    rows_format,
)
from benchmarks.load.workload import (
    GROUP,
    INSTRUMENTS,
    LOGGER,
    PERIOD_NS,
    closed_triggers,
    number,
    on_uvloop,
    random_records,
)
from benchmarks.rounds.commits import Clock, Commits
from schemas.batch import Layout
from schemas.readings import Array

POOL_BYTES = 128 * 2**20
"""Encoded batches kept; they are used again with new numbers and times, which are set while no clock runs."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A batch as COPY files: readings and ledger rows, with views of the fields that change from trigger to trigger."""

    triggers: int
    data: Array
    ledger: Array
    data_rows: Array
    ledger_rows: Array

    def number(self, first: int, begun_ns: int) -> None:
        """Give it the next numbers and times."""
        for rows in (self.data_rows, self.ledger_rows):
            number_rows(rows, first, begun_ns)


def number_rows(rows: Array, first: int, begun_ns: int) -> None:
    """Number encoded rows; shape (triggers, rows a trigger)."""
    column = first + np.arange(len(rows))[:, None]
    rows["trigger_id"] = column
    rows["time_ns"] = begun_ns + column * PERIOD_NS


def encoded(layout: Layout, triggers: int, *, seed: int = 1) -> Encoded:
    """Encode so many triggers of random values."""
    records = random_records(triggers, seed=seed)
    number(records, 1, time.time_ns())
    closed = closed_triggers(records)
    rows = layout is Layout.ROWS
    data = encode_rows(closed, GROUP) if rows else encode_arrays(closed, GROUP)
    ledger = encode_ledger(closed.ledger, INSTRUMENTS, LOGGER.encode())
    return Encoded(
        triggers=triggers,
        data=data,
        ledger=ledger,
        data_rows=_body(data).view((rows_format if rows else arrays_format)(GROUP).dtype).reshape(triggers, -1),
        ledger_rows=_body(ledger).view(ledger_format(INSTRUMENTS, LOGGER.encode()).dtype).reshape(triggers, 1),
    )


def _body(file: Array) -> Array:
    return file[len(SIGNATURE) : -len(TRAILER)]


def pool(layout: Layout, triggers_a_batch: int) -> list[Encoded]:
    """Encode batches, different ones, as many as POOL_BYTES hold and at least one."""
    first = encoded(layout, triggers_a_batch)
    return [first, *(encoded(layout, triggers_a_batch, seed=k) for k in range(2, POOL_BYTES // first.data.nbytes + 1))]


def write(dsn: str, schema: str, batches: list[Encoded], seconds: float, *, with_ledger: bool) -> Commits:
    """COPY batches, a transaction each, for so many seconds, into the daemon's tables, which are there."""
    return on_uvloop(_write(dsn, schema, batches, seconds, with_ledger=with_ledger))


async def _write(dsn: str, schema: str, batches: list[Encoded], seconds: float, *, with_ledger: bool) -> Commits:
    connection = await asyncpg.connect(dsn)
    try:
        begun_ns, written = time.time_ns(), 0
        clock = Clock(seconds)
        for _, batch in clock.feed(batches):
            with clock.standing():
                batch.number(written + 1, begun_ns)
            ready = clock.now()
            if with_ledger:
                async with connection.transaction():
                    await copy(connection, schema, GROUP.name, batch.data)
                    await copy(connection, schema, f"{GROUP.name}_ledger", batch.ledger)
            else:
                await copy(connection, schema, GROUP.name, batch.data)
            clock.committed(ready, batch.triggers)
            written += batch.triggers
    finally:
        await connection.close()
    return clock.commits()


async def copy(connection: Any, schema: str, table: str, payload: Array) -> None:
    """COPY an encoded file, in a transaction of its own unless one is open."""
    await connection.copy_to_table(table, schema_name=schema, source=payload, format="binary")


def readings(dsn: str, schema: str, layout: Layout) -> int:
    """Count the readings in the daemon's table."""
    count = "count(*)" if layout is Layout.ROWS else "sum(array_length(time_offset_ns, 1))"

    async def ask() -> int:
        connection = await asyncpg.connect(dsn)
        try:
            return int(await connection.fetchval(f"SELECT {count} FROM {schema}.{GROUP.name}"))
        finally:
            await connection.close()

    return on_uvloop(ask())
