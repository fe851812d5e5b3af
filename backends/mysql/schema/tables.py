"""The tables of `backends.sql.tables` as MariaDB and MySQL have them, and the statements that make them.

InnoDB keeps a table in the order of its primary key. Readings are keyed by (time_ns, run, trigger_id, instrument) and
written in that order: appending is cheap, and questions about time, of which every other begins with one to the ledger,
read a stretch of the table without an index. DOUBLE holds neither NaN nor infinities, which are NULL, nor -0.0; the
bytes of such a reading's floats are in `exact$`, which is NULL in all others and takes no room there. Arrays are byte
strings of little-endian values, one after the other.

The view of a group's readings has one a row in both layouts, with names and native timestamps (DATETIME(6), UTC). In
the arrays layout numbers are picked out of byte strings. There is no cast for that: integers are read as hexadecimal,
and floats put together from sign, exponent and fraction (IEEE 754), exactly, since each step is a product or a sum that
a double holds. It takes no stored function, so no right to create one.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateTable

from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES
from backends.mysql.protocol.records import EXACT, floats_dtype
from backends.mysql.protocol.sql import DIALECT, literal, quoted
from backends.sql.tables import GroupTables, group_tables, shared_tables
from schemas.batch import Layout
from schemas.readings import InstrumentGroup

BLOB_BYTES = 65_535
COMPLETE = "complete"
SKIPPED = "skipped_ns"
"""The time of a trigger that follows a gap; NULL in all others."""
NAME_MOST = 64
"""Names have at most so many characters, and differ by case."""
SHARED_COMMENT = "triggerlog"


@lru_cache
def mysql_tables(schema: str, group: InstrumentGroup, layout: Layout) -> GroupTables:
    """Declare the tables of a group with what only these servers need."""
    declared = group_tables(schema, group, layout)
    metadata = sa.MetaData(schema=schema)
    data = _adapted(declared.data, metadata, group, ("time_ns", "run", "trigger_id", "instrument"))
    if layout is Layout.ROWS and floats_dtype(group).names:
        data.append_column(sa.Column(EXACT, mysql.VARBINARY(floats_dtype(group).itemsize), quote=True))
    return GroupTables(
        group=group,
        layout=layout,
        data=data,
        ledger=_adapted(declared.ledger, metadata, group, ()),
        reduced=_adapted(declared.reduced, metadata, group, ("time_ns", "instrument")),
    )


@lru_cache
def mysql_shared_tables(schema: str) -> tuple[sa.Table, ...]:
    """Declare the tables all groups share."""
    metadata = sa.MetaData(schema=schema)
    return tuple(_adapted(table, metadata, None, ()) for table in shared_tables(schema).all())


def _adapted(table: sa.Table, metadata: sa.MetaData, group: InstrumentGroup | None, key: tuple[str, ...]) -> sa.Table:
    columns = [
        sa.Column(
            column.name,
            _type(column, group),
            primary_key=column.primary_key or column.name in key,
            nullable=_is_nullable(column, group) if column.name not in key else False,
            autoincrement=False,
            server_default=_default(column),
            quote=True,
        )
        for column in table.c
    ]
    by_key = sorted((column for column in columns if column.primary_key), key=lambda c: (*key, c.name).index(c.name))
    constraint = [sa.PrimaryKeyConstraint(*(column.name for column in by_key))] if key else []
    return sa.Table(table.name, metadata, *columns, *constraint, quote=True)


def _is_nullable(column: sa.Column[Any], group: InstrumentGroup | None) -> bool:
    if group is None:
        return bool(column.nullable)
    return isinstance(column.type, sa.Float)


def _default(column: sa.Column[Any]) -> Any:
    default = column.server_default
    return default.arg if isinstance(default, sa.DefaultClause) else None


def _type(column: sa.Column[Any], group: InstrumentGroup | None) -> sa.types.TypeEngine[Any]:
    if isinstance(column.type, postgresql.ARRAY):
        assert group is not None
        return mysql.BLOB() if group.size * 8 <= BLOB_BYTES else mysql.MEDIUMBLOB()
    if isinstance(column.type, sa.REAL):
        return mysql.FLOAT()
    if isinstance(column.type, sa.String):
        return mysql.VARCHAR(column.type.length or NAME_MOST, charset="utf8mb4", collation="utf8mb4_bin")
    return column.type


def create_database(schema: str) -> str:
    """The statement that creates the database."""
    return f"CREATE DATABASE IF NOT EXISTS {quoted(schema)} CHARACTER SET utf8mb4"


def create_shared(schema: str) -> list[str]:
    """Statements that create what all groups share; nothing happens where it is there already."""
    return [
        f"{_create(table)} ENGINE=InnoDB COMMENT={literal(SHARED_COMMENT)}" for table in mysql_shared_tables(schema)
    ]


def create_tables(tables: GroupTables, partitioned: str) -> Iterator[tuple[str, str, str]]:
    """The tables of a group: name, comment that says what is in it, and the statement. partitioned: the last clause."""
    for table in (tables.data, tables.ledger):
        text = _create(table)
        if table is tables.ledger:
            text = _with_indexes(text)
        comment = _comment(text)
        yield table.name, comment, f"{text} ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT={literal(comment)} {partitioned}"
    text = _create(tables.reduced)
    yield tables.reduced.name, _comment(text), create_reduced(tables)


def create_reduced(tables: GroupTables) -> str:
    """The statement that creates the table of what readings are reduced to; nothing happens where it is there."""
    text = _create(tables.reduced)
    return f"{text} ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT={literal(_comment(text))}"


def _comment(text: str) -> str:
    """Tell our own half-made table, of a daemon that was killed between two statements, from someone else's."""
    return f"triggerlog {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _create(table: sa.Table) -> str:
    return " ".join(str(CreateTable(table, if_not_exists=True).compile(dialect=DIALECT)).split())


