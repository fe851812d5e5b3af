"""The store of conditions in PostgreSQL, named by a DSN or embedded.

`store` puts it together; `session` is one connection, `schema` makes or checks the tables, `copying` reads lists.
"""

from pathlib import Path

from backends.postgresql.conditions.store import PostgresqlConditionsStore
from schemas.config import DatabaseConfig

__all__ = ["PostgresqlConditionsStore", "open_conditions_store"]


def open_conditions_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> PostgresqlConditionsStore:
    """Make the store; without a DSN in the embedded server under `state_dir`, which has to run already."""
    return PostgresqlConditionsStore(
        database, schema=schema, state_dir=state_dir, password=password, connections=connections
    )
