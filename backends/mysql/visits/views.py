"""Views of packs with the names and the columns of the paper's tables, a row a record.

JSON_TABLE counts the records of a pack, in MariaDB 10.6 as in MySQL 8.0; numbers are picked out of their bytes as
`backends.mysql.schema.view` does it. That costs the server some microseconds a column and row: it is for looking, and
takes conditions on `visit`, `pixel` and `period` of the tables of packs to be fast.
"""

import numpy as np

from backends.mysql.protocol.sql import quoted
from backends.mysql.schema.view import element
from backends.mysql.visits.tables import packs_of
from schemas.visits.tables import DIA_OBJECT_LAST, Column, Table

RECORD = "r.record"


def create_view(schema: str, table: Table) -> str:
    """The statement."""
    dtype = table.dtype
    columns = [_column(column, dtype) for column in table.columns]
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


def _column(column: Column, dtype: np.dtype[np.void]) -> str:
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
