"""Dropping a period in SQL: the partition of the readings is set apart, counted, and only then removed.

Set apart it is a table of its own, which nobody writes to: what is counted there, at leisure, is what goes. A row of
`dropped` with run 0 says how far that is, so that whoever comes after a kill goes on; the rows of runs are what was
counted. The ledger stays.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic

import sqlalchemy as sa

from backends.diagnosis.retention import see_clocks
from backends.sql.connection import C
from backends.sql.tables import GroupTables, shared_tables
from schemas.batch import Layout
from schemas.retention import Dropped, Period, Rule

COUNTS = ("stored", "readings", "triggers", "missing", "skipped", "size_bytes")
FIELDS = ("group_name", "begun_ns", "run", "name", "start_ns", "end_ns", "rule", "counted_ns", "dropped_ns", *COUNTS)
"""Columns of `dropped`, in the order in which they are read and written."""


def select_dropped(schema: str, group: str | None = None) -> sa.Select[Any]:
    """Select FIELDS, of one group or of all, in the order in which periods were dropped."""
    dropped = shared_tables(schema).dropped.c
    found = sa.select(*(dropped[name] for name in FIELDS)).order_by(dropped.begun_ns, dropped.start_ns, dropped.run)
    return found if group is None else found.where(dropped.group_name == group)


def select_apart(schema: str, group: str) -> sa.Select[Any]:
    """Select the names of a group's periods that are set apart and not counted yet."""
    dropped = shared_tables(schema).dropped.c
    return sa.select(dropped.name).where(
        dropped.group_name == group, dropped.run == 0, dropped.counted_ns.is_(None), dropped.dropped_ns.is_(None)
    )


def apart_name(tables: GroupTables, period: str) -> str:
    """Name of the table that a period's partition is once it is set apart."""
    return f"{tables.data.name}${period}"


def dropped_of(rows: Iterable[Sequence[Any]]) -> list[Dropped]:
    """The account that rows of FIELDS are."""
    periods: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in rows:
        fields = dict(zip(FIELDS, row, strict=True))
        periods.setdefault((fields["group_name"], fields["begun_ns"], fields["name"]), []).append(fields)
    return [_one(parts) for parts in periods.values()]


def _one(parts: Sequence[Mapping[str, Any]]) -> Dropped:
    head = next((part for part in parts if not part["run"]), parts[0])
    sums = {name: sum(int(part[name]) for part in parts) for name in COUNTS if name != "stored"}
    return Dropped(
        period=Period(group=head["group_name"], name=head["name"], start_ns=head["start_ns"], end_ns=head["end_ns"]),
        rule=Rule(head["rule"]),
        begun_ns=head["begun_ns"],
        dropped_ns=head["dropped_ns"],
        stored={int(part["run"]): int(part["stored"]) for part in parts if part["stored"]},
        **sums,
    )


