"""SQL text: what `backends.sql` declares, compiled for PostgreSQL, and what only PostgreSQL has."""

from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.compiler import IdentifierPreparer

from backends.columns.filling import revised_with_late
from backends.columns.partitions import Partition
from backends.columns.stored import MISSING_OFFSET, POSITION, STORED_DTYPES
from backends.sql.positions import followed_in_sql, least_of_ours, move
from backends.sql.tables import GroupTables, SharedTables
from schemas.batch import Batch, Layout, Stream, position_owner
from schemas.readings import Array, InstrumentGroup

# psycopg's dialect escapes % for its own parameters; the plain one with named parameters leaves text alone.
DIALECT = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
PREPARER: IdentifierPreparer = DIALECT.identifier_preparer

PAGE_ROW_LIMIT = 8_160
"""Bytes a row may take on an 8 kB page: 8192 less the page header (24), one line pointer (4) and alignment."""
ROW_HEADER = 24
ARRAY_HEADER = 24 + 4
"""Bytes of an array before its elements (header, one dimension), with what alignment may add."""

LEAF = "$leaf"
"""Ends the name of the table that has the rows of a period: the only partition of the period's own table."""

LISTED_MOST = 500
"""Keys in a list: the server goes through a long one by recursion, up to its max_stack_depth (error 54001)."""

EPOCH = "timestamptz '1970-01-01 00:00:00+00'"


def quoted(*names: str) -> str:
    """Quote a dotted name."""
    return ".".join(PREPARER.quote_identifier(name) for name in names)


