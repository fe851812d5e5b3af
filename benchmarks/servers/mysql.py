"""MariaDB or MySQL to be measured: a throw-away MariaDB in a folder of its own; or the user's."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from backends.throwaway.mariadb import ThrowawayMariadb
from benchmarks.servers.base import Server
from schemas.batch import Durability
from schemas.checking.dsn import Backend

__all__ = ["Cursor", "MysqlServer", "connect", "throwaway"]

SETTINGS = (
    *("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite", "innodb_flush_method"),
    *("innodb_buffer_pool_size", "innodb_log_file_size", "max_allowed_packet", "local_infile"),
)
"""What decides about durability, and about how much of it a round pays."""

FLUSH = {Durability.SYNC: 1, Durability.ASYNC: 2}
"""innodb_flush_log_at_trx_commit: 1 flushes the log to the disk at every commit, 2 about once a second."""


class MysqlServer(Server):
    """A MariaDB or MySQL; durability is a setting of the whole server, which is changed on a throw-away one only."""

    backend = Backend.MYSQL

    def settings(self) -> dict[str, str]:
        """Those of SETTINGS that the server has."""
        with closing(connect(self.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL VARIABLES")
            found = dict(cursor.fetchall())
        return {name: str(found[name]) for name in SETTINGS if name in found}

    def durabilities(self) -> tuple[Durability, ...]:
        """Both on a throw-away server; else the one that the server gives as it is set."""
        if self.own:
            return tuple(Durability)
        flush = int(self.settings()["innodb_flush_log_at_trx_commit"])
        return (Durability.SYNC,) if flush == FLUSH[Durability.SYNC] else (Durability.ASYNC,)

    @contextmanager
    def holding(self, durability: Durability) -> Iterator[None]:
        """Set innodb_flush_log_at_trx_commit, which is GLOBAL, and set it back.

        Raises:
            ValueError: it is a server of the user's, and set otherwise.
        """
        if not self.own:
            if durability not in self.durabilities():
                raise ValueError(f"durability {durability} is a setting of the whole server, which is not changed")
            yield
            return
        self._flush(FLUSH[durability])
        try:
            yield
        finally:
            self._flush(FLUSH[Durability.SYNC])

    def _flush(self, value: int) -> None:
        with closing(connect(self.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = %s", (value,))

    def count(self, schema: str) -> int:
        """Count the rows of all tables."""
        with closing(connect(self.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,))
            total = 0
            for (table,) in cursor.fetchall():
                cursor.execute(f"SELECT count(*) FROM `{schema}`.`{table}`")
                ((rows,),) = cursor.fetchall()
                total += int(rows)
        return total

    def remove(self, schema: str) -> None:
        """Drop the database."""
        with closing(connect(self.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s", (schema,))
            if cursor.fetchall():
                cursor.execute(f"DROP DATABASE `{schema}`")

    def settle(self) -> None:
        """Write the log out; InnoDB knows no checkpoint by command, and flushes its pages in the background."""
        if self.own:
            with closing(connect(self.dsn)) as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH LOGS")


def named(dsn: str, folder: Path) -> MysqlServer:
    """The user's own server."""
    return MysqlServer(dsn, folder, own=False)


@contextmanager
def throwaway(folder: Path) -> Iterator[MysqlServer]:
    """Run a MariaDB under the folder.

    Raises:
        ServerNotInstalled: there is none on this machine.
    """
    mariadb = ThrowawayMariadb(folder / "mariadb")
    try:
        yield MysqlServer(mariadb.start(), folder, own=True)
    finally:
        mariadb.stop()


def connect(dsn: str, **options: Any) -> Connection:
    """Connect to what a DSN names, with a driver's options over it."""
    parts = urlsplit(dsn)
    socket = parse_qs(parts.query).get("unix_socket", [None])[0]
    return pymysql.connect(
        host=parts.hostname or "localhost",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        unix_socket=socket,
        **options,
    )
