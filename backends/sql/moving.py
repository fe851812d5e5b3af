"""Moving a period to another place in SQL: its readings are copied beside the readers, and exchanged for the copy.

How far a move is, is seen by what is there, and by nothing else: whoever comes after a kill goes on with it.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from backends.base import Move, Pace, PeriodTouched, StoreBusy
from backends.sql.connection import C, Driver, LockNotGranted
from backends.sql.tables import GroupTables
from schemas.retention import Period


@dataclass(frozen=True, kw_only=True)
class Found:
    """A period as it lies there.

    place, copied_to: where its readings and their copy are; None is the database's own place.
    is_begun: whether there is a copy that can be gone on with.
    """

    place: str | None
    copied_to: str | None
    is_begun: bool


F = TypeVar("F", bound=Found)


class Moving(ABC, Generic[C, F]):
    """Moves periods of one group over one connection.

    patience_s: how long others may wait behind what needs a table alone.

    driver: of the database.
    """

    driver: ClassVar[Driver[Any]]

    def __init__(self, connection: C, tables: GroupTables, *, patience_s: float) -> None:
        self._connection = connection
        self._tables = tables
        self._schema = str(tables.data.schema)
        self._patience_s = patience_s

    async def move(self, period: Period, place: str | None, pace: Pace) -> None:
        """Move a period, or go on where that was begun; see `backends.base.Tiered.move`."""
        async with self._alone():
            found = await self._found(period)
            if found.place == place and not (found.is_begun and found.copied_to == place):
                await self._give_up(period.name)
                return
            await self._move(period, found, place, pace)

    async def write_again(self, period: Period, pace: Pace) -> None:
        """Move a period to where it lies: what was removed from it takes no room there.

        Raises:
            PeriodTouched, StoreBusy, StoreError: as `backends.base.Tiered.move`.
        """
        async with self._alone():
            found = await self._found(period)
            await self._move(period, found, found.place, pace)

    async def _move(self, period: Period, found: F, place: str | None, pace: Pace) -> None:
        if not found.is_begun or found.copied_to != place:
            await self._begin(period, found, place)
            found = await self._found(period)
        try:
            if not found.is_begun:
                # Between the two it was written again, by an operator.
                raise changed(period)
            await self._copy(period, found, pace)
            await self._exchange(period, found)
        except PeriodTouched:
            await self._give_up(period.name)
            raise

    async def give_up(self, name: str) -> None:
        """Remove all that a move has made; the period stays where it is."""
        async with self._alone():
            await self._give_up(name)

    @abstractmethod
    async def under_way(self) -> list[Move]:
        """The moves that were begun and have not ended."""

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Nobody else moves periods of the group; after an error the lock goes with the connection."""
        group = self._tables.group.name
        lock = f"moves {self._schema}.{group}"
        try:
            await self.driver.take_lock(self._connection, lock, self._patience_s)
        except LockNotGranted:
            raise StoreBusy(f"a period of group {group!r} is being moved by somebody else") from None
        yield
        await self.driver.release_lock(self._connection, lock)

    @abstractmethod
    async def _found(self, period: Period) -> F:
        """Look how a period lies there.

        Raises:
            StoreError: there is no such period, or it cannot be moved.
        """

    @abstractmethod
    async def _begin(self, period: Period, found: F, place: str | None) -> None:
        """Make an empty copy, in the stead of one that cannot be gone on with."""

    @abstractmethod
    async def _copy(self, period: Period, found: F, pace: Pace) -> None:
        """Copy what is not copied yet, in steps.

        Raises:
            PeriodTouched: the readings changed since.
        """

    @abstractmethod
    async def _exchange(self, period: Period, found: F) -> None:
        """See that nothing changed, put the copy into the place of the readings, and remove those.

        Raises:
            PeriodTouched: the readings changed since.
            StoreBusy: a table was in use for as long as others may wait.
        """

    @abstractmethod
    async def _give_up(self, name: str) -> None:
        """Remove all that a move has made."""


def changed(period: Period) -> PeriodTouched:
    """The readings changed since their copy was begun."""
    return PeriodTouched(f"{period.name} of group {period.group} was changed while it was copied")
