"""Throw-away servers with small caches, so that the data of a short run outgrows them."""

import asyncio
import contextlib
import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.throwaway import ServerNotInstalled
from backends.throwaway.mariadb import ThrowawayMariadb
from benchmarks.servers.base import Server
from benchmarks.servers.mongodb import throwaway as throwaway_mongodb
from benchmarks.servers.mysql import MysqlServer
from benchmarks.servers.postgresql import PostgresqlServer, leave_used_wal
from benchmarks.servers.sizes import Small
from schemas.checking.dsn import Backend

# --- memory of a server ----------------------------------------------------------------------------------------------

ROOT = Path("/sys/fs/cgroup")
PATIENCE_S = 10.0
POLL_S = 0.05

_numbers = itertools.count(1)


class NoMemoryLimit(Exception):
    """There is no control group to be had; the message says why."""


@contextmanager
def limited(mib: int) -> Iterator[Path]:
    """Make a control group whose processes and their page cache have so much memory; it is gone afterwards.

    Raises:
        NoMemoryLimit: this account cannot have one here.
    """
    group, limit = _place()
    try:
        group.mkdir()
    except OSError as error:
        raise NoMemoryLimit(f"{group} cannot be made: {error.strerror}") from None
    try:
        try:
            (group / limit).write_text(str(mib * 2**20))
        except OSError as error:
            raise NoMemoryLimit(f"{group / limit} cannot be set: {error.strerror}") from None
        yield group
    finally:
        _remove(group)


def move(group: Path, pid: int) -> None:
    """Move a process with all its children into a group; what they start later is in it, too."""
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        # One that has ended meanwhile need not be moved.
        with contextlib.suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process.pid))


def _place() -> tuple[Path, str]:
    name = f"triggerlog-bench-{os.getpid()}-{next(_numbers)}"
    if (ROOT / "memory" / "memory.limit_in_bytes").exists():
        return ROOT / "memory" / name, "memory.limit_in_bytes"
    controllers = ROOT / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text().split():
        return ROOT / name, "memory.max"
    raise NoMemoryLimit("the memory controller of control groups is not here")


def _remove(group: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            group.rmdir()
        except OSError:
            # The server's last processes may still be ending.
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return


Started = tuple[Server, Callable[[], object]]
"""A server, and what restarts it."""


class Running:
    """The servers that run, and what was found when they were started.

    servers: by name. restart: stops a server in good order and starts it again, by name; those that were started here.
    memory_mib: the limit of each PostgreSQL's memory, None without one. notes: a sentence each.
    """

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.restart: dict[str, Callable[[], object]] = {}
        self.memory_mib: int | None = None
        self.notes: list[str] = []

    def note(self, words: str) -> None:
        """Add a sentence, once."""
        if words not in self.notes:
            self.notes.append(words)


@contextmanager
def running(
    folder: Path, wanted: Mapping[str, Backend], print_line: Callable[[str], None], small: Small
) -> Iterator[Running]:
    """Have servers run; they are stopped afterwards, and what they wrote is removed.

    Those that are not on the machine are left out, and a note and a line say so.

    Args:
        folder: they write in it; it is made, and removed.
        wanted: of which backend each is, by a name.
        print_line: takes the line.
        small: how small they are.

    """
    found = Running()
    with ExitStack() as stack:
        # What must not fail because a server wrote a file meanwhile, and comes after all of them have ended.
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True)
        missing: dict[Backend, ServerNotInstalled] = {}
        for number, (name, backend) in enumerate(wanted.items()):
            if backend in missing:
                continue
            try:
                # A number: the path of a Unix socket has to be short.
                found.servers[name], found.restart[name] = START[backend](stack, folder / str(number), found, small)
            except ServerNotInstalled as error:
                missing[backend] = error
                found.note(f"{backend} was left out: {error}.")
                print_line(f"{backend} is left out: {error}")
        yield found


def _postgresql(stack: ExitStack, folder: Path, found: Running, small: Small) -> Started:
    folder.mkdir(parents=True)
    server = EmbeddedPostgresql(folder)
    dsn = asyncio.run(server.start())
    stack.callback(lambda: asyncio.run(server.stop()))

    def restart() -> str:
        asyncio.run(server.stop())
        return asyncio.run(server.start())

    with psycopg.connect(dsn, autocommit=True) as connection:
        for name, value in small.postgresql_settings.items():
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    dsn = restart()
    leave_used_wal(dsn)
    if small.memory_mib is not None:
        _limit(stack, server, found, small.memory_mib, small.cache_mib)
    return PostgresqlServer(dsn, folder, own=True), restart


def _limit(stack: ExitStack, server: EmbeddedPostgresql, found: Running, memory_mib: int, cache_mib: int) -> None:
    try:
        group = stack.enter_context(limited(memory_mib))
    except NoMemoryLimit as error:
        found.note(
            f"PostgreSQL reads through the system’s page cache, which was not limited ({error}): its data did not "
            f"outgrow that, only its own cache of {cache_mib} MiB."
        )
        return
    # Stopped before the group goes; that it stops again then does nothing.
    stack.callback(lambda: asyncio.run(server.stop()))
    if server.pid is not None:
        move(group, server.pid)
        found.memory_mib = memory_mib


def _mariadb(stack: ExitStack, folder: Path, found: Running, small: Small) -> Started:
    server = ThrowawayMariadb(folder, **small.mariadb_settings)
    stack.callback(server.stop)

    def restart() -> str:
        server.stop()
        return server.start()

    return MysqlServer(server.start(), folder, own=True), restart


def _mongodb(stack: ExitStack, folder: Path, found: Running, small: Small) -> Started:
    folder.mkdir(parents=True)
    server = stack.enter_context(throwaway_mongodb(folder))
    found.note("FerretDB and mongod keep the caches that they have by default.")
    return server, lambda: None


START: Mapping[Backend, Callable[[ExitStack, Path, Running, Small], Started]] = {
    Backend.POSTGRESQL: _postgresql,
    Backend.MYSQL: _mariadb,
    Backend.MONGODB: _mongodb,
}
