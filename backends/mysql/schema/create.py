"""Create a store's tables in MariaDB or MySQL, check that those there fit the configuration, or remove all.

A server commits after every statement that makes a table. So everything is checked before anything is made, and the row
in `groups` that says a group is there comes last: a daemon killed in between finds its tables again, by the comments
they have, and goes on.
"""

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from backends.base import SchemaMismatch, StoreError, StoreUnavailable
from backends.columns.partitions import PartitionUnit, partitions_of
from backends.diagnosis import Stored, check_positions, difference, gone, mismatch_of, not_ours
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.schema.partitions import RIGHTS, initial, partition_by
from backends.mysql.schema.tables import (
    SHARED_COMMENT,
    create_database,
    create_shared,
    create_tables,
    create_view,
    describe,
    mysql_tables,
)
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.driver import release, take
from backends.mysql.server.errors import translated
from backends.sql.connection import LockNotGranted
from backends.sql.tables import SINCE, GroupTables, shared_tables
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.readings import Channel, InstrumentGroup

LOCK_TIMEOUT_S = 10
"""How long making or checking the schema waits for another daemon that does the same."""
NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE")
TO_PARTITION = ("CREATE", "ALTER", "DROP")
TO_CREATE = ("CREATE", "ALTER", "DROP", "CREATE VIEW")
"""Rights to make tables and views; ALTER and DROP are those that partitions need."""


class Schema:
    """A store's tables in one database.

    Args:
        unit, ahead: which partitions new tables get.
    """

    def __init__(
        self, schema: str, logger: str, groups: Iterable[GroupTables], *, unit: PartitionUnit = "day", ahead: int = 2
    ) -> None:
        self._schema = schema
        self._logger = logger
        self._groups = list(groups)
        self._unit: PartitionUnit = unit
        self._ahead = ahead

    async def create_or_check(self, connection: Connection) -> None:
        """Create what is missing.

        Raises:
            SchemaMismatch: what is there does not fit; nothing was changed.
        """
        name = f"schema {self._schema}"
        try:
            await take(connection, name, LOCK_TIMEOUT_S)
        except LockNotGranted:
            raise StoreUnavailable(f"another daemon is making or checking schema {self._schema!r}") from None
        there = await self._tables_there(connection)
        new = await self._new_groups(connection, there)
        if there is None:
            await connection.run(create_database(self._schema))
        if not set(self._shared) <= set(there or ()):
            for statement in create_shared(self._schema):
                await connection.run(statement)
        for tables in new:
            for statement in self._creating(tables):
                await connection.run(statement)
            described = describe(self._schema, self._logger, tables)
            await connection.run(";".join(["START TRANSACTION", *described, "COMMIT"]))
        # When something goes wrong the connection ends, and the lock goes with it.
        await release(connection, name)

    async def check(self, connection: Connection) -> list[str]:
        """Say what would be created, a line each.

        Raises:
            SchemaMismatch: what is there does not fit.
            StoreError: a right is lacking.
        """
        there = await self._tables_there(connection)
        new = await self._new_groups(connection, there)
        lines = []
        if there is None:
            lines.append(f"database {self._schema!r}")
        missing = [table for table in self._shared if table not in (there or ())]
        lines += [f"table {table!r} in database {self._schema!r}" for table in missing]
        for tables in new:
            lines += [f"table {table.name!r} in database {self._schema!r}" for table in tables.all()]
            lines.append(f"view '{tables.group.name}_readings' in database {self._schema!r}")
        await check_rights(connection, self._schema, (*NEEDED, *TO_CREATE) if lines else NEEDED)
        return lines

    def script(self) -> list[str]:
        """What `create_or_check` runs on a server that has nothing yet, with comments; it may be run again."""
        head = (
            f"-- triggerlog: database {self._schema}, written by logger {self._logger};"
            " MariaDB 10.6 or MySQL 8.0, or newer.\n"
            "-- Run it with mariadb or mysql, as a user that may create a database.\n"
            "-- All times are int64 nanoseconds since 1970-01-01 UTC."
        )
        made = [head, create_database(self._schema), "-- What is logged, by whom, and up to where."]
        made += create_shared(self._schema)
        for tables in self._groups:
            group = tables.group
            made += [
                f"-- Group {group.name}: {group.size} instruments, layout {tables.layout}. Readings, ledger, view.",
                *self._creating(tables),
                *describe(self._schema, self._logger, tables, if_missing=True),
            ]
        return [*made, self._grants()]

    def _grants(self) -> str:
        on = f"ON {quoted(self._schema)}.* TO 'logger'@'%';"
        return (
            "-- The user of the daemon needs these rights:\n"
            f"--   GRANT {', '.join(NEEDED)} {on}\n"
            "-- Partitions by time are made as readings come. A user without the rights to do so leaves its readings\n"
            "-- in the last one, and says so in its log. To let it make partitions:\n"
            f"--   GRANT {', '.join(TO_PARTITION)} {on}\n"
            "-- To let it move them between tiers:\n"
            f"--   GRANT {RIGHTS} {on}\n"
            "--   GRANT PROCESS ON *.* TO 'logger'@'%';"
        )

    @property
    def _shared(self) -> list[str]:
        return [table.name for table in shared_tables(self._schema).all()]

    def _creating(self, tables: GroupTables) -> list[str]:
        made = [statement for _, _, statement in self._created(tables)]
        return [*made, create_view(tables, self._schema)]

    def _created(self, tables: GroupTables) -> list[tuple[str, str, str]]:
        now = time.time_ns()
        partitions = partitions_of(np.array([now]), now, self._unit, self._ahead)
        return list(create_tables(tables, partition_by(initial(partitions))))

    async def _tables_there(self, connection: Connection) -> dict[str, str] | None:
        """Tables of the database and their comments; None when there is no such database, or none to be seen."""
        name = literal(self._schema)
        tables = await connection.fetch(
            f"SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = {name}"
        )
        if tables:
            return dict(tables)
        found = await connection.fetch(f"SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {name}")
        return {} if found else None

    async def _new_groups(self, connection: Connection, there: Mapping[str, str] | None) -> list[GroupTables]:
        """Check the groups; those that the database lacks."""
        if not there:
            return self._groups
        known = await self._check_shared(connection, there)
        new, lost, mismatches = [], [], {}
        for tables in self._groups:
            stored = await self._stored(connection, tables.group.name) if known else None
            if stored is None:
                self._check_free(tables, there)
                new.append(tables)
                continue
            mismatch = difference(stored, tables.group, tables.layout, self._logger)
            if mismatch is not None:
                mismatches[tables.group.name] = mismatch
            lost += [table.name for table in (tables.data, tables.ledger) if table.name not in there]
        if mismatches:
            raise mismatch_of(mismatches, self._schema)
        if lost:
            raise gone(self._schema, lost)
        return new

    async def _check_shared(self, connection: Connection, there: Mapping[str, str]) -> bool:
        """Check the tables that all groups share; whether they are there. Those that were used are not made again."""
        for name in SINCE:
            if there.get(name, SHARED_COMMENT) != SHARED_COMMENT:
                raise SchemaMismatch(not_ours(self._schema, name))
        if "positions" in there:
            await self._check_positions(connection)
        missing = set(self._shared) - set(SINCE) - set(there)
        for name in ("groups", "positions") if missing else ():
            used = f"SELECT 1 FROM {self._table(name)} LIMIT 1"
            if there.get(name) == SHARED_COMMENT and await connection.fetch(used):
                raise gone(self._schema, missing)
        return not missing

    async def _check_positions(self, connection: Connection) -> None:
        columns = await connection.fetch(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA = {literal(self._schema)} AND TABLE_NAME = 'positions'"
        )
        there = {str(name) for (name,) in columns}
        state = "longblob NOT NULL DEFAULT ('')"
        check_positions(self._schema, there, f"ALTER TABLE {self._table('positions')}", state)

    def _check_free(self, tables: GroupTables, there: Mapping[str, str]) -> None:
        for name, comment, _ in self._created(tables):
            if name in there and there[name] != comment:
                raise SchemaMismatch(
                    f"schema {self._schema!r} has a table {name!r} that is not triggerlog's;"
                    " set another `schema` in [database] or rename the group"
                )

    async def _stored(self, connection: Connection, name: str) -> Stored | None:
        of = literal(name)
        group = await connection.fetch(f"SELECT logger, layout FROM {self._table('groups')} WHERE name = {of}")
        if not group:
            return None
        channels = await connection.fetch(
            f"SELECT name, unit, dtype FROM {self._table('channels')} WHERE group_name = {of} ORDER BY position"
        )
        instruments = await connection.fetch(
            f"SELECT name FROM {self._table('instruments')} WHERE group_name = {of} ORDER BY instrument"
        )
        logger, layout = group[0]
        return Stored(
            logger=logger,
            layout=layout,
            channels=tuple(Channel(name=name, unit=unit, dtype=dtype) for name, unit, dtype in channels),
            instruments=tuple(name for (name,) in instruments),
        )

    def _table(self, name: str) -> str:
        return quoted(self._schema, name)


