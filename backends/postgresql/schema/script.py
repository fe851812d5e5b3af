"""The statements that make a schema in PostgreSQL, as a script that an administrator can read and feed to psql."""

from collections.abc import Iterator, Mapping

from backends.postgresql.protocol.sql import create_group, create_schema, create_shared, describe_group, quoted
from backends.postgresql.schema.create import OLDEST
from backends.sql.tables import group_tables, shared_tables
from schemas.batch import Layout
from schemas.readings import InstrumentGroup


def schema_statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> list[str]:
    """What the store would run on an empty server, each with its `;`, and comments; to run it again does no harm."""
    return [*_statements(schema, logger, groups, layouts)]


def _statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> Iterator[str]:
    yield (
        f"-- triggerlog: schema {schema}, written by logger {logger}; PostgreSQL {OLDEST} or newer.\n"
        "-- Run it with psql, as a role that may create a schema: psql -v ON_ERROR_STOP=1 -f FILE\n"
        "-- Whoever runs it owns the tables. All times are int64 nanoseconds since 1970-01-01 UTC."
    )
    yield "BEGIN;"
    yield f"{create_schema(schema, if_missing=True)};"
    yield "-- What is logged, by whom, and up to where."
    yield from _ended(create_shared(shared_tables(schema), schema))
    for name, group in groups.items():
        tables = group_tables(schema, group, layouts[name])
        yield f"-- Group {name}: {group.size} instruments, layout {tables.layout}. Readings, ledger, view."
        yield from _ended(create_group(tables, schema, if_missing=True))
        yield from _ended(describe_group(tables, schema, logger, if_missing=True))
    yield "COMMIT;"
    yield _rights(schema)


def _ended(statements: list[str]) -> Iterator[str]:
    return (f"{statement.strip()};" for statement in statements)


def _rights(schema: str) -> str:
    name = quoted(schema)
    return (
        "-- The role of the daemon, if it is another, needs these rights:\n"
        f"--   GRANT USAGE ON SCHEMA {name} TO logger;\n"
        f"--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO logger;\n"
        "-- Partitions by time are made as readings come, by the owner of the tables only: a role that does not own\n"
        "-- them leaves its readings in the default partitions, and says so in its log. To let it make partitions:\n"
        f"--   ALTER SCHEMA {name} OWNER TO logger;  and the same for every table and view in it."
    )
