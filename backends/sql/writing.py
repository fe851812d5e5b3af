"""The writing of one group into a SQL database: a connection of its own, its lock, partitions and transactions."""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Generic

import numpy as np

from backends.base import BatchRejected, GroupLocked, StoreUnavailable, is_committed
from backends.sql.connection import DEAD_S, C, Driver, LockNotGranted, OwnedConnection
from backends.sql.partitioner import Partitioner
from backends.sql.positions import closed_triggers
from backends.sql.tables import GroupTables
from schemas.batch import Batch, JournalPosition, Layout, Stream, position_owner
from schemas.config import DatabaseConfig
from schemas.readings import Array

GROUP_LOCK_TIMEOUT_S = 5.0
"""A server may need a moment to notice that the daemon before us was killed."""

NOTHING = (-(2**31), -(2**63))
"""Before the key of every trigger."""


class GroupWriter(ABC, Generic[C]):
    """Writes one group of one logger; calls are put one after the other.

    A database's own writer says how a batch is committed, and how rows travel.

    Args:
        tables: of the group.
        database: names the schema, and how long a call may take.
        logger: whose positions are moved.
        target: what messages call the server.
        connect: makes a connection.
    """

    def __init__(
        self,
        driver: Driver[C],
        partitioner: Partitioner[C],
        tables: GroupTables,
        database: DatabaseConfig,
        *,
        logger: str,
        target: str,
        connect: Callable[[], Awaitable[C]],
    ) -> None:
        self._driver = driver
        self._partitioner = partitioner
        self._tables = tables
        self._schema = database.schema_name
        self._logger = logger
        self._target = target
        self._timeout_s = database.command_timeout_s
        self._last: tuple[int, int] | None = None
        self._connection = OwnedConnection(driver, connect=connect, prepare=self._prepare, guarded=self._guarded)

    async def open(self) -> None:
        """Connect, take the group's lock and make the partitions of now."""
        async with self._session() as connection:
            await self._check(connection)
            await self._partitioner.make(connection, np.array([time.time_ns()]))

    async def close(self) -> None:
        """Give the lock and the connection back."""
        await self._connection.close()

    async def position(self, stream: Stream) -> JournalPosition | None:
        """Up to where the database holds the group.

        Asked under the group's lock, so that no transaction of a connection that was lost can still be under way.
        """
        async with self._session() as connection:
            found = await self._position(connection, position_owner(self._logger, stream))
        return found if found and found.sequence else None

    @abstractmethod
    async def commit(self, batch: Batch) -> None:
        """Commit a batch in one transaction, or find that it is there."""

    @abstractmethod
    async def rehearse(self, batch: Batch) -> None:
        """Go through the transaction of a batch, and take it back."""

    @abstractmethod
    async def _position(self, connection: C, owner: str) -> JournalPosition | None:
        """The group's row of `positions`, None without one."""

    @abstractmethod
    async def _insert_position(self, connection: C) -> None:
        """Make the group's row of `positions` again, at 0."""

    @abstractmethod
    def _ledger(self, into: str) -> str:
        """The name of the ledger's table, or of one partition of it."""

    @abstractmethod
    async def _keys(self, connection: C, select: str) -> Sequence[tuple[int, int]]:
        """What a select finds of run and trigger_id."""

    async def _closed(self, connection: C, batch: Batch, into: str) -> str | None:
        """Select the batch's triggers that are in the ledger; None where all are beyond its last one, as nearly always.

        Nobody else writes it while the group's lock is held.
        """
        if not len(batch.ledger):
            return None
        if self._last is None:
            last = f"SELECT run, trigger_id FROM {self._ledger('')} ORDER BY run DESC, trigger_id DESC LIMIT 1"
            self._last = max(await self._keys(connection, last), default=NOTHING)
        if min(_keys_of(batch)) > self._last:
            return None
        return closed_triggers(self._ledger(into), batch, around=not into)

    def _has(self, batch: Batch) -> None:
        """Note that the ledger has a batch."""
        if self._last is not None:
            self._last = max([self._last, *_keys_of(batch)])

    async def _check(self, connection: C) -> None:
        """See that the group can be written, before anything is."""

    async def _prepare(self, connection: C) -> None:
        """Take the group's lock, and know nothing of what the connection before has seen."""
        self._partitioner.forget()
        self._last = None
        name = self._tables.group.name
        try:
            await self._connection.lock(connection, f"group {self._schema}.{name}", GROUP_LOCK_TIMEOUT_S)
        except LockNotGranted as error:
            raise GroupLocked(
                f"group {name!r} in schema {self._schema!r} is being written by another daemon ({error});"
                f" stop that one; if it is gone, the server ends its session within {DEAD_S} s: try again then"
            ) from None

    def _session(self, *, rehearses: bool = False) -> AbstractAsyncContextManager[C]:
        return self._connection.session(self._timeout_s, rehearses=rehearses)

    def _guarded(self) -> AbstractContextManager[None]:
        return self._driver.translated(self._target, rejects=BatchRejected)

    async def _check_position(self, connection: C, batch: Batch) -> None:
        """See that a position which did not move has the batch; streams begin without one."""
        found = await self._position(connection, position_owner(self._logger, batch.stream))
        if found is None and batch.stream is Stream.JOURNAL:
            await self._insert_position(connection)
            raise StoreUnavailable(f"the position of group {batch.group.name!r} was gone from the database")
        if not is_committed(found or JournalPosition(sequence=0), batch):
            await self._see_new(connection, batch)
            raise StoreUnavailable(f"the position of group {batch.group.name!r} was changed by somebody else")

    async def _see_new(self, connection: C, batch: Batch) -> None:
        """See that no trigger of a batch is in the ledger."""
        if len(batch.ledger):
            closed = closed_triggers(self._ledger(""), batch, around=True)
            for run, trigger in await self._keys(connection, f"{closed} LIMIT 1"):
                raise BatchRejected(
                    f"{self._target} has it already: duplicate key in {self._tables.ledger.name!r}",
                    f"trigger {trigger} of run {run}",
                )

    async def _partition_of(self, connection: C, batch: Batch) -> str:
        """Make the partitions that a batch needs; what names one where all of the batch goes into it, else nothing."""
        times = [batch.ledger["time_ns"], batch.revised["time_ns"]]
        if self._tables.layout is Layout.ROWS:
            readings = batch.readings["time_ns"]
            times += [readings.ravel() if batch.present.all() else readings[batch.present], batch.late["time_ns"]]
        all_times: Array = np.concatenate(times)
        return await self._partitioner.make(connection, all_times)


def _keys_of(batch: Batch) -> list[tuple[int, int]]:
    keys: list[tuple[int, int]] = batch.ledger[["run", "trigger"]].tolist()
    return keys
