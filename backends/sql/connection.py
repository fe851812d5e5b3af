"""Connections to a SQL database, whatever its driver: what is needed of the driver, and a connection of one owner."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from uuid import uuid4

from backends.base import BatchRejected, StoreError


class SqlConnection(Protocol):
    """A connection of a driver."""

    def terminate(self) -> None:
        """End it now, whatever is under way; the server rolls back what was not committed."""


C = TypeVar("C", bound=SqlConnection)
D = TypeVar("D", bound=SqlConnection)

log = logging.getLogger(__name__)

DEAD_S = 30
"""The end of a connection whose other end has vanished notices it within so long."""
PROOF_S = DEAD_S / 3
"""Time between two proofs to the server that the client of a connection with a lock lives."""
IDLE_S, PROBE_S, PROBES = 15, 5, 3
"""An idle connection is probed after so long, so often, and is dead after so many probes without an answer."""
PROBING = {
    "TCP_KEEPIDLE": IDLE_S,
    "TCP_KEEPALIVE": IDLE_S,  # its name on macOS
    "TCP_KEEPINTVL": PROBE_S,
    "TCP_KEEPCNT": PROBES,
}


def keep_alive(sock: socket.socket, timeout_s: float) -> None:
    """Have the kernel probe an idle connection, and end it where what was sent is not received.

    timeout_s: within which a call is given up; a server that only takes long has at least so long.
    """
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    unreceived_ms = round(1000 * max(DEAD_S, timeout_s))
    for name, value in {**PROBING, "TCP_USER_TIMEOUT": unreceived_ms}.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class LockNotGranted(Exception):
    """Another connection holds the lock; the message says which."""


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
    end_holders: of names: ends the sessions that hold these locks and wait for their clients.
    prove: has the server end the session, and its locks, unless this is called again within DEAD_S.
    """

    translated: Callable[..., AbstractContextManager[None]]
    login_refused: Callable[[], AbstractContextManager[None]]
    taken_too_long: Callable[[str, float], AbstractContextManager[None]]
    is_closed: Callable[[C], bool]
    give_back: Callable[[C], Awaitable[None]]
    roll_back: Callable[[C], Awaitable[None]]
    take_lock: Callable[[C, str, float], Awaitable[None]]
    release_lock: Callable[[C, str], Awaitable[None]]
    end_holders: Callable[[C, Sequence[str]], Awaitable[None]]
    prove: Callable[[C], Awaitable[None]]

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
            end_holders=lambda session, names: self.end_holders(connection_of(session), names),
            prove=lambda session: self.prove(connection_of(session)),
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
        self._marks: list[str] = []
        self._proving: asyncio.Task[None] | None = None

    async def lock(self, connection: C, name: str, timeout_s: float) -> None:
        """Take a lock over a new connection; it lasts as long as this end lives.

        A session of ours that was given up may have it yet where the network lost the end of its connection: it is
        ended first. Each takes a lock of its own besides, whose name is random, and is known by that.

        Raises:
            LockNotGranted: somebody else's connection has had it for all of the time; the message says whose.
        """
        if self._marks:
            await self._driver.end_holders(connection, self._marks)
        mark = str(uuid4())
        await self._driver.take_lock(connection, mark, timeout_s)
        self._marks.append(mark)
        try:
            await self._driver.take_lock(connection, name, timeout_s)
        except LockNotGranted:
            self._marks.remove(mark)
            raise
        self._marks = [mark]
        await self._driver.prove(connection)
        self._proving = asyncio.create_task(self._prove())

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
        self._stop_proving()  # it may be waiting for a server that does not answer
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

    async def _prove(self) -> None:
        """Prove that this end lives, until the connection ends; one in use needs no proof."""
        while True:
            await asyncio.sleep(PROOF_S)
            async with self._turn:
                if self._connection is None:
                    return
                try:
                    with self._guarded():
                        async with asyncio.timeout(PROOF_S):
                            await self._driver.prove(self._connection)
                except StoreError as error:
                    log.info("an idle connection ends: %s", error)
                    self._end()
                    return

    def _stop_proving(self) -> None:
        if self._proving is not None:
            self._proving.cancel()
            self._proving = None

    def _end(self) -> None:
        self._stop_proving()
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
