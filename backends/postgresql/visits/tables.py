"""The part that rows and packs share: the interface the store uses, SQL for the columns, views, and the schema.

The columns are declared once, in `schemas.visits.tables`. Views show packs by the paper's names, a row a record,
decoded in plain SQL: right, and slower than a table. The records are little-endian, as numpy reads them without
touching them; PostgreSQL's own casts of bytea are big-endian, and of floats there are none.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from backends.base import StoreError
from backends.postgresql.protocol.connection import MESSAGE_BYTES, Connection, in_messages
from backends.postgresql.protocol.copy import RowFormat
from backends.postgresql.protocol.sql import create_schema, quoted
from backends.postgresql.schema import LOCK_TIMEOUT, SEEN, check_rights, check_version, lock_schema, see_may_create
from backends.postgresql.session import TO_CHANGE
from backends.visits.rows import tables_by_name
from backends.visits.store import ReadTables, check_settings, settings_of
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import Compacted, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, Column, Step, Table

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


DECODERS = {"<i4": "int4_at", "<i8": "int8_at", "<f4": "float4_at", "<f8": "float8_at"}


def create_views(schema: str, tables: Iterable[Table]) -> list[str]:
    """Statements that make the functions that decode, and a view for each table of packs."""
    return [*_functions(schema), *(_view(schema, table) for table in tables)]


def _functions(schema: str) -> list[str]:
    def function(name: str, arguments: str, returns: str, body: str) -> str:
        return (
            f"CREATE FUNCTION {quoted(schema, name)}({arguments}) RETURNS {returns} LANGUAGE sql IMMUTABLE STRICT"
            f" PARALLEL SAFE AS $$ SELECT {body} $$"
        )

    def integer(kind: str, size: int) -> str:
        return " | ".join(f"(get_byte(r, at + {k})::{kind} << {8 * k})" for k in range(size))

    int4, int8 = quoted(schema, "int4_at"), quoted(schema, "int8_at")
    return [
        function("int4_at", "r bytea, at int4", "int4", integer("int4", 4)),
        function("int8_at", "r bytea, at int4", "int8", integer("int8", 8)),
        function("float4_of", "bits int4", "float4", _float("bits", fraction=23, exponent=8) + "::float4"),
        function("float8_of", "bits int8", "float8", _float("bits", fraction=52, exponent=11)),
        function("float4_at", "r bytea, at int4", "float4", f"{quoted(schema, 'float4_of')}({int4}(r, at))"),
        function("float8_at", "r bytea, at int4", "float8", f"{quoted(schema, 'float8_of')}({int8}(r, at))"),
    ]


def _float(bits: str, *, fraction: int, exponent: int) -> str:
    """The number that IEEE 754 bits stand for, exactly: a whole number times a power of two."""
    most, bias = (1 << exponent) - 1, (1 << (exponent - 1)) - 1
    kind = "int4" if fraction == 23 else "int8"
    power = f"(({bits} >> {fraction}) & {most})::int4"
    mantissa = f"({bits} & {(1 << fraction) - 1}::{kind})"
    sign = f"CASE WHEN {bits} < 0 THEN -1::float8 ELSE 1::float8 END"
    return (
        f"(CASE WHEN {power} = {most} THEN CASE WHEN {mantissa} <> 0 THEN 'NaN'::float8"
        f" WHEN {bits} < 0 THEN '-Infinity'::float8 ELSE 'Infinity'::float8 END"
        # Two powers: that of the smallest numbers alone would be no number itself.
        f" WHEN {power} = 0 THEN {sign} * {mantissa} * 2::float8 ^ {1 - bias - fraction}"
        f" ELSE {sign} * ({mantissa} | {1 << fraction}::{kind}) * 2::float8 ^ ({power} - {bias + fraction}) END)"
    )


def _view(schema: str, table: Table) -> str:
    """Rows with the table's columns, then those of their pack, which a WHERE finds the packs by."""
    dtype = table.dtype
    assert dtype.fields is not None
    columns = []
    for column in table.columns:
        if column.name in dtype.fields:
            value = f"{quoted(schema, DECODERS[column.dtype])}(r, {dtype.fields[column.name][1]})"
        else:
            value = f"NULL::{SQL_TYPES[column.dtype]}"
        columns.append(f"{value} AS {quoted(column.name)}")
    # OFFSET 0 has each record cut out of its pack once, and not once a column.
    records = (
        f"SELECT p.period, p.pixel, p.visit, p.tile, substring(p.records FROM 1 + k * {dtype.itemsize}"
        f" FOR {dtype.itemsize}) AS r FROM {quoted(schema, table.name + 'Packs')} p, generate_series(0, p.n - 1) AS k"
        " OFFSET 0"
    )
    view = f"CREATE VIEW {quoted(schema, table.name)} AS SELECT "
    places = "period, pixel, visit, tile"
    if table.name != DIA_OBJECT_LAST.name:
        return f"{view}{', '.join(columns)}, {places} FROM ({records}) AS records"
    ident = f"{quoted(schema, 'int8_at')}(r, {dtype.fields['diaObjectId'][1]})"
    # An object stays in its pixel: with it a WHERE of pixels goes down to the packs.
    newest = f"SELECT DISTINCT ON (pixel, {ident}) * FROM ({records}) AS records ORDER BY pixel, {ident}, visit DESC"
    return f"{view}{', '.join(columns)}, {places} FROM ({newest}) AS newest"


