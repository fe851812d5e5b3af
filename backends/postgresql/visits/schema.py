"""The schema of visits in PostgreSQL: what every index mode has, and making or checking it."""

from backends.base import StoreError
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import create_schema, quoted
from backends.postgresql.schema.create import LOCK_TIMEOUT, SEEN, check_version, lock_schema
from backends.postgresql.visits.tables import VisitTables
from backends.visits.settings import check_settings, settings_of
from schemas.config.visits import VisitsConfig

VISITS = "Visits"
STEPS = "VisitSteps"
SETTINGS = "VisitSettings"

DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
"""In a transaction that makes tables or partitions: workers write into them, and a crash must not take them back."""

HAS_TABLE = """
    SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
                   WHERE s.nspname = $1 AND c.relname = $2)
"""


async def create_or_check(connection: Connection, visits: VisitsConfig, tables: VisitTables, target: str) -> None:
    """Create the schema with the tables of the index mode, in one transaction, or check what is there.

    Raises:
        SchemaMismatch: it was made with other settings.
        StoreError: the server is too old, the schema holds something else, or a right is missing.
    """
    check_version(connection.get_server_version(), target)
    schema, statements, added = visits.schema_name, tables.create(), tables.added()
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {DURABLE}; {lock_schema(schema)}")
        if await has_table(connection, schema, SETTINGS):
            stored = await connection.fetchval(f"SELECT settings FROM {quoted(schema, SETTINGS)}")
            check_settings(stored, visits)
            for name, statement in added.items():
                if not await has_table(connection, schema, name):
                    await connection.execute(statement)
            return
        await _see_free(connection, schema, target)
        made = [create_schema(schema, if_missing=True), *_shared(schema), *statements, *added.values()]
        await connection.execute(";".join(made))
        await connection.execute(f"INSERT INTO {quoted(schema, SETTINGS)} VALUES (1, $1)", settings_of(visits))


async def has_table(connection: Connection, schema: str, table: str) -> bool:
    """Whether a table is there now, and not when this session last looked: to_regclass may know no better."""
    return bool(await connection.fetchval(HAS_TABLE, schema, table))


async def _see_free(connection: Connection, schema: str, target: str) -> None:
    seen = await connection.fetchrow(SEEN, quoted(schema))
    assert seen is not None
    if not seen["is_there"]:
        if not seen["may_create_schema"]:
            raise StoreError(
                f"{target}: user {seen['name']!r} may not create schema {schema!r} in database {seen['database']!r};"
                f" let an administrator run CREATE SCHEMA {quoted(schema)} AUTHORIZATION {quoted(seen['name'])}"
            )
        return
    taken = await connection.fetchval(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) LIMIT 1", quoted(schema)
    )
    if taken is not None:
        raise StoreError(
            f"visits.schema: schema {schema!r} of {target} holds a table {taken!r} that is not of visits;"
            " take another `schema` in [visits]"
        )


def _shared(schema: str) -> list[str]:
    numbers = ("time_ns int8", "ra float8", "decl float8", "last_object_id int8", "last_source_id int8")
    columns = ", ".join(f"{number} NOT NULL" for number in numbers)
    return [
        f"CREATE TABLE {quoted(schema, VISITS)} (visit int8 PRIMARY KEY, {columns})",
        f"CREATE INDEX ON {quoted(schema, VISITS)} (time_ns)",
        f"CREATE TABLE {quoted(schema, STEPS)} (visit int8, tile int4, step text, PRIMARY KEY (visit, tile, step))",
        f"CREATE TABLE {quoted(schema, SETTINGS)} (id int4 PRIMARY KEY CHECK (id = 1), settings text NOT NULL)",
    ]
