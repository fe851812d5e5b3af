"""The schema of visits in PostgreSQL: what every index mode has, and making or checking it."""

from backends.base import StoreError
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import create_schema, quoted
from backends.postgresql.schema.create import (
    LOCK_TIMEOUT,
    SEEN,
    check_rights,
    check_version,
    lock_schema,
    see_may_create,
)
from backends.postgresql.session_store import TO_CHANGE
from backends.postgresql.visits.tables import VisitTables
from backends.visits.rows import tables_by_name
from backends.visits.store import check_settings, settings_of
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


async def create_or_check(
    connection: Connection, visits: VisitsConfig, tables: VisitTables, target: str, *, commits: bool
) -> None:
    """Create the schema with the tables of the index mode, in one transaction, or check what is there.

    commits: False takes back what was created.

    Raises:
        SchemaMismatch: it was made with other settings.
        StoreError: the server is too old, the schema holds something else, or a right is missing.
    """
    check_version(connection.get_server_version(), target)
    schema, statements, added = visits.schema_name, tables.create(), tables.added()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {DURABLE}; {lock_schema(schema)}")
    seen = await connection.fetchrow(SEEN, quoted(schema))
    assert seen is not None
    if await has_table(connection, schema, SETTINGS):
        names = (SETTINGS, VISITS, STEPS, *tables_by_name(visits))
        rights = [(quoted(schema, name), TO_CHANGE) for name in names if await has_table(connection, schema, name)]
        await check_rights(connection, rights, f"{target}: user {seen['name']!r}")
        check_settings(await connection.fetchval(f"SELECT settings FROM {quoted(schema, SETTINGS)}"), visits)
        for name, statement in added.items():
            if not await has_table(connection, schema, name):
                await connection.execute(statement)
    else:
        see_may_create(seen, schema, "visits", target)
        await _see_free(connection, schema, target)
        first = [] if seen["is_there"] else [create_schema(schema)]
        await connection.execute(";".join([*first, *_shared(schema), *statements, *added.values()]))
        await connection.execute(f"INSERT INTO {quoted(schema, SETTINGS)} VALUES (1, $1)", settings_of(visits))
    await (transaction.commit() if commits else transaction.rollback())


async def has_table(connection: Connection, schema: str, table: str) -> bool:
    """Whether a table is there now, and not when this session last looked: to_regclass may know no better."""
    return bool(await connection.fetchval(HAS_TABLE, schema, table))


async def _see_free(connection: Connection, schema: str, target: str) -> None:
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
