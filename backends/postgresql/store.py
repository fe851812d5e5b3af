"""A store in PostgreSQL, named by a DSN or embedded.

What an acknowledged commit survives follows from what the server says of itself: an asynchronous commit is on the disk
after at most three times wal_writer_delay; until then a crash of the server loses it, and never corrupts anything
(https://www.postgresql.org/docs/current/wal-async-commit.html).
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from backends.base import DurabilityInForce, ReadOnly, StoreFacts
from backends.postgresql.decimation import PostgresqlReducing
from backends.postgresql.moving import PostgresqlMoving
from backends.postgresql.protocol.connection import Connection, target_of
from backends.postgresql.protocol.sql import compiled, literal, quoted
from backends.postgresql.reading import activity
from backends.postgresql.reading.figures import answer, reduced
from backends.postgresql.reading.queries import PostgresqlQuestions
from backends.postgresql.retention import PostgresqlDropping
from backends.postgresql.schema import Missing, check_places, create_or_check, missing_from
from backends.postgresql.server.connecting import connect, see_no_pooler
from backends.postgresql.server.driver import DRIVER
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import login_refused, translated
from backends.postgresql.writing.writer import PostgresqlGroupWriter
from backends.sql.marks import MarkStatements
from backends.sql.store import SqlStore
from backends.sql.tables import group_tables
from schemas.api.status import Shortfall
from schemas.batch import Durability, Layout
from schemas.config import DatabaseConfig
from schemas.readings import InstrumentGroup

SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_writer_delay")
WRITER_ROUNDS = 3


def held(settings: Mapping[str, str]) -> dict[Durability, DurabilityInForce]:
    """What holds for each durability; `settings` has the values of SETTINGS, wal_writer_delay in milliseconds."""
    for name, what in (
        ("fsync", "a crash of the machine can lose or corrupt anything"),
        ("full_page_writes", "a power cut can tear its pages"),
    ):
        if settings[name] != "on":
            words = f"NOT durable: {name} is off on the server, {what}"
            lost = DurabilityInForce(
                words=words, risk_ms=math.inf, shortfall=Shortfall(problem=words, fix=f"set {name} = on there")
            )
            return dict.fromkeys(Durability, lost)
    # A batch that is to be durable sets it for its transaction where the server's default is weaker.
    synchronous = "on" if settings["synchronous_commit"] == "off" else settings["synchronous_commit"]
    risk_ms = WRITER_ROUNDS * float(settings["wal_writer_delay"])
    return {
        Durability.SYNC: DurabilityInForce(words=f"sync (fsync on, synchronous_commit {synchronous})", risk_ms=0),
        Durability.ASYNC: DurabilityInForce(
            words=f"async (fsync on, synchronous_commit off: a crash of the server may lose its last {risk_ms:g} ms)",
            risk_ms=risk_ms,
        ),
    }


VALUES = f"SELECT name, setting FROM pg_settings WHERE name = ANY('{{{','.join(('server_version', *SETTINGS))}}}')"
SIZES = """
    SELECT sum(greatest(c.reltuples, s.n_live_tup, 0)) FILTER (WHERE t.k = 1)::int8 AS rows,
           (sum(pg_total_relation_size(c.oid)) + coalesce(pg_total_relation_size(to_regclass($2)), 0))::int8 AS bytes
    FROM unnest($1::text[]) WITH ORDINALITY AS t(name, k)
    CROSS JOIN LATERAL pg_partition_tree(to_regclass(t.name)) AS p
    JOIN pg_class c ON c.oid = p.relid
    LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE p.isleaf
