"""What rows and packs have in common: the interface the store uses, and SQL for the columns that are declared once."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from backends.postgresql.protocol.connection import MESSAGE_BYTES, Connection, in_messages
from backends.postgresql.protocol.copy import RowFormat
from backends.postgresql.protocol.sql import quoted
from backends.visits.store import ReadTables
from schemas.api.visits import TableSize
from schemas.readings import Array
from schemas.visits.records import Compacted, TileWrite
from schemas.visits.tables import Column, Step, Table

SQL_TYPES = {"<i4": "int4", "<i8": "int8", "<f4": "float4", "<f8": "float8", "V": "bytea"}


class VisitTables(ReadTables[Connection], Protocol):
    """The tables of an index mode in a schema; each method uses the connection it is given."""

    def create(self) -> list[str]:
        """Statements that make the tables in an empty schema."""

    def added(self) -> Mapping[str, str]:
        """Statements by the table that each makes, also in a schema that was there before there was such a table."""

    def forget(self) -> None:
        """Look again what is there: the connection is another one, and the server may have crashed."""

    async def begin(self, connection: Connection, time_ns: int) -> None:
        """Make what a visit at a time needs; harmless when it is there, and beside others who do the same."""

    async def store(self, connection: Connection, step: Step, write: TileWrite) -> Mapping[str, float]:
        """Write a step in the transaction that is open; seconds by names of `schemas.api.visits.TIMES`."""

    async def expire(self, connection: Connection, before_ns: int) -> bool:
        """Drop what is older, where that is done; False where some of it is left, since it is being read."""

    async def uncompacted(self, connection: Connection, before_ns: int) -> Sequence[tuple[str, int]]:
        """Tables and periods that can be compacted, where that is done."""

    async def size(self, connection: Connection, table: str) -> TableSize:
        """Rows by the server's statistics, and bytes."""

    async def compact(self, connection: Connection, table: str, period: int) -> Compacted | None:
        """Rewrite a table's period; None where that has to wait."""


def column_sql(column: Column) -> str:
    """A column's name and type, for CREATE TABLE."""
    return f"{quoted(column.name)} {SQL_TYPES[column.dtype]}{'' if column.nullable else ' NOT NULL'}"


@lru_cache
def names_sql(names: tuple[str, ...] | None, of: str = "") -> str:
    """Names of columns, as a select or INSERT lists them."""
    return ", ".join(f"{of}{quoted(name)}" for name in names or ())


@lru_cache
def row_format(table: Table) -> RowFormat:
    """Binary COPY of the columns that have a value."""
    dtype = table.dtype
    return RowFormat([(name, dtype[name].str, 0) for name in dtype.names or ()])


def encode(rows: Array, table: Table) -> Array:
    """Lay out rows of `table.dtype` for COPY; uint8."""
    whole, laid = row_format(table).blank(len(rows))
    for name in table.dtype.names or ():
        laid[name] = rows[name]
    return whole


def decode(files: Iterable[bytes | bytearray], table: Table) -> Array:
    """Rows of `table.dtype` of what came out of COPYs."""
    parts = [row_format(table).parse(data) for data in files]
    rows = np.empty(sum(map(len, parts)), table.dtype)
    end = 0
    for laid in parts:
        begin, end = end, end + len(laid)
        for name in table.dtype.names or ():
            rows[name][begin:end] = laid[name]
    return rows


def ids_sql(ids: Array) -> str:
    """An array of int64 as text."""
    return "'{" + ",".join(map(str, ids.tolist())) + "}'::int8[]"


async def copy_in(
    connection: Connection,
    table: str,
    payload: Array,
    *,
    schema: str | None,
    columns: tuple[str, ...],
    freeze: bool = False,
) -> None:
    """Send a COPY file, uint8, in messages that are not too long; `freeze` in the transaction that made the table."""
    source: Any = payload if payload.nbytes <= MESSAGE_BYTES else in_messages(payload)
    await connection.copy_to_table(
        table, schema_name=schema, columns=columns, source=source, format="binary", freeze=freeze
    )
