"""A reader in a connection of its own that looks for half-written triggers: some of its readings there, others not.

One statement sees one moment of the database, all tables of it. A trigger that was written in one transaction is there
whole or not at all.
"""

import threading
from types import TracebackType
from typing import Self

import psycopg

LOOK_EVERY_S = 0.1
"""A look reads all tables: more of them would slow down what is measured."""


def half_written(connection: psycopg.Connection, schema: str, tables: range) -> set[float]:
    """Timestamps of the triggers that some tables have and others lack, at one moment."""
    everything = " UNION ALL ".join(f"SELECT timestamp FROM {schema}.instr{i}" for i in tables)
    found = connection.execute(
        f"SELECT timestamp FROM ({everything}) AS readings GROUP BY timestamp HAVING count(*) < {len(tables)}"
    )
    return {timestamp for (timestamp,) in found}


class Watcher(threading.Thread):
    """Looks again and again while it is entered; `seen` has the timestamps of all half-written triggers it saw."""

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
        """Look until it is left, and once at least."""
        dsn, schema, tables = self._place
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                while True:
                    self.seen |= half_written(connection, schema, tables)
                    self.looks += 1
                    if self._stop_looking.wait(LOOK_EVERY_S):
                        return
        except psycopg.Error as error:
            self._failed = error
