"""Messages to systemd, after sd_notify(3): each a datagram of `NAME=value` lines.

Without NOTIFY_SOCKET, as in a terminal, nothing is sent.
"""

import logging
import os
import socket
import time
from collections.abc import MutableMapping

log = logging.getLogger(__name__)

PATIENCE_S = 1.0
"""How long a message may wait for a service manager that is slow to read; the event loop waits with it."""

STATUS_MOST = 500
"""Characters of a status; `systemctl status` shows it in one line."""


class Notifier:
    """Tells the service manager how the daemon is.

    watchdog_s: within what time it has to hear `progress`, in s; None where no watchdog is set for this process.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Take the variables out of the environment: the processes the daemon starts must not speak for it."""
        self._address = _address(environment.pop("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog_s(environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", ""))
        self._is_heard = True
        self._status = ""
        self._socket: socket.socket | None = None

    def __del__(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()

    @property
    def is_wanted(self) -> bool:
        """Whether anyone listens."""
        return self._address is not None

    def ready(self, status: str) -> None:
        """Say that the daemon does what it is for, at the start or after a reload."""
        self._status = _one_line(status)
        self._send("READY=1", f"STATUS={self._status}")

    def status(self, text: str) -> None:
        """Say in a line what it does now, if that is news."""
        line = _one_line(text)
        if line and line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def reloading(self) -> None:
        """Say that the configuration is read again; `ready` says that this is over."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        """Say that the end has begun."""
        self._status = _one_line(status)
        self._send("STOPPING=1", f"STATUS={self._status}")

    def extend(self, seconds: float) -> None:
        """Ask for so much more time from now on, while the start or the end is under way."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def progress(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            if self._socket is None:  # and kept: later there may be no descriptor for one
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.settimeout(PATIENCE_S)
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if self._is_heard:
                log.warning("the service manager does not take messages: %s", error.strerror or error)
            self._is_heard = False
        else:
            self._is_heard = True


def _address(text: str) -> str | bytes | None:
    """The address of a socket: a path, or with `@` an abstract name, whose first byte is 0."""
    if text.startswith("@"):
        return b"\0" + os.fsencode(text[1:])
    if text and not text.startswith("/"):
        log.warning("NOTIFY_SOCKET is neither a path nor an abstract socket, so no messages are sent there: %s", text)
    return text if text.startswith("/") else None


def _watchdog_s(microseconds: str, process: str) -> float | None:
    """The watchdog's time, if it is set and meant for this process; see sd_watchdog_enabled(3)."""
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    return int(microseconds) / 1e6 if process in ("", str(os.getpid())) else None


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= STATUS_MOST else line[: STATUS_MOST - 1] + "…"
