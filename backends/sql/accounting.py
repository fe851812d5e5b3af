"""The account of periods whose readings are there no more: the table `dropped`, and the statements that write it.

Of each period it has a row with run 0, which says how far that is, so that whoever comes after a kill goes on, and a
row a run of what is gone. `rule` says by what: a limit of retention, or the way in which the readings were reduced.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic

import sqlalchemy as sa

from backends.base import StoreError
from backends.sql.connection import C
from backends.sql.selects import skipped_between
from backends.sql.tables import GroupTables, shared_tables
from schemas.decimation import Decimated
from schemas.retention import Dropped, Period, Rule

COUNTS = ("stored", "readings", "triggers", "missing", "skipped", "size_bytes")
FIELDS = ("group_name", "begun_ns", "run", "name", "start_ns", "end_ns", "rule", "counted_ns", "dropped_ns", *COUNTS)
"""Columns of `dropped`, in the order in which they are read and written."""
RULES = tuple(rule.value for rule in Rule)
"""What `rule` has where a limit of retention dropped a period."""

AHEAD_MOST_NS = 3_600_000_000_000
"""By age nothing goes if the daemon's clock is further ahead of the server's."""

Entry = Dropped | Decimated
Fields = dict[str, Any]


def select_account(schema: str, *rules: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select FIELDS of some rows of the account, in the order in which periods were begun."""
    dropped = shared_tables(schema).dropped.c
    found = sa.select(*(dropped[name] for name in FIELDS)).where(*rules)
    return found.order_by(dropped.begun_ns, dropped.start_ns, dropped.run)


def select_decimated(schema: str, group: str | None = None) -> sa.Select[Any]:
    """Select the account of what was reduced, of one group or of all."""
    dropped = shared_tables(schema).dropped.c
    found = select_account(schema, dropped.rule.not_in(RULES))
    return found if group is None else found.where(dropped.group_name == group)


def by_period(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Fields, list[Fields]]]:
    """Rows of FIELDS by period: what all of one have in common, with the sums of COUNTS, and its rows.

    The first of the common fields are those of run 0, where there is one.
    """
    periods: dict[tuple[str, int, str], list[Fields]] = {}
    for row in rows:
        fields = dict(zip(FIELDS, row, strict=True))
        periods.setdefault((fields["group_name"], fields["begun_ns"], fields["name"]), []).append(fields)
    for parts in periods.values():
        head = next((part for part in parts if not part["run"]), parts[0])
        yield {**head, **{name: sum(int(part[name]) for part in parts) for name in COUNTS}}, parts


def period_of(fields: Fields) -> Period:
    """The period that fields are of."""
    return Period(group=fields["group_name"], name=fields["name"], start_ns=fields["start_ns"], end_ns=fields["end_ns"])


def stored_of(parts: Iterable[Fields]) -> dict[int, int]:
    """How many rows of the group's table are gone, by run."""
    return {int(part["run"]): int(part["stored"]) for part in parts if part["stored"]}


def head_of(entry: Entry) -> Fields:
    """What all rows of a period have."""
    period = entry.period
    return {
        "group_name": period.group,
        "begun_ns": entry.begun_ns,
        "name": period.name,
        "start_ns": period.start_ns,
        "end_ns": period.end_ns,
        "rule": entry.rule.value if isinstance(entry, Dropped) else str(entry.how),
    }


class Accounting(ABC, Generic[C]):
    """Deals with periods of one group over one connection, and keeps the account of them.

    Args:
        tables: of the group.
        patience_s: how long others may wait behind what needs a table alone.

    server_ns: the question for the server's clock (UTC, ns).
    """

    server_ns: ClassVar[str]

    def __init__(self, connection: C, tables: GroupTables, *, patience_s: float) -> None:
        self._connection = connection
        self._tables = tables
        self._schema = str(tables.data.schema)
        self._patience_s = patience_s

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

    async def _see_clocks(self, at_ns: int) -> None:
        """See that it is not the daemon's clock alone that makes a period old."""
        ((server_ns,),) = await self._fetch(self.server_ns)
        if at_ns - int(server_ns) > AHEAD_MOST_NS:
            hours = (at_ns - int(server_ns)) / 3.6e12
            raise StoreError(
                f"the clock of the daemon's node is {hours:,.1f} hours ahead of the database server's: by age"
                " nothing is dropped or reduced until the one that is wrong is set"
            )

    async def _ledger_of(self, period: Period) -> dict[int, tuple[int, ...]]:
        """Triggers, readings, missing and skipped of a stretch of the ledger, by run."""
        rows = await self._rows(_select_ledger(self._tables, period))
        return {int(run): tuple(map(int, counts)) for run, *counts in rows}

    def _insert(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """The statement that writes rows of `dropped`."""
        columns = [name for name in FIELDS if any(name in row for row in rows)]
        values = (", ".join(self._constant(row.get(name)) for name in columns) for row in rows)
        names = ", ".join(self._quoted(name) for name in columns)
        return f"INSERT INTO {self._account()} ({names}) VALUES {', '.join(f'({row})' for row in values)}"

    def _add(self, entry: Entry, run: int, **counts: int) -> list[str]:
        """Statements that add to the counts of a run, whose row may not be there yet."""
        row = {**head_of(entry), "run": run}
        columns = ", ".join(self._quoted(name) for name in row)
        values = ", ".join(f"{self._constant(value)} AS new_{name}" for name, value in row.items())
        of = self._key_of(entry, run)
        sums = ", ".join(f"{self._quoted(name)} = {self._quoted(name)} + {count}" for name, count in counts.items())
        account = self._account()
        unless_there = f"WHERE NOT EXISTS (SELECT 1 FROM {account} WHERE {of})"
        return [
            f"INSERT INTO {account} ({columns}) SELECT * FROM (SELECT {values}) AS new_row {unless_there}",
            f"UPDATE {account} SET {sums} WHERE {of}",
        ]

    def _note(self, entry: Entry, **columns: int) -> str:
        """The statement that changes columns of the row with run 0."""
        changes = ", ".join(f"{self._quoted(name)} = {value}" for name, value in columns.items())
        return f"UPDATE {self._account()} SET {changes} WHERE {self._key_of(entry)}"

    def _begin(self, entry: Entry, size_bytes: int) -> str:
        """The statement that writes the row with run 0."""
        return self._insert([{**head_of(entry), "run": 0, "size_bytes": size_bytes}])

    def _key_of(self, entry: Entry, run: int = 0) -> str:
        """The condition that names the row of a run."""
        period = entry.period
        key = {
            "group_name": self._literal(period.group),
            "begun_ns": entry.begun_ns,
            "start_ns": period.start_ns,
            "run": run,
        }
        return " AND ".join(f"{name} = {value}" for name, value in key.items())

    def _account(self) -> str:
        return self._quoted(self._schema, "dropped")

    def _constant(self, value: int | str | None) -> str:
        return "NULL" if value is None else str(value) if isinstance(value, int) else self._literal(value)


def _select_ledger(tables: GroupTables, period: Period) -> sa.Select[Any]:
    ledger = tables.ledger.c
    sums = sa.func.sum(ledger.arrived), sa.func.sum(ledger.expected - ledger.arrived), skipped_between(ledger)
    return (
        sa.select(ledger.run, sa.func.count(), *(sa.cast(each, sa.BigInteger) for each in sums))
        .where(ledger.time_ns >= period.start_ns, ledger.time_ns < period.end_ns)
        .group_by(ledger.run)
    )
