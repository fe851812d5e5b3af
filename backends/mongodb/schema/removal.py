"""Removes a database with all that is in it: for drills, which make one of their own."""

from backends.mongodb.server.client import make_client, target_of
from backends.mongodb.server.errors import translated
from schemas.config import DatabaseConfig


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Drop the database that a configuration calls its schema; nothing happens when it is not there.

    Raises:
        StoreError: it is still there.
    """
    assert database.dsn is not None
    with translated(target_of(database.dsn)):
        client = make_client(
            database.dsn, password=password, program="triggerlog drill", timeout_s=database.command_timeout_s
        )
        try:
            await client.drop_database(database.schema_name)
        finally:
            await client.close()