def literal(text: str) -> str:
    """Quote a text constant, so that a server reads it alike whatever its standard_conforming_strings."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'" if "\\" not in text else " E'" + doubled.replace("\\", "\\\\") + "'"


def compiled(statement: sa.SelectBase) -> str:
    """Compile a select with its values in place: COPY takes no parameters."""
    return str(statement.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True}))


def create_since(tables: SharedTables, names: Collection[str]) -> list[str]:
    """Statements that create some of the shared tables; nothing happens where one is there already."""
    wanted = [table for table in tables.all() if table.name in names]
    return [str(CreateTable(table, if_not_exists=True).compile(dialect=DIALECT)) for table in wanted]


def create_shared(tables: SharedTables, schema: str) -> list[str]:
    """Statements that create what all groups share; nothing happens where it is there already."""
    return [
        *create_since(tables, [table.name for table in tables.all()]),
        # It is written with every batch, and does not compress.
        f"ALTER TABLE {quoted(schema, tables.positions.name)} ALTER COLUMN state SET STORAGE EXTERNAL",
        # extract() is only STABLE for PostgreSQL since some of its fields depend on the time zone; this one does not.
        (
            f"CREATE OR REPLACE FUNCTION {quoted(schema)}.ns(t timestamptz) RETURNS int8 LANGUAGE sql IMMUTABLE STRICT"
            " PARALLEL SAFE AS 'SELECT (extract(epoch FROM t) * 1000000000)::int8'"
        ),
    ]


def create_schema(schema: str, *, if_missing: bool = False) -> str:
    """The statement that creates a schema."""
    return f"CREATE SCHEMA {'IF NOT EXISTS ' if if_missing else ''}{quoted(schema)}"


def create_group(tables: GroupTables, schema: str, *, if_missing: bool = False) -> list[str]:
    """Statements that create the tables and the view of a group; `if_missing` lets them be run again."""
    statements = []
    for table in (tables.data, tables.ledger):
        statements.append(str(CreateTable(table, if_not_exists=if_missing).compile(dialect=DIALECT)))
        indexes = sorted(table.indexes, key=_name)
        statements += [str(CreateIndex(i, if_not_exists=if_missing).compile(dialect=DIALECT)) for i in indexes]
    if tables.layout is Layout.ARRAYS:
        statements.append(_set_storage(tables, schema))
    create = f"CREATE TABLE {'IF NOT EXISTS ' if if_missing else ''}"
    for table in (tables.data, tables.ledger):
        default = quoted(schema, f"{table.name}$default")
        statements.append(f"{create}{default} PARTITION OF {quoted(schema, table.name)} DEFAULT")
    statements.append(create_reduced(tables, if_missing=if_missing))
    statements.append(f"CREATE {'OR REPLACE ' if if_missing else ''}{_view(tables, schema)}")
    return [*statements, *_between(tables, schema)]


def create_reduced(tables: GroupTables, *, if_missing: bool = False) -> str:
    """The statement that creates the table of what readings are reduced to."""
    return str(CreateTable(tables.reduced, if_not_exists=if_missing).compile(dialect=DIALECT))


def describe_group(tables: GroupTables, schema: str, logger: str, *, if_missing: bool = False) -> list[str]:
    """Statements that write down what a group is, and that nothing of it is stored yet."""
    group, again = tables.group, " ON CONFLICT DO NOTHING" if if_missing else ""
    name = literal(group.name)
    channels = ((name, str(k), *map(literal, (c.name, c.unit, c.dtype))) for k, c in enumerate(group.channels))
    instruments = ((name, str(k), literal(instrument)) for k, instrument in enumerate(group.instruments))
    rows: tuple[tuple[str, Iterable[Iterable[str]]], ...] = (
        (
            "groups (name, logger, layout, instruments)",
            [(name, literal(logger), literal(tables.layout), str(group.size))],
        ),
        ("channels (group_name, position, name, unit, dtype)", channels),
        ("instruments (group_name, instrument, name)", instruments),
    )
    position = f"positions (logger, group_name, sequence) VALUES ({literal(logger)}, {name}, 0) ON CONFLICT DO NOTHING"
    return [
        *(
            f"INSERT INTO {quoted(schema)}.{into} VALUES\n"
            + ",\n".join(f"  ({', '.join(row)})" for row in values)
            + again
            for into, values in rows
        ),
        f"INSERT INTO {quoted(schema)}.{position}",
    ]


def _name(index: sa.Index) -> str:
    return str(index.name)


def arrays_storage(group: InstrumentGroup) -> str:
    """PLAIN while a row fits a page: out-of-line storage costs the writing 3 to 4 times as much. EXTERNAL beyond."""
    widths = [8, *(int(STORED_DTYPES[channel.dtype][-1]) for channel in group.channels)]
    row = ROW_HEADER + 24 + sum(ARRAY_HEADER + -(-group.size * width // 8) * 8 for width in widths)
    return "PLAIN" if row <= PAGE_ROW_LIMIT else "EXTERNAL"


def _set_storage(tables: GroupTables, schema: str) -> str:
    storage = arrays_storage(tables.group)
    columns = ("time_offset_ns", *(channel.name for channel in tables.group.channels))
    changes = ", ".join(f"ALTER COLUMN {quoted(column)} SET STORAGE {storage}" for column in columns)
    return f"ALTER TABLE {quoted(schema, tables.data.name)} {changes}"


def _view(tables: GroupTables, schema: str) -> str:
    """What follows CREATE for the view of a group's readings: one a row in both layouts, with names and timestamps.

    In the arrays layout time_ns is computed, so `trigger_time_ns` is there to be compared with: it prunes partitions.
    """
    group, arrays = tables.group, tables.layout is Layout.ARRAYS
    channels = [quoted(channel.name) for channel in group.channels]
    time_ns, number = ("(d.time_ns + u.o)", "(u.n - 1)::int2") if arrays else ("d.time_ns", "d.instrument")
    columns = [
        f"d.run, d.trigger_id, {number} AS instrument, i.name",
        f"{EPOCH} + interval '1 microsecond' * ({time_ns} / 1000) AS time",
        f"{time_ns} AS time_ns",
        *([f"u.c{k} AS {name}" for k, name in enumerate(channels)] if arrays else [f"d.{name}" for name in channels]),
        *(["d.time_ns AS trigger_time_ns"] if arrays else []),
    ]
    source = f"{quoted(schema, tables.data.name)} d"
    if arrays:
        unnested = ", ".join(["d.time_offset_ns", *(f"d.{name}" for name in channels)])
        names = ", ".join(["o", *(f"c{k}" for k in range(len(channels))), "n"])
        source += f" CROSS JOIN LATERAL unnest({unnested}) WITH ORDINALITY AS u({names})"
    return (
        f"VIEW {quoted(schema, f'{group.name}_readings')} AS SELECT {', '.join(columns)} FROM {source}"
        f" LEFT JOIN {quoted(schema, 'instruments')} i"
        f" ON i.group_name = {literal(group.name)} AND i.instrument = {number}"
        + (f" WHERE u.o <> '{MISSING_OFFSET}'::int8" if arrays else "")
    )


def _between(tables: GroupTables, schema: str) -> list[str]:
    """Statements that make the function for readings of a stretch of time, and say in the database which column prunes.

    No condition on the view's column `time` can: partitions have time_ns as their key.
    """
    view, between = (quoted(schema, f"{tables.group.name}_{ending}") for ending in ("readings", "between"))
    pruning = "trigger_time_ns" if tables.layout is Layout.ARRAYS else "time_ns"
    reads = f"reads only the partitions of that time; or {tables.group.name}_between(since, until)"
    comments = {
        f"VIEW {view}": "One reading a row, with the name of its instrument.",
        f"COLUMN {view}.time": f"UTC. For display: a condition on it reads every partition. One on {pruning} {reads}",
        f"COLUMN {view}.{pruning}": f"Nanoseconds since 1970-01-01 UTC. {pruning} >= {quoted(schema)}.ns(now()"
        f" - interval '1 hour') {reads}",
        f"FUNCTION {between}(timestamptz, timestamptz)": f"Readings with since <= {pruning} < until; reads only the"
        " partitions of that time",
    }
    return [
        # Without STRICT and SECURITY DEFINER it is put in place of its call, so that the plan prunes.
        (
            f"CREATE OR REPLACE FUNCTION {between}(since timestamptz, until timestamptz) RETURNS SETOF {view} LANGUAGE"
            f" sql STABLE PARALLEL SAFE BEGIN ATOMIC SELECT * FROM {view}"
            f" WHERE {pruning} >= {quoted(schema)}.ns(since) AND {pruning} < {quoted(schema)}.ns(until); END"
        ),
        *(f"COMMENT ON {what} IS {literal(text)}" for what, text in comments.items()),
    ]


def create_partition(schema: str, table: str, partition: Partition, *, with_leaf: bool = False) -> list[str]:
    """Statements that make a partition and attach it.

    CREATE TABLE ... PARTITION OF would lock the whole table against everybody for a moment, and everybody would queue
    behind a long read; ATTACH lets reading and writing go on.

    with_leaf: the partition is a level of its own, with one leaf that has the rows and takes all of its time.
    """
    parent, child = quoted(schema, table), quoted(schema, f"{table}${partition.label}")
    create = f"(LIKE {parent} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING CONSTRAINTS)"
    ends = (partition.start_ns, partition.end_ns)
    if not with_leaf:
        return [f"CREATE TABLE {child} {create}", attach(parent, child, *ends)]
    leaf = quoted(schema, f"{table}{leaf_of(f'${partition.label}')}")
    return [
        f"CREATE TABLE {leaf} {create}",
        f"CREATE TABLE {child} {create} PARTITION BY RANGE (time_ns)",
        attach(child, leaf, *ends),
        attach(parent, child, *ends),
    ]


def attach(parent: str, child: str, start_ns: int, end_ns: int) -> str:
    """The statement that attaches a table as the partition of a stretch of time; both are quoted."""
    return f"ALTER TABLE {parent} ATTACH PARTITION {child} FOR VALUES FROM ({start_ns}) TO ({end_ns})"


def lie_in(place: str | None) -> str:
    """The statement after which tables and indexes that a transaction makes lie in a tablespace; None: the database's.

    It fails where there is no such tablespace.
    """
    return f"SET LOCAL default_tablespace = {literal(place or '')}"


def leaf_of(into: str) -> str:
    """What follows the name of a group's table where its partition, whose name ends like `into`, has its rows.

    Nothing where `into` is empty: the server finds the partition.
    """
    return f"{into}{LEAF}" if into else ""


def begin_batch(
    batch: Batch,
    tables: GroupTables,
    *,
    schema: str,
    logger: str,
    synchronous: str,
    ledger: Array | None,
    closed: str | None,
) -> str:
    """One text that begins a batch's transaction: a round trip counts.

    Its last statement moves the position; that it did nothing says that the batch, or some of it, is there already.
    `ledger` goes along where its rows are so few that a COPY of their own would take longer.

    closed: as `backends.sql.positions.move` takes it.
    """
    statements = [
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        f"SET LOCAL synchronous_commit = {synchronous}",
    ]
    if len(batch.revised):
        statements.append(_take_out_ledger(batch, tables, schema))
    to, owner = batch.position, literal(position_owner(logger, batch.stream))
    if batch.stream is not Stream.JOURNAL:
        # Unlike the journal's it is not made with the group.
        row = f"({owner}, {literal(batch.group.name)}, 0)"
        statements.append(
            f"INSERT INTO {quoted(schema, 'positions')} (logger, group_name, sequence) VALUES {row}"
            " ON CONFLICT DO NOTHING"
        )
    moved = move(
        quoted(schema, "positions"),
        key=f"logger = {owner} AND group_name = {literal(batch.group.name)}",
        to={**{name: str(getattr(to, name)) for name in POSITION}, "state": f"'\\x{to.state.hex()}'::bytea"},
        least=str(least_of_ours(batch)),
        followed=followed_in_sql(batch),
        closed=closed,
    )
    if ledger is not None and len(ledger):
        moved = f"WITH moved AS ({moved} RETURNING 1) {_insert_ledger(ledger, tables, schema, logger)}"
    return ";".join([*statements, moved])


def _take_out_ledger(batch: Batch, tables: GroupTables, schema: str) -> str:
    # The row comes back whole with the batch's ledger rows.
    return f"DELETE FROM {quoted(schema, tables.ledger.name)} WHERE {_among(batch.revised, batch)}"


def _insert_ledger(ledger: Array, tables: GroupTables, schema: str, logger: str) -> str:
    assert ledger.dtype.names is not None
    numbers = ledger.dtype.names[:-1]
    missing = [f"'\\x{row.tobytes().hex()}'::bytea" for row in ledger["missing"]]
    rows = (
        f"({','.join(str(value) for value in row)},{bitmap},{literal(logger)})"
        for row, bitmap in zip(ledger[list(numbers)].tolist(), missing, strict=True)
    )
    table = quoted(schema, tables.ledger.name)
    return f"INSERT INTO {table} SELECT v.* FROM moved, (VALUES {','.join(rows)}) AS v"


def take_out_arrays(batch: Batch, tables: GroupTables, schema: str) -> str:
    """Take the rows of triggers with late readings out of the arrays table; they are put back with the batch's rows."""
    of = revised_with_late(batch)
    columns = ", ".join(quoted(column.name) for column in tables.data.c)
    return f"DELETE FROM {quoted(schema, tables.data.name)} WHERE {_among(of, batch)} RETURNING {columns}"


def _among(rows: Array, batch: Batch) -> str:
    times, runs, triggers = batch.revised["time_ns"], rows["run"].tolist(), rows["trigger"].tolist()
    if len(rows) <= LISTED_MOST:
        among = ",".join(f"({run},{trigger})" for run, trigger in zip(runs, triggers, strict=True))
    else:
        arrays = (f"'{{{','.join(map(str, of))}}}'" for of in (runs, triggers))
        among = "SELECT * FROM unnest({}::int4[], {}::int8[])".format(*arrays)
    return f"(run, trigger_id) IN ({among}) AND time_ns BETWEEN '{times.min()}'::int8 AND '{times.max()}'::int8"
