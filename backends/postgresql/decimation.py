"""Reducing a period in PostgreSQL: some pages of its leaf a step, and at the end it is written again in less room."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from backends.base import Pace, StoreError
from backends.decimation import together
from backends.diagnosis import no_such
from backends.postgresql.moving import PostgresqlMoving, see_size
from backends.postgresql.protocol.connection import Connection, report_counts
from backends.postgresql.protocol.copy import data_format, decode_reduced, encode_reduced, readings_of_rows
from backends.postgresql.protocol.output import copied_text
from backends.postgresql.protocol.sql import LEAF, create_reduced, literal, quoted
from backends.postgresql.retention import PostgresqlAccounting
from backends.sql.decimation import Reducing
from backends.sql.tables import GroupTables, reduced_columns
from schemas.decimation import Decimated
from schemas.readings import Array

STEP_BYTES = 8 * 2**20
"""Of the leaf, with what of its rows lies elsewhere, that one transaction goes through."""
FOUND = """
    SELECT leaf.relispartition AND period.relispartition AS is_whole, pg_relation_filenode(leaf.oid) AS filenode,
           pg_relation_size(leaf.oid) / current_setting('block_size')::int8 AS pages,
           pg_table_size(leaf.oid) AS table_bytes, pg_total_relation_size(leaf.oid) AS size_bytes
    FROM pg_class period LEFT JOIN pg_class leaf ON leaf.oid = to_regclass($2) WHERE period.oid = to_regclass($1)
"""


class PostgresqlReducing(PostgresqlAccounting, Reducing[Connection]):
    """Reduces periods of one group.

    first: tablespace of new tables; None is the database's own.
    """

    def __init__(
        self, connection: Connection, tables: GroupTables, *, first: str | None = None, patience_s: float
    ) -> None:
        super().__init__(connection, tables, patience_s=patience_s)
        self._moving = PostgresqlMoving(connection, tables, first=first, patience_s=patience_s)
        self._columns = ", ".join(quoted(column.name) for column in tables.data.c)
        self._figures = ", ".join(quoted(column.name) for column in reduced_columns(tables.group))

    async def _prepare(self) -> None:
        reduced = self._table(self._tables.reduced.name)
        if await self._connection.fetchval("SELECT to_regclass($1) IS NULL", reduced):
            # An older triggerlog has made the group.
            await self._connection.execute(create_reduced(self._tables, if_missing=True))

    async def _set_out(self, begun: Decimated) -> None:
        _, _, _, size_bytes = await self._found(begun)
        await self._durably([self._begin(begun, size_bytes)])

    async def _pass(self, begun: Decimated, window_ns: int, pace: Pace) -> None:
        first, filenode = 0, 0
        while True:
            found, pages, table_bytes, _ = await self._found(begun)
            if found != filenode:
                # It was moved meanwhile.
                first, filenode = 0, found
            if first >= pages:
                # Where the file is not to be found the server says 0 pages, and they are not reduced.
                await self._moving.rows_beyond(begun.period, pages)
                await report_counts(self._connection)
                return
            await pace(first / pages)
            end = first + max(1, pages * STEP_BYTES // max(table_bytes, 1))
            async with self._step():
                await self._reduce(begun, first, end, window_ns)
            first = end

    async def _reduce(self, begun: Decimated, first: int, end: int, window_ns: int) -> None:
        group, layout = self._tables.group, self._tables.layout
        goes = await self._goes(begun, window_ns)
        taken = await copied_text(
            self._connection,
            f"DELETE FROM {self._leaf(begun)} WHERE ctid >= '({first},0)' AND ctid < '({end},0)' AND {goes}"
            f" RETURNING {self._columns}",
        )
        rows = data_format(group, layout).parse(taken)
        if len(rows):
            statements = await self._put_in(begun, readings_of_rows(rows, group, layout), rows["run"])
            await self._connection.execute(";".join(statements))

    async def _put_together(self, figures: Array) -> None:
        table, group = self._tables.reduced.name, self._tables.group
        buckets = ",".join(map(str, dict.fromkeys(figures["time_ns"].tolist())))
        taken = await copied_text(
            self._connection,
            f"DELETE FROM {self._table(table)} WHERE time_ns IN ({buckets}) RETURNING {self._figures}",
        )
        whole: Any = encode_reduced(together([decode_reduced(taken, group), figures], group), group)
        await self._connection.copy_to_table(
            table,
            schema_name=self._schema,
            columns=[column.name for column in reduced_columns(group)],
            source=whole,
            format="binary",
        )

    async def _give_room_back(self, begun: Decimated, pace: Pace) -> None:
        await self._moving.write_again(begun.period, pace)

    async def _durably(self, statements: Sequence[str]) -> None:
        async with self._connection.transaction():
            await self._connection.execute(";".join(statements))

    async def _found(self, begun: Decimated) -> tuple[int, int, int, int]:
        """File, pages, bytes of the rows, and bytes with indexes of a period's leaf.

        Raises:
            StoreBusy: it is being exchanged.
            StoreError: there is none.
        """
        names = (self._apart(begun, end) for end in ("", LEAF))
        row = await self._connection.fetchrow(FOUND, *names)
        if row is None:
            raise no_such(begun.period)
        if not row["is_whole"]:
            raise StoreError(
                f"{begun.period.name} of group {begun.period.group} has no leaf that could be reduced: an older"
                " triggerlog made it, or somebody has taken it apart"
            )
        see_size(row["pages"], begun.period)
        return row["filenode"], row["pages"], row["table_bytes"], row["size_bytes"]

    def _leaf(self, begun: Decimated) -> str:
        return self._apart(begun, LEAF)

    def _apart(self, begun: Decimated, end: str) -> str:
        return self._table(f"{self._tables.data.name}${begun.period.name}{end}")

    @asynccontextmanager
    async def _step(self) -> AsyncIterator[None]:
        """A transaction that nobody else reduces the group in, and that survives a crash of the server."""
        lock = literal(f"triggerlog:reduces {self._schema}.{self._tables.group.name}")
        async with self._connection.transaction():
            await self._connection.execute(
                # A scan of a range of pages is none that counts as a reader's: `ReadCounters.scans`.
                f"SET LOCAL lock_timeout = '{round(1000 * self._patience_s)}ms'; SET LOCAL enable_seqscan = off;"
                f"SELECT pg_advisory_xact_lock(hashtextextended({lock}, 0))"
            )
            yield
