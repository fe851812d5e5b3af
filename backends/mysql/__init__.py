"""The store in MariaDB and MySQL, which speak the same protocol."""

from backends.mysql.schema.removal import drop_schema
from backends.mysql.schema.schema import schema_statements
from backends.mysql.store import MysqlStore

__all__ = ["MysqlStore", "drop_schema", "schema_statements"]
