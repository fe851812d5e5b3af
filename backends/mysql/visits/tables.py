"""The tables and views of visits as MariaDB and MySQL have them, the statements that make them, and their sizes.

InnoDB keeps a table in the order of its primary key. Row tables have the paper's keys and indexes, so that `pix_id_iov`
keeps the versions of neighbouring objects together; an index has the name of its column.

Packs are kept one blob a row. InnoDB puts a blob that does not fit half a page into pages of its own; cutting it into
rows that do fit was measured to be 1.3 to 2.6 times slower to read and 3 to 6 times slower to write (decision 0038),
since rows that come between others split pages and leave them half empty.

Views show packs with the names and the columns of the paper's tables, a row a record. JSON_TABLE counts the records of
a pack, in MariaDB 10.6 as in MySQL 8.0; numbers are picked out of their bytes as `backends.mysql.schema.tables` does
it. That costs the server some microseconds a column and row: it is for looking, and takes conditions on `visit`,
`pixel` and `period` of the tables of packs to be fast.

Sizes are exact where the login may see InnoDB's tablespaces (the right PROCESS): their files, of which the indexes are
the server's estimate. Else all of it is an estimate. Rows are always one; those of packs are the server's estimate of
the number of packs of each period, times the mean of some of them: compacted packs hold many times as many as others.
"""

from collections.abc import Iterator

import numpy as np
from pymysql.err import MySQLError

from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.schema.tables import element
from backends.mysql.server.errors import NO_RIGHT, number_of
from backends.mysql.visits.session import Session
from schemas.api.visits import TableSize
from schemas.visits.tables import DIA_OBJECT, DIA_OBJECT_LAST, Column, IndexMode, Table

TYPES = {"<i4": "INT", "<i8": "BIGINT", "<f4": "FLOAT", "<f8": "DOUBLE", "V": "BLOB"}
ENGINE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC"

PACKS = "Packs"
STAGING = "Compacted"
"""End of the name of a staging table, which is gone after a compaction."""
COMPACTIONS = "VisitCompactions"
NO_PERIOD = -(2**31)
"""Of the partition that a table of packs is made with, which stays empty: there has to be one."""

SHARED = {
    "Visits": (
        "visit BIGINT PRIMARY KEY, time_ns BIGINT NOT NULL, ra DOUBLE NOT NULL, decl DOUBLE NOT NULL,"
        " last_object_id BIGINT NOT NULL, last_source_id BIGINT NOT NULL, KEY time_ns (time_ns)"
    ),
    "VisitSteps": (
        "visit BIGINT NOT NULL, tile INT NOT NULL, step VARCHAR(16) CHARACTER SET ascii NOT NULL,"
        " PRIMARY KEY (visit, tile, step)"
    ),
    "VisitSettings": "one TINYINT PRIMARY KEY CHECK (one = 1), settings TEXT CHARACTER SET utf8mb4 NOT NULL",
}


def packs_of(table: Table) -> str:
    """Name of a table's table of packs."""
    return f"{table.name}{PACKS}"


def staging_name(table: Table) -> str:
    """Name of the staging table for the packs of a table."""
    return f"{packs_of(table)}{STAGING}"


def create_tables(schema: str, tables: tuple[Table, ...], mode: IndexMode) -> Iterator[str]:
    """Statements that make what is missing, in this order; VisitSettings comes last, empty."""
    for table in tables:
        yield _create_packs(schema, table) if mode is IndexMode.PARTITIONED else _create_rows(schema, table)
    if mode is IndexMode.PARTITIONED:
        yield create_compactions(schema)
    for name, columns in SHARED.items():
        yield _create(schema, name, columns)


def create_compactions(schema: str) -> str:
    """Make the notes of what was compacted where they are missing: older schemas have none."""
    columns = "name VARCHAR(64) CHARACTER SET ascii NOT NULL, period INT NOT NULL, PRIMARY KEY (name, period)"
    return _create(schema, COMPACTIONS, columns)


def _create(schema: str, name: str, columns: str, partition: str = "") -> str:
    return f"CREATE TABLE IF NOT EXISTS {quoted(schema, name)} ({columns}) {ENGINE}{partition}"


def _create_rows(schema: str, table: Table) -> str:
    parts = [_column(column) for column in table.columns]
    parts.append(f"PRIMARY KEY ({', '.join(quoted(name) for name in table.key)})")
    parts += [f"KEY {quoted(name)} ({quoted(name)})" for name in table.indexes]
    return _create(schema, table.name, ", ".join(parts))


def _column(column: Column) -> str:
    # NaN is NULL: DOUBLE and FLOAT do not hold it.
    nullable = column.nullable or "f" in column.dtype
    return f"{quoted(column.name)} {TYPES[column.dtype]}{'' if nullable else ' NOT NULL'}"


def create_staging(schema: str, table: Table) -> str:
    """Make a table as a partition of the packs of a table is one."""
    return _create(schema, staging_name(table), _pack_columns(table))


def _create_packs(schema: str, table: Table) -> str:
    partition = f" PARTITION BY LIST (period) (PARTITION nothing VALUES IN ({NO_PERIOD}))"
    return _create(schema, packs_of(table), _pack_columns(table), partition)


def _pack_columns(table: Table) -> str:
    # Visits read no DIAObject, so its packs are appended; those of the others lie together by pixel.
    order = "visit, tile, pixel" if table.name == DIA_OBJECT.name else "pixel, visit, tile"
    return (
        "period INT NOT NULL, pixel BIGINT NOT NULL, visit BIGINT NOT NULL, tile INT NOT NULL, n INT NOT NULL,"
        f" records MEDIUMBLOB NOT NULL, PRIMARY KEY ({order}, period)"
    )


