"""The schema of conditions in PostgreSQL: making it, or checking the one that is there."""

from sqlalchemy.schema import CreateIndex, CreateTable

from backends.base import StoreError
from backends.postgresql.conditions.session import IDS
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import DIALECT, create_schema, quoted
from backends.postgresql.schema.create import LOCK_TIMEOUT, SEEN, check_version, lock_schema
from backends.sql.conditions.checking import check_columns
from backends.sql.conditions.tables import ConditionsTables

COLUMNS = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1"


async def create_or_check(connection: Connection, schema: str, tables: ConditionsTables, target: str) -> None:
    """Create the schema with its tables in one transaction, or check what is there.

    Raises:
        SchemaMismatch: it is not as this store makes it.
        StoreError: the server is too old, or a right is missing.
    """
    check_version(connection.get_server_version(), target)
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {lock_schema(schema)}")
        if check_columns(schema, tables, map(tuple, await connection.fetch(COLUMNS, schema))):
            return
        await _see_may_create(connection, schema, target)
        await connection.execute(";".join(_statements(schema, tables)))


def _statements(schema: str, tables: ConditionsTables) -> list[str]:
    statements = [create_schema(schema, if_missing=True), f"CREATE SEQUENCE {quoted(schema, IDS)}"]
    for table in tables.all():
        statements.append(str(CreateTable(table).compile(dialect=DIALECT)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements += [str(CreateIndex(index).compile(dialect=DIALECT)) for index in indexes]
    return [*statements, f"INSERT INTO {quoted(schema, tables.detaching.name)} VALUES (1)"]


async def _see_may_create(connection: Connection, schema: str, target: str) -> None:
    seen = await connection.fetchrow(SEEN, quoted(schema))
    assert seen is not None
    if not seen["is_there"] and not seen["may_create_schema"]:
        raise StoreError(
            f"{target}: user {seen['name']!r} may not create schema {schema!r} in database {seen['database']!r};"
            f" let an administrator run CREATE SCHEMA {quoted(schema)} AUTHORIZATION {quoted(seen['name'])}"
        )
