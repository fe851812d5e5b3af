"""What every throw-away server can do: it is started, killed, frozen, brought back, and stopped."""

import contextlib
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

import psutil

from backends.base import StoreError

POLL_S = 0.02
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_PORT = 10_000
TRIES = 100
FREEZE_TIMEOUT_S = 60.0
STATES_FROZEN = frozenset("TtZX")
"""Of a thread, as /proc has it: stopped, traced, or gone."""


class ThrowawayServer(ABC):
    """A server that may be treated as badly as a machine treats one."""

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The server's process, None when it does not run."""

    @property
    @abstractmethod
    def log(self) -> Path:
        """The server's log."""

    @abstractmethod
    def start(self) -> str:
        """Start the server, or find that it runs; return its DSN, the same each time. One that was killed recovers.

        Raises:
            StoreError: it does not start; the message has the last line of its log.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the server in good order; by force when it takes too long."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the server, if it runs."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    @abstractmethod
    def kill(self) -> None:
        """Kill the server as a crash does, and wait until it is gone; `start` brings it back."""

    def freeze(self) -> None:
        """Stop the server's processes where they are: connections stay open, and nothing answers.

        Returns when every thread has stopped. The signal alone stops none: one thread of a process takes it, when it
        has its turn, and until then the others go on answering.

        Raises:
            StoreError: they do not stop.
        """
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + FREEZE_TIMEOUT_S
        while not all(_is_frozen(process.pid) for process in self._processes()):
            if time.monotonic() > deadline:
                raise StoreError(f"the server's processes do not stop within {FREEZE_TIMEOUT_S:g} s")
            time.sleep(POLL_S)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self.signal(signal.SIGCONT)

    def _processes(self) -> list[psutil.Process]:
        """The server's processes, the first one first: once it is stopped, it starts no other."""
        try:
            first = psutil.Process(self.pid) if self.pid is not None else None
            return [] if first is None else [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class ServerProcess(ThrowawayServer):
    """A server that is one process, started here, on a port of the loopback interface.

    Args:
        folder: for its data; made when missing, and removed by whoever made it after `stop`.
        name: what it is called in messages.
        start_timeout_s: time it has to answer; one that was killed recovers first.
        stop_timeout_s: time it has to stop in good order.
    """

    def __init__(self, folder: Path, name: str, *, start_timeout_s: float, stop_timeout_s: float) -> None:
        self._folder = folder.resolve()
        self._name = name
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def pid(self) -> int | None:
        """The server's process, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._folder / "server.log"

    def start(self) -> str:
        """Start the server, or find that it runs; return its DSN, the same each time. One that was killed recovers.

        Raises:
            ServerNotInstalled: its program is not here.
            StoreError: it does not start; the message has the last line of its log.
        """
        if self._port is None or not self._runs(self._port):
            self._prepare()
            self._port = self._port or free_port()
            with self.log.open("wb") as log:
                self._process = subprocess.Popen(  # noqa: S603 - the server's own program, our own arguments
                    self._command(self._port),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C reaches whoever started it alone, who may want to ask it something before it stops it.
                    start_new_session=True,
                )
            self._wait(self._process, self._port)
        return self._dsn(self._port)

    def kill(self) -> None:
        """Kill the server as a crash does, and wait until it is gone; `start` brings it back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the server in good order; by force when it takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self._stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @abstractmethod
    def _prepare(self) -> None:
        """Make the folder and the data, if they are not there."""

    @abstractmethod
    def _command(self, port: int) -> list[str]:
        """The command that runs it."""

    @abstractmethod
    def _dsn(self, port: int) -> str:
        """Its DSN."""

    @abstractmethod
    def _answers(self, port: int) -> bool:
        """Whether a server takes connections there, and not only listens."""

    @abstractmethod
    def _last_line(self) -> str:
        """The line of its log that says why it does not start."""

    def _runs(self, port: int) -> bool:
        """Whether the server runs; one that was killed just now may still be there for a moment."""
        while self.pid is not None:
            if self._answers(port):
                return True
            time.sleep(POLL_S)
        return False

    def _wait(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not self._answers(port):
            self._see_it_runs(process)
            if time.monotonic() > deadline:
                self.stop()
                raise StoreError(
                    f"{self._name} does not answer within {self._start_timeout_s:g} s of its start (see {self.log})"
                )
            time.sleep(POLL_S)
        # Someone else may have taken the port between our look and the server's start, and it is they who answer.
        self._see_it_runs(process)

    def _see_it_runs(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            raise StoreError(f"{self._name} does not start: {self._last_line()} (see {self.log})")


def free_port() -> int:
    """A port that nobody listens on now, and that the kernel gives to no outgoing connection.

    What is killed and started again has to find its port free. One of the ephemeral range may be taken meanwhile; by
    the very client that knocks there again and again, too, which the kernel can connect to itself.

    Raises:
        OSError: none was found.
    """
    lowest, highest = LOWEST_PORT, _first_ephemeral() - 1
    for attempt in range(TRIES):
        # Should the kernel leave none below its range, any will have to do.
        port = random.randint(lowest, highest) if attempt < TRIES - 1 and lowest < highest else 0  # noqa: S311
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise OSError(f"no free port found below {highest}")


def _first_ephemeral() -> int:
    try:
        return int(EPHEMERAL.read_text().split()[0])
    except FileNotFoundError:  # not Linux
        return 32_768


def _is_frozen(pid: int) -> bool:
    """Whether all threads of a process have stopped."""
    try:
        return all(_state(thread) in STATES_FROZEN for thread in Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:  # gone
        return True


def _state(thread: Path) -> str:
    try:
        # Behind the name, which is in parentheses and may have any in it.
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
