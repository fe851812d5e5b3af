"""Whether the tables of conditions in a schema are as this store makes them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from backends.base import SchemaMismatch
from backends.sql.conditions.tables import ConditionsTables


def check_columns(
    schema: str, tables: ConditionsTables, found: Iterable[Sequence[Any]], *, all_or_none: bool = True
) -> bool:
    """Whether all tables are there. found: pairs of a table and a column, of all that the schema has.

    Raises:
        SchemaMismatch: a table has other columns; or some of them are there, and others not, where they are made in one
            transaction (`all_or_none`).
    """
    there: defaultdict[str, set[str]] = defaultdict(set)
    for name, column in found:
        there[name].add(column)
    missing = []
    for table in tables.all():
        columns = {column.name for column in table.c}
        if table.name not in there:
            missing.append(table.name)
        elif there[table.name] != columns:
            raise _mismatch(schema, f"a table {table.name!r} with other columns than conditions have")
    if missing and all_or_none and len(missing) < len(tables.all()):
        raise _mismatch(schema, f"tables of conditions, and lacks {missing[0]!r}")
    return not missing


def _mismatch(schema: str, what: str) -> SchemaMismatch:
    return SchemaMismatch(f"schema {schema!r} has {what}; take another `schema` for conditions")
