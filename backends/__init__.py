"""One package a database behind `backends.base.Store`; here is the one place that chooses."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from backends.base import Reading, Store
from schemas.batch import Layout
from schemas.checking.dsn import Backend
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
    reading: Reading | None = None,
) -> Store:
    """Make the store that the configuration names; `await store.open()` opens it.

    Args:
        database: without a DSN an embedded PostgreSQL runs under `state_dir`.
        logger: name of this logger, kept with its positions and ledger rows.
        groups: by name.
        layouts: by name of the group.
        state_dir: folder for what the daemon keeps.
        password: for the DSN; it appears in no message.
        reading: makes a store that is only asked, without `open`. An embedded PostgreSQL has to run already.

    """
    # A driver is imported only when it is used: each costs start-up time, and not every site has them all.
    if database.backend is Backend.MONGODB:
        from backends.mongodb import MongodbStore

        return MongodbStore(database, logger=logger, groups=groups, layouts=layouts, password=password, reading=reading)

    if database.backend is Backend.MYSQL:
        from backends.mysql import MysqlStore

        return MysqlStore(database, logger=logger, groups=groups, layouts=layouts, password=password, reading=reading)

    from backends.postgresql import PostgresqlStore
    from backends.postgresql.server.embedded import EmbeddedPostgresql

    server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
    return PostgresqlStore(
        database, logger=logger, groups=groups, layouts=layouts, password=password, server=server, reading=reading
    )


def schema_statements(
    backend: Backend,
    *,
    schema: str,
    logger: str,
    groups: Mapping[str, InstrumentGroup],
    layouts: Mapping[str, Layout],
) -> list[str]:
    """Write down what a store would run on an empty server of a database, for its administrator to read first.

    The statements and comments, in order, are a script for that database's own client; arguments as of `open_store`.
    """
    statements: list[str] = import_module(f"backends.{backend}").schema_statements(schema, logger, groups, layouts)
    return statements


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Remove the schema of a configuration that names a DSN, with all that is in it; for what a drill has made.

    Raises:
        StoreError: it is still there.
    """
    await import_module(f"backends.{database.backend}").drop_schema(database, password)
