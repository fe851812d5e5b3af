"""The store in MongoDB, or in what speaks its protocol.

There are no transactions: documents are inserted under an `_id` that follows from what they are, and then the position
(docs/decisions/0111). Read `store` first, then `protocol` (documents as bytes), `schema`, `writing`, `reading`,
`server` (client, errors, positions), `retention`; and `visits`, the store of mock DIA visits. There are no conditions,
folders, decimation or tiers: docs/decisions/0107.
"""

from pathlib import Path
from typing import Any

from backends.mongodb.schema import drop_schema, schema_statements
from backends.mongodb.server.backup import backup_tools, terminal_of
from backends.mongodb.store import MongodbStore
from schemas.config import DatabaseConfig

__all__ = ["MongodbStore", "backup_tools", "drop_schema", "open_store", "schema_statements", "terminal_of"]


def open_store(database: DatabaseConfig, *, state_dir: Path, **store: Any) -> MongodbStore:
    """Make the store; see `backends.open_store`. Nothing lies under `state_dir`."""
    return MongodbStore(database, **store)
