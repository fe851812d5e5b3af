"""One connection of a store of visits: its settings and its statements."""

from typing import Any

from pymysql.err import MySQLError

from backends.mysql.protocol.bulk import Insert, Inserter
from backends.mysql.protocol.connection import Connection, Packets
from backends.mysql.server.address import Address, connect
from backends.mysql.server.driver import DRIVER
from backends.mysql.server.errors import LOCK_WAIT, number_of
from backends.mysql.server.facts import product_of
from backends.sql.connection import Driver

# Nothing is locked but the rows that are written, which no other tile writes: so tiles never wait for each other.
ISOLATION = "READ COMMITTED"
# How many rows a value has is not looked up for hundreds of values; each of them takes the index anyway.
SETTINGS = "SET SESSION eq_range_index_dive_limit = 1"
# A long IN would become a join with a temporary table.
MARIADB_SETTINGS = ", SESSION in_predicate_conversion_threshold = 0"

BRIEFLY_S = 2
"""So long a change of a table waits for those who read it; whoever comes to read then waits behind it."""


class Session:
    """A connection, at most one caller at a time."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._inserter = Inserter(connection)
        self._waiting = 0

    @property
    def product(self) -> str:
        """`mariadb` or `mysql`."""
        return product_of(self.connection.version).backend

    @property
    def bulk(self) -> bool:
        """Whether the server takes COM_STMT_BULK_EXECUTE."""
        return self.connection.bulk

    def terminate(self) -> None:
        """End the connection now."""
        self.connection.terminate()

    async def run(self, text: str) -> int:
        """Run statements that give no rows; how many rows the last one changed."""
        return await self.connection.run(text)

    async def run_briefly(self, text: str) -> bool:
        """Run a statement that changes a table; False, with nothing done, where it would wait for somebody's reading.

        An open transaction holds each table that it has read, and whoever comes to read waits behind the statement.
        """
        await self.run(f"SET @waits = @@SESSION.lock_wait_timeout; SET SESSION lock_wait_timeout = {BRIEFLY_S}")
        try:
            await self.run(text)
        except MySQLError as error:
            if number_of(error) not in LOCK_WAIT:
                raise
            done = False
        else:
            done = True
        await self.run("SET SESSION lock_wait_timeout = @waits")
        return done

    async def fetch(self, text: str) -> list[tuple[Any, ...]]:
        """Run a query whose few rows come as Python objects."""
        return await self.connection.fetch(text)

    async def select(self, text: str, into: Packets | None = None) -> Packets:
        """Run a query whose rows stay bytes."""
        return await self.connection.select(text, into)

    async def insert(self, insert: Insert) -> None:
        """Send rows, and wait until the server has them all."""
        if not len(insert.rows):
            return
        ahead = insert.form.indicated
        await self._inserter.prepare(insert)
        for _ in range(await self._inserter.send(insert, ahead=ahead)):
            await self.connection.answer()

    async def send_bulk(self, text: str, types: bytes, rows: memoryview) -> None:
        """Send rows for a statement; `answers` waits for the answer."""
        statement = await self._prepared(text)
        await self.connection.send_bulk(statement, types, rows)
        self._waiting += 1

    async def send_execute(self, text: str, types: bytes, nulls: bytes, values: memoryview) -> None:
        """Send the values of a statement; `answers` waits for the answer."""
        statement = await self._prepared(text)
        await self.connection.send_execute(statement, types, nulls, values)
        self._waiting += 1

    async def answers(self) -> None:
        """Wait until the server has done all that was sent."""
        while self._waiting:
            self._waiting -= 1
            await self.connection.answer()

    async def _prepared(self, text: str) -> int:
        """Prepare a statement; where that is still to be done, what was sent before has to be answered first."""
        if not self._inserter.knows(text):
            await self.answers()
        return await self._inserter.statement(text)


async def open_session(address: Address, *, timeout_s: float, bulk: bool, give_up_s: float | None = None) -> Session:
    """Log in.

    Args:
        address: where.
        timeout_s: for connecting, and for locks.
        bulk: False sends rows as MySQL takes them even to a MariaDB, which has a faster way.
        give_up_s: a session that only reads, and whose questions the server gives up after so long.

    """
    program = "triggerlog visits" if give_up_s is None else "triggerlog visits reader"
    connection = await connect(address, program=program, timeout_s=timeout_s, give_up_s=give_up_s, isolation=ISOLATION)
    try:
        mariadb = product_of(connection.version).backend == "mariadb"
        await connection.run(SETTINGS + (MARIADB_SETTINGS if mariadb else ""))
    except BaseException:
        connection.terminate()
        raise
    connection.bulk = connection.bulk and bulk
    return Session(connection)


SESSION_DRIVER: Driver[Session] = DRIVER.over(lambda session: session.connection)


async def interrupt(fresh: Session, late: Session) -> bool:
    """End a session of ours over another one; False where it was not at work."""
    number = late.connection.thread_id()
    at_work = await fresh.fetch(
        f"SELECT ID FROM information_schema.PROCESSLIST WHERE ID = {number} AND COMMAND <> 'Sleep'"
        " AND USER = SUBSTRING_INDEX(USER(), '@', 1)"
    )
    if at_work:
        await fresh.run(f"KILL {number}")
    return bool(at_work)
