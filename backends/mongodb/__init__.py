"""The store in MongoDB, or in what speaks its protocol."""

from backends.mongodb.script import schema_statements
from backends.mongodb.store import MongodbStore

__all__ = ["MongodbStore", "schema_statements"]
