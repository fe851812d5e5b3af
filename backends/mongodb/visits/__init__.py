"""The store of mock DIA visits in MongoDB: a database of its own, without transactions."""

from backends.mongodb.visits.store import MongodbVisitStore, open_visit_store

__all__ = ["MongodbVisitStore", "open_visit_store"]
