"""Views of the packs by the paper's names: a row a record, decoded in plain SQL. Right, and slower than a table.

The records are little-endian, as numpy reads them without touching them; PostgreSQL's own casts of bytea are
big-endian, and of floats there are none.
"""

from collections.abc import Iterable

from backends.postgresql.protocol.sql import quoted
from backends.postgresql.visits.tables import SQL_TYPES
from schemas.visits.tables import DIA_OBJECT_LAST, Table

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
