"""Reducing a period in SQL: rows of the group's table are taken out in steps, and what they are reduced to is put in.

A step is one transaction: it takes rows out, puts the figures of their buckets together with those that are there, and
adds to the account how many rows and readings that were. What a statement takes out is what it reads: a row that comes
meanwhile is left, and found by the next pass. A pass goes through all rows that a period has. No step needs to know
which came before it, so that whoever comes after a kill begins with the first.

Which periods that were reduced got readings since is known as far as one store knows, of what it wrote itself.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from backends.base import Pace, StoreError, StoreUnavailable
from backends.columns.filling import revised_with_late
from backends.decimation import figures_of
from backends.diagnosis import dropped_meanwhile
from backends.sql.accounting import RULES, Accounting, by_period, period_of, select_decimated, stored_of
from backends.sql.connection import C
from backends.sql.tables import shared_tables
from schemas.batch import Batch, Layout
from schemas.decimation import Bucket, Decimated, Every, How, how_of
from schemas.readings import Array
from schemas.retention import Period, Span, are_within

BUCKETS_AT_ONCE = 1_000
"""So many buckets are asked for with one statement."""
_RULES = ", ".join(f"'{rule}'" for rule in RULES)


def decimated_of(rows: Iterable[Sequence[Any]]) -> list[Decimated]:
    """The account that rows of `select_decimated` are.

    Raises:
        StoreError: a row has a rule that this triggerlog does not know.
    """
    found = []
    for of, parts in by_period(rows):
        try:
            how = how_of(of["rule"])
        except ValueError as error:
            raise StoreError(f"table 'dropped': {error}; a newer triggerlog wrote it") from None
        found.append(
            Decimated(
                period=period_of(of),
                how=how,
                begun_ns=of["begun_ns"],
                reduced_ns=of["counted_ns"],
                ended_ns=of["dropped_ns"],
                stored=stored_of(parts),
                **{name: of[name] for name in ("readings", "triggers", "size_bytes")},
            )
        )
    return found


def not_there(batch: Batch, earlier: Mapping[str, Array] | Array) -> Array:
    """Ledger rows of triggers with late readings whose rows are there no more. earlier: the columns of those there."""
    there = {*zip(earlier["run"].tolist(), earlier["trigger_id"].tolist(), strict=True)}
    late = revised_with_late(batch)
    return late[[key not in there for key in late[["run", "trigger"]].tolist()]]


def stored_again(rows: Array, account: str, group: str) -> list[str]:
    """Statements that take triggers out of the account whose rows are stored again, with late readings alone.

    rows: as of `not_there`. account: the table, quoted. group: a text constant. Nothing changes where a trigger was not
    reduced.
    """
    return [
        f"UPDATE {account} SET stored = stored - 1 WHERE group_name = {group} AND run = {run} AND stored > 0"
        f" AND {_of_time(time_ns)} AND rule NOT IN ({_RULES})"
        for run, time_ns in rows[["run", "time_ns"]].tolist()
    ]


def periods_dropped(rows: Array, account: str, group: str) -> str:
    """The question for the periods that retention has dropped, or drops, of the times of rows: start_ns, end_ns."""
    times = " OR ".join(f"({_of_time(time_ns)})" for time_ns in rows["time_ns"].tolist())
    # As it is now, whatever the transaction has seen before.
    return (
        f"SELECT start_ns, end_ns FROM {account} WHERE group_name = {group} AND run = 0 AND rule IN ({_RULES})"
        f" AND ({times}) FOR UPDATE"
    )


def see_not_dropped(rows: Array, periods: Iterable[Sequence[Any]]) -> None:
    """See that rows that are stored again are of no period that was dropped, whose account has them for ever.

    Raises:
        BatchRejected: one is.
    """
    spans = [Span(start_ns=int(start_ns), end_ns=int(end_ns)) for start_ns, end_ns in periods]
    for run, trigger in rows[are_within(spans, rows["time_ns"])][["run", "trigger"]].tolist():
        raise dropped_meanwhile(run, trigger)


def _of_time(time_ns: int) -> str:
    return f"start_ns <= {time_ns} AND end_ns > {time_ns}"


class Reducing(Accounting[C]):
    """Reduces periods of one group over one connection."""

    async def reduce(self, period: Period, how: How, *, window_ns: int, at_ns: int, pace: Pace) -> Decimated:
        """Reduce a period, or go on with it; see `backends.base.Decimating.decimate`."""
        await self._prepare()
        begun = await self._known(period)
        if begun is None:
            await self._see_clocks(at_ns)
            begun = Decimated(period=period, how=how, begun_ns=at_ns)
            await self._set_out(begun)
        half = 1.0 if begun.ended_ns is not None else 0.5
        await self._pass(begun, window_ns, lambda done: pace(half * done))
        if begun.reduced_ns is None:
            await self._durably([*await self._counts(period, begun), self._note(begun, counted_ns=at_ns)])
        if begun.ended_ns is None:
            await self._give_room_back(begun, lambda done: pace(half + half * done))
            await self._durably([self._note(begun, dropped_ns=at_ns)])
        found = await self._known(period)
        assert found is not None
        return found

    async def _known(self, period: Period) -> Decimated | None:
        """The account of a period."""
        account = decimated_of(await self._rows(select_decimated(self._schema, period.group)))
        # A partition that was dropped may be there again, for a reading with a wrong clock.
        return next((each for each in reversed(account) if each.period == period), None)

    async def _counts(self, period: Period, begun: Decimated) -> list[str]:
        """Statements that write down what the ledger says of a period."""
        statements = []
        for run, (triggers, _, missing, skipped) in (await self._ledger_of(period)).items():
            statements += self._add(begun, run, triggers=triggers, missing=missing, skipped=skipped)
        return statements

    async def _goes(self, begun: Decimated, window_ns: int) -> str:
        """The condition that rows meet which do not stay."""
        conditions = [
            f"NOT (time_ns >= {span.start_ns} AND time_ns < {span.end_ns})"
            for span in await self._windows(begun.period, window_ns)
        ]
        if isinstance(begun.how, Every):
            conditions.append(f"trigger_id % {begun.how.n} <> 0")
        return " AND ".join(conditions or ["1 = 1"])

    async def _windows(self, period: Period, window_ns: int) -> list[Span]:
        """What of a period lies around marks of the group, or of all groups: ascending, none touching another."""
        marks = shared_tables(self._schema).marks.c
        last = sa.func.coalesce(marks.until_ns, marks.time_ns)
        of = sa.or_(marks.group_name.is_(None), marks.group_name == period.group), marks.withdrawn_ns.is_(None)
        near = marks.time_ns < period.end_ns + window_ns, last >= period.start_ns - window_ns
        rows = await self._rows(sa.select(marks.time_ns, last).where(*of, *near).order_by(marks.time_ns))
        return merged((int(first) - window_ns, int(until) + window_ns + 1) for first, until in rows)

    async def _put_in(self, begun: Decimated, readings: Array, runs: Array) -> list[str]:
        """Put in what readings are reduced to; return the statements that add them to the account.

        readings: `answer_dtype(group)`. runs: of the rows that were taken out.
        """
        if isinstance(begun.how, Bucket):
            figures = await asyncio.to_thread(figures_of, readings, self._tables.group, begun.how.ns)
            for few in _by_buckets(figures):
                await self._put_together(few)
        rows = dict(zip(*(each.tolist() for each in np.unique(runs, return_counts=True)), strict=True))
        counts = dict(zip(*(each.tolist() for each in np.unique(readings["run"], return_counts=True)), strict=True))
        return [
            statement
            for run, stored in rows.items()
            for statement in self._add(begun, run, stored=stored, readings=counts.get(run, 0))
        ]

    @abstractmethod
    async def _prepare(self) -> None:
        """See that there is the table for what readings are reduced to."""

    @abstractmethod
    async def _set_out(self, begun: Decimated) -> None:
        """Write the row with run 0.

        Raises:
            StoreError: there is no such partition, or it cannot be reduced.
        """

    @abstractmethod
    async def _pass(self, begun: Decimated, window_ns: int, pace: Pace) -> None:
        """Go through all rows of a period, and reduce those that do not stay."""

    @abstractmethod
    async def _put_together(self, figures: Array) -> None:
        """Within a step: put figures in, together with those of the same buckets that are there."""

    @abstractmethod
    async def _give_room_back(self, begun: Decimated, pace: Pace) -> None:
        """Give the room of the rows that are gone back to the disk."""

    @abstractmethod
    async def _durably(self, statements: Sequence[str]) -> None:
        """Run statements in one transaction that survives a crash of the server."""


def _by_buckets(figures: Array) -> Iterator[Array]:
    """Figures, some buckets at once; in order of time."""
    starts = np.unique(figures["time_ns"])[::BUCKETS_AT_ONCE]
    yield from np.split(figures, np.searchsorted(figures["time_ns"], starts)[1:]) if len(figures) else []


def merged(spans: Iterable[tuple[int, int]]) -> list[Span]:
    """Spans in order of their begin, (start_ns, end_ns) each, without those that touch: these are one."""
    found: list[Span] = []
    for start_ns, end_ns in spans:
        if found and start_ns <= found[-1].end_ns:
            found[-1] = replace(found[-1], end_ns=max(found[-1].end_ns, end_ns))
        else:
            found.append(Span(start_ns=start_ns, end_ns=end_ns))
    return found


class LateForReduced:
    """Which periods that were reduced a store has put readings into since."""

    def __init__(self) -> None:
        self._periods: dict[str, list[Period]] = {}
        self._under_way: list[Period] = []
        self._late: dict[str, set[str]] = {}

    def know(self, account: Iterable[Decimated]) -> None:
        """These are the periods, and those that are being reduced, whose account may not be there yet."""
        self._periods = {}
        for period in {*(each.period for each in account), *self._under_way}:
            self._periods.setdefault(period.group, []).append(period)

    @contextmanager
    def committed(self, batch: Batch, layout: Layout) -> Iterator[None]:
        """A batch is committed; where the database does not say so it may be there, and never be sent again."""
        try:
            yield
        except StoreUnavailable:
            self._note(batch, layout)
            raise
        self._note(batch, layout)

    @contextmanager
    def taken(self, period: Period) -> Iterator[None]:
        """A period is reduced: what comes from now on is late. Where that fails, what came before still is."""
        late = self._late.setdefault(period.group, set())
        late.discard(period.name)
        known = self._periods.setdefault(period.group, [])
        if period not in known:
            known.append(period)
        self._under_way.append(period)
        try:
            yield
        except BaseException:
            late.add(period.name)
            raise
        finally:
            self._under_way.remove(period)

    def of(self, group: str) -> frozenset[str]:
        """Names of the periods."""
        return frozenset(self._late.get(group, ()))

    def _note(self, batch: Batch, layout: Layout) -> None:
        periods = self._periods.get(batch.group.name)
        if not periods:
            return
        times = _times_of(batch, layout)
        if not times.size or times.min() >= max(period.end_ns for period in periods):
            return
        late = self._late.setdefault(batch.group.name, set())
        late |= {
            each.name for each in periods if are_within([Span(start_ns=each.start_ns, end_ns=each.end_ns)], times).any()
        }


def _times_of(batch: Batch, layout: Layout) -> Array:
    """Where the rows of a batch lie."""
    if layout is Layout.ARRAYS:
        times = [batch.ledger["time_ns"], batch.revised["time_ns"][batch.late_of]]
    else:
        times = [batch.readings["time_ns"][batch.present], batch.late["time_ns"]]
    return np.concatenate(times)
