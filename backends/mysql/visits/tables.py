"""The tables of visits as MariaDB and MySQL have them, and the statements that make them.

InnoDB keeps a table in the order of its primary key. Row tables have the paper's keys and indexes, so that `pix_id_iov`
keeps the versions of neighbouring objects together; an index has the name of its column.

Packs are kept one blob a row. InnoDB puts a blob that does not fit half a page into pages of its own; cutting it into
rows that do fit was measured to be 1.3 to 2.6 times slower to read and 3 to 6 times slower to write (decision 0038),
since rows that come between others split pages and leave them half empty.
"""

from collections.abc import Iterator

from backends.mysql.protocol.sql import quoted
from schemas.visits.tables import DIA_OBJECT, Column, IndexMode, Table

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
