"""Mock DIA visits in MariaDB and MySQL."""

from pathlib import Path

from backends.base import Reading
from backends.mysql.visits.store import MysqlVisitStore
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

__all__ = ["MysqlVisitStore", "open_visit_store"]


def open_visit_store(
    database: DatabaseConfig,
    visits: VisitsConfig,
    state_dir: Path,
    password: str | None,
    reading: Reading | None = None,
) -> MysqlVisitStore:
    """Make the store of visits; see `backends.visits.base.open_visit_store`."""
    return MysqlVisitStore(database, visits, password=password, reading=reading)
