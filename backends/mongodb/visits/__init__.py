"""The store of mock DIA visits in MongoDB: a database of its own, without transactions.

`store` puts it together; `session` has its commands. The tables of the paper's index modes are `rows`; those
of `partitioned` are `packs`.
"""

from pathlib import Path
from typing import Any

from backends.mongodb.visits.store import MongodbVisitStore
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

__all__ = ["MongodbVisitStore", "open_visit_store"]


def open_visit_store(
    database: DatabaseConfig, visits: VisitsConfig, *, state_dir: Path, **store: Any
) -> MongodbVisitStore:
    """Make the store; see `backends.open_visit_store`. Nothing lies under `state_dir`."""
    return MongodbVisitStore(database, visits, **store)
