"""The periods of tables of packs: a partition each, made before the first visit of a period, dropped as a whole."""

from collections.abc import Sequence

from backends.mysql.protocol.sql import literal
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import NO_PERIOD, add_period, drop_periods, packs_of
from schemas.visits.tables import Table


class Periods:
    """Makes and drops partitions; whoever calls `make` or `drop` keeps all others from doing so."""

    def __init__(self, schema: str, tables: Sequence[Table], period_ns: int) -> None:
        self._schema = schema
        self._tables = [packs_of(table) for table in tables]
        self._period_ns = period_ns
        self._made: set[int] = set()
        self._dropped_to = NO_PERIOD

    def forget(self) -> None:
        """Look again: the tables are others."""
        self._made, self._dropped_to = set(), NO_PERIOD

    def known(self, time_ns: int) -> bool:
        """Whether the partitions of a time are known to be there."""
        return time_ns // self._period_ns in self._made

    async def make(self, session: Session, time_ns: int) -> None:
        """Make the partitions of a time where they are missing."""
        period = time_ns // self._period_ns
        for table in self._tables:
            if period not in await self.there(session, table):
                await session.run(add_period(self._schema, table, period))
        self._made.add(period)

    def new_end(self, before_ns: int) -> bool:
        """Whether a period may end before a time, and not before one that `drop` had already."""
        return before_ns // self._period_ns > self._dropped_to

    async def drop(self, session: Session, before_ns: int) -> None:
        """Drop the partitions of periods that end at a time or before."""
        first_kept = before_ns // self._period_ns
        for table in self._tables:
            old = sorted(period for period in await self.there(session, table) if NO_PERIOD < period < first_kept)
            if old:
                await session.run(drop_periods(self._schema, table, old))
        self._dropped_to = first_kept
        self._made = {period for period in self._made if period >= first_kept}

    async def there(self, session: Session, table: str) -> set[int]:
        """The periods that a table of packs has partitions of, and NO_PERIOD."""
        found = await session.fetch(
            "SELECT PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
            f" WHERE TABLE_SCHEMA = {literal(self._schema)} AND TABLE_NAME = {literal(table)}"
        )
        return {int(period) for (period,) in found}
