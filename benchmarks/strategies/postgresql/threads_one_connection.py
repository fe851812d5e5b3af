"""The paper's threads: ten of them share ONE connection, a trigger each at a time; and the fault this has.

Its code is `pool = ThreadPoolExecutor(max_workers=10)`, then `pool.submit(populate, conn, data, n_instr)` and
`time.sleep(0.001)` for ever, where `populate` is the 120 INSERTs and the commit: up to about 20 times the 44 Hz. But a
connection has one transaction at a time: the commit of one thread commits what nine others have written so far, half
their triggers. A reader in a second connection watches meanwhile, and counts the triggers that were half there.

The latency is from when a thread takes a trigger up; what waits in memory for a thread, as in the paper, is not in it.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from types import TracebackType
from typing import Self

import psycopg

from benchmarks.rounds.commits import Clock, Commits, with_half_written
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, Driver
from benchmarks.strategies.postgresql.insert_each_table import create, statements
from benchmarks.strategies.strategy import Reading, Triggers

# --- half-written triggers -------------------------------------------------------------------------------------------
# One statement sees one moment of the database, all tables of it. A trigger that was written in one transaction is
# there whole or not at all. A look can miss what was half there between two of them: in the end the reader asks by
# which transaction each row came (its xmin), and counts those that came in parts, of which a reader in between saw
# half.

LOOK_EVERY_S = 0.1
"""A look reads all tables: more of them would slow down what is measured."""


def half_written(connection: psycopg.Connection, schema: str, tables: range) -> set[float]:
    """Timestamps of the triggers that some tables have and others lack, at one moment."""
    everything = " UNION ALL ".join(f"SELECT timestamp FROM {schema}.instr{i}" for i in tables)
    found = connection.execute(
        f"SELECT timestamp FROM ({everything}) AS readings GROUP BY timestamp HAVING count(*) < {len(tables)}"
    )
    return {timestamp for (timestamp,) in found}


def came_in_parts(connection: psycopg.Connection, schema: str, tables: range) -> set[float]:
    """Timestamps of the triggers whose readings were committed by more than one transaction."""
    everything = " UNION ALL ".join(f"SELECT timestamp, xmin::text AS came FROM {schema}.instr{i}" for i in tables)
    found = connection.execute(
        f"SELECT timestamp FROM ({everything}) AS readings GROUP BY timestamp HAVING count(DISTINCT came) > 1"
    )
    return {timestamp for (timestamp,) in found}


class Watcher(threading.Thread):
    """Looks again and again while it is entered, and once more at the end.

    seen: timestamps of the half-written triggers, those that came in parts between two looks included.
    """

    def __init__(self, dsn: str, schema: str, tables: range) -> None:
        super().__init__(name="watcher")
        self.seen: set[float] = set()
        self.looks = 0
        self._failed: BaseException | None = None
        self._place = dsn, schema, tables
        self._stop_looking = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_looking.set()
        self.join()
        if self._failed is not None and error is None:
            raise self._failed

    def run(self) -> None:
        """Look until it is left."""
        dsn, schema, tables = self._place
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                while not self._stop_looking.wait(LOOK_EVERY_S):
                    self.seen |= half_written(connection, schema, tables)
                    self.looks += 1
                self.seen |= came_in_parts(connection, schema, tables)
        except psycopg.Error as error:
            self._failed = error


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
