"""The driver of the SQL stores, over aiomysql, and locks by name, which go with the connection that holds them."""

import hashlib
import math
from collections.abc import Sequence

from pymysql.err import MySQLError

from backends.mysql.protocol.connection import Connection, give_back
from backends.mysql.protocol.sql import ROLLBACK, literal
from backends.mysql.server import errors
from backends.mysql.server.errors import LOCK_WAIT, number_of, one_line
from backends.sql.connection import DEAD_S, Driver, LockNotGranted

NO_SUCH_SESSION = 1094
LEAST_PATIENCE_S = 1
"""The server's clock for locks has whole seconds."""


async def take(connection: Connection, name: str, timeout_s: float) -> None:
    """Take a lock.

    Raises:
        LockNotGranted: another connection has held it for all of the time; the message says which.
    """
    ((granted,),) = await connection.fetch(f"SELECT GET_LOCK({_key(name)}, {timeout_s:g})")
    if granted != 1:
        raise LockNotGranted(await _holder(connection, name))


async def release(connection: Connection, name: str) -> None:
    """Give a lock back."""
    await connection.fetch(f"SELECT RELEASE_LOCK({_key(name)})")


async def end_holders(connection: Connection, names: Sequence[str]) -> None:
    """End the sessions that hold locks and wait for their clients."""
    held = ",".join(f"IS_USED_LOCK({_key(name)})" for name in names)
    # One that is at work ends by itself: its commit may be waiting for a replica.
    waiting = f"SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN ({held}) AND COMMAND = 'Sleep'"
    for (session,) in await connection.fetch(waiting):
        try:
            await connection.run(f"KILL {session}")
        except MySQLError as error:
            if number_of(error) != NO_SUCH_SESSION:
                raise


async def prove(connection: Connection) -> None:
    """Have the server end the session unless the next proof comes in time."""
    await connection.run(f"SET SESSION wait_timeout = {DEAD_S}")


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


async def _holder(connection: Connection, name: str) -> str:
    ((session,),) = await connection.fetch(f"SELECT IS_USED_LOCK({_key(name)})")
    if session is None:
        return "it has just given the lock back"
    # What belongs to another user is only shown with the right PROCESS.
    found = await connection.fetch(
        f"SELECT USER, HOST, COMMAND, TIME FROM information_schema.PROCESSLIST WHERE ID = {session}"
    )
    of = [f" as user {user!r} from {host}, {command} for {time} s" for user, host, command, time in found]
    return f"session {session}{''.join(of)}; an administrator ends it with KILL {session}"


def _key(name: str) -> str:
    # MySQL takes names of at most 64 characters.
    return literal(f"triggerlog:{hashlib.sha256(name.encode()).hexdigest()[:32]}")


async def roll_back(connection: Connection) -> None:
    """End the transaction that a connection is in, if it is in one."""
    await connection.run(ROLLBACK)


DRIVER: Driver[Connection] = Driver(
    translated=errors.translated,
    login_refused=errors.login_refused,
    taken_too_long=errors.taken_too_long,
    is_closed=lambda connection: connection.closed,
    give_back=give_back,
    roll_back=roll_back,
    take_lock=take,
    release_lock=release,
    end_holders=end_holders,
    prove=prove,
)
