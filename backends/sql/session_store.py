"""Stores in a SQL database whose calls are transactions: each over one of a few connections."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from backends.base import BatchRejected
from backends.sql.connection import Driver
from backends.sql.session import WRITE, SqlSession
from schemas.conditions.rules import ConditionsRefused

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
