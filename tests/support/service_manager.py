"""A service manager's ear: the socket that NOTIFY_SOCKET names, and what was said there."""

import secrets
import socket
import threading
import time
from pathlib import Path

from tests.support.processes import until


class Ear:
    """Hears every message; a path's socket, or an abstract one without a path."""

    def __init__(self, path: Path | None = None) -> None:
        self.name = str(path) if path is not None else f"@triggerlog-test-{secrets.token_hex(8)}"
        self.messages: list[tuple[float, dict[str, str]]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.name if path is not None else b"\0" + self.name[1:].encode())
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while data := self._socket.recv(65_536):
            lines = dict(line.split("=", 1) for line in data.decode().splitlines())
            self.messages.append((time.monotonic(), lines))

    def heard(self, key: str) -> list[str]:
        """Everything that was said under a name, in order."""
        return [lines[key] for _, lines in self.messages if key in lines]

    def when(self, key: str) -> list[float]:
        """Monotonic times at which something was said under a name, in s."""
        return [moment for moment, lines in self.messages if key in lines]

    def until_heard(self, key: str, value: str = "", times: int = 1, timeout_s: float = 60) -> None:
        """Wait until something was said, so many times."""
        until(
            lambda: sum(value in said for said in self.heard(key)) >= times,
            f"{key}={value} in {[lines for _, lines in self.messages]}",
            timeout_s,
        )

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ending:
            ending.sendto(b"", self._socket.getsockname())
        self._thread.join(60)
        self._socket.close()
