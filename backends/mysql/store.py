"""A store in MariaDB or MySQL, named by a DSN."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import sqlalchemy as sa

from backends.base import ReadOnly, StoreError, StoreFacts
from backends.counting import HourRead, HourReads
from backends.mysql.decimation import MysqlReducing
from backends.mysql.moving import MysqlMoving
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import compiled, literal, quoted
from backends.mysql.reading import activity
from backends.mysql.reading.activity import read_by
from backends.mysql.reading.figures import figures, reduced
from backends.mysql.reading.queries import MysqlQuestions
from backends.mysql.retention import MysqlDropping
from backends.mysql.schema.create import Schema
from backends.mysql.schema.partitions import check_places
from backends.mysql.schema.tables import mysql_tables
from backends.mysql.server.address import address_of, connect
from backends.mysql.server.driver import DRIVER
from backends.mysql.server.errors import login_refused, translated
from backends.mysql.server.facts import SETTINGS, held, product_of
from backends.mysql.writing import MysqlGroupWriter, check_packet
from backends.sql.marks import MarkStatements
from backends.sql.store import SqlStore
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import Query
from schemas.readings import Array, InstrumentGroup

END_WITHIN_S = 2.0
"""How long a store waits at its end for the server to end what nobody waits for any more."""
COUNTED_AT_ONCE = 50_000
"""What so many readings are of is found in a millisecond; of more the event loop does not wait for it."""


class MysqlStore(SqlStore[Connection]):
    """Store in MariaDB 10.6 or MySQL 8.0, or newer; see `backends.base.Store` for what its methods promise.

    Durability is the server's (`facts`): no session can ask for another.

    Args:
        password: goes before one in the DSN.
        read_only: makes a store that is only asked.
        bulk: False sends rows as MySQL takes them even to a MariaDB, which has a faster way.
        places: directories of the tiers; None, which the first one has to be, is the server's own folder.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        logger: str,
        groups: Mapping[str, InstrumentGroup],
        layouts: Mapping[str, Layout],
        password: str | None = None,
        read_only: ReadOnly | None = None,
        bulk: bool = True,
        places: Sequence[str | None] = (),
    ) -> None:
        assert database.dsn is not None
        self._places = places
        self._bulk = bulk
        self._read = HourReads()
        self._address = address_of(database.dsn, password)
        self._endings: set[asyncio.Task[None]] = set()
        schema = database.schema_name
        super().__init__(
            DRIVER,
            writer=MysqlGroupWriter,
            questions=MysqlQuestions,
            marks=MarkStatements(
                schema,
                logger,
                table=quoted(schema, "marks"),
                literal=literal,
                unless_there="ON DUPLICATE KEY UPDATE id = id",
            ),
            view=activity.view,
            partitions_of=activity.partitions_of,
            dropping=MysqlDropping,
            reducing=MysqlReducing,
            reduced=reduced,
            figures=figures,
            # Whoever writes gives up after that time.
            moving=partial(MysqlMoving, connect=self._connect, held_most_s=database.command_timeout_s / 2),
            database=database,
            logger=logger,
            tables={name: mysql_tables(schema, group, layouts[name]) for name, group in groups.items()},
            target=self._address.target,
            read_only=read_only,
        )
        self._schema = Schema(
            schema,
            logger,
            self._tables.values(),
            unit=database.partition,
            ahead=database.partitions_ahead,
        )

    async def check(self) -> list[str]:
        """Look at the server, the rights and the schema without changing anything."""
        with login_refused():
            async with self._reader() as connection:
                missing = await self._schema.check(connection)
                await self._check_places(connection)
                for tables in self._tables.values():
                    check_packet(connection, tables, self._target)
                return missing

    async def ask(self, query: Query) -> Array:
        """Answer a question, and count what the answer has read."""
        answer = await super().ask(query)
        read = partial(read_by, query, answer, self._tables[query.group.name].layout)
        self._read.add(await asyncio.to_thread(read) if len(answer) > COUNTED_AT_ONCE else read())
        return answer

    def take_read(self) -> tuple[HourRead, ...]:
        """What answers have read since the last call."""
        return self._read.take()

    async def facts(self) -> StoreFacts:
        """Ask the server what it is and what it really does about durability."""
        async with self._reader() as connection:
            wanted = ",".join(literal(name) for name in SETTINGS)
            settings = dict(await connection.fetch(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})"))
            sizes = await connection.fetch(
                "SELECT TABLE_NAME, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES"
                f" WHERE TABLE_SCHEMA = {literal(self._database.schema_name)} AND TABLE_TYPE = 'BASE TABLE'"
            )
            ((version,),) = await connection.fetch("SELECT VERSION()")
        product = product_of(version)
        found = {name: (int(rows or 0), int(size or 0)) for name, rows, size in sizes}
        empty = (0, 0)
        return StoreFacts(
            backend=product.backend,
            version=product.version,
            durability=held(settings),
            settings=settings,
            target=self._target,
            rows={name: found.get(tables.data.name, empty)[0] for name, tables in self._tables.items()},
            size_bytes={
                name: sum(found.get(table.name, empty)[1] for table in tables.all())
                for name, tables in self._tables.items()
            },
        )

    async def close(self) -> None:
        """Give the connections back."""
        await super().close()
        if self._endings:
            await asyncio.wait(self._endings, timeout=END_WITHIN_S)

    async def _create_or_check(self, connection: Connection) -> None:
        await self._schema.create_or_check(connection)
        await self._check_places(connection)

    async def _check_places(self, connection: Connection) -> None:
        await check_places(connection, self._database.schema_name, self._places, self._target)

    def _abandoned(self, connection: Connection) -> None:
        """Have the server end what nobody waits for: it does not notice that its client has gone until it answers."""
        if self._read_only is not None:
            ending = asyncio.create_task(self._kill(connection.thread_id()))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _kill(self, session: int) -> None:
        # Where the server is away, or has ended the session already, there is nothing left to end.
        with suppress(StoreError), translated(self._target):
            connection = await self._connect()
            try:
                await connection.run(f"KILL {session}")
            finally:
                connection.terminate()

    async def _rows(self, connection: Connection, select: sa.SelectBase) -> Sequence[tuple[Any, ...]]:
        return await connection.fetch(compiled(select))

    async def _run(self, connection: Connection, statement: str) -> None:
        await connection.run(statement)

    async def _connect(self) -> Connection:
        # A batch is never at fault for what goes wrong before there is a connection.
        with translated(self._target):
            connection = await connect(
                self._address,
                program=f"triggerlog {self._logger}{' reader' if self._read_only else ''}",
                timeout_s=self._database.command_timeout_s,
                give_up_s=self._read_only.give_up_s if self._read_only else None,
            )
        connection.bulk = connection.bulk and self._bulk
        return connection
