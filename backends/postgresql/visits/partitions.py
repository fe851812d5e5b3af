"""The partitions of packs: their names, how they are found, made and locked, and what is read out of them."""

from typing import Any

import numpy as np

from backends.postgresql.protocol.sql import quoted
from schemas.readings import Array
from schemas.visits.tables import Table

INLINE = "WITH (toast_tuple_target = 8160)"
"""Packs that fit a page stay in the table: a look-up in TOAST costs more than its 2 kB are worth."""
DROP_LOCK_TIMEOUT = "2s"
"""A partition that somebody reads is dropped another time: whoever wants to read after would wait for us."""
PARTITIONS = """
    SELECT c.relname AS name, substring(pg_get_expr(c.relpartbound, c.oid) FROM '-?[0-9]+')::int4 AS period
    FROM pg_partition_tree(to_regclass($1)) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf
"""
"""Asked with a table's quoted name: its partitions, or itself, without a period, where it has none."""
SAMPLE_BYTES = 4 * 1024 * 1024
"""How much of a table is looked at to tell how many records a pack has."""


def packs_name(table: str, period: int | None = None) -> str:
    """Name of a table of packs, or of its partition of a period."""
    return f"{table}Packs" if period is None else f"{table}Packs${period}"


def quoted_packs(schema: str, table: str, period: int | None = None) -> str:
    """The same with its schema, as SQL has it."""
    return quoted(schema, packs_name(table, period))


def joined(found: list[Any], table: Table) -> Array:
    """Records of packs as one array of `table.dtype`."""
    return np.frombuffer(b"".join([pack["records"] for pack in found]), table.dtype)


def of_each(found: list[Any], column: str) -> Array:
    """A column of packs once for each of their records; int64."""
    values = np.array([pack[column] for pack in found], np.int64)
    return np.repeat(values, [pack["n"] for pack in found])