def _with_indexes(text: str) -> str:
    """Add what finds at once the newest complete trigger, even after a week with a dead instrument, and the gaps."""
    assert text.endswith(")")
    return (
        f"{text[:-1]}, {quoted(COMPLETE)} TINYINT AS (arrived = expected) VIRTUAL,"
        f" {quoted(SKIPPED)} BIGINT AS (IF(skipped > 0, time_ns, NULL)) VIRTUAL,"
        f" KEY {quoted(COMPLETE)} ({quoted(COMPLETE)}, run, trigger_id), KEY {quoted(SKIPPED)} ({quoted(SKIPPED)}))"
    )


def describe(schema: str, logger: str, tables: GroupTables, *, if_missing: bool = False) -> list[str]:
    """Statements that say what a group is; the row in `groups`, last, says that it is there whole.

    if_missing: a row that is there is no error.
    """
    group = tables.group
    name = literal(group.name)
    channels = (
        f"({name},{k},{literal(channel.name)},{literal(channel.unit)},{literal(channel.dtype)})"
        for k, channel in enumerate(group.channels)
    )
    instruments = (f"({name},{k},{literal(instrument)})" for k, instrument in enumerate(group.instruments))
    rows = {
        "channels (group_name, position, name, unit, dtype)": ",".join(channels),
        "instruments (group_name, instrument, name)": ",".join(instruments),
        "groups (name, logger, layout, instruments)": (
            f"({name},{literal(logger)},{literal(tables.layout.value)},{group.size})"
        ),
    }
    positions = quoted(schema, "positions")
    statements = [f"INSERT IGNORE INTO {positions} (logger, group_name, sequence) VALUES ({literal(logger)},{name},0)"]
    for into, values in rows.items():
        table, columns = into.split(" ", 1)
        if table != "groups" and not if_missing:
            statements.append(f"DELETE FROM {quoted(schema, table)} WHERE group_name = {name}")
        insert = "INSERT IGNORE INTO" if if_missing else "INSERT INTO"
        statements.append(f"{insert} {quoted(schema, table)} {columns} VALUES {values}")
    return statements


EPOCH = "TIMESTAMP'1970-01-01 00:00:00'"


