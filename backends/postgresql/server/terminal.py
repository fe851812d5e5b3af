"""How an operator opens the database: psql and its sister programs, which come with the embedded server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.base import StoreError
from backends.postgresql.server.account import binaries
from backends.postgresql.server.embedded import EmbeddedPostgresql
from schemas.config import DatabaseConfig

RESTORE = "pg_restore"
"""The one program that has something to do in an embedded server without data."""


@contextmanager
def terminal_of(database: DatabaseConfig, state_dir: Path, program: str) -> Iterator[tuple[list[str], str]]:
    """The command that opens a program on the database, the embedded one without a DSN; nothing is to be typed first.

    An embedded server that does not run is started, and stops afterwards, unless a daemon has come to use it.

    Raises:
        StoreError: the embedded server has no data, or does not start, or the program is not there.
    """
    if database.dsn is not None:
        yield _command(program, database.dsn), ""
        return
    server = EmbeddedPostgresql(state_dir)
    running = server.found()
    if running is not None:
        yield _command(program, running), ""
        return
    if not server.is_made and program != RESTORE:
        raise StoreError(f"no PostgreSQL is under {state_dir}; the first start of the daemon makes it")
    try:
        yield _command(program, asyncio.run(server.start())), ""
    finally:
        asyncio.run(server.stop())


def _command(program: str, dsn: str) -> list[str]:
    return [str(binaries() / program), "--dbname", dsn]
