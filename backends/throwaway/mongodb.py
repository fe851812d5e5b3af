"""A private MongoDB wire server in a folder, on a free port of the loopback interface: mongod, or FerretDB without it.

FerretDB speaks the protocol and keeps the documents in SQLite; `tests/ferretdb` holds it. Its SQLite flushes every
commit (synchronous = FULL), so that what it acknowledges survives a crash of the machine too.
"""

import os
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

import pymongo
from pymongo.errors import PyMongoError

from backends.throwaway import ServerNotInstalled
from backends.throwaway.base import ServerProcess

URL_VARIABLE = "TRIGGERLOG_TEST_MONGODB_URL"
"""Environment variable that names a server which is there already: tests and benchmarks use it, and start none."""
FERRETDB = Path(__file__).parents[2] / "build" / "ferretdb"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
PING_TIMEOUT_MS = 500


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


class ThrowawayMongodb(ServerProcess):
    """A server with a data folder of its own under `folder`, without login.

    Args:
        folder: made when missing; whoever made it removes it after `stop`.
        program: mongod or FerretDB; what `server_program` finds when it is left out.
    """

    def __init__(self, folder: Path, program: Path | str | None = None) -> None:
        self._program = Path(program) if program is not None else server_program()
        super().__init__(folder, self._program.name, start_timeout_s=START_TIMEOUT_S, stop_timeout_s=STOP_TIMEOUT_S)

    def _prepare(self) -> None:
        (self._folder / "data").mkdir(parents=True, exist_ok=True)

    def _command(self, port: int) -> list[str]:
        data = self._folder / "data"
        if self._program.name.startswith("mongod"):
            return [str(self._program), "--dbpath", str(data), "--port", str(port), "--bind_ip", "127.0.0.1"]
        backend = f"file:{quote(str(data))}/?_pragma=synchronous(full)"
        return [str(self._program), f"127.0.0.1:{port}", backend]

    def _dsn(self, port: int) -> str:
        return _dsn(port)

    def _answers(self, port: int) -> bool:
        return _pings(port)

    def _last_line(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines() or ["its log is empty"]
        return lines[-1]


def _dsn(port: int) -> str:
    return f"mongodb://127.0.0.1:{port}"


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
