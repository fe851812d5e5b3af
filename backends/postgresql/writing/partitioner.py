"""The partitions of one group's tables in PostgreSQL."""

import logging

import asyncpg

from backends.columns.partitions import Partition
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import create_partition, quoted
from backends.postgresql.server.errors import one_line
from backends.sql.partitioner import Partitioner

log = logging.getLogger(__name__)

LOCK_TIMEOUT = "500ms"
IS_PARTITION = """
    SELECT relispartition AND has_table_privilege(oid, 'INSERT') FROM pg_class WHERE oid = to_regclass($1)
"""
"""Whether a table is a partition that may be written to by its own name; NULL when it is not there."""


class PostgresqlPartitioner(Partitioner[Connection]):
    """Makes each partition in a transaction of its own; what fits none goes to the default one.

    To write into a partition by its name saves a sixth of the time of a COPY of single readings.
    """

    async def _make_one(self, connection: Connection, partition: Partition) -> bool | None:
        attached = True
        try:
            for table in self._tables:
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                    name = quoted(self._schema, f"{table}${partition.label}")
                    there = await connection.fetchval(IS_PARTITION, name)
                    if there is None:
                        await connection.execute(";".join(create_partition(self._schema, table, partition)))
                    attached &= there is not False
        except asyncpg.CheckViolationError:
            log.warning("partition %s: the default partition holds its readings, which stay there", partition.label)
            return False
        except asyncpg.InsufficientPrivilegeError as error:
            reason = one_line(error)
            log.warning("partition %s cannot be made: %s; the default partition holds it", partition.label, reason)
            return False
        except asyncpg.LockNotAvailableError as error:
            log.warning("partition %s cannot be made now: %s", partition.label, one_line(error))
            return None
        # One that an operator has detached, or made without telling its rights, is no place to write to by name.
        return attached

    def _named(self, partition: Partition) -> str:
        return f"${partition.label}"