class Dropping(ABC, Generic[C]):
    """Drops periods of one group over one connection.

    Args:
        tables: of the group.
        patience_s: how long others may wait behind what needs the table alone.

    server_ns: the question for the server's clock (UTC, ns).
    """

    server_ns: ClassVar[str]

    def __init__(self, connection: C, tables: GroupTables, *, patience_s: float) -> None:
        self._connection = connection
        self._tables = tables
        self._schema = str(tables.data.schema)
        self._patience_s = patience_s

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
        rows = [] if is_counted else await self._count(begun)
        await self._finish(begun, rows, at_ns)
        account = dropped_of(await self._rows(select_dropped(self._schema, period.group)))
        return next(each for each in account if each.begun_ns == begun.begun_ns and each.period.name == period.name)

    async def _under_way(self, period: Period) -> tuple[Dropped, bool] | None:
        """What was begun and has not ended, and whether it is counted."""
        rows = await self._rows(select_dropped(self._schema, period.group))
        heads = [row for row in rows if not row[FIELDS.index("run")] and row[FIELDS.index("dropped_ns")] is None]
        for row in heads:
            if row[FIELDS.index("name")] == period.name:
                return dropped_of([row])[0], row[FIELDS.index("counted_ns")] is not None
        return None

    async def _count(self, begun: Dropped) -> list[dict[str, Any]]:
        """Count what is set apart, and what the ledger says of its time; a row of `dropped` a run."""
        period = begun.period
        apart = f"SELECT run, COUNT(*) FROM {self._apart(period)} GROUP BY run"
        stored = {int(run): int(count) for run, count in await self._fetch(apart)}
        ledger = {
            int(run): tuple(map(int, counts)) for run, *counts in await self._rows(_ledger_of(self._tables, period))
        }
        is_rows = self._tables.layout is Layout.ROWS
        rows = []
        for run in sorted(stored.keys() | ledger.keys()):
            triggers, arrived, missing, skipped = ledger.get(run, (0, 0, 0, 0))
            counts = {"stored": stored.get(run, 0), "triggers": triggers, "missing": missing, "skipped": skipped}
            # A row of arrays has its trigger's time: the ledger of the same stretch is of the same triggers.
            readings = counts["stored"] if is_rows else arrived if counts["stored"] else 0
            rows.append({**_head(begun), **counts, "run": run, "readings": readings})
        return rows

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
    async def _finish(self, begun: Dropped, rows: list[dict[str, Any]], at_ns: int) -> None:
        """Write what was counted, and remove what is set apart; rows: none where they are written."""

    def _apart(self, period: Period) -> str:
        """The table that a period's partition is once it is set apart; quoted."""
        return self._quoted(self._schema, apart_name(self._tables, period.name))

    @abstractmethod
    async def _rows(self, select: sa.SelectBase) -> Sequence[Sequence[Any]]:
        """The rows that a select finds."""

    @abstractmethod
    async def _fetch(self, text: str) -> Sequence[Sequence[Any]]:
        """The rows that a query in SQL text finds."""

    @abstractmethod
    def _literal(self, text: str) -> str:
        """A text constant."""

    @abstractmethod
    def _quoted(self, *names: str) -> str:
        """A name, quoted."""

    def _insert(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """The statement that writes rows of `dropped`."""
        columns = [name for name in FIELDS if any(name in row for row in rows)]
        values = (", ".join(self._constant(row.get(name)) for name in columns) for row in rows)
        names = ", ".join(self._quoted(name) for name in columns)
        table = self._quoted(self._schema, "dropped")
        return f"INSERT INTO {table} ({names}) VALUES {', '.join(f'({row})' for row in values)}"

    def _note(self, begun: Dropped, **columns: int) -> str:
        """The statement that changes columns of the row with run 0."""
        changes = ", ".join(f"{self._quoted(name)} = {value}" for name, value in columns.items())
        return f"UPDATE {self._quoted(self._schema, 'dropped')} SET {changes} WHERE {self._head_of(begun)}"

    def _head_of(self, begun: Dropped) -> str:
        """The condition that names the row with run 0."""
        period = begun.period
        key = {
            "group_name": self._literal(period.group),
            "begun_ns": begun.begun_ns,
            "start_ns": period.start_ns,
            "run": 0,
        }
        return " AND ".join(f"{name} = {value}" for name, value in key.items())

    def _begin(self, begun: Dropped, size_bytes: int) -> str:
        """The statement that writes the row with run 0."""
        return self._insert([{**_head(begun), "run": 0, "size_bytes": size_bytes}])

    def _constant(self, value: int | str | None) -> str:
        return "NULL" if value is None else str(value) if isinstance(value, int) else self._literal(value)


def _head(begun: Dropped) -> dict[str, Any]:
    period = begun.period
    return {
        "group_name": period.group,
        "begun_ns": begun.begun_ns,
        "name": period.name,
        "start_ns": period.start_ns,
        "end_ns": period.end_ns,
        "rule": begun.rule.value,
    }


def _ledger_of(tables: GroupTables, period: Period) -> sa.Select[Any]:
    """Select run, triggers, readings, missing and skipped of a stretch of the ledger."""
    ledger = tables.ledger.c
    sums = (ledger.arrived, ledger.expected - ledger.arrived, ledger.skipped)
    return (
        sa.select(ledger.run, sa.func.count(), *(sa.cast(sa.func.sum(each), sa.BigInteger) for each in sums))
        .where(ledger.time_ns >= period.start_ns, ledger.time_ns < period.end_ns)
        .group_by(ledger.run)
    )
