"""The limit on expensive queries: each keeps the database and a core busy that readings are written with."""

import asyncio
import time
from collections.abc import AsyncIterator

from fastapi import Request

from daemon.web.errors import ApiError
from daemon.web.rates import Rates

AT_ONCE = 4
WAITING = 32
RATE = {"burst": 60.0, "per_s": 20.0}
"""Of one address; the page asks once in 4 s for each instrument that somebody looks at."""


class QueryLimit:
    """Runs a few at once, lets a few wait, and refuses the others; a dependency of a route.

    what: is asked for.
    """

    def __init__(self, what: str = "readings") -> None:
        self._what = what
        self._running = asyncio.Semaphore(AT_ONCE)
        self._admitted = 0
        self._rates = Rates(**RATE)

    async def __call__(self, request: Request) -> AsyncIterator[None]:
        """Admit one query, for as long as it runs.

        Raises:
            ApiError: 429 for an address that asks too often, 503 when too many wait.
        """
        client = request.client.host if request.client else ""
        if self._rates.take(client, time.monotonic()):
            detail = f"too many questions for {self._what} from this address"
            raise ApiError(429, detail, "ask less often, or for longer ranges", wait_s=1)
        if self._admitted >= AT_ONCE + WAITING:
            raise ApiError(503, f"too many questions for {self._what} at once", "try again later", wait_s=2)
        self._admitted += 1
        try:
            async with self._running:
                yield
        finally:
            self._admitted -= 1
