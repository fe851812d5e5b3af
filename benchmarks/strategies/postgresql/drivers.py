"""The two drivers that users of the paper's ways have: psycopg2, as the paper, and psycopg 3."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import psycopg
import psycopg2  # type: ignore[import-untyped]

PREPARED_MOST = 1000
"""Statements that psycopg 3 prepares: by default it keeps 100, and with 120 in turn would prepare none."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A driver, as its users write with it. copy: COPY lines of text into some columns of a table."""

    name: str
    connect: Callable[[str], Any]
    copy: Callable[[Any, str, Sequence[str], str], None]


def _connect_3(dsn: str) -> Any:
    connection = psycopg.connect(dsn)
    connection.prepared_max = PREPARED_MOST
    return connection


def _copy_2(cursor: Any, table: str, columns: Sequence[str], text: str) -> None:
    # Not copy_from, which takes no schema.
    cursor.copy_expert(f"COPY {table} ({', '.join(columns)}) FROM STDIN", StringIO(text))


def _copy_3(cursor: Any, table: str, columns: Sequence[str], text: str) -> None:
    with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
        copy.write(text)


PSYCOPG2 = Driver(name="psycopg2", connect=psycopg2.connect, copy=_copy_2)
PSYCOPG3 = Driver(name="psycopg3", connect=_connect_3, copy=_copy_3)
