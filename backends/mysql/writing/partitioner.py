"""The partitions of one group's tables in MariaDB and MySQL."""

import logging

from pymysql.err import MySQLError

from backends.columns.partitions import Partition, PartitionUnit
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import quoted
from backends.mysql.schema.partitions import (
    MOVED_AT_MOST,
    Range,
    cut,
    how_full,
    listing,
    name_of,
    parts_to_cut,
    ranges_of,
    reorganize,
)
from backends.mysql.server.errors import LOCK_WAIT, NO_RIGHT, number_of, one_line
from backends.mysql.server.locks import LEAST_PATIENCE_S, briefly
from backends.sql.connection import LockNotGranted
from backends.sql.partitioner import Partitioner
from backends.sql.tables import GroupTables

log = logging.getLogger(__name__)


class MysqlPartitioner(Partitioner[Connection]):
    """Cuts the range that has a partition's time; without the right to do so an administrator makes them.

    Without the PARTITION clause a server opens all partitions for every statement: 0.4 ms when there are 400.
    """

    def __init__(self, tables: GroupTables, schema: str, unit: PartitionUnit, ahead: int) -> None:
        super().__init__(tables, schema, unit, ahead)
        self._may_alter = True

    async def _make_one(self, connection: Connection, partition: Partition) -> bool | None:
        there = True
        try:
            for table in self._tables:
                there &= await self._in_table(connection, table, partition)
        except (LockNotGranted, MySQLError) as error:
            is_locked = isinstance(error, LockNotGranted) or number_of(error) in LOCK_WAIT
            if not is_locked and number_of(error) not in NO_RIGHT:
                raise
            log.warning("partition %s cannot be made now: %s", partition.label, one_line(error))
            if is_locked:
                return None
            self._may_alter = False
            return False
        return there

    def _named(self, partition: Partition) -> str:
        return f" PARTITION ({quoted(name_of(partition))})"

    async def _in_table(self, connection: Connection, table: str, partition: Partition) -> bool:
        """Whether the table has the partition now."""
        ranges = ranges_of(await connection.fetch(listing(self._schema, table)))
        if Range(name_of(partition), partition.start_ns, partition.end_ns) in ranges:
            return True
        if not self._may_alter:
            return False
        parts = parts_to_cut(ranges, partition)
        are_cut = [await self._cut(connection, table, part) for part in parts]
        return parts == [partition] and all(are_cut)

    async def _cut(self, connection: Connection, table: str, partition: Partition) -> bool:
        of, parts = cut(ranges_of(await connection.fetch(listing(self._schema, table))), partition)
        ((full,),) = await connection.fetch(how_full(self._schema, table, of))
        if full > MOVED_AT_MOST:
            log.warning(
                "partition %s: %s of table %s holds too many readings to move, which stay there",
                *(partition.label, of.name, table),
            )
            return False
        # It waits for long reads of the table to end, and everybody waits behind it: so not for long.
        await briefly(connection, reorganize(self._schema, table, of, parts), LEAST_PATIENCE_S)
        return True
