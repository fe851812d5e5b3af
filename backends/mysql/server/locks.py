"""Locks of the server by name, which go with the connection that holds them, and waiting for those of tables."""

import hashlib
import math

from pymysql.err import MySQLError

from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal
from backends.mysql.server.errors import LOCK_WAIT, number_of, one_line
from backends.sql.connection import LockNotGranted

LEAST_PATIENCE_S = 1
"""The server's clock for locks has whole seconds."""


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


async def briefly(connection: Connection, statement: str, patience_s: float) -> None:
    """Run what needs a table alone; others wait behind it no longer than `patience_s`, or a second.

    Raises:
        LockNotGranted: others had the table for all of that time.
    """
    waits_s = max(LEAST_PATIENCE_S, math.ceil(patience_s))
    await connection.run(f"SET @waits = @@lock_wait_timeout, lock_wait_timeout = {waits_s}")
    try:
        await connection.run(statement)
    except MySQLError as error:
        if not connection.closed:
            await connection.run("SET lock_wait_timeout = @waits")
        if number_of(error) in LOCK_WAIT:
            raise LockNotGranted(one_line(error)) from error
        raise
    await connection.run("SET lock_wait_timeout = @waits")


def _key(name: str) -> str:
    # MySQL takes names of at most 64 characters.
    return literal(f"triggerlog:{hashlib.sha256(name.encode()).hexdigest()[:32]}")
