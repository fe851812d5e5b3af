"""The schema of a store in PostgreSQL: created, or checked that it fits the configuration; written down; removed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from backends.base import PlaceRefused, SchemaMismatch, StoreError, StoreUnavailable
from backends.diagnosis import Stored, check_positions, difference, gone, mismatch_of, not_ours
from backends.postgresql.protocol.connection import target_of
from backends.postgresql.protocol.sql import (
    create_group,
    create_schema,
    create_shared,
    create_since,
    describe_group,
    literal,
    quoted,
)
from backends.postgresql.server.connecting import connect
from backends.postgresql.server.errors import translated
from backends.sql.tables import SINCE, GroupTables, group_tables, shared_tables
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.readings import Channel, InstrumentGroup

OLDEST = 14
"""The oldest PostgreSQL this is written for."""
LOCK_TIMEOUT = "10s"
"""How long making or checking the schema waits for another daemon that does the same."""

SEEN = """
    SELECT current_user AS name, current_database() AS database,
           pg_is_in_recovery() AS is_standby,
           has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
           to_regnamespace($1) IS NOT NULL AS is_there,
           has_schema_privilege(to_regnamespace($1)::oid, 'USAGE') AS may_use,
           has_schema_privilege(to_regnamespace($1)::oid, 'CREATE') AS may_create
"""
LACKING = """
    SELECT right_name FROM unnest($2::text[]) AS right_name
    WHERE NOT has_table_privilege(to_regclass($1)::oid, right_name)
"""
DESCRIBING = ("groups", "channels", "instruments")
SHARED = (*DESCRIBING, "positions")
TO_READ = ("SELECT",)
TO_DESCRIBE = ("INSERT",)
TO_MOVE = ("SELECT", "INSERT", "UPDATE")
TO_WRITE = ("SELECT", "INSERT", "DELETE")
"""Rights on tables: on those that describe groups, for a new group too; on positions, marks and what was dropped; on
those of a group."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """What a database lacks: the schema, the tables all groups share, the tables of groups.

    since: of the shared ones, those that an older triggerlog did not make.
    """

    schema: bool
    shared: bool
    groups: tuple[GroupTables, ...]
    since: tuple[str, ...] = ()

    def words(self, schema: str) -> list[str]:
        """Say it, a line each; the shared tables come with the first group's."""
        return [
            *([f"schema `{schema}`"] if self.schema else []),
            *(f"table `{name}`" for name in self.since),
            *(f"tables of group `{tables.group.name}`" for tables in self.groups),
        ]


async def create_or_check(
    connection: asyncpg.Connection, schema: str, logger: str, groups: Iterable[GroupTables], target: str
) -> None:
    """Create what is missing, in one transaction.

    Raises:
        SchemaMismatch: what is there does not fit; nothing was changed.
        StoreError: the server is too old, or a right is missing.
    """
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {lock_schema(schema)}")
        missing = await missing_from(connection, schema, logger, groups, target)
        # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even where it is there.
        statements = [create_schema(schema)] if missing.schema else []
        if missing.shared:
            statements += create_shared(shared_tables(schema), schema)
        statements += create_since(shared_tables(schema), missing.since)
        for tables in missing.groups:
            statements += [*create_group(tables, schema), *describe_group(tables, schema, logger)]
        if statements:
            await connection.execute(";".join(statements))


def lock_schema(schema: str) -> str:
    """Take the lock under which a schema is made or checked; it goes with the transaction."""
    return f"SELECT pg_advisory_xact_lock(hashtextextended({literal(f'triggerlog:{schema}')}, 0))"


