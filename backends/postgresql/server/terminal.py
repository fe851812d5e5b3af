"""How an operator opens the database: psql and its sister programs, which come with the embedded server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.base import StoreError
from backends.postgresql.server.account import binaries
from backends.postgresql.server.embedded import EmbeddedPostgresql
from schemas.checking.dsn import without_password
from schemas.config import DatabaseConfig

RESTORE = "pg_restore"
"""The one program that has something to do in an embedded server without data."""


@contextmanager
def terminal_of(database: DatabaseConfig, state_dir: Path, program: str) -> Iterator[tuple[list[str], str]]:
    """The command that opens a program on the database, the embedded one without a DSN; nothing is to be typed first.

    A password goes by the environment (PGPASSWORD), and is not in it.

    Raises:
        StoreError: as `reachable`, or the program is not there.
    """
    with reachable(database, state_dir, makes=program == RESTORE) as dsn:
        yield [str(binaries() / program), "--dbname", without_password(dsn)[0]], ""


@contextmanager
def reachable(database: DatabaseConfig, state_dir: Path, *, makes: bool) -> Iterator[str]:
    """Give the DSN of the database while it can be used.

    An embedded server that does not run is started, and stops afterwards, unless a daemon has come to use it.

    Args:
        database: where.
        state_dir: the state folder.
        makes: an embedded server without data is made.

    Raises:
        StoreError: the embedded server has no data, or does not start.
    """
    if database.dsn is not None:
        yield database.dsn
        return
    server = EmbeddedPostgresql(state_dir)
    running = server.found()
    if running is not None:
        yield running
        return
    if not server.is_made and not makes:
        raise StoreError(f"no PostgreSQL is under {state_dir}; the first start of the daemon makes it")
    try:
        yield asyncio.run(server.start())
    finally:
        asyncio.run(server.stop())
