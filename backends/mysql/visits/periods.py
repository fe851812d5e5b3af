"""The periods of tables of packs: a partition each, made before the first visit of a period, dropped as a whole."""

import logging
from collections.abc import Sequence

from backends.mysql.protocol.sql import literal
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import NO_PERIOD, add_periods, drop_periods, packs_of
from schemas.visits.tables import Table

log = logging.getLogger(__name__)

AHEAD = 2
"""So many periods are made ahead. To make one, too, has to wait for every open transaction that has read the table."""


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

    def missing(self, time_ns: int, *, ahead: bool = False) -> list[int]:
        """The period of a time, or those after it that are made ahead, where it is not known to be there."""
        period = time_ns // self._period_ns
        wanted = range(period + 1, period + 1 + AHEAD) if ahead else (period,)
        return [each for each in wanted if each not in self._made]

    async def make(self, session: Session, periods: Sequence[int]) -> str | None:
        """Make the partitions of periods where they are missing; gives a table that somebody reads meanwhile."""
        for table in self._tables:
            there = await self.there(session, table)
            new = [period for period in periods if period not in there]
            if new and not await session.run_briefly(add_periods(self._schema, table, new)):
                return table
        self._made.update(periods)
        return None

    def new_end(self, before_ns: int) -> bool:
        """Whether a period may end before a time, and not before one that `drop` had already."""
        return before_ns // self._period_ns > self._dropped_to

    async def drop(self, session: Session, before_ns: int) -> bool:
        """Drop the partitions of periods that end at a time or before; False at the first table that is being read."""
        first_kept = before_ns // self._period_ns
        self._made = {period for period in self._made if period >= first_kept}
        for table in self._tables:
            old = sorted(period for period in await self.there(session, table) if NO_PERIOD < period < first_kept)
            if old and not await session.run_briefly(drop_periods(self._schema, table, old)):
                log.info("table %s is being read, and its old partitions are dropped another time", table)
                return False
        self._dropped_to = first_kept
        return True

    async def there(self, session: Session, table: str) -> set[int]:
        """The periods that a table of packs has partitions of, and NO_PERIOD."""
        found = await session.fetch(
            "SELECT PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
            f" WHERE TABLE_SCHEMA = {literal(self._schema)} AND TABLE_NAME = {literal(table)}"
        )
        return {int(period) for (period,) in found}
