"""Locks of the server by name, which go with the connection that holds them."""

import hashlib

from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal
from backends.sql.connection import LockNotGranted


async def take(connection: Connection, name: str, timeout_s: float) -> None:
    """Take a lock.

    Raises:
        LockNotGranted: another connection has held it for all of the time.
    """
    ((granted,),) = await connection.fetch(f"SELECT GET_LOCK({_key(name)}, {timeout_s:g})")
    if granted != 1:
        raise LockNotGranted


async def release(connection: Connection, name: str) -> None:
    """Give a lock back."""
    await connection.fetch(f"SELECT RELEASE_LOCK({_key(name)})")


def _key(name: str) -> str:
    # MySQL takes names of at most 64 characters.
    return literal(f"triggerlog:{hashlib.sha256(name.encode()).hexdigest()[:32]}")
