"""A throw-away PostgreSQL 18 for the benchmarks: the embedded server, as the daemon starts it, in its own folder."""

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from backends.postgresql import PostgresqlStore
from backends.postgresql.embedded import EmbeddedPostgresql
from benchmarks.workload import GROUP
from schemas.batch import Layout
from schemas.config import DatabaseConfig

SETTINGS = (
    *("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_compression"),
    *("shared_buffers", "max_wal_size", "checkpoint_timeout", "wal_buffers"),
)
"""What decides about durability, and about how much of it a round pays."""

WAL_SEGMENTS = 32
"""As many as the embedded server keeps to use again (min_wal_size, 512 MB)."""

FDATASYNCS = 200
LOGGER = "bench"
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server: its DSN, its folder, its settings, and what an fdatasync costs on its disk (median, ms)."""

    dsn: str
    folder: Path
    settings: dict[str, str]
    fdatasync_ms: float

    def fresh_schema(self, layout: Layout) -> str:
        """Make a schema with the very tables, indexes and partitions that the daemon makes; return its name."""
        schema = self.new_name()
        asyncio.run(self._make(schema, layout))
        return schema

    def new_name(self) -> str:
        """A schema's name that is not taken."""
        return f"bench_{next(_numbers)}"

    async def _make(self, schema: str, layout: Layout) -> None:
        database = DatabaseConfig.model_validate({"dsn": self.dsn, "schema": schema})
        store = PostgresqlStore(database, logger=LOGGER, groups={GROUP.name: GROUP}, layouts={GROUP.name: layout})
        await store.open()
        await store.close()

    def drop(self, schema: str) -> None:
        """Drop a schema, and write out what is dirty: no round pays for the one before."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE")
            connection.execute("CHECKPOINT")


@contextmanager
def throwaway_server(parent: Path) -> Iterator[Server]:
    """Run a server in a new folder under `parent`, whose disk it measures; nothing is left of it afterwards."""
    folder = parent.absolute() / f"server-{os.getpid()}"
    folder.mkdir(parents=True)
    embedded = EmbeddedPostgresql(folder)
    try:
        dsn = asyncio.run(embedded.start())
        leave_used_wal(dsn)
        with psycopg.connect(dsn) as connection:
            rows = connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", [list(SETTINGS)]
            )
            settings: dict[str, str] = dict(rows.fetchall())
        yield Server(
            dsn=dsn,
            folder=folder,
            settings={name: settings[name] for name in SETTINGS},
            fdatasync_ms=fdatasync_ms(folder),
        )
    finally:
        asyncio.run(embedded.stop())
        shutil.rmtree(folder)


def leave_used_wal(dsn: str) -> None:
    """Bring a new server into the state of one that has run for a while, with WAL segments to use again.

    Without them every 16 MiB of WAL begin with a new segment that is filled with zeros first, in somebody's commit:
    tens of milliseconds, which would hit one contender and spare the next.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(WAL_SEGMENTS):
            connection.execute("SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()")
        connection.execute("CHECKPOINT")


def fdatasync_ms(folder: Path) -> float:
    """Median time to append 8 KiB to a file and have it on the disk, in ms: what a commit cannot do without."""
    path = folder / "fdatasync"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        os.pwrite(descriptor, bytes(8192 * FDATASYNCS), 0)
        os.fsync(descriptor)
        times = []
        for k in range(FDATASYNCS):
            begun = time.perf_counter()
            os.pwrite(descriptor, os.urandom(8192), 8192 * k)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - begun)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(times)[FDATASYNCS // 2] * 1e3