"""


class PostgresqlStore(SqlStore[Connection]):
    """Store in PostgreSQL 14 or newer; see `backends.base.Store` for what its methods promise.

    Args:
        server: the embedded server to start and stop with the store, or to find running where the store is for
            reading; None when `database.dsn` names one.
        read_only: makes a store that is only asked.
        places: tablespaces of the tiers, the one that is written into first; None is the database's own.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        logger: str,
        groups: Mapping[str, InstrumentGroup],
        layouts: Mapping[str, Layout],
        password: str | None = None,
        server: EmbeddedPostgresql | None = None,
        read_only: ReadOnly | None = None,
        places: Sequence[str | None] = (),
    ) -> None:
        self._password = password
        self._places = places
        self._first = places[0] if places else None
        self._server = server
        self._is_direct = False
        schema = database.schema_name
        super().__init__(
            DRIVER,
            writer=partial(PostgresqlGroupWriter, place=self._first),
            questions=PostgresqlQuestions,
            marks=MarkStatements(
                schema,
                logger,
                table=quoted(schema, "marks"),
                literal=literal,
                unless_there="ON CONFLICT (id) DO NOTHING",
            ),
            view=activity.view,
            partitions_of=activity.partitions_of,
            dropping=PostgresqlDropping,
            reducing=partial(PostgresqlReducing, first=self._first),
            reduced=reduced,
            figures=answer,
            moving=partial(PostgresqlMoving, first=self._first),
            database=database,
            logger=logger,
            tables={name: group_tables(schema, group, layouts[name]) for name, group in groups.items()},
            target=target_of(database.dsn) if database.dsn else "embedded PostgreSQL",
            read_only=read_only,
        )

    async def open(self) -> None:
        """Create the schema or check it, and take the lock of every group."""
        await self._see_no_pooler()
        await super().open()

    async def check(self) -> list[str]:
        """Look at the server, the rights and the schema without changing anything; start no embedded server."""
        schema, tables = self._database.schema_name, tuple(self._tables.values())
        dsn = self._database.dsn if self._server is None else self._server.found()
        if dsn is None:
            everything = Missing(schema=True, shared=True, groups=tables).words(schema)
            return ["an embedded PostgreSQL", *everything] if self._server and not self._server.is_made else []
        await self._see_no_pooler()
        with translated(self._target), login_refused():
            async with asyncio.timeout(self._database.command_timeout_s):
                connection = await self._connected(dsn)
                try:
                    async with connection.transaction(readonly=True):
                        missing = await missing_from(connection, schema, self._logger, tables, self._target)
                        await check_places(connection, self._places, self._target)
                finally:
                    connection.terminate()
        return missing.words(schema)

    async def facts(self) -> StoreFacts:
        """Ask the server what it is and what it really does about durability."""
        rows: dict[str, int] = {}
        size: dict[str, int] = {}
        async with self._reader() as connection:
            settings = {row["name"]: row["setting"] for row in await connection.fetch(VALUES)}
            for name, tables in self._tables.items():
                names = [quoted(self._database.schema_name, t.name) for t in (tables.data, tables.ledger)]
                reduced = quoted(self._database.schema_name, tables.reduced.name)
                found = await connection.fetchrow(SIZES, names, reduced)
                rows[name], size[name] = (found["rows"] or 0, found["bytes"] or 0) if found else (0, 0)
        return StoreFacts(
            backend="postgresql",
            version=settings.pop("server_version").split()[0],
            durability=held(settings),
            settings=settings,
            target=self._target,
            embedded=self._server is not None,
            rows=rows,
            size_bytes=size,
        )

    async def close(self) -> None:
        """Give the connections back, and stop an embedded server when this was its last user."""
        await super().close()
        if self._server is not None and self._read_only is None:
            await self._server.stop()

    async def _see_no_pooler(self) -> None:
        if self._database.dsn is not None:
            timeout_s = self._database.command_timeout_s
            with login_refused(), translated(self._target):
                await see_no_pooler(
                    self._database.dsn, password=self._password, timeout_s=timeout_s, target=self._target
                )
            self._is_direct = True

    async def _create_or_check(self, connection: Connection) -> None:
        schema = self._database.schema_name
        await create_or_check(connection, schema, self._logger, self._tables.values(), self._target)
        await check_places(connection, self._places, self._target)

    async def _rows(self, connection: Connection, select: sa.SelectBase) -> Sequence[tuple[Any, ...]]:
        return [tuple(row) for row in await connection.fetch(compiled(select))]

    async def _run(self, connection: Connection, statement: str) -> None:
        await connection.execute(statement)

    async def _connect(self) -> Connection:
        if self._server is None:
            if not self._is_direct:
                await self._see_no_pooler()  # it is asked, and nobody has opened it
            return await self._connected(self._database.dsn)
        if self._read_only is None:
            return await self._connected(await self._server.start())
        return await self._connected(self._server.running())

    async def _connected(self, dsn: str | None) -> Connection:
        # A batch is never at fault for what goes wrong before there is a connection.
        with translated(self._target):
            return await connect(
                dsn,
                password=self._password,
                timeout_s=self._database.command_timeout_s,
                program=f"triggerlog {self._logger}{' reader' if self._read_only else ''}",
                give_up_s=self._read_only.give_up_s if self._read_only else None,
            )
