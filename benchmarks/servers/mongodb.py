"""MongoDB to be measured, or what speaks its protocol: a throw-away server in a folder of its own; or the user's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from backends.throwaway.mongodb import ThrowawayMongodb, named_server
from benchmarks.servers.base import Server
from schemas.batch import Durability
from schemas.checking.dsn import Backend

Document = dict[str, Any]


class MongodbServer(Server):
    """A MongoDB or FerretDB; durability is chosen by the writer."""

    backend = Backend.MONGODB
    _differs: bool | None = None

    def durabilities(self) -> tuple[Durability, ...]:
        """Both, unless the server ignores what the writer asks for: then one is as good as the other."""
        if self._differs is None:
            held = self.facts().durability
            self._differs = held[Durability.SYNC] != held[Durability.ASYNC]
        return tuple(Durability) if self._differs else (Durability.SYNC,)

    def settings(self) -> dict[str, str]:
        """The storage engine, where the server tells."""
        with connect(self.dsn) as client:
            try:
                status = client.admin.command("serverStatus")
            except OperationFailure:
                return {}
        engine = status.get("storageEngine", {}).get("name")
        return {"storage engine": str(engine)} if engine else {}

    def count(self, schema: str) -> int:
        """Count the documents; in a collection of a document a trigger, the elements of its arrays."""
        with connect(self.dsn) as client:
            database = client[schema]
            total = 0
            for name in database.list_collection_names():
                documents, first = database[name].count_documents({}), database[name].find_one()
                arrays = [value for value in (first or {}).values() if isinstance(value, list)]
                total += documents * (len(arrays[0]) if arrays else 1)
        return total

    def remove(self, schema: str) -> None:
        """Drop the database."""
        with connect(self.dsn) as client:
            client.drop_database(schema)

    def settle(self) -> None:
        """Checkpoint, where the server knows how and the account may."""
        with connect(self.dsn) as client:
            try:
                client.admin.command("fsync")
            except OperationFailure:
                # FerretDB has no such command, and a user's account may lack the right to it.
                return


def named(dsn: str, folder: Path) -> MongodbServer:
    """The user's own server."""
    return MongodbServer(dsn, folder, own=False)


@contextmanager
def throwaway(folder: Path) -> Iterator[MongodbServer]:
    """Run a server under the folder; or take the one that the environment names, if it does.

    Raises:
        ServerNotInstalled: there is none on this machine.
    """
    named = named_server()
    if named is not None:
        yield MongodbServer(named, folder, own=False)
        return
    mongodb = ThrowawayMongodb(folder / "mongodb")
    try:
        yield MongodbServer(mongodb.start(), folder, own=True)
    finally:
        mongodb.stop()


def connect(dsn: str) -> MongoClient[Document]:
    """Connect to what a DSN names."""
    return MongoClient(dsn)
