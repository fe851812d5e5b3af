"""The partitions of one group's tables: made before they are needed, by the connection that writes."""

import logging
import time

from pymysql.err import MySQLError

from backends.columns.partitions import Partition, Stretch, partitions_of
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import quoted
from backends.mysql.schema.partitions import (
    MOVED_AT_MOST,
    Range,
    cut,
    how_full,
    listing,
    name_of,
    ranges_of,
    reorganize,
)
from backends.mysql.server.errors import LOCK_WAIT, NO_RIGHT, number_of, one_line
from backends.sql.tables import GroupTables
from schemas.readings import Array

log = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 1
RETRY_S = 60.0


class Partitioner:
    """Makes partitions, and knows those that are there."""

    def __init__(self, tables: GroupTables, schema: str, stretch: Stretch, ahead: int) -> None:
        self._tables = (tables.data.name, tables.ledger.name)
        self._schema = schema
        self._stretch: Stretch = stretch
        self._ahead = ahead
        self._seen: set[Partition] = set()
        self._made: set[Partition] = set()
        self._newest: Partition | None = None
        self._refused_at: float | None = None
        self._may_alter = True

    def forget(self) -> None:
        """Look anew: the connection is another."""
        self._seen, self._made, self._newest = set(), set(), None

    async def make(self, connection: Connection, times: Array) -> str:
        """Make the partitions that times (int64, ns) need; the PARTITION clause when all go into one, else nothing.

        Without the clause a server opens all partitions for every statement: 0.4 ms when there are 400.
        """
        newest = self._newest
        if newest and times.size and times.min() >= newest.start_ns and times.max() < newest.end_ns:
            return f" PARTITION ({quoted(name_of(newest))})"
        wanted = partitions_of(times, time.time_ns(), self._stretch, self._ahead)
        if not self._seen.issuperset(wanted):
            if self._refused_at is not None and time.monotonic() - self._refused_at < RETRY_S:
                return ""
            for partition in wanted:
                if partition not in self._seen:
                    await self._make_one(connection, partition)
        if wanted and self._made.issuperset(wanted):
            self._newest = wanted[-1 - self._ahead]
        return ""

    async def _make_one(self, connection: Connection, partition: Partition) -> None:
        """Make a partition; where it cannot be made, readings go to the range that has its time."""
        there = True
        try:
            for table in self._tables:
                there &= await self._in_table(connection, table, partition)
        except MySQLError as error:
            if number_of(error) not in (*LOCK_WAIT, *NO_RIGHT):
                raise
            log.warning("partition %s cannot be made now: %s", partition.label, one_line(error))
            if number_of(error) in NO_RIGHT:
                # An administrator makes them. Said once: readings find their range all the same.
                self._may_alter = there = False
            else:
                self._refused_at = time.monotonic()
                return
        self._seen.add(partition)
        if there:
            self._made.add(partition)

    async def _in_table(self, connection: Connection, table: str, partition: Partition) -> bool:
        """Whether the table has the partition now."""
        ranges = ranges_of(await connection.fetch(listing(self._schema, table)))
        if Range(name_of(partition), partition.start_ns, partition.end_ns) in ranges:
            return True
        found = cut(ranges, partition) if self._may_alter else None
        return found is not None and await self._cut(connection, table, *found, partition)

    async def _cut(
        self, connection: Connection, table: str, of: Range, parts: list[Range], partition: Partition
    ) -> bool:
        ((full,),) = await connection.fetch(how_full(self._schema, table, of))
        if full > MOVED_AT_MOST:
            log.warning(
                "partition %s: %s of table %s holds too many readings to move, which stay there",
                *(partition.label, of.name, table),
            )
            return False
        # It waits for long reads of the table to end, and everybody waits behind it: so not for long.
        await connection.run(f"SET @waits = @@lock_wait_timeout, lock_wait_timeout = {LOCK_TIMEOUT_S}")
        try:
            await connection.run(reorganize(self._schema, table, of, parts))
        except MySQLError:
            if not connection.closed:
                await connection.run("SET lock_wait_timeout = @waits")
            raise
        await connection.run("SET lock_wait_timeout = @waits")
        return True
