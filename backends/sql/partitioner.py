"""The partitions of one group's tables: made before they are needed, by the connection that writes."""

import logging
import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from backends.columns.partitions import Partition, PartitionUnit, partitions_of
from backends.sql.tables import GroupTables
from schemas.readings import Array

log = logging.getLogger(__name__)

RETRY_S = 60.0
"""So long no partition is made after one could not be made for a lock."""

Connection = TypeVar("Connection")


class Partitioner(ABC, Generic[Connection]):
    """Makes partitions, and knows those that are there.

    Args:
        tables: of the group.
        schema: that they lie in.
        unit: how long a partition is.
        ahead: so many partitions are made after the newest that is needed.
    """

    def __init__(self, tables: GroupTables, schema: str, unit: PartitionUnit, ahead: int) -> None:
        self._tables = (tables.data.name, tables.ledger.name)
        self._schema = schema
        self._unit: PartitionUnit = unit
        self._ahead = ahead
        self._seen: set[Partition] = set()
        self._made: set[Partition] = set()
        self._newest: Partition | None = None
        self._refused_at: float | None = None

    def forget(self) -> None:
        """Look again: the connection is another."""
        self._seen, self._made, self._newest = set(), set(), None

    async def make(self, connection: Connection, times: Array) -> str:
        """Make the partitions that times (int64, ns) need.

        Returns what names the partition in SQL where all of them go into one; an empty text leaves it to the server,
        which takes it longer.
        """
        newest = self._newest
        if newest and times.size and times.min() >= newest.start_ns and times.max() < newest.end_ns:
            return self._named(newest)
        wanted = partitions_of(times, time.time_ns(), self._unit, self._ahead)
        if not self._seen.issuperset(wanted):
            if self._refused_at is not None and time.monotonic() - self._refused_at < RETRY_S:
                return ""
            for partition in wanted:
                if partition not in self._seen:
                    await self._note(connection, partition)
        if wanted and self._made.issuperset(wanted):
            self._newest = wanted[-1 - self._ahead]
        return ""

    async def _note(self, connection: Connection, partition: Partition) -> None:
        made = await self._make_one(connection, partition)
        if made is None:
            self._refused_at = time.monotonic()
            return
        self._seen.add(partition)
        if made:
            self._made.add(partition)

    @abstractmethod
    async def _make_one(self, connection: Connection, partition: Partition) -> bool | None:
        """Make a partition of both tables where it is missing.

        Returns whether it may be written to by its name; None where a lock was in the way, and it is tried again later.
        Where it cannot be made, readings go to what the tables have for all other times.
        """

    @abstractmethod
    def _named(self, partition: Partition) -> str:
        """What follows the name of a table in a statement that writes into this partition alone."""