async def missing_from(
    connection: asyncpg.Connection, schema: str, logger: str, groups: Iterable[GroupTables], target: str
) -> Missing:
    """Find what is not there yet, without changing anything.

    Raises:
        SchemaMismatch: what is there does not fit.
        StoreError: the server is too old, or a right is missing to create what is not there, or to use what is.
        StoreUnavailable: nothing can be written there now.
    """
    check_version(connection.get_server_version(), target)
    seen = await connection.fetchrow(SEEN, quoted(schema))
    assert seen is not None
    if seen["is_standby"]:
        raise StoreUnavailable(f"{target} is read-only now: it is a standby; name the primary in `dsn`, or promote it")
    groups = tuple(groups)
    await _check_encoding(connection, logger, groups, target)
    user = f"{target}: user {seen['name']!r}"
    if not seen["is_there"]:
        if not seen["may_create_schema"]:
            raise StoreError(f"{user} may not create schema {schema!r} in database {seen['database']!r}; {_MEND}")
        return Missing(schema=True, shared=True, groups=tuple(groups))
    if not seen["may_use"]:
        raise StoreError(f"{user} may not use schema {schema!r}; {_MEND}")
    shared = await _lacks_shared(connection, schema)
    await check_rights(connection, [] if shared else _rights_to_shared(schema), user)
    await _check_positions(connection, schema)
    since = tuple([name for name in SINCE if await _lacks(connection, schema, name, user)])
    absent = [*groups] if shared else await _not_stored(connection, schema, logger, groups)
    for tables in absent:
        await _check_free(connection, schema, tables)
    if (shared or since or absent) and not seen["may_create"]:
        raise StoreError(f"{user} may not create tables in schema {schema!r}; {_MEND}")
    for tables in groups:
        if tables not in absent:
            await check_rights(
                connection, [(quoted(schema, t.name), TO_WRITE) for t in (tables.data, tables.ledger)], user
            )
        elif not shared:
            await check_rights(connection, [(quoted(schema, name), TO_DESCRIBE) for name in DESCRIBING], user)
    return Missing(schema=False, shared=shared, groups=tuple(absent), since=() if shared else since)


_MEND = "let an administrator run what `triggerlog schema FILE` prints, with the rights at its end"


def check_version(version: asyncpg.types.ServerVersion, target: str) -> None:
    """See that a server is new enough.

    Raises:
        StoreError: it is not.
    """
    if version.major < OLDEST:
        found = f"PostgreSQL {version.major}.{version.minor}"
        raise StoreError(f"{target} is {found}, which is too old; upgrade it to {OLDEST} or newer, or name another")


def _rights_to_shared(schema: str) -> list[tuple[str, Sequence[str]]]:
    return [*((quoted(schema, name), TO_READ) for name in DESCRIBING), (quoted(schema, "positions"), TO_MOVE)]


async def check_rights(connection: asyncpg.Connection, rights: Iterable[tuple[str, Sequence[str]]], user: str) -> None:
    """See that a login has rights on tables.

    Raises:
        StoreError: it lacks one.
    """
    for table, needed in rights:
        lacking = [row["right_name"] for row in await connection.fetch(LACKING, table, needed)]
        if lacking:
            raise StoreError(f"{user} lacks the right to {', '.join(lacking)} on {table}; {_MEND}")


def see_may_create(seen: asyncpg.Record, schema: str, what: str, target: str) -> None:
    """See that a login may create a schema, or tables in the one that is there.

    Args:
        seen: the answer to SEEN.
        schema: its name.
        what: would lie in it, such as `conditions`.
        target: what messages call the server.

    Raises:
        StoreError: it may not.
    """
    user, name, of = f"{target}: user {seen['name']!r}", quoted(seen["name"]), quoted(schema)
    if not seen["is_there"] and not seen["may_create_schema"]:
        raise StoreError(
            f"{user} may not create schema {schema!r} in database {seen['database']!r};"
            f" let an administrator run CREATE SCHEMA {of} AUTHORIZATION {name}"
        )
    if seen["is_there"] and not (seen["may_use"] and seen["may_create"]):
        raise StoreError(
            f"{user} may not use, or create tables in, schema {schema!r} of {what};"
            f" let an administrator run GRANT USAGE, CREATE ON SCHEMA {of} TO {name}"
        )


