"""The status stream: one snapshot a tick, encoded once, for whoever listens."""

import asyncio
from collections.abc import AsyncGenerator

from daemon.telemetry.status.reporter import Reporter

EVERY_S = 0.25
"""Time between two snapshots: often enough to see a commit stall, seldom enough to cost next to nothing."""


class StatusStream:
    """Every listener gets the newest snapshot; one that is slow misses some and gets no backlog."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._newest = ""
        self._listeners: set[asyncio.Event] = set()

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    async def run(self) -> None:
        """Make snapshots until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self._reporter.sample()
            if self._listeners:
                self._newest = self._reporter.status().model_dump_json(by_alias=True)
                for listener in self._listeners:
                    listener.set()
            due = max(due + EVERY_S, loop.time())
            await asyncio.sleep(due - loop.time())

    async def snapshots(self) -> AsyncGenerator[str]:
        """The status as JSON: at once, and then as it changes."""
        fresh = asyncio.Event()
        self._listeners.add(fresh)
        try:
            yield self._reporter.status().model_dump_json(by_alias=True)
            while True:
                await fresh.wait()
                fresh.clear()
                yield self._newest
        finally:
            self._listeners.discard(fresh)
