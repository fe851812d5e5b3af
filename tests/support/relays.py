"""What stands between a client and a server, and hands on every byte."""

import asyncio
from contextlib import suppress

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
