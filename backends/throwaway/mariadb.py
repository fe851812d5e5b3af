"""A private MariaDB in a folder, on a free port of the loopback interface."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

from backends.base import StoreError
from backends.files import sync_tree, whole_folder
from backends.throwaway import ServerNotInstalled
from backends.throwaway.base import ServerProcess

START_TIMEOUT_S = 90
"""A server that was killed recovers before it answers."""
STOP_TIMEOUT_S = 60
GREETING_TIMEOUT_S = 2
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


class ThrowawayMariadb(ServerProcess):
    """A mariadbd with a data folder of its own under `folder`; its user root has no password and comes from loopback.

    Args:
        folder: made when missing; whoever made it removes it after `stop`.
        settings: of the server, by the names of its options with `_` or `-`, over those of SETTINGS.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        super().__init__(folder, "MariaDB", start_timeout_s=START_TIMEOUT_S, stop_timeout_s=STOP_TIMEOUT_S)
        self._settings = {**SETTINGS, **{name.replace("_", "-"): str(value) for name, value in settings.items()}}

    @property
    def socket(self) -> Path:
        """The server's Unix socket."""
        return self._folder / "mariadb.sock"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _prepare(self) -> None:
        if self._data.is_dir():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        install = _program("mariadb-install-db", "mysql_install_db")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        with whole_folder(self._data) as partial:
            result = subprocess.run(  # noqa: S603 - the server's own program, our own arguments
                [install, "--no-defaults", f"--datadir={partial}", self._temporary, *options, *_as_root()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if result.returncode:
                raise StoreError(f"MariaDB cannot be set up in {self._data}: {_last(result.stdout)}")
            sync_tree(partial)

    @property
    def _temporary(self) -> str:
        # At its start a server removes all temporary tables that it finds, those of other servers, too: which then
        # crash, above all while their data folders are made.
        return f"--tmpdir={self._folder}"

    def _command(self, port: int) -> list[str]:
        options = {
            "datadir": self._data,
            "socket": self.socket,
            "pid-file": self._folder / "mariadb.pid",
            "bind-address": "127.0.0.1",
            "port": port,
            **self._settings,
        }
        program = [_program("mariadbd", "mysqld"), "--no-defaults", self._temporary, *_as_root()]
        return [*program, *(f"--{name}={value}" for name, value in options.items())]

    def _dsn(self, port: int) -> str:
        return f"mysql://root@127.0.0.1:{port}"

    def _answers(self, port: int) -> bool:
        return _greets(port)

    def _last_line(self) -> str:
        return _last(self.log.read_bytes())


def _program(*names: str) -> str:
    for name in names:
        found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(PLACES))
        if found:
            return found
    raise ServerNotInstalled(f"no {names[0]} on this machine: install mariadb-server")


def _as_root() -> list[str]:
    # Without it the server does not run as root; another account could not pass the folders above ours.
    return ["--user=root"] if os.geteuid() == 0 else []


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
    return (wrong or lines or ["its log is empty"])[-1]
