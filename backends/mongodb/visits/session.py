"""The commands of a store of visits, each with its time limit and at the durability asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
from pymongo.asynchronous.collection import AsyncCollection

from backends.mongodb.protocol.documents import Raw
from backends.mongodb.schema import create_collection
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, check_index
from backends.mongodb.server.facts import Database, Server
from schemas.readings import Array

Document = dict[str, Any]

MESSAGE_BYTES = 8 * 1024 * 1024
"""Most that is sent as one message, but for a single document: a server allows 48 MB, and 16 a document."""
MESSAGE_DOCUMENTS = 50_000
"""Most documents a message: a server allows 100,000."""
BATCH_BYTES = 8 * 1024 * 1024
"""Bytes of an answer's batch, about."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A database of visits as one store has it.

    concern: write concern of every command. A mark alone at `j: true` would carry what was written before it into the
    journal of one server, but not through a failover in between.
    timeout_s: what a command may take; None for as long as it takes.
    """

    database: Database
    server: Server
    target: str
    concern: Document
    timeout_s: float | None

    def collection(self, name: str) -> AsyncCollection[Document]:
        """One collection."""
        return self.database.get_collection(name)

    async def insert(self, name: str, documents: Array) -> None:
        """Insert documents (uint8, shape (documents, width)); one whose `_id` is there is left as it is."""
        for some in self._messages(documents):
            await self._insert(name, [Raw(some)])

    async def insert_objects(self, name: str, documents: Sequence[Document]) -> None:
        """Insert a few documents, each in a message of its own where they are large; as `insert`."""
        some: list[Document] = []
        held = 0
        for document in documents:
            size = len(document.get("records", b""))
            if some and held + size > MESSAGE_BYTES:
                await self._insert(name, some)
                some, held = [], 0
            some.append(document)
            held += size
        if some:
            await self._insert(name, some)

    async def update(self, name: str, statements: Array) -> None:
        """Apply update statements (uint8, shape (statements, width)), as the command `update` takes them."""
        for some in self._messages(statements):
            with pymongo.timeout(self.timeout_s):
                answer = await self.database.command(
                    "update", name, updates=[Raw(some)], ordered=False, writeConcern=self.concern
                )
            # Two that insert the same document at once: one of them finds it taken.
            check_answer(answer, self.target)

    async def update_many(self, name: str, wanted: Document, change: Document) -> None:
        """Apply a change to all documents that are found."""
        statement = {"q": wanted, "u": change, "multi": True}
        with pymongo.timeout(self.timeout_s):
            answer = await self.database.command("update", name, updates=[statement], writeConcern=self.concern)
        check_answer(answer, self.target)

    async def delete_many(self, name: str, wanted: Document) -> None:
        """Delete all documents that are found."""
        statement = {"q": wanted, "limit": 0}
        with pymongo.timeout(self.timeout_s):
            answer = await self.database.command("delete", name, deletes=[statement], writeConcern=self.concern)
        check_answer(answer, self.target)

    async def find_raw(self, name: str, wanted: Document, projection: Document, width: int) -> bytes:
        """Find documents, as they are, one after the other; `width`: of one of them, about."""
        batch_size = max(2, BATCH_BYTES // max(1, width))
        answer = bytearray()
        with pymongo.timeout(self.timeout_s):
            cursor = self.collection(name).find_raw_batches(wanted, projection, batch_size=batch_size)
            async with cursor:
                async for batch in cursor:
                    answer += batch  # type: ignore[arg-type]  # bytes, whatever the types of the driver say
        return bytes(answer)

    async def find(
        self, name: str, wanted: Document, projection: Document, sort: Sequence[tuple[str, int]] = (), most: int = 0
    ) -> list[Document]:
        """Find a few documents; `most` at most, 0 is all of them."""
        with pymongo.timeout(self.timeout_s):
            return await self.collection(name).find(wanted, projection, sort=list(sort) or None, limit=most).to_list()

    async def first(self, name: str, wanted: Document, sort: Sequence[tuple[str, int]]) -> Document | None:
        """Find the first document in an order."""
        with pymongo.timeout(self.timeout_s):
            return await self.collection(name).find_one(wanted, sort=list(sort))

    async def total(self, name: str, field: str) -> int:
        """Sum a field that an index holds, over all documents."""
        # With the `$match`, the index alone answers; one sum, since FerretDB 1 fills only the first of several.
        stages: list[Document] = [
            {"$match": {field: {"$gte": 0}}},
            {"$group": {"_id": None, "sum": {"$sum": f"${field}"}}},
        ]
        with pymongo.timeout(self.timeout_s):
            async with await self.collection(name).aggregate(stages) as cursor:
                return sum([int(each["sum"]) async for each in cursor])

    async def count(self, name: str) -> int:
        """Count documents."""
        with pymongo.timeout(self.timeout_s):
            return await self.collection(name).count_documents({})

    async def stats(self, name: str) -> Document:
        """Ask for a collection's sizes."""
        with pymongo.timeout(self.timeout_s):
            return await self.database.command("collStats", name)

    async def create(self, name: str) -> None:
        """Create a collection, where it is not there."""
        with pymongo.timeout(self.timeout_s):
            await create_collection(self.database, {"create": name})

    async def names(self) -> list[str]:
        """Names of all collections."""
        with pymongo.timeout(self.timeout_s):
            return await self.database.list_collection_names()

    async def drop(self, name: str) -> None:
        """Drop a collection; nothing happens when it is not there."""
        with pymongo.timeout(self.timeout_s):
            await self.database.drop_collection(name)

    async def index(self, name: str, *indexes: tuple[str, ...]) -> None:
        """Make indexes, each of some columns, where the server has a use for them."""
        if not self.server.uses_indexes or not indexes:
            return
        made = [{"key": dict.fromkeys(columns, 1), "name": "_".join(columns)} for columns in indexes]
        with pymongo.timeout(self.timeout_s):
            await self.database.command("createIndexes", name, indexes=made)

    async def _insert(self, name: str, documents: Sequence[Any]) -> None:
        with pymongo.timeout(self.timeout_s):
            answer = await self.database.command(
                "insert", name, documents=list(documents), ordered=False, writeConcern=self.concern
            )
        check_answer(answer, self.target, but=DUPLICATE_KEY)
        check_index(answer, self.target, name)

    @staticmethod
    def _messages(documents: Array) -> list[Array]:
        if not len(documents):
            return []
        most = max(1, min(MESSAGE_BYTES // documents.shape[1], MESSAGE_DOCUMENTS))
        return [documents[start : start + most] for start in range(0, len(documents), most)]


def in_chunks(ids: Array, most: int) -> Iterator[list[int]]:
    """Cut ids (int64) into lists for `$in`."""
    for start in range(0, len(ids), most):
        yield ids[start : start + most].tolist()
