"""Connecting to PostgreSQL: the one place that opens a session, and sets all that the stores rely on.

A server, a database and a role each give a new session settings of their own. They are set in one round trip after the
login: a pooler refuses start-up parameters that it does not know.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import attrgetter

import asyncpg

from backends.base import ConfigurationRefused
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import literal
from backends.sql.connection import DEAD_S, IDLE_S, PROBE_S, PROBES, keep_alive

STATE = {
    # First: no other setting can end or divert what follows.
    "statement_timeout": "0",
    "quote_all_identifiers": "off",
    "search_path": "pg_catalog, pg_temp",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "'read committed'",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "client_encoding": "'UTF8'",
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO, MDY'",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "xmloption": "content",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "array_nulls": "on",
    # An error in place of silently fewer rows.
    "row_security": "off",
    "check_function_bodies": "on",
    "default_table_access_method": "heap",
    # Tables lie in the database's own tablespace, or where [[tiers]] says.
    "default_tablespace": "''",
    # A statement that fails leaves the session as it is.
    "exit_on_error": "off",
    "enable_partition_pruning": "on",
    # The server ends the session of a client that has gone; ignored on Unix sockets.
    "tcp_keepalives_idle": str(IDLE_S),
    "tcp_keepalives_interval": str(PROBE_S),
    "tcp_keepalives_count": str(PROBES),
    "tcp_user_timeout": str(1000 * DEAD_S),
}
SINCE = {14: {"idle_session_timeout": "0"}, 17: {"transaction_timeout": "0"}}
"""Settings of newer servers, by their version."""
UNLESS = {
    # What the operator set may be stronger than `on` (remote_apply), or survive the server's crash too (local).
    "synchronous_commit": ("on", "off"),
    # Few may set it, and without triggers and keys a move would miss what is written meanwhile.
    "session_replication_role": ("origin", "replica"),
    # Not in all minor versions of a server; the names of readings are in views.
    "restrict_nonsystem_relation_kind": ("", "%view%"),
}
"""Settings that are changed only where they are like the second value."""
TRANSPORT = attrgetter("_transport")
"""The driver gives nothing else of a connection that leads to its socket."""
CHECK_CLIENT = "SET client_connection_check_interval = '1s'"
"""A reader that is killed leaves nothing behind that goes on for long."""


async def connect(
    dsn: str | None,
    *,
    password: str | None,
    timeout_s: float,
    program: str,
    settings: Mapping[str, str] | None = None,
    give_up_s: float | None = None,
) -> Connection:
    """Log in, and set the session's state.

    Args:
        dsn: where.
        password: goes before one in the DSN.
        timeout_s: for connecting.
        program: name in the server's list of sessions.
        settings: over those of STATE, as SQL.
        give_up_s: the server ends a statement after so long; the session only reads.
    """
    connection = await asyncpg.connect(
        dsn, password=password, timeout=timeout_s, server_settings={"application_name": program}
    )
    try:
        keep_alive(TRANSPORT(connection).get_extra_info("socket"), timeout_s)
        version = connection.get_server_version().major
        newer = {name: value for since, some in SINCE.items() if version >= since for name, value in some.items()}
        state = {**STATE, **newer, **(_reading(give_up_s) if give_up_s is not None else {}), **(settings or {})}
        await connection.execute(";".join(_statements(state)), timeout=timeout_s)
        if give_up_s is not None:
            # Some systems cannot tell a server that its client has died; it then goes on until it gives up.
            with suppress(asyncpg.InvalidParameterValueError):
                await connection.execute(CHECK_CLIENT, timeout=timeout_s)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def see_no_pooler(dsn: str, *, password: str | None, timeout_s: float, target: str) -> None:
    """See that each connection has a session of the server to itself, for as long as it lasts.

    Raises:
        ConfigurationRefused: it has not: neither locks nor settings last there.
    """
    one = await asyncpg.connect(dsn, password=password, timeout=timeout_s)
    try:
        another = await asyncpg.connect(dsn, password=password, timeout=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                shares = await _share(one, another)
        finally:
            another.terminate()
    finally:
        one.terminate()
    if shares:
        raise ConfigurationRefused(
            f"{target} leads through a pooler that shares sessions of the server among connections (transaction or"
            " statement mode), where neither locks nor settings last; set its pool_mode to session, or name the server"
            " itself"
        )


async def _share(one: Connection, another: Connection) -> bool:
    """Return whether two connections meet in one session of the server, or one of them changes its session."""
    await one.execute("SELECT 1")
    try:
        await one.execute("BEGIN")
        await one.execute("ROLLBACK")
    except asyncpg.ConnectionDoesNotExistError:
        return True  # in statement mode a transaction ends the connection
    try:
        first = await _session_of(one)
        for _ in range(PROBES):
            async with another.transaction():
                # A pooler gives it the first one's, or gives that another one meanwhile.
                if await _session_of(another) == first or await _session_of(one) != first:
                    return True
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        return True  # what was prepared is in another session, or somebody else's is in this one
    return False


async def _session_of(connection: Connection) -> int:
    async with connection.transaction():
        return int(await connection.fetchval("SELECT pg_backend_pid()"))


def milliseconds(seconds: float) -> str:
    """Write a time as a setting takes it."""
    return str(math.ceil(1000 * seconds))


def _reading(give_up_s: float) -> dict[str, str]:
    return {
        "statement_timeout": milliseconds(give_up_s),
        "default_transaction_read_only": "on",
        # One question must not take all the processors there are from the writing: decision 0029.
        "max_parallel_workers_per_gather": "0",
    }


def _statements(state: Mapping[str, str]) -> Iterable[str]:
    # A transaction as the defaults make it could wait for others before its first SELECT.
    yield "BEGIN ISOLATION LEVEL READ COMMITTED, NOT DEFERRABLE"
    yield from (f"SET {name} = {value}" for name, value in state.items())
    for name, (value, wrong) in UNLESS.items():
        if name not in state:
            yield (
                f"SELECT set_config({literal(name)}, {literal(value)}, false)"
                f" WHERE current_setting({literal(name)}, true) LIKE {literal(wrong)}"
            )
    yield "COMMIT"
