"""A private MariaDB in a folder, on a free port of the loopback interface."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from backends.base import StoreError
from backends.throwaway import ServerNotInstalled

START_TIMEOUT_S = 90
"""A server that was killed recovers before it answers."""
STOP_TIMEOUT_S = 60
GREETING_TIMEOUT_S = 2
POLL_S = 0.02
PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec")
"""Where distributions put servers, which is not on every user's PATH."""

SETTINGS = {
    # Commits are as durable as the server's defaults make them (innodb_flush_log_at_trx_commit = 1, doublewrite on).
    "skip-log-bin": "1",
    "innodb-buffer-pool-size": "256M",
    "innodb-log-file-size": "512M",
    "local-infile": "1",
    "skip-name-resolve": "1",
    "character-set-server": "utf8mb4",
}


class ThrowawayMariadb:
    """A mariadbd with a data folder of its own under `folder`; its user root has no password and comes from loopback.

    Args:
        folder: made when missing; whoever made it removes it after `stop`.
        settings: of the server, by the names of its options with `_` or `-`, over those of SETTINGS.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        self._folder = folder.resolve()
        self._settings = {**SETTINGS, **{name.replace("_", "-"): str(value) for name, value in settings.items()}}
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def pid(self) -> int | None:
        """The server's process, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def socket(self) -> Path:
        """The server's Unix socket."""
        return self._folder / "mariadb.sock"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self._folder / "server.log"

    def start(self) -> str:
        """Start the server, or find that it runs; return its DSN, the same each time. One that was killed recovers.

        Raises:
            ServerNotInstalled: there is no mariadbd here.
            StoreError: it does not start; the message has its last error.
        """
        if self._port is None or not self._answers(self._port):
            self._prepare()
            self._port = self._port or _free_port()
            self._run(self._port)
        return f"mysql://root@127.0.0.1:{self._port}"

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

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _prepare(self) -> None:
        if (self._data / "mysql").is_dir():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        install = _program("mariadb-install-db", "mysql_install_db")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        result = subprocess.run(  # noqa: S603 - the server's own program, our own arguments
            [install, "--no-defaults", f"--datadir={self._data}", *options, *_as_root()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if result.returncode:
            # A half-made data folder would be taken for a whole one the next time.
            shutil.rmtree(self._data, ignore_errors=True)
            raise StoreError(f"MariaDB cannot be set up in {self._data}: {_last(result.stdout)}")

    def _run(self, port: int) -> None:
        options = {
            "datadir": self._data,
            "socket": self.socket,
            "pid-file": self._folder / "mariadb.pid",
            "bind-address": "127.0.0.1",
            "port": port,
            **self._settings,
        }
        command = [_program("mariadbd", "mysqld"), "--no-defaults", *_as_root()]
        command += [f"--{name}={value}" for name, value in options.items()]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603
        self._wait(self._process, port)

    def _answers(self, port: int) -> bool:
        """Whether the server runs; one that was killed just now may still be there for a moment."""
        while self.pid is not None:
            if _greets(port):
                return True
            time.sleep(POLL_S)
        return False

    def _wait(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _greets(port):
            if process.poll() is not None:
                raise StoreError(f"MariaDB does not start: {_last(self.log.read_bytes())} (see {self.log})")
            if time.monotonic() > deadline:
                self.stop()
                raise StoreError(f"MariaDB does not answer within {START_TIMEOUT_S} s of its start (see {self.log})")
            time.sleep(POLL_S)
        if process.poll() is not None:
            # Someone else took the port between our look and the server's start, and it is they who greet.
            raise StoreError(f"MariaDB does not start: {_last(self.log.read_bytes())} (see {self.log})")


def _program(*names: str) -> str:
    for name in names:
        found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(PLACES))
        if found:
            return found
    raise ServerNotInstalled(f"no {names[0]} on this machine: install mariadb-server")


def _as_root() -> list[str]:
    # Without it the server does not run as root; another account could not pass the folders above ours.
    return ["--user=root"] if os.geteuid() == 0 else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _greets(port: int) -> bool:
    """Whether the server sends its greeting: it listens before it is ready to."""
    try:
        with socket.create_connection(("127.0.0.1", port), GREETING_TIMEOUT_S) as connection:
            return len(connection.recv(5)) > 0
    except OSError:
        return False


def _last(output: bytes) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    wrong = [line for line in lines if "[ERROR]" in line and "Aborting" not in line]
    return (wrong or lines or ["it says nothing"])[-1]
