"""What stands between a client and a server, and hands on every byte."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.vanishing import vanish

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LEAVE_S = 2.0
"""How long to wait until an end has taken what it was sent, and has gone."""


async def hand_on(here: Ends, there: Ends) -> None:
    """Hand on every byte, both ways, until either end has gone; whatever ends it, no socket is left open."""
    ways = [asyncio.create_task(_one_way(here[0], there[1])), asyncio.create_task(_one_way(there[0], here[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await asyncio.gather(_leave(here[1]), _leave(there[1]))


async def _one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def _leave(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LEAVE_S):
            await writer.wait_closed()
    writer.transport.abort()


class Network:
    """A relay between a client and a server, on a port of the loopback interface; a context.

    Args:
        server: host and port, or the path of a Unix socket.
    """

    def __init__(self, server: tuple[str, int] | Path) -> None:
        self._there = server
        self._through: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Network":
        self._listening = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        for task in self._through:
            task.cancel()
        await asyncio.gather(*self._through, return_exceptions=True)

    def forget(self) -> None:
        """Forget every connection, as a firewall does: both ends stay open, and no byte goes through any more."""
        for end in self._ends:
            if not end.transport.is_closing():
                end.transport.pause_reading()

    def vanish(self) -> None:
        """Answer nothing any more, no probe either, as a machine without power."""
        for end in self._ends:
            if not end.transport.is_closing():
                vanish(end.get_extra_info("socket"))

    async def _take(self, *here: Any) -> None:
        self._through.add(asyncio.create_task(self._hand_on(here)))

    async def _hand_on(self, here: Ends) -> None:
        if isinstance(self._there, Path):
            there = await asyncio.open_unix_connection(self._there)
        else:
            there = await asyncio.open_connection(*self._there)
        self._ends += [here[1], there[1]]
        await hand_on(here, there)
