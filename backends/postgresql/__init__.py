"""The store in PostgreSQL, named by a DSN or embedded.

Batches go in by binary COPY, a single trigger by one statement; readings come out by binary COPY. Read `store` first,
then `protocol` (how the server is spoken to), `schema`, `writing`, `reading`, `server` (errors, locks, the embedded
server), and `visits`, the store of mock DIA visits.
"""

from pathlib import Path
from typing import Any

from backends.postgresql.schema import drop_schema, schema_statements
from backends.postgresql.server.backup import backup_tools, terminal_of
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.store import PostgresqlStore
from schemas.config import DatabaseConfig

__all__ = ["PostgresqlStore", "backup_tools", "drop_schema", "open_store", "schema_statements", "terminal_of"]


def open_store(database: DatabaseConfig, *, state_dir: Path, **store: Any) -> PostgresqlStore:
    """Make the store, with an embedded server under `state_dir` where no DSN names one; see `backends.open_store`."""
    server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
    return PostgresqlStore(database, server=server, **store)
