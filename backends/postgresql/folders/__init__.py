"""The store of folders in PostgreSQL; `session` is one connection, with blocks in and out by binary COPY."""

from pathlib import Path

from backends.postgresql.folders.store import PostgresqlFoldersStore
from schemas.config import DatabaseConfig

__all__ = ["PostgresqlFoldersStore", "open_folders_store"]


def open_folders_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> PostgresqlFoldersStore:
    """Make the store; see `backends.open_folders_store`."""
    return PostgresqlFoldersStore(
        database, schema=schema, state_dir=state_dir, password=password, connections=connections
    )
