"""The store in MariaDB and MySQL, which speak the same protocol.

Batches go in by bulk commands of the binary protocol, or by statements of many rows; readings come out as its bytes.
Read `store` first, then `protocol` (how the server is spoken to), `schema`, `writing`, `reading`, `server` (address,
errors, locks), and `visits`, the store of mock DIA visits.
"""

from pathlib import Path
from typing import Any

from backends.mysql.schema.create import drop_schema, schema_statements
from backends.mysql.server.backup import backup_tools, terminal_of
from backends.mysql.store import MysqlStore
from schemas.config import DatabaseConfig

__all__ = ["MysqlStore", "backup_tools", "drop_schema", "open_store", "schema_statements", "terminal_of"]


def open_store(database: DatabaseConfig, *, state_dir: Path, **store: Any) -> MysqlStore:
    """Make the store; see `backends.open_store`. Nothing lies under `state_dir`."""
    return MysqlStore(database, **store)
