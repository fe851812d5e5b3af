"""Create a store's schema in PostgreSQL, or check that the one there fits the configuration."""

from collections.abc import Iterable

import asyncpg

from backends.base import SchemaMismatch
from backends.postgresql.sql import create_group, create_shared, literal, quoted
from backends.schema import Stored, difference
from schemas.readings import Channel
from schemas.tables import GroupTables, shared_tables

LOCK_TIMEOUT = "10s"
"""How long making or checking the schema waits for another daemon that does the same."""


async def create_or_check(
    connection: asyncpg.Connection, schema: str, logger: str, groups: Iterable[GroupTables]
) -> None:
    """Create what is missing, in one transaction.

    Raises:
        SchemaMismatch: what is there does not fit; nothing was changed.
    """
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {lock_schema(schema)}")
        # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even where it is there.
        if await connection.fetchval("SELECT to_regnamespace($1)", quoted(schema)) is None:
            await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        if await connection.fetchval("SELECT to_regclass($1)", quoted(schema, "positions")) is None:
            await connection.execute(";".join(create_shared(shared_tables(schema), schema)))
        for tables in groups:
            await _create_or_check_group(connection, schema, logger, tables)


def lock_schema(schema: str) -> str:
    """Take the lock under which a schema is made or checked; it goes with the transaction."""
    return f"SELECT pg_advisory_xact_lock(hashtextextended({literal(f'triggerlog:{schema}')}, 0))"


async def _create_or_check_group(connection: asyncpg.Connection, schema: str, logger: str, tables: GroupTables) -> None:
    stored = await _stored(connection, schema, tables.group.name)
    if stored is not None:
        mismatch = difference(stored, tables.group, tables.layout, logger)
        if mismatch is not None:
            raise SchemaMismatch(f"group {tables.group.name!r} in schema {schema!r}: {mismatch}")
        return
    if await connection.fetchval("SELECT to_regclass($1)", quoted(schema, tables.group.name)) is not None:
        raise SchemaMismatch(
            f"schema {schema!r} has a table {tables.group.name!r} that is not triggerlog's;"
            " set another `schema` in [database] or rename the group"
        )
    await connection.execute(";".join(create_group(tables, schema)))
    await _describe(connection, schema, logger, tables)


async def _describe(connection: asyncpg.Connection, schema: str, logger: str, tables: GroupTables) -> None:
    group = tables.group
    await connection.execute(
        f"INSERT INTO {quoted(schema, 'groups')} (name, logger, layout, instruments) VALUES ($1, $2, $3, $4)",
        *(group.name, logger, tables.layout.value, group.size),
    )
    await connection.executemany(
        f"INSERT INTO {quoted(schema, 'channels')} (group_name, position, name, unit, dtype)"
        " VALUES ($1, $2, $3, $4, $5)",
        [(group.name, k, channel.name, channel.unit, channel.dtype) for k, channel in enumerate(group.channels)],
    )
    await connection.executemany(
        f"INSERT INTO {quoted(schema, 'instruments')} (group_name, instrument, name) VALUES ($1, $2, $3)",
        [(group.name, k, name) for k, name in enumerate(group.instruments)],
    )
    await connection.execute(
        f"INSERT INTO {quoted(schema, 'positions')} (logger, group_name, sequence) VALUES ($1, $2, 0)"
        " ON CONFLICT DO NOTHING",
        *(logger, group.name),
    )


async def _stored(connection: asyncpg.Connection, schema: str, name: str) -> Stored | None:
    group = await connection.fetchrow(f"SELECT logger, layout FROM {quoted(schema, 'groups')} WHERE name = $1", name)
    if group is None:
        return None
    channels = await connection.fetch(
        f"SELECT name, unit, dtype FROM {quoted(schema, 'channels')} WHERE group_name = $1 ORDER BY position", name
    )
    instruments = await connection.fetch(
        f"SELECT name FROM {quoted(schema, 'instruments')} WHERE group_name = $1 ORDER BY instrument", name
    )
    return Stored(
        logger=group["logger"],
        layout=group["layout"],
        channels=tuple(Channel(name=row["name"], unit=row["unit"], dtype=row["dtype"]) for row in channels),
        instruments=tuple(row["name"] for row in instruments),
    )
