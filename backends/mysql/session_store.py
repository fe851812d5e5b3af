"""Stores in MariaDB and MySQL whose calls are transactions: their connections, and making or checking their tables."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, TypeVar

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from backends.base import StoreBusy
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import DIALECT, literal, quoted
from backends.mysql.schema.create import NEEDED, check_rights
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.facts import product_of
from backends.mysql.server.locks import release, take
from backends.mysql.session import MysqlSession, session_driver
from backends.sql.connection import LockNotGranted
from backends.sql.session import SqlSessionStore, check_columns
from schemas.conditions.rules import ConditionsRefused
from schemas.config import DatabaseConfig

LOCK_TIMEOUT_S = 30
COLLATIONS = {"mariadb": "utf8mb4_nopad_bin", "mysql": "utf8mb4_0900_bin"}
"""Texts are the same where their characters are, spaces at the end included."""

S = TypeVar("S", bound=MysqlSession)


class MysqlSessionStore(SqlSessionStore[S]):
    """A store in a schema (a database) of its own; MariaDB 10.6 or MySQL 8.0, or newer.

    Durability is the server's own (innodb_flush_log_at_trx_commit): no session can ask for another.

    what: is in it, such as `conditions`, for messages and for the name of the connections.
    """

    what: ClassVar[str]

    def __init__(
        self, database: DatabaseConfig, session: type[S], *, schema: str, password: str | None, connections: int
    ) -> None:
        assert database.dsn is not None
        self._address = address_of(database.dsn, password)
        self._schema = schema
        super().__init__(
            session_driver(session),
            target=self._address.target,
            timeout_s=database.command_timeout_s,
            connections=connections,
        )

    @abstractmethod
    def _session(self, connection: Connection) -> S:
        """Make the session of a connection."""

    @abstractmethod
    def _all_tables(self) -> Sequence[sa.Table]:
        """The tables that `create` makes, in the order in which they can be created."""

    def _beside_tables(self) -> Sequence[str]:
        """Statements that create what is in the schema beside the tables; each may be run again."""
        return ()

    async def _remove_left_over(self, session: S) -> None:
        """Remove what a process that was killed has left beside what is there."""

    async def create(self) -> None:
        """Create the database and the tables, or check those that are there.

        A server commits after each statement that makes a table: a create that was cut short is finished by the next.
        """
        with self._driver.login_refused():
            async with self._connected() as session, self._alone(session):
                if not await self._are_there(session):
                    product = product_of(session.connection.version).backend
                    name = quoted(self._schema)
                    await session.run(f"CREATE DATABASE IF NOT EXISTS {name} DEFAULT CHARACTER SET utf8mb4")
                    for table in self._all_tables():
                        await session.run(create_table(table, product))
                for statement in self._beside_tables():
                    await session.run(statement)
                await self._remove_left_over(session)

    async def check(self) -> None:
        """See that `create` would do, and change nothing."""
        with self._driver.login_refused():
            async with self._connected() as session:
                await self._are_there(session)

    async def _are_there(self, session: S) -> bool:
        """Return whether all tables are there, and the login has the rights that it needs.

        Raises:
            SchemaMismatch: they are others than this store makes.
            StoreError: a right is lacking.
        """
        columns = f"information_schema.COLUMNS WHERE TABLE_SCHEMA = {literal(self._schema)}"
        found = await session.fetch(f"SELECT TABLE_NAME, COLUMN_NAME FROM {columns}")
        there = check_columns(self._schema, self.what, self._all_tables(), found, all_or_none=False)
        await check_rights(session.connection, self._schema, NEEDED if there else (*NEEDED, "CREATE"))
        return there

    async def drop(self) -> None:
        """Remove the database."""
        async with self._connected() as session:
            await session.run(f"DROP DATABASE IF EXISTS {quoted(self._schema)}")

    @asynccontextmanager
    async def _alone(self, session: S) -> AsyncIterator[None]:
        """No other store makes the tables of this schema meanwhile."""
        name = f"tables of {self.what} in {self._schema}"
        try:
            await take(session.connection, name, LOCK_TIMEOUT_S)
        except LockNotGranted:
            raise StoreBusy(f"another process makes tables in schema {self._schema!r}") from None
        try:
            yield
        except ConditionsRefused:
            await release(session.connection, name)
            raise
        # When something else goes wrong the connection ends, and the lock goes with it.
        await release(session.connection, name)

    async def _connect(self) -> S:
        connection = await connect(
            self._address, program=f"triggerlog {self.what}", timeout_s=self._timeout_s, isolation="READ COMMITTED"
        )
        return self._session(connection)


def create_table(table: sa.Table, product: str) -> str:
    """The statement that creates a table where it is not there. product: `mariadb` or `mysql`.

    With its indexes: the server commits after each statement, and one may be the last.
    """
    text = str(CreateTable(table, if_not_exists=True).compile(dialect=DIALECT)).rstrip()
    assert text.endswith(")")
    keys = sorted(f"KEY {index.name} ({', '.join(index.columns.keys())})" for index in table.indexes)
    storage = f"ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={COLLATIONS[product]}"
    return f"{', '.join([text[:-1], *keys])}) {storage}"
