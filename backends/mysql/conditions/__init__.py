"""The store of conditions in MariaDB and MySQL.

`store` puts it together and makes the tables; `session` is one connection, `valid` what is valid at a key, `rows` reads
lists as columns.
"""

from pathlib import Path

from backends.mysql.conditions.store import MysqlConditionsStore
from schemas.config import DatabaseConfig

__all__ = ["MysqlConditionsStore", "open_conditions_store"]


def open_conditions_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> MysqlConditionsStore:
    """Make the store; see `backends.open_conditions_store`. Nothing lies under `state_dir`."""
    return MysqlConditionsStore(database, schema=schema, password=password, connections=connections)
