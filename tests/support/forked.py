"""Commands of triggerlog in processes that are forked from one which has imported all they need.

To import it takes a daemon a second and a half of processor, which `make test` would pay a few hundred times.
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TextIO

from backends.kinds import KINDS

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("daemon.service", "daemon.tools.commands.run", "daemon.tools.simulate.command", "tests.support.forked"),
        *(kind.package for kind in KINDS.values()),
        "tests.support.visit_crash_process",
        "tests.support.conditions_crash_process",
        "tests.support.folders_crash_process",
    ]
)


class Forked:
    """A command that runs, with what tests use of a `subprocess.Popen`.

    arguments: as after `triggerlog` on a command line. environment: all of it. stdout, stderr: what it says; one and
    the same unless `apart`.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        *,
        environment: Mapping[str, str],
        cwd: Path | None = None,
        apart: bool = False,
    ) -> None:
        self.stdout, said = _pipe()
        self.stderr, failed = _pipe() if apart else (self.stdout, said)
        self._process = CONTEXT.Process(target=_become, args=(arguments, cwd, dict(environment), said, failed))
        self._process.start()
        for end in {said, failed}:
            end.close()
        # How it ended can be read once, and several threads may ask.
        self._reading = threading.Lock()

    @property
    def pid(self) -> int:
        """Its number, also when it has ended."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, the signal that ended it below zero, or None while it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """Look how it ended; None while it runs."""
        with self._reading:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it runs on.
        """
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(["triggerlog"], timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _pipe() -> tuple[TextIO, Connection]:
    """What is read, and the end that a process is given."""
    heard, said = CONTEXT.Pipe(duplex=False)
    text = os.fdopen(os.dup(heard.fileno()), encoding="utf-8")
    heard.close()
    return text, said


def _become(
    arguments: tuple[str, ...], cwd: Path | None, environment: dict[str, str], said: Connection, failed: Connection
) -> None:
    """Run the command in this process, as `python -m daemon` does in one of its own."""
    from daemon.tools.cli import main

    _speak_to(said, failed)
    os.environ.clear()
    os.environ.update(environment)
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["triggerlog", *arguments]
    try:
        main()
    finally:
        # A forked process leaves without them.
        atexit._run_exitfuncs()


def _speak_to(said: Connection, failed: Connection) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, where in enumerate((nothing, said.fileno(), failed.fileno())):
        os.dup2(where, number)
    os.close(nothing)
    said.close()
    failed.close()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
