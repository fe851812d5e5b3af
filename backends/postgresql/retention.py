"""Dropping a period in PostgreSQL: its partition is detached, counted, and dropped."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from backends.base import StoreError
from backends.diagnosis import no_such
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import compiled, literal, quoted
from backends.sql.accounting import Accounting
from backends.sql.retention import Dropping
from schemas.retention import Dropped

SIZE_OF_PARTITION = """
    SELECT CASE WHEN pg_has_role(relowner, 'USAGE')
           THEN (SELECT sum(pg_total_relation_size(relid))::int8 FROM pg_partition_tree(oid)) ELSE -1 END
    FROM pg_class WHERE oid = to_regclass($1) AND relispartition
"""
"""The size of a partition; -1 where it belongs to a role that the login is no member of."""


class PostgresqlAccounting(Accounting[Connection]):
    """Keeps the account of periods over a connection to PostgreSQL."""

    server_ns = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::int8"

    async def _rows(self, select: sa.SelectBase) -> Sequence[Sequence[Any]]:
        return await self._fetch(compiled(select))

    async def _fetch(self, text: str) -> Sequence[Sequence[Any]]:
        return [tuple(row) for row in await self._connection.fetch(text)]

    def _literal(self, text: str) -> str:
        return literal(text)

    def _quoted(self, *names: str) -> str:
        return quoted(*names)

    def _table(self, name: str) -> str:
        return quoted(self._schema, name)


class PostgresqlDropping(PostgresqlAccounting, Dropping[Connection]):
    """Drops periods of one group.

    Only DETACH needs the group's table alone: a moment, at whose end nobody waits any more. CONCURRENTLY is refused
    beside a default partition.
    """

    async def _set_apart(self, begun: Dropped) -> None:
        child = self._apart(begun.period)
        async with self._connection.transaction():
            await self._connection.execute(f"SET LOCAL lock_timeout = '{round(1000 * self._patience_s)}ms'")
            size = await self._connection.fetchval(SIZE_OF_PARTITION, child)
            if size is None:
                raise no_such(begun.period)
            if size < 0:
                # To detach it the group's table is enough; to remove it is not.
                raise StoreError(
                    f"partition {child} belongs to another role: ALTER TABLE {child} OWNER TO the daemon's"
                )
            parent = quoted(self._schema, self._tables.data.name)
            detach = f"ALTER TABLE {parent} DETACH PARTITION {child}"
            await self._connection.execute(f"{self._begin(begun, size)}; {detach}")

    async def _complete_apart(self, begun: Dropped, *, is_counted: bool) -> None:
        # A writer that wrote into it by its name last waits until the end, and finds that it is gone.
        await self._connection.execute(f"BEGIN; LOCK TABLE {self._apart(begun.period)} IN SHARE MODE")

    async def _finish(self, begun: Dropped, counted: list[str], at_ns: int) -> None:
        noted = self._note(begun, counted_ns=at_ns, dropped_ns=at_ns)
        statements = [*counted, noted, f"DROP TABLE {self._apart(begun.period)}", "COMMIT"]
        await self._connection.execute(";".join(statements))
