"""Dropping a period in SQL: the partition of the readings is set apart, counted, and only then removed.

Set apart it is a table of its own, which nobody writes to: what is counted there, at leisure, is what goes. A row of
`dropped` with run 0 says how far that is, so that whoever comes after a kill goes on; the rows of runs are what was
counted. The ledger stays.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from backends.diagnosis import see_clocks
from backends.sql.accounting import (
    RULES,
    Accounting,
    by_period,
    head_of,
    period_of,
    select_account,
    select_decimated,
    stored_of,
)
from backends.sql.connection import C
from backends.sql.tables import GroupTables, shared_tables
from schemas.batch import Layout
from schemas.retention import Dropped, Period, Rule


def select_dropped(schema: str, group: str | None = None) -> sa.Select[Any]:
    """Select the account of what retention dropped, of one group or of all, in the order in which that was."""
    dropped = shared_tables(schema).dropped.c
    found = select_account(schema, dropped.rule.in_(RULES))
    return found if group is None else found.where(dropped.group_name == group)


def select_apart(schema: str, group: str) -> sa.Select[Any]:
    """Select the names of a group's periods that are set apart and not counted yet."""
    dropped = shared_tables(schema).dropped.c
    is_apart = dropped.run == 0, dropped.counted_ns.is_(None), dropped.dropped_ns.is_(None)
    return sa.select(dropped.name).where(dropped.group_name == group, dropped.rule.in_(RULES), *is_apart)


def apart_name(tables: GroupTables, period: str) -> str:
    """Name of the table that a period's partition is once it is set apart."""
    return f"{tables.data.name}${period}"


def dropped_of(rows: Iterable[Sequence[Any]]) -> list[Dropped]:
    """The account that rows of `select_dropped` are."""
    return [
        Dropped(
            period=period_of(of),
            rule=Rule(of["rule"]),
            begun_ns=of["begun_ns"],
            dropped_ns=of["dropped_ns"],
            stored=stored_of(parts),
            **{name: of[name] for name in ("readings", "triggers", "missing", "skipped", "size_bytes")},
        )
        for of, parts in by_period(rows)
    ]


class Dropping(Accounting[C]):
    """Drops periods of one group over one connection."""

    async def drop(self, period: Period, rule: Rule, at_ns: int) -> Dropped:
        """Drop a period, or go on where that was begun; see `backends.base.Store.drop`."""
        under_way = await self._under_way(period)
        if under_way is None:
            if rule is Rule.AGE:
                ((server_ns,),) = await self._fetch(self.server_ns)
                see_clocks(at_ns, int(server_ns))
            under_way = Dropped(period=period, rule=rule, begun_ns=at_ns), False
            await self._set_apart(under_way[0])
        begun, is_counted = under_way
        await self._complete_apart(begun, is_counted=is_counted)
        counted = [] if is_counted else await self._count(begun)
        await self._finish(begun, counted, at_ns)
        account = dropped_of(await self._rows(select_dropped(self._schema, period.group)))
        return next(each for each in account if each.begun_ns == begun.begun_ns and each.period.name == period.name)

    async def _under_way(self, period: Period) -> tuple[Dropped, bool] | None:
        """What was begun and has not ended, and whether it is counted."""
        for of, parts in by_period(await self._rows(select_dropped(self._schema, period.group))):
            if of["name"] == period.name and of["dropped_ns"] is None and not parts[0]["run"]:
                return dropped_of([tuple(parts[0].values())])[0], of["counted_ns"] is not None
        return None

    async def _count(self, begun: Dropped) -> list[str]:
        """Count what is set apart, and what the ledger says of its time; the statements that write that down.

        They remove the figures of its time, too.
        """
        period = begun.period
        apart = f"SELECT run, COUNT(*) FROM {self._apart(period)} GROUP BY run"
        stored = {int(run): int(count) for run, count in await self._fetch(apart)}
        ledger, decimated = (
            await self._ledger_of(period),
            await self._rows(select_decimated(self._schema, period.group)),
        )
        reduced = _readings_of(decimated, period)
        is_rows = self._tables.layout is Layout.ROWS
        rows = []
        for run in sorted(stored.keys() | ledger.keys()):
            triggers, arrived, missing, skipped = ledger.get(run, (0, 0, 0, 0))
            counts = {"stored": stored.get(run, 0), "triggers": triggers, "missing": missing, "skipped": skipped}
            # A row of arrays has its trigger's time: the ledger of the same stretch is of the same triggers.
            left = arrived - reduced.get(run, 0) if counts["stored"] else 0
            rows.append({**head_of(begun), **counts, "run": run, "readings": counts["stored"] if is_rows else left})
        figures = self._quoted(self._schema, self._tables.reduced.name)
        within = f"time_ns >= {period.start_ns} AND time_ns < {period.end_ns}"
        removing = [f"DELETE FROM {figures} WHERE {within}"] if decimated else []
        return [*([self._insert(rows)] if rows else []), *removing]

    @abstractmethod
    async def _set_apart(self, begun: Dropped) -> None:
        """Begin: write the row with run 0, and take the partition out of the group's table where that goes together.

        Raises:
            StoreBusy: the table was in use for as long as others may wait.
            StoreError: there is no such partition.
        """

    async def _complete_apart(self, begun: Dropped, *, is_counted: bool) -> None:
        """Take the partition out of the group's table, where that is a step of its own; it may have been done."""

    @abstractmethod
    async def _finish(self, begun: Dropped, counted: list[str], at_ns: int) -> None:
        """Write what was counted, and remove what is set apart; counted: no statements where that is written."""

    def _apart(self, period: Period) -> str:
        """The table that a period's partition is once it is set apart; quoted."""
        return self._quoted(self._schema, apart_name(self._tables, period.name))


def _readings_of(decimated: Iterable[Sequence[Any]], period: Period) -> dict[int, int]:
    """How many readings of a period were reduced, by run."""
    sums: dict[int, int] = {}
    for of, parts in by_period(decimated):
        for part in parts if period_of(of) == period else ():
            sums[part["run"]] = sums.get(part["run"], 0) + int(part["readings"])
    return sums
