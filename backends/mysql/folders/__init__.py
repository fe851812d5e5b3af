"""The store of folders in MariaDB and MySQL; `session` is one connection, with blocks in the binary protocol."""

from pathlib import Path

from backends.mysql.folders.store import MysqlFoldersStore
from schemas.config import DatabaseConfig

__all__ = ["MysqlFoldersStore", "open_folders_store"]


def open_folders_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> MysqlFoldersStore:
    """Make the store; see `backends.open_folders_store`. Nothing lies under `state_dir`."""
    return MysqlFoldersStore(database, schema=schema, password=password, connections=connections)