async def _check_encoding(
    connection: asyncpg.Connection, logger: str, groups: Sequence[GroupTables], target: str
) -> None:
    texts = {logger: "`logger`"}
    for tables in groups:
        group = tables.group
        texts |= dict.fromkeys(group.instruments, f"an instrument of group {group.name!r}")
        for channel in group.channels:
            texts |= dict.fromkeys((channel.name, channel.unit), f"channel {channel.name!r} of group {group.name!r}")
    if await _holds(connection, "".join(texts)):
        return
    encoding = await connection.fetchval("SHOW server_encoding")
    for text, of in texts.items():
        if not await _holds(connection, text):
            raise StoreError(
                f"{target}: {text!r}, of {of}, cannot be stored in a database whose encoding is {encoding}; write it"
                " with other characters, or name a database that was made with ENCODING 'UTF8'"
            )


async def _holds(connection: asyncpg.Connection, text: str) -> bool:
    """Return whether the database's encoding has the characters of a text."""
    try:
        async with connection.transaction():
            await connection.fetchval("SELECT $1::text", text)
    except asyncpg.UntranslatableCharacterError:
        return False
    return True


async def _check_positions(connection: asyncpg.Connection, schema: str) -> None:
    positions = quoted(schema, "positions")
    there, state = await _columns(connection, positions), "bytea NOT NULL DEFAULT ''"
    if there:
        check_positions(schema, there, f"ALTER TABLE {positions}", state)


async def _lacks_shared(connection: asyncpg.Connection, schema: str) -> bool:
    """Return whether to make the tables that all groups share; they are made in one transaction."""
    absent = [name for name in SHARED if await _is_absent(connection, quoted(schema, name))]
    if absent and len(absent) < len(SHARED):
        raise gone(schema, absent)
    return bool(absent)


async def _lacks(connection: asyncpg.Connection, schema: str, name: str, user: str) -> bool:
    """Whether one of the tables SINCE is not there; one that is there is checked."""
    table = quoted(schema, name)
    there = await _columns(connection, table)
    declared = {each.name: each for each in shared_tables(schema).all()}
    if there and not there >= {column.name for column in declared[name].c}:
        raise SchemaMismatch(not_ours(schema, name))
    await check_rights(connection, [(table, TO_MOVE)] if there else [], user)
    return not there


async def _columns(connection: asyncpg.Connection, table: str) -> set[str]:
    rows = await connection.fetch("SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1)", table)
    return {str(row["attname"]) for row in rows}


async def _is_absent(connection: asyncpg.Connection, table: str) -> bool:
    return bool(await connection.fetchval("SELECT to_regclass($1) IS NULL", table))


async def _check_free(connection: asyncpg.Connection, schema: str, tables: GroupTables) -> None:
    name = tables.group.name
    if not await _is_absent(connection, quoted(schema, name)):
        raise SchemaMismatch(
            f"schema {schema!r} has a table {name!r} that is not triggerlog's;"
            " set another `schema` in [database] or rename the group"
        )


async def _not_stored(
    connection: asyncpg.Connection, schema: str, logger: str, groups: Iterable[GroupTables]
) -> list[GroupTables]:
    """The groups that are new here; those that are stored are checked."""
    new, lost, mismatches = [], [], {}
    for tables in groups:
        name = tables.group.name
        stored = await _stored(connection, schema, name)
        if stored is None:
            new.append(tables)
            continue
        mismatch = difference(stored, tables.group, tables.layout, logger)
        if mismatch is not None:
            mismatches[name] = mismatch
        names = (tables.data.name, tables.ledger.name)
        lost += [each for each in names if await _is_absent(connection, quoted(schema, each))]
    if mismatches:
        raise mismatch_of(mismatches, schema)
    if lost:
        raise gone(schema, lost)
    return new


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


def schema_statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> list[str]:
    """What the store would run on an empty server, each with its `;`, and comments; to run it again does no harm."""
    return [*_statements(schema, logger, groups, layouts)]


