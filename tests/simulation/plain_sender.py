"""A sender without a session, as somebody else may write one: it sends again what is not acknowledged."""

import asyncio
from collections import deque

from daemon.client.sender.connection import Connection, SenderError, greet
from schemas.readings import Array
from schemas.wire import Ack, Answer, Greeting, ProtocolError, newest_acknowledgement

MOST_KEPT = 4096


class PlainSender:
    """Numbers its records from 0 on each connection, and sends those that are not acknowledged over the next one."""

    def __init__(self, host: str, port: int, greeting: Greeting) -> None:
        self._host, self._port, self._greeting = host, port, greeting
        self._kept: deque[tuple[int, Array]] = deque()  # number of the record after it, and the block
        self._connection: Connection | None = None
        self._base = 0
        self._changed = asyncio.Event()
        self._again: asyncio.Task[None] | None = None
        self.sent = self.acknowledged = self.refused = 0

    @classmethod
    async def connect(cls, host: str, port: int, group: str, *, sender: str, ack: Ack) -> "PlainSender":
        self = cls(host, port, Greeting(group=group, sender=sender, ack=ack))
        connection = self._connection = await greet(self, host, port, self._greeting, timeout_s=5.0, tls=None)
        if connection.closed.done():  # lost again between its answer and now
            self.lost(connection, None)
        return self

    async def send(self, block: Array) -> None:
        while self.sent - self.acknowledged > MOST_KEPT:
            await self._change()
        self.sent += len(block)
        self._kept.append((self.sent, block))
        if self._connection is not None:
            self._connection.transport.write(block.tobytes())

    async def drain_acknowledged(self, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s):
            while self.acknowledged < self.sent:
                await self._change()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if self._again is not None:
            self._again.cancel()
        if connection is not None:
            connection.transport.abort()
            await connection.closed

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # --- what a connection tells its owner ----------------------------------------------------------------------

    def check(self, answer: Answer) -> None:
        """Any answer will do."""

    def acknowledgements(self, frames: bytes) -> None:
        newest = newest_acknowledgement(frames)
        if newest is not None:
            self.acknowledged = self._base + newest.done
            self.refused = max(self.refused, newest.refused)
            while self._kept and self._kept[0][0] <= self.acknowledged:
                self._kept.popleft()
            self._changed.set()

    def resumed(self) -> None:
        """It writes without asking."""

    def lost(self, connection: Connection, error: Exception | None) -> None:
        if connection is self._connection:
            self._connection = None
            self._again = asyncio.get_running_loop().create_task(self._connect_again())

    async def _connect_again(self) -> None:
        while self._connection is None:
            try:
                connection = await greet(self, self._host, self._port, self._greeting, timeout_s=5.0, tls=None)
            except (SenderError, ProtocolError, OSError):
                await asyncio.sleep(0.3)
                continue
            self._base = self.acknowledged
            for end, block in self._kept:
                connection.transport.write(block[max(0, len(block) - (end - self._base)) :].tobytes())
            self._connection = connection
            if connection.closed.done():
                self._connection = None