async def check_rights(connection: Connection, schema: str, needed: Sequence[str]) -> None:
    """See that the login has rights on a database, by itself or by its role.

    Raises:
        StoreError: it lacks one.
    """
    user, role = (await connection.fetch("SELECT CURRENT_USER(), CURRENT_ROLE()"))[0]
    grantees = [_grantee(str(user)), *([] if role in (None, "NONE") else [_grantee(str(role)), str(role)])]
    of = f"GRANTEE IN ({','.join(literal(grantee) for grantee in grantees)})"
    found = await connection.fetch(
        f"SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE {of}"
        " UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES"
        f" WHERE {of} AND {literal(schema)} LIKE TABLE_SCHEMA"
    )
    lacking = [right for right in needed if (right,) not in found]
    if lacking:
        rights, name = ", ".join(lacking), str(user)
        raise StoreError(
            f"user {name!r} lacks {rights} on database {schema!r}:"
            f" GRANT {rights} ON {quoted(schema)}.* TO it, or let an administrator run `triggerlog schema`"
        )


def _grantee(account: str) -> str:
    """An account as information_schema writes it: 'user'@'host'."""
    user, _, host = account.rpartition("@")
    return f"'{user}'@'{host}'"


def schema_statements(
    schema: str,
    logger: str,
    groups: Mapping[str, InstrumentGroup],
    layouts: Mapping[str, Layout],
    *,
    unit: PartitionUnit = "day",
    ahead: int = 2,
) -> list[str]:
    """What `MysqlStore.open` runs on an empty server, as a script for an administrator to read, or to run first."""
    tables = [mysql_tables(schema, group, layouts[name]) for name, group in groups.items()]
    return Schema(schema, logger, tables, unit=unit, ahead=ahead).script()


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Drop the database that a configuration calls its schema; nothing happens when it is not there.

    Raises:
        StoreError: it is still there.
    """
    assert database.dsn is not None
    address = address_of(database.dsn, password)
    with translated(address.target):
        connection = await connect(address, program="triggerlog", timeout_s=database.command_timeout_s)
        try:
            await connection.run(f"DROP DATABASE IF EXISTS {quoted(database.schema_name)}")
        finally:
            connection.terminate()
