"""The store in MongoDB, or in what speaks its protocol."""

from pathlib import Path
from typing import Any

from backends.mongodb.schema.removal import drop_schema
from backends.mongodb.schema.script import schema_statements
from backends.mongodb.server.terminal import terminal_of
from backends.mongodb.store import MongodbStore
from schemas.config import DatabaseConfig

__all__ = ["MongodbStore", "drop_schema", "open_store", "schema_statements", "terminal_of"]


def open_store(database: DatabaseConfig, *, state_dir: Path, **store: Any) -> MongodbStore:
    """Make the store; see `backends.open_store`. Nothing lies under `state_dir`."""
    return MongodbStore(database, **store)
