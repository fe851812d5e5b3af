"""The questions of `schemas.queries` as SQLAlchemy selects, with every column in the order in which answers are parsed.

Readings of the `rows` layout come one a row: run, trigger_id, instrument, time_ns, channels. Readings of the `arrays`
layout come one trigger a row, whole arrays, to be spread out by the reader; the exception is one instrument's, whose
elements are picked by the server.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from backends.columns.stored import ACCOUNT, MISSING_OFFSET, slack
from backends.columns.windows import triggers_in_window
from backends.sql.tables import GroupTables, shared_tables
from schemas.batch import Layout, Stream
from schemas.ledger import COUNTS, NUMBERS
from schemas.queries import InstrumentReadings, SkippedTriggers, WindowReadings


def ledger_columns(tables: GroupTables) -> list[sa.Column[Any]]:
    """List the ledger's columns in the order of `ledger_dtype`."""
    return [tables.ledger.c[name] for name in ("run", "trigger_id", *NUMBERS, *COUNTS, "missing")]


def newest_complete(tables: GroupTables) -> sa.Select[Any]:
    """Select the ledger row of the newest trigger with every instrument there."""
    ledger = tables.ledger.c
    return (
        sa.select(*ledger_columns(tables))
        .where(ledger.arrived == ledger.expected)
        .order_by(ledger.run.desc(), ledger.trigger_id.desc())
        .limit(1)
    )


def ledger_row(tables: GroupTables, trigger: int, run: int | None) -> sa.Select[Any]:
    """Select one trigger's ledger row; of the newest run that has it when `run` is None."""
    ledger = tables.ledger.c
    found = sa.select(*ledger_columns(tables)).where(ledger.trigger_id == trigger)
    if run is None:
        # The key begins with the run: PostgreSQL 18 skips from run to run, older ones go through the whole index.
        runs = sa.select(ledger.run).where(ledger.trigger_id == trigger).order_by(ledger.run.desc()).limit(1)
        return found.where(ledger.run == runs.scalar_subquery())
    return found.where(ledger.run == run)


def ledger_tail(tables: GroupTables, most: int, run: int | None) -> sa.Select[Any]:
    """Select the last ledger rows of a run, of the newest one when it is None, in descending order."""
    ledger = tables.ledger.c
    newest = sa.select(ledger.run).order_by(ledger.run.desc(), ledger.trigger_id.desc()).limit(1).scalar_subquery()
    of_run = ledger.run == (newest if run is None else run)
    return sa.select(*ledger_columns(tables)).where(of_run).order_by(ledger.trigger_id.desc()).limit(most)


def ledger_ends(tables: GroupTables) -> sa.CompoundSelect[Any]:
    """Select the first and the last ledger row of the newest run, each by the key, in no order; perhaps one row twice.

    One statement, which is one snapshot: both are of one run.
    """
    ledger = tables.ledger.c
    newest = sa.select(ledger.run).order_by(ledger.run.desc(), ledger.trigger_id.desc()).limit(1).scalar_subquery()
    of_newest = sa.select(*ledger_columns(tables)).where(ledger.run == newest).limit(1)
    ends = (of_newest.order_by(ledger.trigger_id), of_newest.order_by(ledger.trigger_id.desc()))
    return sa.union_all(*(sa.select(end.subquery()) for end in ends))


def ledger_of_triggers(tables: GroupTables, run: int, triggers: Sequence[int]) -> sa.Select[Any]:
    """Select the ledger rows of some triggers of a run, in no order."""
    ledger = tables.ledger.c
    return sa.select(*ledger_columns(tables)).where(ledger.run == run, ledger.trigger_id.in_(triggers))


def skipped_triggers(
    tables: GroupTables, query: SkippedTriggers, hint: sa.ColumnElement[bool], time_ns: sa.ColumnElement[int]
) -> sa.Select[Any]:
    """Select the ledger rows of triggers that follow a gap, newest first, with what is skipped by now.

    hint: which rows may follow one, by an index. time_ns: the time by that index.
    """
    ledger, other = tables.ledger.c, tables.ledger.alias("other").c
    below = other.run == ledger.run, other.trigger_id < ledger.trigger_id
    highest = sa.select(sa.func.max(other.trigger_id)).where(*below).scalar_subquery()
    is_right_below = sa.exists().where(other.run == ledger.run, other.trigger_id == ledger.trigger_id - 1)
    columns: list[sa.ColumnElement[Any]] = [
        (ledger.trigger_id - highest - 1).label(column.name) if column.name == "skipped" else column
        for column in ledger_columns(tables)
    ]
    return (
        sa.select(*columns)
        .where(hint, time_ns >= query.start_ns, time_ns < query.end_ns, ~is_right_below, sa.exists().where(*below))
        .order_by(time_ns.desc())
        .limit(query.most)
    )


def skipped_between(ledger: Any) -> sa.ColumnElement[Any]:
    """Count the numbers between the first and the last of some ledger rows of one run that have none."""
    return sa.func.max(ledger.trigger_id) - sa.func.min(ledger.trigger_id) + 1 - sa.func.count()


def readings_of_trigger(
    tables: GroupTables, *, run: int, trigger: int, time_ns: int, first_ns: int, last_ns: int
) -> sa.Select[Any]:
    """Select one trigger's readings; the times are those of its ledger row."""
    data = tables.data.c
    of_trigger = sa.select(*tables.data.c).where(data.run == run, data.trigger_id == trigger)
    if tables.layout is Layout.ARRAYS:
        return of_trigger.where(data.time_ns == time_ns)
    return of_trigger.where(data.time_ns >= first_ns, data.time_ns <= last_ns).order_by(data.instrument)


