"""Whether the tables of a schema are as a store makes them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from backends.base import SchemaMismatch


def check_columns(
    schema: str, what: str, tables: Sequence[sa.Table], found: Iterable[Sequence[Any]], *, all_or_none: bool = True
) -> bool:
    """Whether all tables are there. found: pairs of a table and a column, of all that the schema has.

    what: they are of, such as `conditions`.

    Raises:
        SchemaMismatch: a table has other columns; or some of them are there, and others not, where they are made in one
            transaction (`all_or_none`).
    """
    there: defaultdict[str, set[str]] = defaultdict(set)
    for name, column in found:
        there[name].add(column)
    missing = []
    for table in tables:
        columns = {column.name for column in table.c}
        if table.name not in there:
            missing.append(table.name)
        elif there[table.name] != columns:
            raise _mismatch(schema, what, f"a table {table.name!r} with other columns than {what} have")
    if missing and all_or_none and len(missing) < len(tables):
        raise _mismatch(schema, what, f"tables of {what}, and lacks {missing[0]!r}")
    return not missing


def _mismatch(schema: str, what: str, found: str) -> SchemaMismatch:
    return SchemaMismatch(f"schema {schema!r} has {found}; take another `schema` for {what}")