def partition_name(period: int) -> str:
    """Name of a period's partition."""
    return f"p{period}" if period >= 0 else f"m{-period}"


def add_periods(schema: str, table: str, periods: list[int]) -> str:
    """Make the partitions of periods."""
    added = ", ".join(f"PARTITION {quoted(partition_name(period))} VALUES IN ({period})" for period in periods)
    return f"ALTER TABLE {quoted(schema, table)} ADD PARTITION ({added})"


def drop_periods(schema: str, table: str, periods: list[int]) -> str:
    """Drop the partitions of periods."""
    names = ", ".join(quoted(partition_name(period)) for period in periods)
    return f"ALTER TABLE {quoted(schema, table)} DROP PARTITION {names}"


RECORD = "r.record"


def create_view(schema: str, table: Table) -> str:
    """The statement."""
    dtype = table.dtype
    columns = [_decoded(column, dtype) for column in table.columns]
    view = quoted(schema, table.name)
    select = f"SELECT {', '.join(columns)} FROM ({_records(schema, table)}) r"
    if table.name == DIA_OBJECT_LAST.name:
        select += " WHERE r.newest = 1"
    return f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW {view} AS {select}"


def _records(schema: str, table: Table) -> str:
    """All records as byte strings; of DIAObjectLast with their place among those of the object, the newest first."""
    width = table.dtype.itemsize
    record = f"SUBSTR(p.records, {width} * (s.number - 1) + 1, {width})"
    numbers = "JSON_TABLE(CONCAT('[0', REPEAT(',0', p.n - 1), ']'), '$[*]' COLUMNS (number FOR ORDINALITY)) s"
    source = f"FROM {quoted(schema, packs_of(table))} p JOIN {numbers}"
    if table.name != DIA_OBJECT_LAST.name:
        return f"SELECT {record} AS record {source}"
    # The bytes of an id tell objects apart as its value does.
    by = f"PARTITION BY {_bytes(record, 'diaObjectId', table.dtype)} ORDER BY p.visit DESC"
    return f"SELECT {record} AS record, ROW_NUMBER() OVER ({by}) AS newest {source}"


def _decoded(column: Column, dtype: np.dtype[np.void]) -> str:
    name = quoted(column.name)
    if column.name not in (dtype.names or ()):
        kind = "CHAR" if column.dtype == "V" else "SIGNED"
        return f"CAST(NULL AS {kind}) AS {name}"
    return f"{element(_bytes(RECORD, column.name, dtype), '0', column.dtype)} AS {name}"


def _bytes(record: str, name: str, dtype: np.dtype[np.void]) -> str:
    """The bytes of a column."""
    assert dtype.fields is not None
    form, offset = dtype.fields[name][:2]
    return f"SUBSTR({record}, {offset + 1}, {form.itemsize})"


SAMPLE = 200
"""So many packs of a period are looked at."""
TABLESPACES = {"mariadb": "INNODB_SYS_TABLESPACES", "mysql": "INNODB_TABLESPACES"}


async def sizes_of(
    session: Session, schema: str, tables: tuple[Table, ...], *, partitioned: bool
) -> dict[str, TableSize]:
    """Sizes by the names in the paper."""
    answer = await session.fetch(
        "SELECT TABLE_NAME, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {literal(schema)}"
    )
    estimates = {str(name): [int(number or 0) for number in numbers] for name, *numbers in answer}
    files = await _files(session, schema)
    found = {}
    for table in tables:
        name = packs_of(table) if partitioned else table.name
        rows, table_bytes, index_bytes = estimates[name]
        if name in files:
            index_bytes = min(index_bytes, files[name])
            table_bytes = files[name] - index_bytes
        if partitioned:
            rows = await _packed(session, schema, name)
        found[table.name] = TableSize(rows=rows, table_bytes=table_bytes, index_bytes=index_bytes)
    return found


async def _files(session: Session, schema: str) -> dict[str, int]:
    """Bytes of the files of each table, all its partitions together; empty without the right to see them."""
    try:
        answer = await session.fetch(
            f"SELECT NAME, FILE_SIZE FROM information_schema.{TABLESPACES[session.product]}"
            f" WHERE NAME LIKE {literal(schema.replace('_', '|_') + '/%')} ESCAPE '|'"
        )
    except MySQLError as error:
        if number_of(error) not in NO_RIGHT:
            raise
        return {}
    files: dict[str, int] = {}
    for path, size in answer:
        # A partition is TABLE#P#NAME, in MySQL TABLE#p#name.
        name = str(path).split("/", 1)[1].split("#", 1)[0]
        files[name] = files.get(name, 0) + int(size)
    return files


async def _packed(session: Session, schema: str, name: str) -> int:
    """About how many records are packed in a table of packs."""
    answer = await session.fetch(
        "SELECT PARTITION_NAME, TABLE_ROWS FROM information_schema.PARTITIONS"
        f" WHERE TABLE_SCHEMA = {literal(schema)} AND TABLE_NAME = {literal(name)}"
    )
    packs = {str(partition): int(rows or 0) for partition, rows in answer}
    some = (
        f"(SELECT {literal(partition)} AS period, n FROM {quoted(schema, name)} PARTITION ({quoted(partition)})"
        f" LIMIT {SAMPLE})"
        for partition in packs
    )
    means = await session.fetch(f"SELECT period, AVG(n) FROM ({' UNION ALL '.join(some)}) some GROUP BY period")
    return round(sum(packs[str(partition)] * float(mean) for partition, mean in means))
