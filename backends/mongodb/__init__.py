"""The store in MongoDB, or in what speaks its protocol."""

from backends.mongodb.schema.removal import drop_schema
from backends.mongodb.schema.script import schema_statements
from backends.mongodb.store import MongodbStore

__all__ = ["MongodbStore", "drop_schema", "schema_statements"]
