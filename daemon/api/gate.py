"""How many expensive questions may be asked: each keeps the database and a core busy that readings are written with."""

import asyncio
import time
from collections.abc import AsyncIterator

from fastapi import HTTPException, Request

from daemon.web.rates import Rates

AT_ONCE = 4
WAITING = 32
RATE = {"burst": 60.0, "per_s": 20.0}
"""Of one address; the page asks once in 4 s for each instrument that somebody looks at."""


class Gate:
    """Lets a few in at once, a few wait, and sends the others away until later; a dependency of a route."""

    def __init__(self) -> None:
        self._inside = asyncio.Semaphore(AT_ONCE)
        self._here = 0
        self._rates = Rates(**RATE)

    async def __call__(self, request: Request) -> AsyncIterator[None]:
        """Let one in.

        Raises:
            HTTPException: 429 for an address that asks too often, 503 when too many wait.
        """
        client = request.client.host if request.client else ""
        wait = self._rates.take(client, time.monotonic())
        if wait:
            detail = "too many questions for readings from this address; ask less often, or for longer ranges"
            raise HTTPException(429, detail, {"Retry-After": "1"})
        if self._here >= AT_ONCE + WAITING:
            raise HTTPException(503, "too many questions for readings at once; try again later", {"Retry-After": "2"})
        self._here += 1
        try:
            async with self._inside:
                yield
        finally:
            self._here -= 1
