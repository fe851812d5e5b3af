"""Stores in MariaDB and MySQL whose calls are transactions: their connections, and making or checking their tables."""

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa
from pymysql.err import IntegrityError
from sqlalchemy.schema import CreateTable

from backends.base import StoreBusy
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import DIALECT, literal, quoted
from backends.mysql.schema.create import NEEDED, check_rights
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.driver import DRIVER, release, take
from backends.mysql.server.errors import number_of
from backends.mysql.server.facts import product_of
from backends.sql.connection import Driver, LockNotGranted
from backends.sql.session import READ, WRITE, Rows, SqlSession, SqlSessionStore, check_columns
from schemas.conditions.rules import ConditionsRefused
from schemas.config import DatabaseConfig

BEGIN = {
    READ: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    WRITE: "START TRANSACTION",
}
DUPLICATE = 1062
STATEMENT_BYTES = 1 << 20
"""About how long an INSERT of many rows becomes."""


class MysqlSession(SqlSession):
    """A connection. timeout_s: after it a call is given up, and the connection with it."""

    begins: ClassVar[Mapping[str, str]] = BEGIN

    def __init__(self, connection: Connection, schema: str, timeout_s: float) -> None:
        self._schema = schema
        self._timeout_s = timeout_s
        self.connection = connection

    def quoted(self, table: str) -> str:
        """Name of a table of the schema, quoted."""
        return quoted(self._schema, table)

    def terminate(self) -> None:
        """End the connection now."""
        self.connection.terminate()

    async def fetch(self, text: str, *values: Any) -> Rows:
        """The rows that a query finds."""
        async with asyncio.timeout(self._timeout_s):
            return await self.connection.fetch(_filled(text, values))

    async def run(self, text: str, *values: Any) -> None:
        """Run a statement that gives no rows."""
        async with asyncio.timeout(self._timeout_s):
            await self.connection.run(_filled(text, values))

    async def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row; None where its name is taken."""
        row = ", ".join(map(_literal, values.values()))
        try:
            await self.run(f"INSERT INTO {self.quoted(table)} ({', '.join(values)}) VALUES ({row})")
        except IntegrityError as error:
            if number_of(error) != DUPLICATE:
                raise
            return None
        return await self._last_id()

    async def insert_rows(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows, many with a statement."""
        head = f"INSERT INTO {self.quoted(table)} ({', '.join(columns)}) VALUES "
        for values in _batches(rows, min(STATEMENT_BYTES, self.connection.max_packet // 2)):
            await self.run(head + values)

    async def _last_id(self) -> int:
        ((id_,),) = await self.fetch("SELECT LAST_INSERT_ID()")
        return int(id_)


def _batches(rows: Rows, most_bytes: int) -> Iterator[str]:
    """Rows as lists of values, of about so many bytes."""
    some: list[str] = []
    size = 0
    for row in rows:
        values = f"({','.join(map(_literal, row))})"
        if some and size + len(values) > most_bytes:
            yield ",".join(some)
            some, size = [], 0
        some.append(values)
        size += len(values)
    yield ",".join(some)


def _filled(text: str, values: Sequence[Any]) -> str:
    return re.sub(r"\$(\d+)", lambda found: _literal(values[int(found[1]) - 1]), text) if values else text


def _literal(value: str | int | bytes | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return literal(value) if isinstance(value, str) else str(value)


S = TypeVar("S", bound=MysqlSession)


def session_driver(_: type[S]) -> Driver[S]:
    """What a store needs of the driver, for its kind of session."""
    connection_of: Callable[[S], Connection] = lambda session: session.connection  # noqa: E731
    return DRIVER.over(connection_of)


LOCK_TIMEOUT_S = 30
COLLATIONS = {"mariadb": "utf8mb4_nopad_bin", "mysql": "utf8mb4_0900_bin"}
"""Texts are the same where their characters are, spaces at the end included."""


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
