"""A reader in a connection of its own that looks for half-written triggers: some of its readings there, others not.

One statement sees one moment of the database, all tables of it. A trigger that was written in one transaction is there
whole or not at all. A look can miss what was half there between two of them: in the end the reader asks by which
transaction each row came (its xmin), and counts those that came in parts, of which a reader in between saw half.
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
