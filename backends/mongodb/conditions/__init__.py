"""The store of conditions in MongoDB: a database of its own, without transactions.

What is true is in few places. A list's breakpoints lie in segments, which are never changed (`segments`). The document
of the tag that has a list holds the directory of its segments; so what a tag answers changes with that one document,
and clones share segments. The document of a list says which tag has it, and holds the directory of a list of no tag
(`documents`). An interval that no list has is a document of its own. Orders come one after the other, and one that
changes several documents is written down before it is applied (`turns`); so a kill leaves it undone, or to be completed
by whoever comes next. Read `store`, which puts it together, then `reading`, `editing`, and `sweeping`, which removes
the segments that nothing refers to.
"""

from pathlib import Path

from backends.mongodb.conditions.store import MongodbConditionsStore
from schemas.config import DatabaseConfig

__all__ = ["MongodbConditionsStore", "open_conditions_store"]


def open_conditions_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> MongodbConditionsStore:
    """Make the store; see `backends.open_conditions_store`. Nothing lies under `state_dir`."""
    return MongodbConditionsStore(database, schema=schema, password=password, connections=connections)
