"""The store of mock DIA visits in MariaDB and MySQL.

`store` puts it together; `session` is its connection. The tables of the paper's index modes are `rows`; those of
`partitioned` are `packs`, with `compaction` (and their partitions). `tables` has the statements that make them, and how
large they are.
"""

from pathlib import Path
from typing import Any

from backends.mysql.visits.store import MysqlVisitStore
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

__all__ = ["MysqlVisitStore", "open_visit_store"]


def open_visit_store(
    database: DatabaseConfig, visits: VisitsConfig, *, state_dir: Path, **store: Any
) -> MysqlVisitStore:
    """Make the store; see `backends.open_visit_store`. Nothing lies under `state_dir`."""
    return MysqlVisitStore(database, visits, **store)
