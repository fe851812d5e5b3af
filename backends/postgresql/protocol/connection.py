"""A connection to PostgreSQL: where a DSN leads, how a COPY is cut into messages, and how a connection is closed."""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import asyncpg

from backends.base import StoreError
from schemas.readings import Array

Connection = asyncpg.Connection

FLUSHED_SINCE = (15,)
"""The version since which a session can be told to report what it has counted."""
MESSAGE_BYTES = 64 * 1024 * 1024
"""Most that is sent as one message; the protocol ends at 1 GiB."""


def target_of(dsn: str) -> str:
    """Say where a DSN leads, without its password.

    Raises:
        StoreError: it is no DSN.

    """
    try:
        parts = urlsplit(dsn)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise StoreError(f"`dsn` in [database] cannot be understood: {error}") from None
    host = parts.hostname or next(iter(parse_qs(parts.query).get("host", [])), "localhost")
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{host}{port}{parts.path}"


async def give_back(connection: Connection) -> None:
    """Close a connection in order, or at once where the server does not answer."""
    try:
        await connection.close(timeout=2)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


async def roll_back(connection: Connection) -> None:
    """End the transaction that a connection is in, if it is in one."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


async def report_counts(connection: Connection) -> None:
    """Have the server count now what this session has done, where it can be told to.

    Rows that were inserted before ANALYZE or VACUUM would be added to those that it finds.
    """
    if connection.get_server_version() >= FLUSHED_SINCE:
        await connection.execute("SELECT pg_stat_force_next_flush()")


async def in_messages(payload: Array) -> AsyncIterator[memoryview]:
    """Cut a COPY file that is too long for one message."""
    whole = memoryview(payload)  # type: ignore[arg-type]
    for start in range(0, len(whole), MESSAGE_BYTES):
        yield whole[start : start + MESSAGE_BYTES]
