"""The store of folders in MongoDB: a database of its own, without transactions.

The document of a folder has its version, which counts its insertions; and with it the positions of sources, tags and
lengths. An interval is a document in a collection of the folder's own, which has the number of the insertion that wrote
it. One of a number that is greater than the folder's (`written`) is not there for anybody. So an insertion has happened
when the document of the folder has changed.

Each try has a number of its own, which nobody ever uses again: it is given in the document of the folder before
anything is written (`given`). A writer that was killed, or has heard no answer, may have a command under way that the
server completes later, also after others have inserted. What it writes then has a number of those that never happened
(`void`), and stays hidden. Writers take turns, as those of conditions do (`backends.mongodb.conditions.turns`).
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
