"""A daemon that a drill kills and starts again."""

import asyncio
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx

from daemon.core.process.children import Child
from schemas.api.status import GroupStatus, Status

T = TypeVar("T")

READY_S = 120.0
LOOK_S = 0.02


class DrillFailed(Exception):
    """A drill could not be carried out; the message is one line that says what did not happen."""


class DaemonProcess:
    """`triggerlog run` on a configuration, one process after the other; what each says is in a log of its own."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.starts = 0
        self._file = file
        self._folder = folder
        self._child: Child | None = None
        self._api = ""

    @property
    def url(self) -> str:
        """Address of its control API."""
        return self._api

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._child is not None
        return self._child.pid

    async def start(self) -> None:
        """Start it, and wait until it takes readings.

        Raises:
            DrillFailed: it ended, or takes none.
        """
        self.starts += 1
        log = self._folder / f"daemon-{self.starts}.log"
        self._child = await Child.start("daemon", [sys.executable, "-m", "daemon", "run", str(self._file)], log)
        found = await until(self._ready, "the daemon takes readings", READY_S)
        self._api = found[1]

    async def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone."""
        assert self._child is not None
        await self._child.kill()

    async def stop(self) -> None:
        """Ask it to end, which commits what it has.

        Raises:
            DrillFailed: it did not end by itself, or with an exit code.
        """
        child = self._child
        if child is None:
            return
        self._child = None
        if not child.running:
            raise DrillFailed(child.ending())
        if not await child.stop() or child.exit_code:
            raise DrillFailed(child.ending())

    async def close(self) -> None:
        """Leave no process behind."""
        if self._child is not None and self._child.running:
            await self._child.kill()

    async def group(self) -> GroupStatus:
        """What its API says of its one group.

        Raises:
            httpx.HTTPError: it does not answer.
        """
        # There is no TLS; to read whom the system trusts, again and again, would be most of what a drill costs.
        async with httpx.AsyncClient(base_url=self._api, verify=False, trust_env=False, timeout=30) as client:  # noqa: S501
            answer = (await client.get("/api/v1/status")).raise_for_status()
        (group,) = Status.model_validate_json(answer.content).groups.values()
        return group

    def _ready(self) -> re.Match[str] | None:
        child = self._child
        assert child is not None
        found = re.search(r"taking readings at \S+; API at (\S+)", child.log.read_text(errors="replace"))
        if found is None and not child.running:
            raise DrillFailed(child.ending())
        return found


async def until(condition: Callable[[], T | None], what: str, timeout_s: float) -> T:
    """Wait until something holds that another process does, and return what it gave.

    Raises:
        DrillFailed: not in time.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                found = condition()
                if found:
                    return found
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise DrillFailed(f"not within {timeout_s:g} s: {what}") from None
