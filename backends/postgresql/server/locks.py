"""Advisory locks of the server by name, which go with the connection that holds them."""

import asyncpg

from backends.postgresql.protocol.sql import literal
from backends.sql.connection import LockNotGranted


async def take(connection: asyncpg.Connection, name: str, timeout_s: float) -> None:
    """Take a lock.

    Raises:
        LockNotGranted: another connection has held it for all of the time; this one is to be given up.
    """
    try:
        await connection.execute(
            f"SET lock_timeout = {round(1000 * timeout_s)};"
            f"SELECT pg_advisory_lock(hashtextextended({literal(f'triggerlog:{name}')}, 0));"
            "RESET lock_timeout"
        )
    except asyncpg.LockNotAvailableError:
        raise LockNotGranted from None


async def release(connection: asyncpg.Connection, name: str) -> None:
    """Give a lock back that the connection holds."""
    await connection.execute(f"SELECT pg_advisory_unlock(hashtextextended({literal(f'triggerlog:{name}')}, 0))")
