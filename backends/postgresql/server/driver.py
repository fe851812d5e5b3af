"""The driver of the SQL stores, over asyncpg, and locks by name, which go with the connection that holds them."""

from collections.abc import Sequence

import asyncpg

from backends.postgresql.protocol.connection import Connection, give_back, roll_back
from backends.postgresql.protocol.sql import literal
from backends.postgresql.server import errors
from backends.sql.connection import DEAD_S, Driver, LockNotGranted

HOLDING = """
    SELECT {what} FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::int8 << 32) | l.objid::int8 IN (SELECT hashtextextended(name, 0) FROM unnest($1::text[]) AS name)
"""
HOLDER = HOLDING.format(
    what="l.pid, a.application_name, a.usename, host(a.client_addr), a.client_port, a.backend_start"
)
# One that is at work ends by itself: its commit may be waiting for a standby.
END = HOLDING.format(what="pg_terminate_backend(l.pid)") + "AND a.wait_event_type = 'Client'"


async def take(connection: asyncpg.Connection, name: str, timeout_s: float) -> None:
    """Take a lock, outside of a transaction.

    Raises:
        LockNotGranted: another connection has held it for all of the time; the message says which.
    """
    try:
        # The lock outlives the transaction, and the setting does not.
        await connection.execute(
            f"BEGIN; SET LOCAL lock_timeout = {max(1, round(1000 * timeout_s))};"
            f"SELECT pg_advisory_lock(hashtextextended({literal(_key(name))}, 0)); COMMIT"
        )
    except asyncpg.LockNotAvailableError:
        await connection.execute("ROLLBACK")
        raise LockNotGranted(await _holder(connection, name)) from None


async def release(connection: asyncpg.Connection, name: str) -> None:
    """Give a lock back that the connection holds."""
    await connection.execute(f"SELECT pg_advisory_unlock(hashtextextended({literal(_key(name))}, 0))")


async def end_holders(connection: asyncpg.Connection, names: Sequence[str]) -> None:
    """End the sessions that hold locks and wait for their clients."""
    await connection.fetch(END, [_key(name) for name in names])


async def prove(connection: asyncpg.Connection) -> None:
    """Have the server end the session unless the next proof comes in time."""
    await connection.execute(f"SET idle_session_timeout = '{DEAD_S}s'")


async def _holder(connection: asyncpg.Connection, name: str) -> str:
    found = await connection.fetchrow(HOLDER, [_key(name)])
    if found is None:
        return "it has just given the lock back"
    pid, program, user, host, port, since = found
    # What belongs to another role may not be shown.
    of = [f"of {program!r}"] if program else []
    of += [f"as user {user!r}"] if user else []
    of += [f"from {host}:{port}"] if host else []
    of += [f"since {since:%Y-%m-%d %H:%M:%S %Z}"] if since else []
    return f"{' '.join([f'session {pid}', *of])}; an administrator ends it with SELECT pg_terminate_backend({pid})"


def _key(name: str) -> str:
    return f"triggerlog:{name}"


DRIVER: Driver[Connection] = Driver(
    translated=errors.translated,
    login_refused=errors.login_refused,
    taken_too_long=errors.taken_too_long,
    is_closed=lambda connection: connection.is_closed(),
    give_back=give_back,
    roll_back=roll_back,
    take_lock=take,
    release_lock=release,
    end_holders=end_holders,
    prove=prove,
)
