"""How DIAObjectLast gets its new versions: the paper's DELETE and INSERT, or its upsert."""

from collections.abc import Awaitable, Callable

from backends.base import StoreError
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.visits.tables import column_sql, copy_in, encode, ids_sql, names_sql
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.tables import LastUpdate, Table

NEW = "triggerlog_last"
"""The temporary table of a connection in which new versions wait for their upsert; empty after each transaction."""

Update = Callable[[Connection, str, Table, Array, Array], Awaitable[None]]
"""Called with schema, table, new versions (table.dtype) and which of them had one before (bool)."""


def update_of(visits: VisitsConfig) -> Update:
    """How this configuration updates the table.

    Raises:
        StoreError: PostgreSQL has no such statement.
    """
    if visits.last_update is LastUpdate.REPLACE:
        raise StoreError(
            'visits.last_update: PostgreSQL has no REPLACE; set it to "upsert" or "delete_insert", or leave it out'
        )
    return delete_insert if visits.last_update is LastUpdate.DELETE_INSERT else upsert


async def delete_insert(connection: Connection, schema: str, table: Table, rows: Array, known: Array) -> None:
    """Delete the versions that are there, in one statement, and COPY the new ones."""
    ids = rows["diaObjectId"][known]
    if len(ids):
        await connection.execute(
            f"DELETE FROM {quoted(schema, table.name)} WHERE {quoted('diaObjectId')} = ANY({ids_sql(ids)})"
        )
    await copy_in(connection, table.name, encode(rows, table), schema=schema, columns=table.dtype.names or ())


async def upsert(connection: Connection, schema: str, table: Table, rows: Array, known: Array) -> None:
    """COPY the new versions beside the table, and have the server put each into its place."""
    names = table.dtype.names or ()
    columns = ", ".join(column_sql(column) for column in table.columns if column.name in names)
    await connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {NEW} ({columns}) ON COMMIT DELETE ROWS")
    await copy_in(connection, NEW, encode(rows, table), schema=None, columns=names)
    changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in table.key)
    # In the order of the key, workers that ever meet wait for each other and never in a ring.
    await connection.execute(
        f"INSERT INTO {quoted(schema, table.name)} ({names_sql(names)}) SELECT {names_sql(names)} FROM {NEW}"
        f" ORDER BY {names_sql(table.key)} ON CONFLICT ({names_sql(table.key)}) DO UPDATE SET {changed}"
    )
