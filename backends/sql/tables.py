"""The tables of a store, declared once with SQLAlchemy Core and compiled for each SQL dialect.

Shared tables of a schema: `groups`, `channels`, `instruments` (what is logged, and by which logger), `positions` (up to
where the journal is held), `marks` (events that people noted) and `dropped` (the account of periods whose readings were
dropped). Tables of a group `g`: `g` (readings), `g_ledger`, and `g_reduced`
(figures of what was reduced).
What a dialect adds (partitions, the view, storage) is its backend's business.
"""

from dataclasses import dataclass
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from backends.columns.stored import ACCOUNT, STORED_DTYPES
from schemas.batch import Layout
from schemas.ledger import COUNTS, NUMBERS
from schemas.marks import TEXT_MOST
from schemas.readings import Channel, InstrumentGroup

STATE_BYTES = 2**32 - 1
"""Most that a position's state may have; MariaDB and MySQL choose a column's type by it."""

SQL_TYPES: dict[str, type[sa.types.TypeEngine[float]] | type[sa.types.TypeEngine[int]]] = {
    "<i2": sa.SmallInteger,
    "<i4": sa.Integer,
    "<i8": sa.BigInteger,
    "<f4": sa.REAL,
    "<f8": sa.DOUBLE_PRECISION,
}


@dataclass(frozen=True, kw_only=True)
class SharedTables:
    """The tables all groups of a schema share."""

    groups: sa.Table
    channels: sa.Table
    instruments: sa.Table
    positions: sa.Table
    marks: sa.Table
    dropped: sa.Table

    def all(self) -> tuple[sa.Table, ...]:
        """All of them, in the order in which they can be created."""
        return (self.groups, self.channels, self.instruments, self.positions, self.marks, self.dropped)


@dataclass(frozen=True, kw_only=True)
class GroupTables:
    """The tables of one group.

    data: `rows` layout: run, trigger_id, instrument, time_ns, one column a channel.
        `arrays` layout: run, trigger_id, time_ns (the trigger's time), time_offset_ns (int8[], each reading's time
        minus time_ns, ns; the minimum int64 marks a missing instrument, so that a reader needs no join to tell), one
        array a channel; position is the instrument's number, and a missing instrument is NaN or 0.
    ledger: `schemas.ledger.ledger_dtype` with `trigger` as trigger_id, and the logger that wrote it.
    reduced: `schemas.decimation.reduced_dtype`, with the columns of `reduced_columns`.
    """

    group: InstrumentGroup
    layout: Layout
    data: sa.Table
    ledger: sa.Table
    reduced: sa.Table

    def all(self) -> tuple[sa.Table, ...]:
        """All of them."""
        return (self.data, self.ledger, self.reduced)


SINCE = ("marks", "dropped")
"""Shared tables that an older triggerlog did not make."""


