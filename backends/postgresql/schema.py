"""Create a store's schema in PostgreSQL, or check that the one there fits the configuration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import asyncpg

from backends.base import SchemaMismatch
from backends.postgresql.sql import create_group, create_shared, literal, quoted
from schemas.batch import Layout
from schemas.readings import Channel, InstrumentGroup
from schemas.tables import GroupTables, shared_tables

LOCK_TIMEOUT = "10s"
"""How long making or checking the schema waits for another daemon that does the same."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the database says of a group."""

    logger: str
    layout: str
    channels: tuple[Channel, ...]
    instruments: tuple[str, ...]


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


def difference(stored: Stored, group: InstrumentGroup, layout: Layout, logger: str) -> str | None:
    """Say what differs between the database and the configuration, and the mend; None when nothing does.

    A changed unit is no difference: it changes no stored byte.
    """
    anew = "or log into another `schema`"
    if stored.logger != logger:
        return f"it is written by logger {stored.logger!r}, this is {logger!r}; set `logger` to that, {anew}"
    if stored.layout != layout:
        return f"its layout is {stored.layout!r}, the configuration says {layout.value!r}; set `layout` to that, {anew}"
    channels = _channels_differ(stored.channels, group.channels)
    if channels is not None:
        return f"{channels}; set `channels` to what is there, {anew}"
    if len(stored.instruments) != group.size:
        return f"it has {len(stored.instruments)} instruments, the configuration {group.size}; set it to that, {anew}"
    for number, (there, here) in enumerate(zip(stored.instruments, group.instruments, strict=True)):
        if there != here:
            return f"instrument {number} is {there!r}, the configuration says {here!r}; name it as it was, {anew}"
    return None


def _channels_differ(there: Sequence[Channel], here: Sequence[Channel]) -> str | None:
    stored, wanted = {c.name: c.dtype for c in there}, {c.name: c.dtype for c in here}
    for name in stored.keys() - wanted.keys():
        return f"the configuration lacks channel {name!r} ({stored[name]})"
    for name in wanted.keys() - stored.keys():
        return f"it has no channel {name!r} ({wanted[name]})"
    for name, dtype in stored.items():
        if wanted[name] != dtype:
            return f"channel {name!r} is {dtype}, the configuration says {wanted[name]}"
    if [c.name for c in there] != [c.name for c in here]:
        return f"the order of its channels is {', '.join(stored)}"
    return None
