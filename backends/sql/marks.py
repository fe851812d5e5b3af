"""Marks in SQL: the statements that keep one, withdraw it, and select some.

A row is never removed: a mark that is withdrawn stays, with the time of that, so that a request that made it and comes
again does not bring it back.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from backends.diagnosis import stored_mark
from backends.sql.tables import shared_tables
from schemas.marks import Mark, MarksWithin

FIELDS = ("id", "time_ns", "until_ns", "text", "author", "group_name")


class MarkStatements:
    """Statements of one logger.

    Args:
        table: its name, quoted.
        literal: makes a text constant.
        unless_there: what an INSERT ends with to leave a row of the same id as it is.
    """

    def __init__(
        self,
        schema: str,
        logger: str,
        *,
        table: str,
        literal: Callable[[str], str],
        unless_there: str,
    ) -> None:
        self._marks = shared_tables(schema).marks.c
        self._logger = logger
        self._table = table
        self._literal = literal
        self._unless_there = unless_there

    def keep(self, mark: Mark) -> str:
        """Insert a mark, unless its id is there."""
        columns = {
            "id": self._literal(str(mark.id)),
            "logger": self._literal(self._logger),
            "time_ns": str(mark.time_ns),
            "until_ns": "NULL" if mark.until_ns is None else str(mark.until_ns),
            "text": self._literal(mark.text),
            "author": "NULL" if mark.author is None else self._literal(mark.author),
            "group_name": "NULL" if mark.group is None else self._literal(mark.group),
        }
        names, values = ", ".join(columns), ", ".join(columns.values())
        return f"INSERT INTO {self._table} ({names}) VALUES ({values}) {self._unless_there}"

    def withdraw(self, mark: UUID, at_ns: int) -> str:
        """Note when a mark was withdrawn, unless it was before."""
        of = f"id = {self._literal(str(mark))} AND logger = {self._literal(self._logger)}"
        return f"UPDATE {self._table} SET withdrawn_ns = {at_ns} WHERE {of} AND withdrawn_ns IS NULL"

    def of_id(self, mark: UUID) -> sa.Select[Any]:
        """Select FIELDS, and when it was withdrawn, of one mark of this logger."""
        c = self._marks
        of = (c.id == str(mark), c.logger == self._logger)
        return sa.select(*(c[name] for name in (*FIELDS, "withdrawn_ns"))).where(*of)

    def within(self, query: MarksWithin) -> sa.Select[Any]:
        """Select FIELDS of the marks of a span of time, the newest first."""
        c = self._marks
        span = (c.time_ns < query.end_ns, sa.func.coalesce(c.until_ns, c.time_ns) >= query.start_ns)
        found = sa.select(*(c[name] for name in FIELDS)).where(c.logger == self._logger, c.withdrawn_ns.is_(None))
        return found.where(*span).order_by(c.time_ns.desc(), c.id.desc()).limit(query.most)


def mark_of(row: Sequence[Any]) -> Mark:
    """The mark of a row of FIELDS. Raises StoreError where it is none."""
    fields = {name: value for name, value in zip(FIELDS, row, strict=True) if name != "group_name"}
    return stored_mark("table 'marks'", fields | {"group": row[FIELDS.index("group_name")]})
