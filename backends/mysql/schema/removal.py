"""Removes a database with all that is in it: for drills, which make one of their own."""

from backends.mysql.protocol.sql import quoted
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.errors import translated
from schemas.config import DatabaseConfig


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Drop the database that a configuration calls its schema; nothing happens when it is not there.

    Raises:
        StoreError: it is still there.
    """
    assert database.dsn is not None
    address = address_of(database.dsn, password)
    with translated(address.target):
        connection = await connect(address, program="triggerlog", timeout_s=database.command_timeout_s)
        try:
            await connection.run(f"DROP DATABASE IF EXISTS {quoted(database.schema_name)}")
        finally:
            connection.terminate()
