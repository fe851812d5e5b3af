"""An embedded PostgreSQL: the server that comes in a wheel, run under the state folder.

Only the wheel's binaries are used, not its Python code, which as root opens every folder above the data to everybody
(`chmod go+rx` up to /), leaves a lock file in a shared folder that another user's server then cannot open, and warns
on import.

As root the server runs under another account: see `account`. What is in its folder may be that account's doing, so that
all files there are read and written by way of `Folder`, and removed by name.

The data is made in `postgresql.partial` and gets its name when all of it is on the disk. Each program that makes it
inherits the lock of the state folder, so that no other start begins before it has ended, whoever was killed meanwhile.

Several processes may use one state folder: each holds a shared lock on `postgresql.users` while it does, and whoever
leaves last stops the server. The kernel gives the lock of a killed process back, and a server it left is found again.
"""

import asyncio
import contextlib
import errno
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil

from backends.base import StoreError, StoreUnavailable
from backends.files import Folder, FolderInUse, FolderLock, NotPlain, whole_folder
from backends.postgresql.server.account import VERSION, account_of, binaries, reachable_binaries, reachable_data

SOCKET = ".s.PGSQL.5432"
SOCKETS_PREFIX = "triggerlog-"
LONGEST_SOCKET = 107
"""Bytes the path of a Unix socket may have (sun_path, unix(7)), without the NUL."""
START_TIMEOUT_S = 60
POLL_S = 0.01

SETTINGS = """\
# Written by triggerlog at every start; settings of your own go into postgresql.conf, below the line that includes this.
shared_buffers = 256MB
# Snapshot readers may be 1,000 clients, and late ones are connected at the same time.
max_connections = 1100
# After a checkpoint the next change of every page logs that page whole: rare ones keep the log, and the writing, lean.
max_wal_size = 4GB
min_wal_size = 512MB
checkpoint_timeout = 15min
wal_buffers = 32MB
# New stretches of the BRIN indexes are summarised by autovacuum; until then the newest readings are found by scanning.
autovacuum_naptime = 5s
jit = off
logging_collector = on
log_filename = 'server-%a.log'
log_rotation_age = 1d
log_rotation_size = 0
log_truncate_on_rotation = on
"""
INCLUDE = "include_if_exists = 'triggerlog.conf'\n"
INCLUDED = re.compile(r"^\s*include(_if_exists)?\b[\s=]*'triggerlog\.conf'", re.MULTILINE)
REASONS = re.compile(r"\b(error|fatal|panic): ", re.IGNORECASE)
FULL = (errno.ENOSPC, errno.EDQUOT)


class EmbeddedPostgresql:
    """The server under `state_dir/postgresql`, crash safe as PostgreSQL is by default."""

    def __init__(self, state_dir: Path) -> None:
        self._state = state_dir.resolve()
        self._user: FolderLock | None = None

    async def start(self) -> str:
        """Start the server, or find it running; return its DSN. A server that was killed is started again.

        Raises:
            StoreUnavailable: it does not start, or not yet: it may still be recovering.
            StoreError: it never will, as things are.

        """
        with _as_store_errors():
            return await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """Stop the server if nobody else uses it."""
        with _as_store_errors():
            await asyncio.to_thread(self._stop)

    def found(self) -> str | None:
        """The DSN of the server where it runs; None where it does not. Starts and changes nothing.

        Raises:
            StoreError: it never will run, as things are.
        """
        with _as_store_errors():
            sockets = _socket_dir(self._data)
            if sockets is None:
                binaries()
                _check_written_by(self._data)
                return None
            return _dsn(sockets)

    def running(self) -> str:
        """The DSN of the server, which somebody else has to run.

        Raises:
            StoreUnavailable: nobody does.
            StoreError: as `found`.
        """
        dsn = self.found()
        if dsn is None:
            raise StoreUnavailable("the embedded PostgreSQL does not run; it does while the daemon does")
        return dsn

    @property
    def _data(self) -> Path:
        """Its data, which may lie elsewhere: postmaster.pid and the server's arguments name the real folder."""
        return (self._state / "postgresql").resolve()

    @property
    def is_made(self) -> bool:
        """Whether its data is there already; only then can anything be in it."""
        return (self._data / "PG_VERSION").exists()

    @property
    def pid(self) -> int | None:
        """The server's process, None when it does not run."""
        running = _running(self._data)
        return running.pid if running else None

    def _start(self) -> str:
        if self._user is not None and (found := _socket_dir(self._data)) is not None:
            return _dsn(found)
        self._state.mkdir(parents=True, exist_ok=True)
        with FolderLock(self._state / "postgresql.lock", wait=True) as lock:
            self._join()
            found = _socket_dir(self._data)
            if found is None:
                found = _Server(self._state / "postgresql", lock).start()
            return _dsn(found)

    def _join(self) -> None:
        if self._user is None:
            self._user = FolderLock(self._state / "postgresql.users", shared=True, wait=True)

    def _stop(self) -> None:
        if self._user is None:
            return
        user, self._user = self._user, None
        try:
            with FolderLock(self._state / "postgresql.lock", wait=True):
                try:
                    user.become_only()
                except FolderInUse:
                    return
                _stop(self._data)
        finally:
            user.release()


