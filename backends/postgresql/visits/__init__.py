"""The store of visits in PostgreSQL, named by a DSN or embedded."""

from pathlib import Path

from backends.base import Reading
from backends.postgresql.visits.connection import PostgresqlVisitConnection
from backends.postgresql.visits.packs import PackTables
from backends.postgresql.visits.rows import RowTables
from backends.postgresql.visits.store import PostgresqlVisitStore
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode

__all__ = ["PostgresqlVisitStore", "open_visit_store"]


def open_visit_store(
    database: DatabaseConfig,
    visits: VisitsConfig,
    state_dir: Path,
    password: str | None,
    reading: Reading | None = None,
) -> PostgresqlVisitStore:
    """Make the store of visits; without a DSN in the embedded server under `state_dir`, which has to run already.

    Raises:
        StoreError: PostgreSQL has no such way to update DIAObjectLast.
    """
    is_packs = visits.index_mode is IndexMode.PARTITIONED
    return PostgresqlVisitStore(
        PostgresqlVisitConnection(database, visits, state_dir, password, reading),
        visits,
        PackTables(visits) if is_packs else RowTables(visits),
    )