def _statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> Iterator[str]:
    yield (
        f"-- triggerlog: schema {schema}, written by logger {logger}; PostgreSQL {OLDEST} or newer.\n"
        "-- Run it with psql, as a role that may create a schema: psql -v ON_ERROR_STOP=1 -f FILE\n"
        "-- Whoever runs it owns the tables. All times are int64 nanoseconds since 1970-01-01 UTC."
    )
    yield "BEGIN;"
    yield f"{create_schema(schema, if_missing=True)};"
    yield "-- What is logged, by whom, and up to where."
    yield from _ended(create_shared(shared_tables(schema), schema))
    for name, group in groups.items():
        tables = group_tables(schema, group, layouts[name])
        yield f"-- Group {name}: {group.size} instruments, layout {tables.layout}. Readings, ledger, view."
        yield from _ended(create_group(tables, schema, if_missing=True))
        yield from _ended(describe_group(tables, schema, logger, if_missing=True))
    yield "COMMIT;"
    yield _rights(schema)


def _ended(statements: list[str]) -> Iterator[str]:
    return (f"{statement.strip()};" for statement in statements)


def _rights(schema: str) -> str:
    name = quoted(schema)
    return (
        "-- The role of the daemon, if it is another, needs these rights:\n"
        f"--   GRANT USAGE ON SCHEMA {name} TO logger;\n"
        f"--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO logger;\n"
        "-- Partitions by time are made as readings come, by the owner of the tables only: a role that does not own\n"
        "-- them leaves its readings in the default partitions, and says so in its log. To let it make partitions:\n"
        f"--   ALTER SCHEMA {name} OWNER TO logger;  and the same for every table and view in it."
    )


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Drop the schema of a configuration that names a DSN; nothing happens when it is not there.

    Raises:
        StoreError: it is still there.
    """
    if database.dsn is None:
        raise StoreError("the embedded PostgreSQL is not named by a DSN; remove its folder")
    with translated(target_of(database.dsn)):
        connection = await connect(
            database.dsn, password=password, timeout_s=database.command_timeout_s, program="triggerlog removal"
        )
        try:
            await connection.execute(f"DROP SCHEMA IF EXISTS {quoted(database.schema_name)} CASCADE")
        finally:
            await connection.close()


TABLESPACES = """
    SELECT name, t.oid IS NOT NULL AS is_there, t.oid = d.dattablespace AS is_own,
           has_tablespace_privilege(t.oid, 'CREATE') AS may_create, current_user AS login
    FROM unnest($1::text[]) AS name LEFT JOIN pg_tablespace t ON t.spcname = name
    JOIN pg_database d ON d.datname = current_database()
"""


async def check_places(connection: asyncpg.Connection, places: Sequence[str | None], target: str) -> None:
    """See that tables can be made in tablespaces; None is the database's own.

    Raises:
        PlaceRefused: one is not there, or the login may not create in it.
    """
    named = [place for place in places if place is not None]
    for row in await connection.fetch(TABLESPACES, named) if named else []:
        problem = _tablespace_problem(row, target)
        if problem is not None:
            raise PlaceRefused(row["name"], problem)


def _tablespace_problem(row: asyncpg.Record, target: str) -> str | None:
    name, tablespace = row["name"], quoted(row["name"])
    if not row["is_there"]:
        fix = f"let an administrator run `CREATE TABLESPACE {tablespace} LOCATION '/a/folder/of/the/server'`"
        return f"{target} has no tablespace {name!r}; {fix}, or name another"
    if row["is_own"]:
        return f"{name!r} is the database's own tablespace in {target}; leave `tablespace` out for it"
    if not row["may_create"]:
        fix = f"let an administrator run `GRANT CREATE ON TABLESPACE {tablespace} TO {quoted(row['login'])}`"
        return f"{target}: user {row['login']!r} may not create in tablespace {name!r}; {fix}"
    return None
