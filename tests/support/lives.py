"""Processes that give numbered orders to a store until they are killed, and servers that are killed meanwhile."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from backends.base import StoreUnavailable
from backends.throwaway.base import ThrowawayServer
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from tests.support.forked import CONTEXT

SQL_SERVERS = {"postgresql": Backend.POSTGRESQL, "mariadb": Backend.MYSQL}
SERVERS = {**SQL_SERVERS, "mongodb": Backend.MONGODB}
TIMEOUT_S = 3.0
"""Of a command: so long the driver of MongoDB looks for a server that is gone."""

LASTS_S = 0.2
"""The process, or the server, lives for up to so long after its first order."""


def random_moments() -> random.Random:
    """Moments to kill at; their seed is printed, and TRIGGERLOG_CRASH_SEED repeats them as far as a machine does."""
    seed = int(os.environ.get("TRIGGERLOG_CRASH_SEED") or random.randrange(2**32))
    print(f"TRIGGERLOG_CRASH_SEED={seed}")  # noqa: T201 - for whoever reads of a failure
    return random.Random(seed)


@contextlib.asynccontextmanager
async def opened(opens: Callable[..., Any], dsn: str, schema: str, folder: Path) -> AsyncIterator[Any]:
    """A store of conditions or of folders that gives a server up after a short time; opens: makes it."""
    store = opens(DatabaseConfig(dsn=dsn, command_timeout_s=TIMEOUT_S), schema=schema, state_dir=folder)
    try:
        yield store
    finally:
        await store.close()


class Life:
    """A process that gives orders. live: what it does; gets the arguments, and where it says what was acknowledged."""

    def __init__(self, live: Callable[..., None], *arguments: object) -> None:
        self._heard, said = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=live, args=(*arguments, said))
        self.process.start()
        said.close()
        assert self._heard.poll(60), "it does not begin"
        self.acknowledged = self._heard.recv()

    def end(self) -> int:
        """Kill it, and find the number of its last order that was acknowledged; -1 if none was."""
        self.process.kill()
        self.process.join()
        with contextlib.suppress(EOFError):
            while self._heard.poll():
                self.acknowledged = self._heard.recv()
        self._heard.close()
        return int(self.acknowledged)


async def until_killed(
    order: Callable[[int], Awaitable[object]], number: int, server: ThrowawayServer, after_s: float
) -> int:
    """Give the orders behind `number`, and kill the server meanwhile; the number of the last that was acknowledged."""

    async def kill() -> None:
        await asyncio.sleep(after_s)
        await asyncio.to_thread(server.kill)

    killer = asyncio.create_task(kill())
    while True:
        try:
            await order(number + 1)
        except StoreUnavailable:
            await killer
            return number
        number += 1
