"""Connections to a SQL database, whatever its driver: what is needed of the driver, and a connection of one owner."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from backends.base import BatchRejected, StoreError


class SqlConnection(Protocol):
    """A connection of a driver."""

    def terminate(self) -> None:
        """End it now, whatever is under way; the server rolls back what was not committed."""


C = TypeVar("C", bound=SqlConnection)
D = TypeVar("D", bound=SqlConnection)

log = logging.getLogger(__name__)


class LockNotGranted(Exception):
    """Another connection holds the lock."""


@dataclass(frozen=True, kw_only=True)
class Driver(Generic[C]):
    """What the SQL stores need of a database's driver.

    translated: of a target, and `rejects`: turns what the driver raises into `rejects` where a row is at fault, else
        into StoreUnavailable.
    login_refused: says what to do where a login was turned away.
    taken_too_long: of a target and seconds: says that a question was given up after that time.
    is_closed: whether a connection is closed, by either side as far as known.
    give_back: closes a connection in order, or at once where the server does not answer.
    roll_back: ends the transaction that a rejected batch has left open, if it has.
    take_lock: of a name and seconds: takes a lock that goes with the connection; raises LockNotGranted.
    release_lock: of a name: gives it back.
    """

    translated: Callable[..., AbstractContextManager[None]]
    login_refused: Callable[[], AbstractContextManager[None]]
    taken_too_long: Callable[[str, float], AbstractContextManager[None]]
    is_closed: Callable[[C], bool]
    give_back: Callable[[C], Awaitable[None]]
    roll_back: Callable[[C], Awaitable[None]]
    take_lock: Callable[[C, str, float], Awaitable[None]]
    release_lock: Callable[[C, str], Awaitable[None]]

    def over(self, connection_of: Callable[[D], C]) -> "Driver[D]":
        """The same for what has a connection of this driver."""
        return Driver(
            translated=self.translated,
            login_refused=self.login_refused,
            taken_too_long=self.taken_too_long,
            is_closed=lambda session: self.is_closed(connection_of(session)),
            give_back=lambda session: self.give_back(connection_of(session)),
            roll_back=lambda session: self.roll_back(connection_of(session)),
            take_lock=lambda session, name, timeout_s: self.take_lock(connection_of(session), name, timeout_s),
            release_lock=lambda session, name: self.release_lock(connection_of(session), name),
        )


class OwnedConnection(Generic[C]):
    """A connection of one owner, made when it is needed; calls are put one after the other.

    Whatever goes wrong ends it: half a COPY or half a transaction must never be met again, and what is rejected has to
    be rejected by another connection, too. A rehearsal that is rejected is rolled back instead: there are many, and a
    new connection costs a hundred times as much.

    Args:
        driver: of the database.
        connect: makes one.
        prepare: is called with each new one: takes locks, forgets what was known of the one before.
        guarded: made around each session; translates what the driver raises.
    """

    def __init__(
        self,
        driver: Driver[C],
        *,
        connect: Callable[[], Awaitable[C]],
        prepare: Callable[[C], Awaitable[None]],
        guarded: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._driver = driver
        self._connect = connect
        self._prepare = prepare
        self._guarded = guarded
        self._connection: C | None = None
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def session(self, timeout_s: float | None, *, rehearses: bool = False) -> AsyncIterator[C]:
        """The connection, for at most `timeout_s`, or without a limit."""
        async with self._turn:
            try:
                with self._guarded():
                    async with asyncio.timeout(timeout_s):
                        yield await self._connected()
            except BaseException as error:
                if rehearses and isinstance(error, BatchRejected):
                    await self._roll_back(timeout_s)
                else:
                    self._end()
                raise

    async def close(self) -> None:
        """Give the connection back, with its locks; the next session makes another."""
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await self._driver.give_back(connection)

    async def _roll_back(self, timeout_s: float | None) -> None:
        if self._connection is None:
            return
        try:
            with self._guarded():
                async with asyncio.timeout(timeout_s):
                    await self._driver.roll_back(self._connection)
        except StoreError as error:
            log.info("a connection ends, since a refused batch could not be rolled back: %s", error)
            self._end()
        except BaseException:
            self._end()
            raise

    async def _connected(self) -> C:
        if self._connection is not None and self._driver.is_closed(self._connection):
            self._end()
        if self._connection is None:
            self._connection = await self._connect()
            await self._prepare(self._connection)
        return self._connection

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
