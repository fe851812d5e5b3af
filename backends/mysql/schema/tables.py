"""The tables of `backends.sql.tables` as MariaDB and MySQL have them, and the statements that make them.

InnoDB keeps a table in the order of its primary key. Readings are keyed by (time_ns, run, trigger_id, instrument) and
written in that order: appending is cheap, and questions about time, of which every other begins with one to the ledger,
read a stretch of the table without an index. DOUBLE holds neither NaN nor infinities, which are NULL, nor -0.0; the
bytes of such a reading's floats are in `exact$`, which is NULL in all others and takes no room there. Arrays are byte
strings of little-endian values, one after the other.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateTable

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