VISITS = "Visits"
STEPS = "VisitSteps"
SETTINGS = "VisitSettings"

DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
"""In a transaction that makes tables or partitions: workers write into them, and a crash must not take them back."""

HAS_TABLE = """
    SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
                   WHERE s.nspname = $1 AND c.relname = $2)
"""


async def create_or_check(
    connection: Connection, visits: VisitsConfig, tables: VisitTables, target: str, *, commits: bool
) -> None:
    """Create the schema with the tables of the index mode, in one transaction, or check what is there.

    commits: False takes back what was created.

    Raises:
        SchemaMismatch: it was made with other settings.
        StoreError: the server is too old, the schema holds something else, or a right is missing.
    """
    check_version(connection.get_server_version(), target)
    schema, statements, added = visits.schema_name, tables.create(), tables.added()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {DURABLE}; {lock_schema(schema)}")
    seen = await connection.fetchrow(SEEN, quoted(schema))
    assert seen is not None
    if await has_table(connection, schema, SETTINGS):
        names = (SETTINGS, VISITS, STEPS, *tables_by_name(visits))
        rights = [(quoted(schema, name), TO_CHANGE) for name in names if await has_table(connection, schema, name)]
        await check_rights(connection, rights, f"{target}: user {seen['name']!r}")
        check_settings(await connection.fetchval(f"SELECT settings FROM {quoted(schema, SETTINGS)}"), visits)
        for name, statement in added.items():
            if not await has_table(connection, schema, name):
                await connection.execute(statement)
    else:
        see_may_create(seen, schema, "visits", target)
        await _see_free(connection, schema, target)
        first = [] if seen["is_there"] else [create_schema(schema)]
        await connection.execute(";".join([*first, *_shared(schema), *statements, *added.values()]))
        await connection.execute(f"INSERT INTO {quoted(schema, SETTINGS)} VALUES (1, $1)", settings_of(visits))
    await (transaction.commit() if commits else transaction.rollback())


async def has_table(connection: Connection, schema: str, table: str) -> bool:
    """Whether a table is there now, and not when this session last looked: to_regclass may know no better."""
    return bool(await connection.fetchval(HAS_TABLE, schema, table))


async def _see_free(connection: Connection, schema: str, target: str) -> None:
    taken = await connection.fetchval(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) LIMIT 1", quoted(schema)
    )
    if taken is not None:
        raise StoreError(
            f"visits.schema: schema {schema!r} of {target} holds a table {taken!r} that is not of visits;"
            " take another `schema` in [visits]"
        )


def _shared(schema: str) -> list[str]:
    numbers = ("time_ns int8", "ra float8", "decl float8", "last_object_id int8", "last_source_id int8")
    columns = ", ".join(f"{number} NOT NULL" for number in numbers)
    return [
        f"CREATE TABLE {quoted(schema, VISITS)} (visit int8 PRIMARY KEY, {columns})",
        f"CREATE INDEX ON {quoted(schema, VISITS)} (time_ns)",
        f"CREATE TABLE {quoted(schema, STEPS)} (visit int8, tile int4, step text, PRIMARY KEY (visit, tile, step))",
        f"CREATE TABLE {quoted(schema, SETTINGS)} (id int4 PRIMARY KEY CHECK (id = 1), settings text NOT NULL)",
    ]
