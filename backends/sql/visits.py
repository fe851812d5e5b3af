"""The connection of one store of visits in a SQL database, which may hold the schema for a run."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

from backends.sql.connection import C, Driver, LockNotGranted, OwnedConnection
from backends.visits.base import VisitsLocked

HOLD_TIMEOUT_S = 5.0
"""A server may need a moment to notice that the run before us was killed."""


class VisitConnection(OwnedConnection[C]):
    """A worker's connection.

    Args:
        driver: of the database.
        schema: of visits.
        target: what messages call the server.
        connect: makes a connection.
        guarded: as `OwnedConnection` has it.
    """

    def __init__(
        self,
        driver: Driver[C],
        *,
        schema: str,
        target: str,
        connect: Callable[[], Awaitable[C]],
        guarded: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(driver, connect=connect, prepare=self._hold_again, guarded=guarded)
        self._schema = schema
        self._target = target
        self._holds = False

    async def hold(self, timeout_s: float | None) -> None:
        """Hold the schema over this connection, and over each that comes after it.

        Raises:
            VisitsLocked: another connection has it.
        """
        async with self.session(timeout_s) as connection:
            if not self._holds:
                await self._lock(connection)
                self._holds = True

    async def release(self) -> None:
        """Give the connection back, and the schema with it."""
        self._holds = False
        await self.close()

    async def _hold_again(self, connection: C) -> None:
        if self._holds:
            await self._lock(connection)

    async def _lock(self, connection: C) -> None:
        try:
            await self._driver.take_lock(connection, f"visits of {self._schema}", HOLD_TIMEOUT_S)
        except LockNotGranted:
            raise VisitsLocked(self._schema, self._target) from None
