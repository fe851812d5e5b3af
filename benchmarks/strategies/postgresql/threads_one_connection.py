"""The paper's threads: ten of them share ONE connection, a trigger each at a time; and the fault this has.

Its code is `pool = ThreadPoolExecutor(max_workers=10)`, then `pool.submit(populate, conn, data, n_instr)` and
`time.sleep(0.001)` for ever, where `populate` is the 120 INSERTs and the commit: up to about 20 times the 44 Hz. But a
connection has one transaction at a time: the commit of one thread commits what nine others have written so far, half
their triggers. A reader in a second connection watches meanwhile, and counts the triggers that were half there.

The latency is from when a thread takes a trigger up; what waits in memory for a thread, as in the paper, is not in it.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from benchmarks.rounds.commits import Clock, Commits, with_half_written
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.postgresql.half_written import Watcher
from benchmarks.strategies.postgresql.insert_each_table import create, statements
from benchmarks.strategies.strategy import Reading, Triggers

THREADS = 10
BETWEEN_SUBMITS_S = 0.001


def write(dsn: str, schema: str, triggers: Triggers, seconds: float, *, driver: Driver = PSYCOPG2) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    tables = range(len(triggers[0]))
    create(dsn, schema, tables)
    inserts = statements(schema, tables)
    with closing(driver.connect(dsn)) as connection:

        def populate(timestamp: float, trigger: list[Reading]) -> None:
            ready = clock.now()
            with connection.cursor() as cursor:
                for statement, reading in zip(inserts, trigger, strict=True):
                    cursor.execute(statement, (timestamp, *reading))
            connection.commit()
            clock.committed(ready)

        submitted: list[Future[None]] = []
        with Watcher(dsn, schema, tables) as watcher, ThreadPoolExecutor(THREADS) as pool:
            clock = Clock(seconds)
            for _, trigger in clock.feed(triggers):
                submitted.append(pool.submit(populate, time.time(), list(trigger)))
                time.sleep(BETWEEN_SUBMITS_S)
            pool.shutdown(cancel_futures=True)
        for future in submitted:
            if not future.cancelled():
                future.result()
    return with_half_written(clock.commits(), len(watcher.seen))
