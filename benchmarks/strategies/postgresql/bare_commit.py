"""The floor of the latency: a bare loop that COPYs and commits one trigger at a time, at a steady rate (asyncpg).

The trigger is encoded beforehand and the COPY is its own transaction: one statement, and the wait for the disk.
"""

import time

import asyncpg
import numpy as np

from benchmarks.load.workload import GROUP
from benchmarks.strategies.postgresql.bare_copy import copy, encoded
from schemas.batch import Layout
from schemas.readings import Array

LEAD_IN_S = 1.0


async def commit_at_rate(dsn: str, schema: str, layout: Layout, rate: float, seconds: float) -> Array:
    """Commit triggers at a rate; return the latency of each in ms, float64, shape (triggers,).

    A trigger that comes while the one before is under way waits from when it was due.
    """
    one = encoded(layout, 1)
    connection = await asyncpg.connect(dsn)
    latencies = []
    try:
        begun, begun_ns, early = time.perf_counter(), time.time_ns(), int(LEAD_IN_S * rate)
        for k in range(early + int(seconds * rate)):
            due = begun + k / rate
            one.number(k + 1, begun_ns)
            came = _until(due)
            await copy(connection, schema, GROUP.name, one.data)
            if k >= early:
                latencies.append((time.perf_counter() - came) * 1e3)
    finally:
        await connection.close()
    return np.array(latencies)


def _until(due: float) -> float:
    """Wait for a trigger; return when it came: now, or when it was due if it has been waiting."""
    left = due - time.perf_counter()
    if left <= 0:
        return due
    # Not asyncio.sleep, whose timers are good to a millisecond only; nothing else runs in this loop.
    time.sleep(left)
    return time.perf_counter()