@lru_cache
def shared_tables(schema: str) -> SharedTables:
    """Declare the shared tables of a schema."""
    metadata = sa.MetaData(schema=schema)
    groups = sa.Table(
        "groups",
        metadata,
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("logger", sa.Text, nullable=False),
        sa.Column("layout", sa.Text, nullable=False),
        sa.Column("instruments", sa.Integer, nullable=False),
    )
    channels = sa.Table(
        "channels",
        metadata,
        sa.Column("group_name", sa.Text, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("dtype", sa.Text, nullable=False),
    )
    instruments = sa.Table(
        "instruments",
        metadata,
        sa.Column("group_name", sa.Text, primary_key=True),
        sa.Column("instrument", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
    )
    positions = sa.Table(
        "positions",
        metadata,
        sa.Column("logger", sa.Text, primary_key=True),
        sa.Column("group_name", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0"))
            for name in (*ACCOUNT, "journal")
        ),
        sa.Column("state", sa.LargeBinary(STATE_BYTES), nullable=False, server_default=sa.text("('')")),
    )
    # A person makes few marks: they need no index by time.
    marks = sa.Table(
        "marks",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("logger", sa.Text, nullable=False),
        sa.Column("time_ns", sa.BigInteger, nullable=False),
        sa.Column("until_ns", sa.BigInteger, nullable=True),
        sa.Column("text", sa.String(TEXT_MOST), nullable=False),
        sa.Column("author", sa.Text, nullable=True),
        sa.Column("group_name", sa.Text, nullable=True),
        sa.Column("withdrawn_ns", sa.BigInteger, nullable=True),
    )
    return SharedTables(
        groups=groups,
        channels=channels,
        instruments=instruments,
        positions=positions,
        marks=marks,
        dropped=_dropped_table(metadata),
    )


def _dropped_table(metadata: sa.MetaData) -> sa.Table:
    # Of each period a row with run 0, which says how far its dropping is, and what was counted, a row a run.
    return sa.Table(
        "dropped",
        metadata,
        sa.Column("group_name", sa.Text, primary_key=True),
        sa.Column("begun_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("start_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("run", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("end_ns", sa.BigInteger, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("counted_ns", sa.BigInteger, nullable=True),
        sa.Column("dropped_ns", sa.BigInteger, nullable=True),
        *(
            sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0"))
            for name in ("stored", "readings", "triggers", "missing", "skipped", "size_bytes")
        ),
    )


@lru_cache
def group_tables(schema: str, group: InstrumentGroup, layout: Layout) -> GroupTables:
    """Declare the tables of a group."""
    metadata = sa.MetaData(schema=schema)
    data = _rows_table(metadata, group) if layout is Layout.ROWS else _arrays_table(metadata, group)
    return GroupTables(
        group=group,
        layout=layout,
        data=data,
        ledger=_ledger_table(metadata, group),
        reduced=_reduced_table(metadata, group),
    )


def _rows_table(metadata: sa.MetaData, group: InstrumentGroup) -> sa.Table:
    # BRIN costs the writing next to nothing, since readings arrive in order of time and of trigger; a B-tree entry a
    # reading costs a good part of the rate; docs/sql.md has one of the instruments (decision 0069).
    return sa.Table(
        group.name,
        metadata,
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("trigger_id", sa.BigInteger, nullable=False),
        sa.Column("instrument", sa.SmallInteger, nullable=False),
        sa.Column("time_ns", sa.BigInteger, nullable=False),
        *(sa.Column(channel.name, _sql_type(channel), nullable=False) for channel in group.channels),
        sa.Index(
            f"{group.name}_brin",
            "time_ns",
            "trigger_id",
            postgresql_using="brin",
            postgresql_with={"pages_per_range": 32, "autosummarize": "on"},
        ),
        postgresql_partition_by="RANGE (time_ns)",
    )


def _arrays_table(metadata: sa.MetaData, group: InstrumentGroup) -> sa.Table:
    return sa.Table(
        group.name,
        metadata,
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("trigger_id", sa.BigInteger, nullable=False),
        sa.Column("time_ns", sa.BigInteger, nullable=False),
        sa.Column("time_offset_ns", postgresql.ARRAY(sa.BigInteger), nullable=False),
        *(sa.Column(channel.name, postgresql.ARRAY(_sql_type(channel)), nullable=False) for channel in group.channels),
        sa.Index(f"{group.name}_time", "time_ns"),
        postgresql_partition_by="RANGE (time_ns)",
    )


def _ledger_table(metadata: sa.MetaData, group: InstrumentGroup) -> sa.Table:
    table = sa.Table(
        f"{group.name}_ledger",
        metadata,
        sa.Column("run", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("trigger_id", sa.BigInteger, primary_key=True, autoincrement=False),
        *(
            sa.Column(name, sa.BigInteger, primary_key=name == "time_ns", autoincrement=False, nullable=False)
            for name in NUMBERS
        ),
        *(sa.Column(name, sa.Integer, nullable=False) for name in COUNTS),
        sa.Column("missing", sa.LargeBinary, nullable=False),
        sa.Column("logger", sa.Text, nullable=False),
        postgresql_partition_by="RANGE (time_ns)",
    )
    # The newest complete trigger has to be found at once even when an instrument has been dead for a week.
    sa.Index(
        f"{group.name}_complete",
        table.c.run,
        table.c.trigger_id,
        postgresql_where=table.c.arrived == table.c.expected,
    )
    sa.Index(f"{group.name}_skipped", table.c.time_ns, postgresql_where=table.c.skipped > 0)
    return table


@dataclass(frozen=True, kw_only=True)
class ReducedColumn:
    """A column of figures: its name, the channel and the figure that it is of, and its dtype as it is stored.

    channel: None where it is of the bucket; figure is the field then.
    """

    name: str
    channel: str | None
    figure: str
    dtype: str


@lru_cache
def reduced_columns(group: InstrumentGroup) -> tuple[ReducedColumn, ...]:
    """The columns of a table of figures, the wide ones first: a row is no longer than it has to be.

    n of a channel that has no NaN is the number of readings, and has no column. An hour is the longest bucket: counts
    fit 32 bits.
    """
    found = [ReducedColumn(name="time_ns", channel=None, figure="time_ns", dtype="<i8")]
    for channel in group.channels:
        stored = STORED_DTYPES[channel.dtype]
        forms = {"mean": "<f8", "m2": "<f8", "least": stored, "greatest": stored}
        if channel.is_float:
            forms["n"] = "<i4"
        found += [
            ReducedColumn(name=f"{channel.name}_{figure}", channel=channel.name, figure=figure, dtype=dtype)
            for figure, dtype in forms.items()
        ]
    found.append(ReducedColumn(name="readings", channel=None, figure="readings", dtype="<i4"))
    found.append(ReducedColumn(name="instrument", channel=None, figure="instrument", dtype="<i2"))
    return tuple(sorted(found, key=lambda column: -int(column.dtype[-1])))


def _reduced_table(metadata: sa.MetaData, group: InstrumentGroup) -> sa.Table:
    # The key finds the buckets that more readings come for, and sees that each is there once.
    columns = [
        sa.Column(each.name, SQL_TYPES[each.dtype](), nullable=False, autoincrement=False)
        for each in reduced_columns(group)
    ]
    return sa.Table(f"{group.name}_reduced", metadata, *columns, sa.PrimaryKeyConstraint("time_ns", "instrument"))


def _sql_type(channel: Channel) -> sa.types.TypeEngine[float] | sa.types.TypeEngine[int]:
    return SQL_TYPES[STORED_DTYPES[channel.dtype]]()
