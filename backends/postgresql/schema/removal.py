"""Removes a schema with all that is in it: for drills, which make one of their own."""

from backends.base import StoreError
from backends.postgresql.protocol.connection import target_of
from backends.postgresql.protocol.sql import quoted
from backends.postgresql.server.connecting import connect
from backends.postgresql.server.errors import translated
from schemas.config import DatabaseConfig


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Drop the schema of a configuration that names a DSN; nothing happens when it is not there.

    Raises:
        StoreError: it is still there.
    """
    if database.dsn is None:
        raise StoreError("the embedded PostgreSQL is not named by a DSN; remove its folder")
    with translated(target_of(database.dsn)):
        connection = await connect(
            database.dsn, password=password, timeout_s=database.command_timeout_s, program="triggerlog removal"
        )
        try:
            await connection.execute(f"DROP SCHEMA IF EXISTS {quoted(database.schema_name)} CASCADE")
        finally:
            await connection.close()
