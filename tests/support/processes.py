"""Real triggerlog processes for the tests, on ports of their own."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import httpx
import pytest

from daemon.tools.cli import main
from tests.support.forked import Forked

GROUP = """
[[groups]]
name = "bpm"
count = 12
channels = [{ name = "top_in", unit = "count", dtype = "int32" }, { name = "bot_in", dtype = "float64" }]
"""

LISTENERS = """
[[sources]]
kind = "tcp"
port = 0

[assembly]
timeout_ms = 200.0

[api]
port = {api}

[dashboard]
port = 0
"""


TERMINAL = {"COLUMNS": "200", "TERM": "dumb"}


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: ours, a wide terminal without colours, and what the test says."""
    return {**os.environ, **TERMINAL, **environment}


def triggerlog(*arguments: str, timeout_s: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    process = Forked(arguments, environment=settings_of(environment), apart=True)
    with process.stdout, process.stderr, ThreadPoolExecutor(2) as threads:
        said, failed = threads.submit(process.stdout.read), threads.submit(process.stderr.read)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(arguments, code, said.result(), failed.result())


def here(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as `triggerlog` does, but in this process: one that is started costs a second or two.

    Not for a command that runs as another program (`psql`, `bench`, `dashboard`) or waits for signals.
    """
    said, failed = io.StringIO(), io.StringIO()

    def run() -> int:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(failed):
            patch.setattr(sys, "argv", ["triggerlog", *arguments])
            for name, value in {**TERMINAL, **environment}.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as ended:
                return int(ended.code or 0)
        return 0

    # In a thread, where a command can have an event loop of its own also while the test's is running.
    with ThreadPoolExecutor(1) as thread:
        code = thread.submit(run).result()
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), failed.getvalue())


def until(condition: Callable[[], object], what: str, timeout_s: float = 60, *, every_s: float = 0.02) -> None:
    """Wait until something holds; what another process does has no event here.

    every_s: the pause between two looks; longer where to answer is much of what a daemon does.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(every_s)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class Running:
    """A process, and what it has said."""

    def __init__(self, *arguments: str, cwd: Path | None = None, **environment: str) -> None:
        self.process = Forked(arguments, cwd=cwd, environment=settings_of(environment))
        self.said = ""
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.said += line

    def until_said(self, pattern: str, timeout_s: float = 60) -> re.Match[str]:
        """Wait until it has said something, and return what."""
        until(
            lambda: re.search(pattern, self.said) or self.process.poll() is not None,
            f"{pattern!r} in {self.said!r}",
            timeout_s,
        )
        found = re.search(pattern, self.said)
        assert found, f"ended with {self.process.returncode}, having said: {self.said}"
        return found

    def end(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 60) -> int:
        """Send a signal, wait for the end, return the exit code."""
        self.process.send_signal(number)
        return self.ended(timeout_s)

    def ended(self, timeout_s: float = 60) -> int:
        """Wait for the end, return the exit code."""
        code = self.process.wait(timeout_s)
        self._reading.join(timeout_s)
        return code

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reading.join(60)
        self.process.stdout.close()


@contextmanager
def running(*arguments: str, cwd: Path | None = None, **environment: str) -> Iterator[Running]:
    """Run a command beside the test."""
    process = Running(*arguments, cwd=cwd, **environment)
    try:
        yield process
    finally:
        process.close()


class Daemon:
    """A daemon that takes readings, with its addresses."""

    def __init__(self, run: Running, file: Path) -> None:
        self.run = run
        self.file = file
        found = run.until_said(r"taking readings at \S+:(\d+); API at (\S+)")
        self.readings, self.api = int(found[1]), found[2]

    def status(self) -> dict:
        """What the API says."""
        return (
            httpx.get(f"{self.api}/api/v1/status", verify=False, trust_env=False, timeout=60).raise_for_status().json()
        )


@contextmanager
def running_daemon(folder: Path, api: int = 0) -> Iterator[Daemon]:
    """A daemon with an embedded PostgreSQL under `folder`, asked to end afterwards."""
    file = folder / "beam.toml"
    file.write_text(GROUP + LISTENERS.format(api=api))
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        yield daemon
        if run.process.poll() is None:
            assert run.end() == 0, run.said
