"""A private MongoDB wire server in a folder, on a free port of the loopback interface: mongod, or FerretDB without it.

FerretDB speaks the protocol and keeps the documents in SQLite; `tests/ferretdb` holds it. Its SQLite flushes every
commit (synchronous = FULL), so that what it acknowledges survives a crash of the machine too.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import pymongo
from pymongo.errors import PyMongoError

from backends.base import StoreError
from backends.throwaway import ServerNotInstalled

URL_VARIABLE = "TRIGGERLOG_TEST_MONGODB_URL"
"""Environment variable that names a server which is there already: tests and benchmarks use it, and start none."""
FERRETDB = Path(__file__).parents[2] / "build" / "ferretdb"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
PING_TIMEOUT_MS = 500
POLL_S = 0.02


def named_server() -> str | None:
    """DSN of the server that the environment names; None when it names none."""
    return os.environ.get(URL_VARIABLE)


def server_program() -> Path:
    """The program to start: mongod where it is on the PATH, else the FerretDB built from `tests/ferretdb`.

    Raises:
        ServerNotInstalled: there is neither.
    """
    mongod = shutil.which("mongod")
    if mongod is not None:
        return Path(mongod)
    if FERRETDB.is_file():
        return FERRETDB
    raise ServerNotInstalled(
        f"no mongod on this machine: install it, or build FerretDB (cd tests/ferretdb && go build -o {FERRETDB} .),"
        f" or name a running server in {URL_VARIABLE}"
    )


class ThrowawayMongodb:
    """A server with a data folder of its own under `folder`, without login.

    Args:
        folder: made when missing; whoever made it removes it after `stop`.
        program: mongod or FerretDB; what `server_program` finds when it is left out.
    """

    def __init__(self, folder: Path, program: Path | str | None = None) -> None:
        self._folder = folder.resolve()
        self._program = Path(program) if program is not None else server_program()
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def pid(self) -> int | None:
        """The server's process, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        """What the server says."""
        return self._folder / "server.log"

    def start(self) -> str:
        """Start the server, or find that it runs; return its DSN, the same each time. One that was killed recovers.

        Raises:
            StoreError: it does not start; the message has the last it said.
        """
        if self._port is None or not self._answers(self._port):
            (self._folder / "data").mkdir(parents=True, exist_ok=True)
            self._port = self._port or _free_port()
            self._run(self._port)
        return _dsn(self._port)

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
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _command(self, port: int) -> list[str]:
        data = self._folder / "data"
        if self._program.name.startswith("mongod"):
            return [str(self._program), "--dbpath", str(data), "--port", str(port), "--bind_ip", "127.0.0.1"]
        backend = f"file:{quote(str(data))}/?_pragma=synchronous(full)"
        return [str(self._program), f"127.0.0.1:{port}", backend]

    def _run(self, port: int) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program that was chosen, our own arguments
                self._command(port), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _pings(port):
            self._see_it_runs(self._process)
            if time.monotonic() > deadline:
                self.stop()
                raise StoreError(f"{self._program.name} does not answer within {START_TIMEOUT_S} s (see {self.log})")
            time.sleep(POLL_S)
        # Someone else may have taken the port between our look and the server's start, and it is they who answer.
        self._see_it_runs(self._process)

    def _see_it_runs(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            said = self.log.read_text(errors="replace").strip().splitlines() or ["it says nothing"]
            raise StoreError(f"{self._program.name} does not start: {said[-1]} (see {self.log})")

    def _answers(self, port: int) -> bool:
        """Whether the server runs; one that was killed just now may still be there for a moment."""
        while self.pid is not None:
            if _pings(port):
                return True
            time.sleep(POLL_S)
        return False


def _dsn(port: int) -> str:
    return f"mongodb://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _pings(port: int) -> bool:
    try:
        # The driver waits before it tries again where nobody listens yet.
        socket.create_connection(("127.0.0.1", port), PING_TIMEOUT_MS / 1000).close()
        with pymongo.MongoClient[dict[str, object]](
            _dsn(port), serverSelectionTimeoutMS=PING_TIMEOUT_MS, socketTimeoutMS=PING_TIMEOUT_MS
        ) as client:
            client.admin.command("ping")
    except (OSError, PyMongoError):
        return False
    return True
