"""The processes that a page test plays with: a served status, and the page itself, each to be killed and restarted."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE_S = 180.0


def free_port() -> int:
    """A port that was free a moment ago: a process that is to come back on the same port cannot ask for 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition; fail with its name when it does not come true in time."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s:g} s: {what}")
        time.sleep(0.05)


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    """GET, or POST of JSON; returns the decoded answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.loads(response.read() or b"null")


def answers(url: str, trusting: ssl.SSLContext | None = None) -> bool:
    """Whether something answers there."""
    try:
        urllib.request.urlopen(url, timeout=5, context=trusting).close()
    except (urllib.error.URLError, OSError):
        return False
    return True


class Process:
    """A process of its own on a port of its own, that can be killed and come back on it."""

    def __init__(self, *command: str, health: str, **environment: str) -> None:
        self._command = command
        self._environment = os.environ | environment
        self._health = health
        self._running: subprocess.Popen[bytes] | None = None
        self.trusting: ssl.SSLContext | None = None
        self.log: Path | None = None
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not ended since."""
        return self._running is not None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [part.replace("{port}", str(self.port)) for part in self._command]
        with (self.log or Path(os.devnull)).open("ab") as said:
            self._running = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=None if self.log is None else said,
                env=self._environment,
            )
        until(lambda: answers(self.url + self._health, self.trusting), f"{command} answers")

    def signal(self, number: signal.Signals) -> None:
        """Stop it (SIGSTOP) or let it go on (SIGCONT)."""
        assert self._running is not None
        os.kill(self._running.pid, number)

    def kill(self) -> None:
        """End it at once, without a goodbye."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None

    def terminate(self, patience_s: float = 60.0) -> int:
        """Ask it to end; returns its exit status."""
        assert self._running is not None
        self._running.terminate()
        status = self._running.wait(patience_s)
        self._running = None
        return status


class Stage:
    """A served status and a page that follows it, started with further options."""

    def __init__(self, *options: str) -> None:
        self.daemon = Process("-m", "tests.page.served", "{port}", health="/api/v1/status")
        page = ("-m", "dashboard", "--daemon", self.daemon.url, "--port", "{port}", *options)
        self.page = Process(*page, health="/healthz")

    def start(self) -> None:
        """Start both."""
        self.daemon.start()
        self.page.start()

    def end(self) -> None:
        """End both."""
        self.page.kill()
        self.daemon.kill()

    def figures(self, **changes: Any) -> None:
        """Change what is served."""
        ask(self.daemon.url + "/figures", changes)

    def status(self) -> Any:
        """The status served now."""
        return ask(self.daemon.url + "/api/v1/status")
