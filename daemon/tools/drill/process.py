"""A daemon that a drill kills and starts again."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from daemon.client.api.asking import DaemonGone
from daemon.client.api.reach import Reach
from daemon.client.api.status import fetch
from daemon.core.process.children import Child
from schemas.api.status import GroupStatus
from schemas.states import DaemonState

T = TypeVar("T")

READY_S = 120.0
LOOK_S = 0.02


class DrillFailed(Exception):
    """A drill could not be carried out; the message is one line that says why."""


class DaemonProcess:
    """`triggerlog run` on a configuration, one process after the other, each with a log of its own.

    url: address of its control API.
    """

    def __init__(self, file: Path, folder: Path, *, api_port: int) -> None:
        self.starts = 0
        self.url = f"http://127.0.0.1:{api_port}"
        self._file = file
        self._folder = folder
        self._child: Child | None = None

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
        try:
            async with asyncio.timeout(READY_S):
                while True:
                    if await self._is_running():
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise DrillFailed(f"the daemon takes no readings after {READY_S:g} s; see {log}") from None

    @property
    def said(self) -> str:
        """The log of the process that was started last."""
        log = self._folder / f"daemon-{self.starts}.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def check(self) -> None:
        """Check that it runs, where it was started and not stopped.

        Raises:
            DrillFailed: it has ended.
        """
        if self._child is not None and not self._child.running:
            raise DrillFailed(self._child.ending())

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
        """Kill the process if it still runs."""
        if self._child is not None and self._child.running:
            await self._child.kill()

    async def group(self) -> GroupStatus:
        """The status of its one group.

        Raises:
            DaemonGone: it does not answer.
        """
        (group,) = (await fetch(Reach(url=self.url, token=None))).groups.values()
        return group

    async def _is_running(self) -> bool:
        assert self._child is not None
        if not self._child.running:
            raise DrillFailed(self._child.ending())
        try:
            status = await fetch(Reach(url=self.url, token=None))
        except DaemonGone:  # its API does not listen yet
            return False
        return status.state is not DaemonState.STARTING


async def until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float,
    *,
    progress: Callable[[], object] = lambda: None,
) -> T:
    """Wait until something holds that another process does, and return what it gave.

    Args:
        condition: holds when it gives something true.
        what: the condition in words.
        timeout_s: how long it may take in seconds, from the last change of `progress` on.
        progress: what changes while the other process is at work on it, however slow its machine is.

    Raises:
        DrillFailed: not in time.
    """
    loop = asyncio.get_running_loop()
    seen = progress()
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            while True:
                found = condition()
                if found:
                    return found
                if (now := progress()) != seen:
                    seen = now
                    deadline.reschedule(loop.time() + timeout_s)
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise DrillFailed(f"not within {timeout_s:g} s: {what}") from None
