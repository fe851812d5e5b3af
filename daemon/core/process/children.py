"""Processes that a daemon, the demonstration and the drills start, and that never outlive them."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Self

log = logging.getLogger(__name__)

PATIENCE_S = 20.0
"""Time a process has to end when asked: a daemon commits first what it has received."""

NICENESS = 10
"""A process at 10 gets about a tenth of what one at 0 gets, where both want all of a core (sched(7))."""

PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class Child:
    """A process with its log; it is asked to end when this process ends, even when that is killed."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @classmethod
    async def start(cls, name: str, command: Sequence[str], log: Path, *, piped: int = 0) -> Self:
        """Start it, with all its output going into `log`.

        piped: with it `write_line` writes to the standard input of the process, and `read_line` reads its standard
            output, in lines of at most so many bytes. It has to call `end_with` itself, because nothing may run between
            fork and exec in a process with threads, as a daemon is; and it sees its input end.
        """
        parent = os.getpid()
        with _new(log) as output:
            # A session of its own: Ctrl-C reaches this process alone, which then stops the others in order.
            if piped:
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=output, limit=piped, start_new_session=True
                )
            else:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=lambda: end_with(parent),
                )
        return cls(name, process, log)

    def write_line(self, line: bytes) -> None:
        """Write a line to its standard input; nothing where it has ended."""
        assert self._process.stdin is not None
        if self.running:
            self._process.stdin.write(line)

    async def read_line(self) -> bytes:
        """The next line of its standard output; empty when there will be none.

        Raises:
            ValueError: a line is too long.
        """
        assert self._process.stdout is not None
        return await self._process.stdout.readline()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.returncode

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    async def ended(self) -> None:
        """Wait until it has ended."""
        await self._process.wait()

    async def stop(self) -> bool:
        """Ask it to end, and kill it when it does not; False when it had to be killed."""
        if not self.running:
            return True
        self._process.terminate()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            return False
        return True

    async def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        if self.running:
            self._process.kill()
        await self._process.wait()

    def ending(self) -> str:
        """How it ended, in one line, with the last line of its log."""
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        lines = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        last = f": {lines[-1].strip()}" if lines else ""
        return f"the {self.name} {how}{last} (its log: {self.log})"


def go_first() -> None:
    """With memory short, this process goes before what writes: a unit protects the daemon, and so its children."""
    try:
        Path("/proc/self/oom_score_adj").write_text("500")
    except OSError as error:
        log.warning("the kernel does not take it that this process may be killed first: %s", error.strerror)


def give_way() -> None:
    """Let what logs go first: this process, and those that it starts, get the processor that is left over.

    A visit that waits is late; readings that wait fill the journal. The database's own processes stay as they are.
    """
    os.nice(NICENESS)
    go_first()


def _new(log: Path) -> BinaryIO:
    log.unlink(missing_ok=True)  # not followed, if it is a link
    return log.open("xb")


def end_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent dies, however that dies."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def forked(work: Callable[[], object]) -> int:
    """Fork a process that does this work and ends, with this one at the latest; return its id, in this one.

    Its exit code is 1 when the work raises, which it prints. The one that forks must have no thread and no event loop.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    # Nothing of the parent's may run at this process's end: neither its cleaning up nor what it would do next.
    code = 1
    try:
        end_with(parent)
        work()
        code = 0
    except BaseException:  # it is logged, and the process ends
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)
