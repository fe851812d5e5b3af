"""The store of conditions in MariaDB or MySQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from backends.base import StoreBusy
from backends.mysql.conditions.session import IDS, SESSION_DRIVER, MysqlConditionsSession
from backends.mysql.protocol.sql import DIALECT, literal, quoted
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.facts import product_of
from backends.mysql.server.locks import release, take
from backends.sql.conditions.checking import check_columns
from backends.sql.conditions.store import SqlConditionsStore
from backends.sql.conditions.tables import conditions_tables
from backends.sql.connection import LockNotGranted
from schemas.config import DatabaseConfig

LOCK_TIMEOUT_S = 30
COLLATIONS = {"mariadb": "utf8mb4_nopad_bin", "mysql": "utf8mb4_0900_bin"}
"""Texts are the same where their characters are, spaces at the end included."""


class MysqlConditionsStore(SqlConditionsStore[MysqlConditionsSession]):
    """Conditions in MariaDB 10.6 or MySQL 8.0, or newer; its methods promise what `ConditionsStore` says.

    Durability is the server's own (innodb_flush_log_at_trx_commit): no session can ask for another.
    """

    def __init__(self, database: DatabaseConfig, *, schema: str, password: str | None, connections: int) -> None:
        assert database.dsn is not None
        self._address = address_of(database.dsn, password)
        self._schema = schema
        self._tables = conditions_tables(schema)
        super().__init__(
            SESSION_DRIVER,
            target=self._address.target,
            timeout_s=database.command_timeout_s,
            connections=connections,
        )

    async def create(self) -> None:
        """Create the database and the tables, or check those that are there.

        A server commits after each statement that makes a table: a create that was cut short is finished by the next.
        """
        async with self._connected() as session, self._alone(session):
            columns = f"information_schema.COLUMNS WHERE TABLE_SCHEMA = {literal(self._schema)}"
            found = await session.fetch(f"SELECT TABLE_NAME, COLUMN_NAME FROM {columns}")
            if not check_columns(self._schema, self._tables, found, all_or_none=False):
                for statement in self._statements(product_of(session.connection.version).backend):
                    await session.run(statement)
            await session.run(f"INSERT IGNORE INTO {session.detaching} VALUES (1)")

    async def drop(self) -> None:
        """Remove the database."""
        async with self._connected() as session:
            await session.run(f"DROP DATABASE IF EXISTS {quoted(self._schema)}")

    def _statements(self, product: str) -> list[str]:
        storage = f"ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={COLLATIONS[product]}"
        ids = f"CREATE TABLE IF NOT EXISTS {quoted(self._schema, IDS)} (id BIGINT AUTO_INCREMENT PRIMARY KEY)"
        return [
            f"CREATE DATABASE IF NOT EXISTS {quoted(self._schema)} DEFAULT CHARACTER SET utf8mb4",
            *(f"{each} {storage}" for each in (ids, *map(_create, self._tables.all()))),
        ]

    @asynccontextmanager
    async def _alone(self, session: MysqlConditionsSession) -> AsyncIterator[None]:
        """No other store makes the tables of this schema meanwhile."""
        name = f"tables of conditions in {self._schema}"
        try:
            await take(session.connection, name, LOCK_TIMEOUT_S)
        except LockNotGranted:
            raise StoreBusy(f"another process makes tables in schema {self._schema!r}") from None
        # When something goes wrong the connection ends, and the lock goes with it.
        yield
        await release(session.connection, name)

    async def _connect(self) -> MysqlConditionsSession:
        connection = await connect(self._address, program="triggerlog conditions", timeout_s=self._timeout_s)
        try:
            mariadb = product_of(connection.version).backend == "mariadb"
            settings = (
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                # What a server has by default would end a statement as if it could not do it now.
                f"SET SESSION {'max_statement_time' if mariadb else 'max_execution_time'} = 0",
                "SET SESSION auto_increment_increment = 1, auto_increment_offset = 1",
            )
            await connection.run(";".join(settings))
        except BaseException:
            connection.terminate()
            raise
        return MysqlConditionsSession(connection, self._schema, self._tables, self._timeout_s)


def _create(table: sa.Table) -> str:
    """With its indexes: the server commits after each statement, and one may be the last."""
    text = str(CreateTable(table, if_not_exists=True).compile(dialect=DIALECT)).rstrip()
    assert text.endswith(")")
    keys = sorted(f"KEY {index.name} ({', '.join(index.columns.keys())})" for index in table.indexes)
    return ", ".join([text[:-1], *keys]) + ")"