def create_view(tables: GroupTables, schema: str) -> str:
    """The statement; in the arrays layout `trigger_time_ns` is there to be compared with: it prunes partitions."""
    group, arrays = tables.group, tables.layout is Layout.ARRAYS
    number = "i.instrument" if arrays else "d.instrument"
    time_ns = f"(d.time_ns + {integer('d.time_offset_ns', number, 8)})" if arrays else "d.time_ns"
    columns = [
        f"d.run, d.trigger_id, {number} AS instrument, i.name",
        # DIV cuts towards zero, and time before 1970 has to be rounded down as all other.
        f"{EPOCH} + INTERVAL ({time_ns} DIV 1000 - ({time_ns} % 1000 < 0)) MICROSECOND AS time",
        f"{time_ns} AS time_ns",
    ]
    for channel in group.channels:
        name = quoted(channel.name)
        value = element(f"d.{name}", number, STORED_DTYPES[channel.dtype]) if arrays else f"d.{name}"
        columns.append(f"{value} AS {name}")
    if arrays:
        columns.append("d.time_ns AS trigger_time_ns")
    join = "" if arrays else f" AND i.instrument = {number}"
    source = (
        f"{quoted(schema, tables.data.name)} d {'' if arrays else 'LEFT '}JOIN {quoted(schema, 'instruments')} i"
        f" ON i.group_name = {literal(group.name)}{join}"
    )
    if arrays:
        missing = (MISSING_OFFSET).to_bytes(8, "little", signed=True).hex()
        source += f" WHERE {picked('d.time_offset_ns', number, 8)} <> x'{missing}'"
    view = quoted(schema, f"{group.name}_readings")
    return f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW {view} AS SELECT {', '.join(columns)} FROM {source}"


def picked(column: str, number: str, width: int) -> str:
    """The bytes of one element."""
    return f"SUBSTR({column}, {width} * {number} + 1, {width})"


def element(column: str, number: str, dtype: str) -> str:
    """One element as a number."""
    width = int(dtype[-1])
    return floating(column, number, width) if "f" in dtype else integer(column, number, width)


def integer(column: str, number: str, width: int) -> str:
    """A signed little-endian integer."""
    digits = f"HEX(REVERSE({picked(column, number, width)}))"
    if width == 8:
        return f"CAST(CONV({digits}, 16, -10) AS SIGNED)"
    # Two's complement: the sign bit flipped, and its worth taken away again.
    sign = 1 << 8 * width - 1
    return f"(CAST(CAST(CONV({digits}, 16, 10) AS UNSIGNED) ^ {sign} AS SIGNED) - {sign})"


def floating(column: str, number: str, width: int) -> str:
    """An IEEE 754 little-endian float as a DOUBLE of the same value; NULL for NaN and infinities."""
    fraction_bits, exponent_bits = (52, 11) if width == 8 else (23, 8)
    largest = (1 << exponent_bits) - 1
    # For the exponent's bias, and since the fraction is taken as a whole number.
    shift = 1 - (1 << exponent_bits - 1) - fraction_bits
    # The last two bytes have the sign, the exponent, and the upper bits of the fraction.
    at = f"{width} * {number}"
    high = f"(ORD(SUBSTR({column}, {at} + {width}, 1)) * 256 + ORD(SUBSTR({column}, {at} + {width - 1}, 1)))"
    upper = fraction_bits - 8 * (width - 2)
    exponent = f"(({high} >> {upper}) & {largest})"
    lower = f"CAST(CONV(HEX(REVERSE(SUBSTR({column}, {at} + 1, {width - 2}))), 16, 10) AS UNSIGNED)"
    fraction = f"(({high} & {(1 << upper) - 1}) * {1 << 8 * (width - 2)} + {lower})"
    sign = f"IF({high} >= 32768, -1e0, 1e0)"
    hidden = f"IF({exponent} = 0, 0, {1 << fraction_bits})"
    scale = f"POW(2e0, CAST(GREATEST({exponent}, 1) AS SIGNED) + ({shift}))"
    return f"IF({exponent} = {largest}, NULL, {sign} * ({hidden} + {fraction}) * {scale})"
