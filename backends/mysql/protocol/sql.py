"""SQL text: names, constants, and the statements of a batch."""

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.sql.compiler import IdentifierPreparer

from backends.columns.filling import revised_with_late
from backends.columns.stored import POSITION
from backends.sql.positions import followed_in_sql, least_of_ours, move
from backends.sql.tables import GroupTables
from schemas.batch import Batch, Stream, position_owner
from schemas.readings import Array

# The driver's dialects escape % for their own parameters; the plain one with named parameters leaves text alone.
DIALECT = mysql.dialect(paramstyle="named")
PREPARER: IdentifierPreparer = DIALECT.identifier_preparer

LISTED_MOST = 500
"""Keys in a statement that removes rows: for 20,000 MariaDB takes more than half a minute."""

# A deadlock ends a transaction in the middle of the statements that were sent ahead. Those behind it then begin
# another, which ends with the connection, instead of committing one by one.
BEGIN = "SET autocommit = 0;START TRANSACTION"
COMMIT = "COMMIT;SET autocommit = 1"
ROLLBACK = "ROLLBACK;SET autocommit = 1"


def quoted(*names: str) -> str:
    """Quote a dotted name."""
    return ".".join(PREPARER.quote_identifier(name) for name in names)


def literal(text: str) -> str:
    """Quote a text constant, whatever the session makes of a backslash."""
    if "\\" in text:
        return f"_utf8mb4 x'{text.encode().hex()}'"
    return "'" + text.replace("'", "''") + "'"


def compiled(statement: sa.SelectBase) -> str:
    """Compile a select with its values in place."""
    return str(statement.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True}))


def insert_into(table: str, columns: Iterable[str], constants: Iterable[str] = ()) -> tuple[str, str]:
    """An INSERT up to its values, and the values of one row: a parameter a column, then constants.

    `columns` are quoted; those of the constants are the last ones.
    """
    names, fixed = list(columns), list(constants)
    values = ["?"] * (len(names) - len(fixed)) + fixed
    return f"INSERT INTO {table} ({','.join(names)}) VALUES ", f"({','.join(values)})"


def begin_batch(batch: Batch, tables: GroupTables, *, schema: str, logger: str, closed: str | None) -> str:
    """One text that begins a batch's transaction: a round trip counts.

    Its last statement moves the position; that it changed nothing says that the batch, or some of it, is there already.
    closed: as `backends.sql.positions.move` takes it.
    """
    statements = [BEGIN]
    if len(batch.revised):
        # The rows come back whole with the batch's ledger rows.
        statements += _removing(quoted(schema, tables.ledger.name), batch.revised)
    to, owner = batch.position, literal(position_owner(logger, batch.stream))
    if batch.stream is not Stream.JOURNAL:
        # Unlike the journal's it is not made with the group.
        row = f"({owner}, {literal(batch.group.name)}, 0)"
        statements.append(
            f"INSERT IGNORE INTO {quoted(schema, 'positions')} (logger, group_name, sequence) VALUES {row}"
        )
    statements.append(
        move(
            quoted(schema, "positions"),
            key=f"logger = {owner} AND group_name = {literal(batch.group.name)}",
            to={**{name: str(getattr(to, name)) for name in POSITION}, "state": f"x'{to.state.hex()}'"},
            least=str(least_of_ours(batch)),
            followed=followed_in_sql(batch),
            closed=closed,
        )
    )
    return ";".join(statements)


def see_arrays(batch: Batch, tables: GroupTables, schema: str) -> str:
    """Take the rows of triggers with late readings into the hand; they are put back with the batch's rows."""
    columns = ", ".join(quoted(column.name) for column in tables.data.c)
    table = quoted(schema, tables.data.name)
    return f"SELECT {columns} FROM {table} WHERE {_among(revised_with_late(batch))} FOR UPDATE"


def take_out_arrays(batch: Batch, tables: GroupTables, schema: str) -> str:
    """Remove them from the table."""
    return ";".join(_removing(quoted(schema, tables.data.name), revised_with_late(batch)))


def _removing(table: str, rows: Array) -> list[str]:
    starts = range(0, len(rows), LISTED_MOST)
    return [f"DELETE FROM {table} WHERE {_among(rows[start : start + LISTED_MOST])}" for start in starts]


def _among(rows: Array) -> str:
    """Name ledger rows by their key; ORs of equalities, of which the optimizer makes look-ups in their partitions."""
    keys = zip(rows["time_ns"].tolist(), rows["run"].tolist(), rows["trigger"].tolist(), strict=True)
    return " OR ".join(f"(time_ns = {time_ns} AND run = {run} AND trigger_id = {of})" for time_ns, run, of in keys)
