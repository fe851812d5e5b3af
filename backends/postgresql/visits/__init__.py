"""The store of visits in PostgreSQL, named by a DSN or embedded.

`store` has its connection, and puts it together. The tables of the paper's index modes are `rows`; those of
`partitioned` are `packs`, with `compaction` (their bytes and partitions, too). `tables` has what both have in common,
and makes or checks the tables.
"""

from pathlib import Path
from typing import Any

from backends.postgresql.visits.packs import PackTables
from backends.postgresql.visits.rows import RowTables
from backends.postgresql.visits.store import PostgresqlVisitConnection, PostgresqlVisitStore
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode

__all__ = ["PostgresqlVisitStore", "open_visit_store"]


def open_visit_store(
    database: DatabaseConfig, visits: VisitsConfig, *, state_dir: Path, **connection: Any
) -> PostgresqlVisitStore:
    """Make the store; without a DSN in the embedded server under `state_dir`, which has to run already.

    Raises:
        StoreError: PostgreSQL has no such way to update DIAObjectLast.
    """
    tables = PackTables(visits) if visits.index_mode is IndexMode.PARTITIONED else RowTables(visits)
    return PostgresqlVisitStore(PostgresqlVisitConnection(database, visits, state_dir, **connection), visits, tables)
