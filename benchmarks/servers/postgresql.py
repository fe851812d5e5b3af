"""PostgreSQL to be measured: the embedded server, as the daemon starts it, in a folder of its own; or the user's."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from backends.postgresql.server.embedded import EmbeddedPostgresql
from benchmarks.servers.base import Server
from schemas.checking.dsn import Backend

SETTINGS = (
    *("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_compression"),
    *("shared_buffers", "max_wal_size", "checkpoint_timeout", "wal_buffers"),
)
"""What decides about durability, and about how much of it a round pays."""

WAL_SEGMENTS = 32
"""As many as the embedded server keeps to use again (min_wal_size, 512 MB)."""


class PostgresqlServer(Server):
    """A PostgreSQL; durability is chosen by the writer."""

    backend = Backend.POSTGRESQL

    def settings(self) -> dict[str, str]:
        """Those of SETTINGS."""
        with psycopg.connect(self.dsn) as connection:
            rows = connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", [list(SETTINGS)]
            )
            found: dict[str, str] = dict(rows.fetchall())
        return {name: found[name] for name in SETTINGS}

    def count(self, schema: str) -> int:
        """Count the rows of all tables."""
        with psycopg.connect(self.dsn) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
            counts = [
                sql.SQL("SELECT count(*) AS n FROM {}").format(sql.Identifier(schema, name)) for (name,) in tables
            ]
            everything = sql.SQL(" UNION ALL ").join(counts)
            (found,) = connection.execute(
                sql.SQL("SELECT sum(n)::int8 FROM ({}) AS tables").format(everything)
            ).fetchall()
        return int(found[0])

    def remove(self, schema: str) -> None:
        """Drop the schema with all its tables."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE")

    def settle(self) -> None:
        """Checkpoint; on a server of the user's only if its account may."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            try:
                connection.execute("CHECKPOINT")
            except psycopg.errors.InsufficientPrivilege:
                if self.own:
                    raise


def named(dsn: str, folder: Path) -> PostgresqlServer:
    """The user's own server."""
    return PostgresqlServer(dsn, folder, own=False)


@contextmanager
def throwaway(folder: Path) -> Iterator[PostgresqlServer]:
    """Run an embedded server under the folder."""
    embedded = EmbeddedPostgresql(folder)
    try:
        dsn = asyncio.run(embedded.start())
        leave_used_wal(dsn)
        yield PostgresqlServer(dsn, folder, own=True)
    finally:
        asyncio.run(embedded.stop())


def leave_used_wal(dsn: str) -> None:
    """Bring a new server into the state of one that has run for a while, with WAL segments to use again.

    Without them every 16 MiB of WAL begin with a new segment that is filled with zeros first, during a commit:
    tens of milliseconds, which would hit one contender and spare the next.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(WAL_SEGMENTS):
            connection.execute("SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()")
        connection.execute("CHECKPOINT")
