"""The store in PostgreSQL, named by a DSN or embedded."""

from backends.postgresql.schema.removal import drop_schema
from backends.postgresql.schema.script import schema_statements
from backends.postgresql.store import PostgresqlStore

__all__ = ["PostgresqlStore", "drop_schema", "schema_statements"]