class _Server:
    """Runs the server's commands, as root under another account.

    data: where its data is, or a link to there, or where it will be. lock: of the state folder, taken.
    """

    def __init__(self, data: Path, lock: FolderLock) -> None:
        self._lock = lock
        self._account = account_of(data) if os.geteuid() == 0 else None
        self._data = data.resolve() if self._account is None else reachable_data(data, self._account)
        self._bin = binaries() if self._account is None else reachable_binaries(self._account)

    def start(self) -> Path:
        self._forget_the_dead()
        if _check_written_by(self._data):
            self._check_finished()
        else:
            self._make()
        with Folder(self._data, follow=False) as folder:
            folder.replace("triggerlog.conf", SETTINGS.encode(), mode=0o600)
            folder.remove("start.log")
        sockets = self._sockets()
        # What the server says before it has opened its own log.
        # pg_ctl writes -D and -l between double quotes for a shell, which takes `$` and quotes in them for its own.
        server = f"{shlex.join(('-D', str(self._data)))} {_address(sockets)}"
        options = ("-w", "-t", str(START_TIMEOUT_S), "-l", "start.log", "-o", server)
        began = time.time()
        try:
            self._run("pg_ctl", "start", *options)
        except subprocess.CalledProcessError as error:
            raise StoreUnavailable(f"the embedded PostgreSQL does not start: {self._why(error, began)}") from None
        return sockets

    def _forget_the_dead(self) -> None:
        """Remove the lock file of a server that is dead for certain.

        PostgreSQL takes it for alive while any process has its number: a zombie that the container's first process
        never waits for, or, after a restart of the container, a stranger. No process works in the data folder then.
        """
        if _read(self._data, "postmaster.pid") is None:
            return
        if any(_works_in(process, self._data) for process in psutil.process_iter()):
            raise StoreUnavailable("the embedded PostgreSQL is still ending")
        _remove_sockets(self._data, _noted_sockets(self._data))
        with Folder(self._data, follow=False) as folder:
            folder.remove("postmaster.pid", SOCKET, f"{SOCKET}.lock")

    def _make(self) -> None:
        if self._data.exists() and any(self._data.iterdir()):
            raise _unfinished(self._data, "PG_VERSION is missing or empty")
        options = ("--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C", "--username=postgres")
        try:
            with whole_folder(self._data) as partial, Folder(partial, follow=False) as folder:
                if self._account is not None:
                    folder.give_to(self._account.pw_uid, self._account.pw_gid)
                self._run("initdb", *options, "-D", str(partial))
                _include(folder)
        except subprocess.CalledProcessError as error:
            reason = f"the embedded PostgreSQL cannot be set up in {self._data}: {_reason(error)}"
            if any(os.strerror(number) in str(error.output) for number in FULL):
                raise StoreUnavailable(f"{reason}; free space on its disk") from None
            raise StoreError(reason) from None
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise StoreError(
                f"{self._data} is a mount point, which cannot be replaced by the data once that is whole; unmount it,"
                " or make it a link to a folder on that disk"
            ) from None

    def _check_finished(self) -> None:
        """See that initdb came to its end, which older versions ran in the folder itself; write what came after it.

        Raises:
            StoreError: it did not.
        """
        with Folder(self._data, follow=False) as folder:
            settings = folder.read("postgresql.conf")
            if settings is None:
                raise _unfinished(self._data, "postgresql.conf is missing")
            if INCLUDED.search(settings):
                return
            try:
                # Nobody can connect to it meanwhile. The database is the last thing that initdb makes.
                self._run("postgres", "--single", "-D", str(self._data), "postgres")
            except subprocess.CalledProcessError as error:
                raise _unfinished(self._data, _reason(error)) from None
            _include(folder)

    def _sockets(self) -> Path:
        if _takes_a_socket(self._data):
            return self._data
        if not _takes_a_socket(Path(tempfile.gettempdir()) / f"{SOCKETS_PREFIX}12345678"):
            raise StoreError(
                f"no socket can be in {self._data}, nor in {tempfile.gettempdir()}: their names are too long, or have a"
                " comma; set another `state_dir`, or another TMPDIR"
            )
        path = Path(tempfile.mkdtemp(prefix=SOCKETS_PREFIX))
        if self._account is not None:
            with Folder(path, follow=False) as folder:
                folder.give_to(self._account.pw_uid, self._account.pw_gid)
        return path

    def _run(self, command: str, *arguments: str) -> None:
        account = self._account
        # Into files, not pipes: the server inherits what pg_ctl has open, and a pipe would never end.
        with tempfile.TemporaryFile() as output:
            try:
                result = subprocess.run(  # noqa: S603 - the wheel's binary, our own arguments
                    [str(self._bin / command), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self._data if command == "pg_ctl" else "/",
                    env={**os.environ, "PGDATA": str(self._data)},
                    user=account.pw_uid if account else None,
                    group=account.pw_gid if account else None,
                    extra_groups=[] if account else None,
                    # The server, which pg_ctl starts, would keep it.
                    pass_fds=() if command == "pg_ctl" else (self._lock.fileno(),),
                    check=False,
                )
            except OSError as error:
                name = account.pw_name if account else "this user"
                raise StoreError(
                    f"the embedded PostgreSQL cannot be run by {name}: {error.strerror}: {self._bin / command};"
                    " make its folder readable, or set `dsn` in [database]"
                ) from None
            if result.returncode:
                output.seek(0)
                text = output.read().decode(errors="replace")
                raise subprocess.CalledProcessError(result.returncode, command, text)

    def _why(self, error: subprocess.CalledProcessError, began: float) -> str:
        for path, names in ((self._data, ("start.log",)), (self._data / "log", None)):
            # What is not the server's own file says nothing of it.
            with contextlib.suppress(OSError), Folder(path, follow=False) as folder:
                for name in folder.written_since(began) if names is None else names:
                    fatal = [line for line in (folder.read(name, end=True) or "").splitlines() if "FATAL" in line]
                    if fatal:
                        return f"{fatal[-1]} (see {path / name})"
        return _reason(error)


@contextlib.contextmanager
def _as_store_errors() -> Iterator[None]:
    """Name the file and the fix where the system refuses one."""
    try:
        yield
    except PermissionError as error:
        raise StoreError(
            f"{error.filename} cannot be used (permission denied); run this as a user who may, such as the daemon's"
        ) from None
    except OSError as error:
        refused = f"{error.filename} cannot be used ({error.strerror})"
        if error.errno in FULL:
            raise StoreUnavailable(f"{refused}; free space on its disk") from None
        if isinstance(error, NotPlain) or error.errno == errno.ELOOP:
            raise StoreError(f"{refused}; links are not followed there: put a plain file in its place") from None
        raise StoreError(f"{refused}; repair that, or set another `state_dir`, or `dsn` in [database]") from None


def _include(folder: Folder) -> None:
    settings = folder.read("postgresql.conf") or ""
    folder.replace("postgresql.conf", f"{settings.rstrip()}\n\n{INCLUDE}".encode(), mode=0o600)
    folder.sync()


def _unfinished(data: Path, reason: str) -> StoreError:
    move = shlex.join(("mv", str(data), f"{data}.unfinished"))
    return StoreError(
        f"{data} is no whole database ({reason}): the first start of an older version that was killed leaves this, and"
        f" nothing is stored in it then; `{move}`, and start again; or put a backup there"
    )


def _takes_a_socket(folder: Path) -> bool:
    # A comma would begin another host in a DSN.
    return len(os.fsencode(folder / SOCKET)) <= LONGEST_SOCKET and "," not in str(folder)


def _address(sockets: Path) -> str:
    """The options, for a shell, by which the server listens there alone, whatever its files say."""
    quoted = str(sockets).replace('"', '""')
    settings = ("listen_addresses=", f'unix_socket_directories="{quoted}"', "unix_socket_permissions=0700", "port=5432")
    return shlex.join(word for setting in settings for word in ("-c", setting))


def _stop(data: Path) -> None:
    """Let the server of this data end, where it runs: with a signal, as `pg_ctl stop -m fast` does.

    pg_ctl needs the way to the data, and someone may have closed a folder above it since the start.
    """
    running = _running(data)
    if running is None:
        return
    sockets = _noted_sockets(data)
    with contextlib.suppress(psutil.NoSuchProcess):
        running.send_signal(signal.SIGINT)
    deadline = time.monotonic() + START_TIMEOUT_S
    while _running(data) is not None:
        if time.monotonic() > deadline:
            raise StoreUnavailable(f"the embedded PostgreSQL in {data} does not stop within {START_TIMEOUT_S} s")
        time.sleep(POLL_S)
    _remove_sockets(data, sockets)


def _remove_sockets(data: Path, path: Path | None) -> None:
    """Remove a folder that was made for the socket; it is named by a file of the server's account."""
    if path is None or path == data or not path.name.startswith(SOCKETS_PREFIX):
        return
    with contextlib.suppress(OSError), Folder(path, follow=False) as folder:
        if folder.owner == data.stat().st_uid:
            folder.remove(SOCKET, f"{SOCKET}.lock")
            path.rmdir()


def _reason(error: subprocess.CalledProcessError) -> str:
    """The line that says why a program failed: the first that names an error, or else the last."""
    lines = [line.strip() for line in str(error.output).splitlines() if line.strip()]
    wrong = [line for line in lines if REASONS.search(line)]
    return (wrong or lines[-1:] or [f"{error.cmd} ended with {error.returncode}"])[0]


def _check_written_by(data: Path) -> bool:
    """See that the data, where there is any, is of this version's making; whether there is."""
    written_by = (_read(data, "PG_VERSION") or "").strip()
    if not written_by:
        return False
    if written_by != str(VERSION):
        raise StoreError(
            f"{data} was written by PostgreSQL {written_by}, this is {VERSION};"
            " upgrade it with pg_upgrade, or set another `state_dir`"
        )
    return True


def _read(data: Path, name: str) -> str | None:
    try:
        with Folder(data, follow=False) as folder:
            return folder.read(name)
    except FileNotFoundError:
        return None


def _postmaster(data: Path) -> list[str]:
    return (_read(data, "postmaster.pid") or "").splitlines()


def _running(data: Path) -> psutil.Process | None:
    lines = _postmaster(data)
    if not lines:
        return None
    try:
        process = psutil.Process(abs(int(lines[0])))
        # Another process may have the number by now, or the account may have written any; and a killed server nobody
        # waited for is still listed.
        is_its = str(data) in process.cmdline() and process.uids().real == data.stat().st_uid
        alive = is_its and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
        return None
    return process if alive else None


def _works_in(process: psutil.Process, data: Path) -> bool:
    try:
        # A server's processes all have its data as their working directory; a zombie has none.
        return bool(process.name() == "postgres" and process.cwd() == str(data))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _socket_dir(data: Path) -> Path | None:
    return _noted_sockets(data) if _running(data) is not None else None


def _noted_sockets(data: Path) -> Path | None:
    lines = _postmaster(data)
    # Until the server listens its file has fewer lines; see miscadmin.h of PostgreSQL, "LOCK_FILE_LINE".
    return Path(lines[4]) if len(lines) > 4 and lines[4] else None


def _dsn(sockets: Path) -> str:
    return f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='')}&port=5432"
