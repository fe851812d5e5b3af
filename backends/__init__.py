"""One module a database behind `backends.base.Store`; `open_store` is the one place that chooses."""

from collections.abc import Mapping
from pathlib import Path

from backends.base import Store
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.readings import InstrumentGroup


def open_store(
    database: DatabaseConfig,
    *,
    logger: str,
    groups: Mapping[str, InstrumentGroup],
    layouts: Mapping[str, Layout],
    state_dir: Path,
    password: str | None = None,
) -> Store:
    """Make the store that the configuration names; `await store.open()` opens it.

    Args:
        database: without a DSN an embedded PostgreSQL runs under `state_dir`.
        logger: name of this logger, kept with its positions and ledger rows.
        groups: by name.
        layouts: by name of the group.
        state_dir: folder for what the daemon keeps.
        password: for the DSN; it appears in no message.

    """
    # A driver is imported only when it is used: each costs start-up time, and not every site has them all.
    from backends.postgresql import PostgresqlStore
    from backends.postgresql.embedded import EmbeddedPostgresql

    server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
    return PostgresqlStore(database, logger=logger, groups=groups, layouts=layouts, password=password, server=server)
