"""The store of folders in MongoDB: a database of its own, without transactions.

The document of a folder has its version, which counts its insertions; and with it the positions of sources, tags and
lengths. An interval is a document in a collection of the folder's own, which has the version that inserted it. One of a
version that the folder does not have yet is not there for anybody. So an insertion has happened when the document of
the folder has changed, and what a writer that was killed has left is removed by the next one (`intervals`). Writers
take turns, as those of conditions do (`backends.mongodb.conditions.turns`); the turn says what is written.
"""

from pathlib import Path

from backends.mongodb.folders.store import MongodbFoldersStore
from schemas.config import DatabaseConfig

__all__ = ["MongodbFoldersStore", "open_folders_store"]


def open_folders_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> MongodbFoldersStore:
    """Make the store; see `backends.open_folders_store`. Nothing lies under `state_dir`."""
    return MongodbFoldersStore(database, schema=schema, password=password, connections=connections)
