"""Stores of visits in SQL databases: each has one connection, which may hold the schema for a run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import partial

from backends.base import StoreError, StoreUnavailable
from backends.sql.connection import DEAD_S, C, Driver, LockNotGranted, OwnedConnection
from backends.visits.base import StatementTooLong, VisitsLocked
from backends.visits.store import Limits, SessionVisitStore, is_away, watched

HOLD_TIMEOUT_S = 5.0
"""A server may need a moment to notice that the run before us was killed."""


class VisitConnection(OwnedConnection[C]):
    """A worker's connection.

    What takes long is no outage as long as the server answers another connection; decision 0065.

    Args:
        driver: of the database.
        schema: of visits.
        target: what messages call the server.
        connect: makes a connection.
        guarded: as `OwnedConnection` has it.
        limits: how long to wait.
        interrupt: over the first connection, ends the second one at the server; False where the server was not at work
            for it.
    """

    def __init__(
        self,
        driver: Driver[C],
        *,
        schema: str,
        target: str,
        connect: Callable[[], Awaitable[C]],
        guarded: Callable[[], AbstractContextManager[None]],
        limits: Limits,
        interrupt: Callable[[C, C], Awaitable[bool]],
    ) -> None:
        super().__init__(driver, connect=self._in_time, prepare=self._prepare, guarded=guarded)
        self._schema = schema
        self.target = target
        self.limits = limits
        self._make_one = connect
        self._interrupt = interrupt
        self._holds = False
        self.renewed: Callable[[], None] = lambda: None
        """Called with each new connection: what is known of the server is to be looked at again."""

    @asynccontextmanager
    async def session(self, timeout_s: float | None, *, rehearses: bool = False) -> AsyncIterator[C]:
        """The connection, for at most `timeout_s`, or for as long as the server answers.

        Raises:
            StatementTooLong: of a store that writes, it took longer.
        """
        if self.limits.statement_s is None:
            async with super().session(timeout_s, rehearses=rehearses) as connection:
                yield connection
        else:
            async with super().session(None) as connection:
                why_end = partial(self._why_end, connection)
                async with watched(self.limits.answer_s, timeout_s, why_end, connection.terminate):
                    yield connection

    async def hold(self) -> None:
        """Hold the schema over this connection, and over each that comes after it.

        Raises:
            VisitsLocked: another connection has it.
        """
        async with self.session(self.limits.session_s) as connection:
            if not self._holds:
                await self._lock(connection)
                self._holds = True

    async def release(self) -> None:
        """Give the connection back, and the schema with it."""
        self._holds = False
        await self.close()

    async def _in_time(self) -> C:
        async with asyncio.timeout(self.limits.answer_s):
            return await self._make_one()

    async def _prepare(self, connection: C) -> None:
        self.renewed()
        if self._holds:
            # Nobody looks after this connection yet.
            async with asyncio.timeout(HOLD_TIMEOUT_S + self.limits.answer_s):
                await self._lock(connection)

    async def _lock(self, connection: C) -> None:
        try:
            await self.lock(connection, f"visits of {self._schema}", HOLD_TIMEOUT_S)
        except LockNotGranted as error:
            raise VisitsLocked(self._schema, self.target, str(error), DEAD_S) from None

    async def _why_end(self, connection: C, late_s: float | None, ending: asyncio.Event) -> StoreError | None:
        """Ask over another connection, and end the statement at the server where it is late."""
        try:
            with self._guarded():
                fresh = await self._in_time()
                try:
                    if late_s is None:
                        return None
                    ending.set()
                    async with asyncio.timeout(self.limits.answer_s):
                        was_at_work = await self._interrupt(fresh, connection)
                finally:
                    fresh.terminate()
        except StoreError as error:
            return error if is_away(error) else None
        if was_at_work:
            return StatementTooLong(late_s)
        return StoreUnavailable(f"{self.target} has lost the connection that waited {late_s:g} s for its answer")


class SqlVisitStore(SessionVisitStore[C]):
    """The part of a store of visits that all SQL databases share."""

    _connection: VisitConnection[C]

    async def close(self) -> None:
        """Give back the connection."""
        await self._connection.close()

    async def hold(self) -> None:
        """Keep every other store from holding the schema."""
        await self._connection.hold()

    async def release(self) -> None:
        """Hold it no longer."""
        await self._connection.release()

    def _session(self) -> AbstractAsyncContextManager[C]:
        return self._connection.session(self._connection.limits.session_s)
