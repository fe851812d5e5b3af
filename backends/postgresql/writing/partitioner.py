"""The partitions of one group's tables in PostgreSQL."""

import logging

import asyncpg

from backends.columns.partitions import Partition, PartitionUnit, parts_outside
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import create_partition, leaf_of, lie_in, quoted
from backends.postgresql.reading.activity import ends_of
from backends.postgresql.server.errors import one_line
from backends.sql.partitioner import Partitioner
from backends.sql.tables import GroupTables

log = logging.getLogger(__name__)

LOCK_TIMEOUT = "500ms"
ARE_PARTITIONS = """
    SELECT CASE WHEN count(*) > 0
           THEN count(*) = cardinality($1::text[])
                AND bool_and(relispartition AND has_table_privilege(oid, 'INSERT')) END
    FROM unnest($1::text[]) AS name JOIN pg_class ON oid = to_regclass(name)
"""
"""Whether all of some tables are partitions that may be written to by their own names; NULL where none is there."""

BOUNDS = """
    SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass($1) AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
"""


class PostgresqlPartitioner(Partitioner[Connection]):
    """Makes each partition in a transaction of its own; what fits none goes to the default one.

    To write into a partition by its name saves a sixth of the time of a COPY of single readings. Those of the readings
    have a leaf each, so that what has its rows can be exchanged without the group's table (decision 0091); one that an
    older triggerlog has made has none, and is left to the server.

    place: tablespace of new partitions; None is the database's own.
    """

    def __init__(
        self, tables: GroupTables, schema: str, unit: PartitionUnit, ahead: int, place: str | None = None
    ) -> None:
        super().__init__(tables, schema, unit, ahead)
        self._place = place

    async def _make_one(self, connection: Connection, partition: Partition) -> bool | None:
        attached = True
        try:
            for table, with_leaf in zip(self._tables, (True, False), strict=True):
                parts = await self._parts(connection, table, partition)
                attached &= parts == [partition]
                for part in parts:
                    attached &= await self._make_part(connection, table, part, with_leaf=with_leaf)
        except asyncpg.CheckViolationError:
            log.warning("partition %s: the default partition holds its readings, which stay there", partition.label)
            return False
        except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError) as error:
            # The right to make one, or its tablespace.
            reason = one_line(error)
            log.warning("partition %s cannot be made: %s; the default partition holds it", partition.label, reason)
            return False
        except asyncpg.LockNotAvailableError as error:
            log.warning("partition %s cannot be made now: %s", partition.label, one_line(error))
            return None
        # One that an operator has detached, or made without telling its rights, is no place to write to by name.
        return attached

    async def _parts(self, connection: Connection, table: str, partition: Partition) -> list[Partition]:
        """The partition, or what no other covers: the configuration may have had another `partition` before."""
        own = (f"{table}{self._named(partition)}", (partition.start_ns, partition.end_ns))
        there = [
            (row["name"], ends_of(row["bounds"])) for row in await connection.fetch(BOUNDS, quoted(self._schema, table))
        ]
        return parts_outside(partition, [ends for name, ends in there if (name, ends) != own])

    async def _make_part(self, connection: Connection, table: str, part: Partition, *, with_leaf: bool) -> bool:
        """Make it where it is missing; return whether it may be written to by its name."""
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            there = await connection.fetchval(ARE_PARTITIONS, self._names(table, part, with_leaf))
            if there is None:
                await connection.execute(lie_in(self._place))
                await connection.execute(";".join(create_partition(self._schema, table, part, with_leaf=with_leaf)))
        return there is not False

    def _names(self, table: str, partition: Partition, with_leaf: bool) -> list[str]:
        into = self._named(partition)
        ends = (into, leaf_of(into)) if with_leaf else (into,)
        return [quoted(self._schema, table + end) for end in ends]

    def _named(self, partition: Partition) -> str:
        return f"${partition.label}"
