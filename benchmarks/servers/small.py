"""Throw-away servers with small caches, so that the data of a short run outgrows them."""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.throwaway import ServerNotInstalled
from backends.throwaway.mariadb import ThrowawayMariadb
from benchmarks.servers.base import Server
from benchmarks.servers.memory import NoMemoryLimit, limited, move
from benchmarks.servers.mongodb import throwaway as throwaway_mongodb
from benchmarks.servers.mysql import MysqlServer
from benchmarks.servers.postgresql import PostgresqlServer, leave_used_wal
from schemas.checking.dsn import Backend


@dataclass(frozen=True, kw_only=True)
class Small:
    """How small servers are.

    cache_mib: of the server's own cache; MariaDB takes no less than about 5 MiB, and PostgreSQL is happy with 0.2.
    memory_mib: of each PostgreSQL with its part of the page cache, which it reads through; MariaDB reads past it
    (O_DIRECT). None is without a limit. postgresql: further settings of PostgreSQL. connections: clients at once;
    None as many as by default.
    """

    cache_mib: int
    memory_mib: int | None = None
    postgresql: Mapping[str, str] = field(default_factory=dict)
    connections: int | None = None

    @property
    def postgresql_settings(self) -> dict[str, str]:
        """Settings of a PostgreSQL."""
        return {
            "shared_buffers": f"{self.cache_mib}MB",
            # What a small control group cannot give back: the embedded server's 32 MB of these would leave too little.
            "wal_buffers": "2MB",
            "maintenance_work_mem": "8MB",
            # PostgreSQL's own defaults, not the embedded server's: a run sees checkpoints.
            "max_wal_size": "1GB",
            "checkpoint_timeout": "5min",
            **self._connections,
            **self.postgresql,
        }

    @property
    def mariadb_settings(self) -> dict[str, str]:
        """Options of a MariaDB."""
        return {
            "innodb_buffer_pool_size": f"{self.cache_mib}M",
            "innodb_flush_method": "O_DIRECT",
            **self._connections,
        }

    @property
    def _connections(self) -> dict[str, str]:
        return {} if self.connections is None else {"max_connections": str(self.connections)}


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