def readings_of_instrument(tables: GroupTables, query: InstrumentReadings) -> sa.Select[Any]:
    """Select one instrument's readings, newest first, one a row in both layouts."""
    if tables.layout is Layout.ARRAYS:
        return _elements_of_instrument(tables, query)
    data = tables.data.c
    return (
        sa.select(*tables.data.c)
        .where(data.instrument == query.instrument, data.time_ns >= query.start_ns, data.time_ns < query.end_ns)
        .order_by(data.time_ns.desc())
        .limit(query.most)
    )


def _elements_of_instrument(tables: GroupTables, query: InstrumentReadings) -> sa.Select[Any]:
    data = tables.data.c
    offset = data.time_offset_ns[query.instrument + 1]
    time_ns = (data.time_ns + offset).label("reading_ns")
    channels = [data[channel.name][query.instrument + 1] for channel in tables.group.channels]
    number = sa.cast(sa.literal(query.instrument), sa.SmallInteger)
    low, high = slack(query.start_ns, query.end_ns)
    return (
        sa.select(data.run, data.trigger_id, number, time_ns, *channels)
        .where(data.time_ns >= low, data.time_ns <= high, offset != MISSING_OFFSET)
        .where(data.time_ns + offset >= query.start_ns, data.time_ns + offset < query.end_ns)
        .order_by(time_ns.desc())
        .limit(query.most)
    )


def readings_in_window(tables: GroupTables, query: WindowReadings, rows: int | None = None) -> sa.Select[Any]:
    """Select a group's readings of a stretch of time; in the arrays layout the rows of all triggers it may touch.

    rows: no more than so many, and then any and in no order: the server need not read all to find the first ones.
    """
    data = tables.data.c
    if tables.layout is Layout.ARRAYS:
        low, high = triggers_in_window(query)
        found = sa.select(*tables.data.c).where(data.time_ns >= low, data.time_ns <= high)
        return found.order_by(data.run, data.trigger_id) if rows is None else found.limit(rows)
    found = sa.select(*tables.data.c).where(data.time_ns >= query.start_ns, data.time_ns < query.end_ns)
    return found.order_by(data.run, data.trigger_id, data.instrument) if rows is None else found.limit(rows)


def totals(tables: GroupTables, apart: Sequence[str] = ()) -> sa.Select[Any]:
    """Select how much is stored, by run, and the account, in the order of `schemas.queries.TOTALS` up to it.

    One statement, which is one snapshot everywhere; each table is gone through once.

    apart: tables of readings that are set apart to be dropped, and not counted yet.
    """
    data, ledger, schema = tables.data.c, tables.ledger.c, str(tables.data.schema)
    zero, nothing = sa.literal(0), sa.cast(sa.null(), sa.BigInteger)
    no_ledger = (zero, zero, zero, zero, nothing, nothing)
    dropped = shared_tables(schema).dropped.c
    runs_apart = [sa.table(name, sa.column("run", sa.Integer), schema=schema).c.run for name in apart]
    counted = sa.union_all(
        _labelled(data.run, sa.func.count(), zero, *no_ledger).group_by(data.run),
        _labelled(
            *(ledger.run, zero, zero, sa.func.count(), sa.func.sum(ledger.expected), sa.func.sum(ledger.arrived)),
            *(skipped_between(ledger), sa.func.min(ledger.first_ns), sa.func.max(ledger.last_ns)),
        ).group_by(ledger.run),
        _labelled(dropped.run, zero, sa.func.sum(dropped.stored), *no_ledger)
        .where(dropped.group_name == tables.group.name, dropped.stored > 0)
        .group_by(dropped.run),
        *(_labelled(run, zero, sa.func.count(), *no_ledger).group_by(run) for run in runs_apart),
    ).subquery("counted")
    ends = sa.func.min(counted.c.first_ns), sa.func.max(counted.c.last_ns)
    sums = [sa.func.sum(counted.c[name]) for name in _COUNTED[1:-2]]
    by_run = _labelled(counted.c.run, *sums, *ends).group_by(counted.c.run).subquery("by_run")
    positions = shared_tables(schema).positions.c
    of_journal = ~positions.logger.endswith(f"/{Stream.DEAD_LETTERS}")
    account = (
        sa.select(
            # The other streams of a position have numbers of their own; what they committed counts.
            sa.func.max(sa.case((of_journal, positions.sequence))).label("sequence"),
            *(sa.func.sum(positions[name]).label(f"account_{name}") for name in ACCOUNT),
            sa.func.sum(sa.case((of_journal, positions.readings))).label("journal_readings"),
        )
        .where(positions.group_name == tables.group.name)
        .subquery("account")
    )
    columns: list[sa.ColumnElement[Any]] = [*by_run.c, *account.c]
    # Without any run there is the account all the same.
    joined = account.outerjoin(by_run, sa.true())
    whole: list[sa.ColumnElement[Any]] = [
        sa.cast(sa.func.coalesce(column, 0), sa.BigInteger).label(column.key) for column in columns
    ]
    return sa.select(*whole).select_from(joined).order_by(by_run.c.run)


_COUNTED = ("run", "stored", "dropped", "triggers", "expected", "arrived", "skipped", "first_ns", "last_ns")


def _labelled(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return sa.select(*(column.label(name) for name, column in zip(_COUNTED, columns, strict=True)))
