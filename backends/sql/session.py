"""Stores in a SQL database whose calls are transactions: a session is one connection, and a store has a few of them.

Statements have their values as $1, $2, ...; each as often, and in whatever order, as the text needs.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa

from backends.base import BatchRejected, SchemaMismatch
from backends.sql.connection import Driver
from schemas.conditions.rules import ConditionsRefused

WRITE = "write"
READ = "read"
"""How a transaction begins: to change something; or to see everything as it is at one moment."""

Rows = Sequence[Sequence[Any]]


class SqlSession(ABC):
    """One connection, used by one caller at a time.

    begins: the statement that begins a transaction, for WRITE and READ.
    """

    begins: ClassVar[Mapping[str, str]]

    @abstractmethod
    def quoted(self, table: str) -> str:
        """Name of a table of the schema, quoted."""

    @abstractmethod
    def terminate(self) -> None:
        """End the connection now."""

    async def begin(self, kind: str) -> None:
        """Begin a transaction: WRITE or READ."""
        await self.run(self.begins[kind])

    async def end(self, *, commit: bool) -> None:
        """Commit the transaction, or roll it back."""
        await self.run("COMMIT" if commit else "ROLLBACK")

    @abstractmethod
    async def fetch(self, text: str, *values: Any) -> Rows:
        """The rows that a query finds."""

    @abstractmethod
    async def run(self, text: str, *values: Any) -> None:
        """Run a statement that gives no rows."""

    @abstractmethod
    async def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row, and return the id that it gets; None where a row with its name is there."""

    @abstractmethod
    async def insert_rows(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows, as fast as it goes where they are many."""


def placeholders(count: int, first: int = 1) -> str:
    """$1, $2, ...: so many, to be compared with IN."""
    return ", ".join(f"${number}" for number in range(first, first + count))


def check_columns(
    schema: str, what: str, tables: Sequence[sa.Table], found: Iterable[Sequence[Any]], *, all_or_none: bool = True
) -> bool:
    """Whether all tables are there. found: pairs of a table and a column, of all that the schema has.

    what: they are of, such as `conditions`.

    Raises:
        SchemaMismatch: a table has other columns; or some of them are there, and others not, where they are made in one
            transaction (`all_or_none`).
    """
    there: defaultdict[str, set[str]] = defaultdict(set)
    for name, column in found:
        there[name].add(column)
    missing = []
    for table in tables:
        columns = {column.name for column in table.c}
        if table.name not in there:
            missing.append(table.name)
        elif there[table.name] != columns:
            raise _mismatch(schema, what, f"a table {table.name!r} with other columns than {what} have")
    if missing and all_or_none and len(missing) < len(tables):
        raise _mismatch(schema, what, f"tables of {what}, and lacks {missing[0]!r}")
    return not missing


def _mismatch(schema: str, what: str, found: str) -> SchemaMismatch:
    return SchemaMismatch(f"schema {schema!r} has {found}; take another `schema` for {what}")


S = TypeVar("S", bound=SqlSession)


class SqlSessionStore(ABC, Generic[S]):
    """Connections and transactions of a store.

    Args:
        driver: of the database.
        target: what messages call the server.
        timeout_s: for making a connection, and for each of its calls.
        connections: most that there are.
    """

    def __init__(self, driver: Driver[S], *, target: str, timeout_s: float, connections: int) -> None:
        self._driver = driver
        self._target = target
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[S] = []

    @abstractmethod
    async def _connect(self) -> S:
        """Make a connection; each of its calls is given up after `timeout_s`."""

    @abstractmethod
    async def create(self) -> None:
        """Create the schema and the tables, or check those that are there."""

    @abstractmethod
    async def check(self) -> None:
        """See that `create` would do, and change nothing."""

    @abstractmethod
    async def drop(self) -> None:
        """Remove the schema with everything in it."""

    async def close(self) -> None:
        """Give back the connections."""
        idle, self._idle = self._idle, []
        for session in idle:
            await self._driver.give_back(session)

    @asynccontextmanager
    async def _transaction(self, kind: str = WRITE) -> AsyncIterator[S]:
        """All or nothing; a refusal rolls back, and leaves the connection as it was."""
        async with self._connected() as session, in_transaction(session, kind):
            yield session

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[S]:
        """A connection that nobody else uses meanwhile; whatever goes wrong ends it, but a refusal."""
        async with self._turns:
            session: S | None = None
            try:
                with (
                    self._driver.translated(self._target, rejects=BatchRejected),
                    self._driver.login_refused(),
                ):
                    session = self._take_idle() or await self._connect_in_time()
                    yield session
            except ConditionsRefused:
                assert session is not None
                self._idle.append(session)
                raise
            except BaseException:
                if session is not None:
                    session.terminate()
                raise
            self._idle.append(session)

    async def _connect_in_time(self) -> S:
        # A driver's own limit may end with the network's part of it.
        async with asyncio.timeout(self._timeout_s):
            return await self._connect()

    def _take_idle(self) -> S | None:
        while self._idle:
            session = self._idle.pop()
            if not self._driver.is_closed(session):
                return session
            session.terminate()
        return None


@asynccontextmanager
async def in_transaction(session: SqlSession, kind: str = WRITE) -> AsyncIterator[None]:
    """All or nothing, over a connection; a refusal rolls back."""
    await session.begin(kind)
    try:
        yield
    except ConditionsRefused:
        await session.end(commit=False)
        raise
    await session.end(commit=True)
