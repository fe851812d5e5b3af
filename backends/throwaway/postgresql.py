"""A private PostgreSQL in a folder: the embedded one, with the right to be killed."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import psutil

from backends.base import StoreError, StoreUnavailable
from backends.postgresql.server.embedded import LONGEST_SOCKET, SOCKET, START_TIMEOUT_S, EmbeddedPostgresql
from backends.throwaway.base import POLL_S, ThrowawayServer

GONE_TIMEOUT_S = 30


class ThrowawayPostgresql(ThrowawayServer):
    """An embedded PostgreSQL under `folder`, with the settings that a daemon runs it with: its commits are durable.

    Args:
        folder: one that the server's account can pass, when root runs it; whoever made it removes it after `stop`.

    Raises:
        StoreError: the folder's name is too long: the server would listen elsewhere after each start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        if len(os.fsencode(self._folder / "postgresql" / SOCKET)) > LONGEST_SOCKET:
            raise StoreError(f"{self._folder} is too long a name for a socket in it; use a shorter one (TMPDIR)")
        self._server = EmbeddedPostgresql(self._folder)

    @property
    def pid(self) -> int | None:
        """The server's first process, None when it does not run."""
        return self._server.pid

    @property
    def log(self) -> Path:
        """The server's log: a file a day of the week."""
        return self._folder / "postgresql" / "log"

    def start(self) -> str:
        """Start the server, or find that it runs; return its DSN, the same each time. One that was killed recovers.

        Raises:
            StoreError: it does not start; the message has the last line of its log.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return asyncio.run(self._server.start())
            except StoreUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the server in good order."""
        asyncio.run(self._server.stop())

    def kill(self) -> None:
        """Kill all the server's processes at once, as a crash of the machine does, and wait until they are gone."""
        processes = self._processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # The container's first process may never wait for them: a zombie is as gone as can be.
        deadline = time.monotonic() + GONE_TIMEOUT_S
        while any(_lives(process) for process in processes):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"the PostgreSQL under {self._folder} was killed and does not go")
            time.sleep(POLL_S)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
