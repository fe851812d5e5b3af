"""Every instrument's value valid at a moment: nearly always within the last triggers before it.

The stretch just before the moment is looked at first, then earlier and longer ones, for what is still missing.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from backends.columns.reductions import Newest
from backends.columns.stored import MISSING_OFFSET, SLACK_NS
from backends.postgresql.protocol import output
from backends.postgresql.protocol.connection import Connection
from backends.sql.tables import GroupTables
from schemas.batch import Layout
from schemas.queries import Snapshot
from schemas.readings import Array

FIRST_STRETCH_NS = 250_000_000
WIDER = 8
PICKED = 16
"""While so few instruments are missing, the server leaves out triggers in which they are missing, too."""


async def snapshot(connection: Connection, tables: GroupTables, query: Snapshot) -> Array:
    """Answer `Snapshot`: `answer_dtype(group)`, by instrument."""
    newest, reach = Newest(query), 0
    while (missing := newest.missing(query.at_ns - reach)) and reach < query.within_ns:
        before, reach = reach, min(query.within_ns, WIDER * reach or FIRST_STRETCH_NS)
        stretch = query.at_ns - reach, query.at_ns - before
        if tables.layout is Layout.ROWS:
            found = newest_readings(tables, *stretch, missing)
            newest.add(await output.readings(connection, tables, found))
        else:
            # Earlier readings come along with their triggers.
            found = triggers_with(tables, *stretch, missing)
            await output.readings_in_chunks(connection, tables, found, newest.add)
    return newest.found


def newest_readings(tables: GroupTables, after_ns: int, last_ns: int, instruments: Sequence[int]) -> sa.Select[Any]:
    """Select, of single readings with after_ns < time_ns <= last_ns, the newest of each of some instruments."""
    data = tables.data.c
    found = sa.select(*data).where(*_between(data.time_ns, after_ns, last_ns))
    if len(instruments) < tables.group.size:
        found = found.where(data.instrument.in_(instruments))
    newest_first = (data.time_ns.desc(), data.run.desc(), data.trigger_id.desc())
    return found.ext(postgresql.distinct_on(data.instrument)).order_by(data.instrument, *newest_first)


def triggers_with(tables: GroupTables, after_ns: int, last_ns: int, instruments: Sequence[int]) -> sa.Select[Any]:
    """Select the arrays of triggers that have readings with after_ns < time_ns <= last_ns, and some of instruments."""
    data = tables.data.c
    offsets, there = data.time_offset_ns, sa.func.array_remove(data.time_offset_ns, MISSING_OFFSET)
    found = sa.select(*data).where(
        *_between(data.time_ns, after_ns - SLACK_NS, last_ns + SLACK_NS),
        # Whole arrays of all that the slack reaches would be ten seconds of triggers each time.
        sa.or_(
            sa.and_(*_between(data.time_ns, after_ns, last_ns)),
            sa.and_(data.time_ns <= after_ns, after_ns - data.time_ns < sa.any_(offsets)),
            sa.and_(data.time_ns > last_ns, last_ns - data.time_ns >= sa.any_(there)),
        ),
    )
    if len(instruments) <= PICKED:
        found = found.where(sa.or_(*(offsets[number + 1] != MISSING_OFFSET for number in instruments)))
    return found


def _between(time_ns: sa.ColumnElement[Any], after_ns: int, last_ns: int) -> tuple[sa.ColumnElement[bool], ...]:
    # As far as int64 goes: a constant beyond it makes the server compare decimal numbers.
    return time_ns >= max(after_ns + 1, -(2**63)), time_ns <= min(last_ns, 2**63 - 1)
