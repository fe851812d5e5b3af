"""The commands of a store of conditions, each with its time limit and at durability `sync`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
from bson import ObjectId

from backends.mongodb.conditions.segments import Document, Segment
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import Database, Server

TYPES, TAGS, LISTS, LOOSE, SEGMENTS, COUNTERS, TURN = (
    *("ConditionsTypes", "ConditionsTags", "ConditionsLists", "ConditionsLoose"),
    *("ConditionsSegments", "ConditionsCounters", "ConditionsTurn"),
)
MESSAGE_BYTES = 8 * 1024 * 1024
"""Most that is sent as one message, about: a server allows 48 MB, and 100,000 documents."""
OVERHEAD_BYTES = 200
"""Of a document, beside its texts and binary fields."""
AT_ONCE = 8
"""Segments that are read at once from a server that looks up only a single `_id` by its index."""
UNJOURNALED: Mapping[str, Any] = {"w": 1}


@dataclass(frozen=True, kw_only=True)
class Session:
    """A database of conditions as one store has it.

    concern: write concern of what has to last.
    timeout_s: what a command may take.
    turn: the collection of the turn of writers.
    """

    database: Database
    server: Server
    target: str
    concern: Mapping[str, Any]
    timeout_s: float
    turn: str = TURN

    async def one(self, name: str, id_: str | ObjectId, projection: Mapping[str, int] | None = None) -> Document | None:
        """Find a document by its `_id`."""
        with pymongo.timeout(self.timeout_s):
            return await self.database.get_collection(name).find_one({"_id": id_}, projection)

    async def all(
        self,
        name: str,
        wanted: Document,
        projection: Mapping[str, int] | None = None,
        *,
        by: str = "_id",
        most: int = 0,
    ) -> list[Document]:
        """Find documents in an order; `most` at most, 0 is all of them."""
        with pymongo.timeout(self.timeout_s):
            found = self.database.get_collection(name).find(wanted, projection, sort=[(by, 1)], limit=most)
            return await found.to_list()

    async def segments(self, ids: Sequence[ObjectId]) -> dict[ObjectId, Segment]:
        """Read segments; those that are gone are left out."""
        wanted = list(dict.fromkeys(ids))
        collection = self.database.get_collection(SEGMENTS)
        if self.server.uses_indexes:
            with pymongo.timeout(self.timeout_s):
                documents = await collection.find({"_id": {"$in": wanted}}).to_list()
            return {each["_id"]: Segment(each) for each in documents}
        found: dict[ObjectId, Segment] = {}
        waiting = iter(wanted)

        async def read() -> None:
            for id_ in waiting:
                with pymongo.timeout(self.timeout_s):
                    document = await collection.find_one({"_id": id_})
                if document is not None:
                    found[id_] = Segment(document)

        ends = await asyncio.gather(*(read() for _ in range(min(AT_ONCE, len(wanted)))), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end
        return found

    async def segment_ids(self) -> list[ObjectId]:
        """`_id`s of all segments."""
        return [each["_id"] for each in await self.all(SEGMENTS, {}, {"_id": 1})]

    async def insert(self, name: str, documents: Sequence[Document], concern: Mapping[str, Any] | None = None) -> int:
        """Insert documents; one whose `_id` is there is left as it is. Return how many were inserted."""
        left_out = 0
        for some in _messages(documents):
            answer = await self._command("insert", name, "documents", some, concern, ordered=False)
            left_out += len(check_answer(answer, self.target, but=DUPLICATE_KEY))
        return len(documents) - left_out

    async def update(self, name: str, statements: Sequence[Document], concern: Mapping[str, Any] | None = None) -> int:
        """Apply update statements, as the command `update` takes them; return how many documents were found."""
        answer = await self._command("update", name, "updates", statements, concern, ordered=True)
        check_answer(answer, self.target)
        return int(answer["n"])

    async def delete(self, name: str, wanted: Sequence[Document], concern: Mapping[str, Any] | None = None) -> int:
        """Delete a document for each filter; return how many were there."""
        statements = [{"q": each, "limit": 1} for each in wanted]
        answer = await self._command("delete", name, "deletes", statements, concern, ordered=False)
        check_answer(answer, self.target)
        return int(answer["n"])

    async def _command(
        self,
        command: str,
        name: str,
        field: str,
        items: Sequence[Document],
        concern: Mapping[str, Any] | None,
        *,
        ordered: bool,
    ) -> Document:
        options: Document = {field: list(items), "ordered": ordered, "writeConcern": dict(concern or self.concern)}
        with pymongo.timeout(self.timeout_s):
            return await self.database.command({command: name, **options})


def _messages(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Documents in messages that a server takes: of about MESSAGE_BYTES."""
    some: list[Document] = []
    held = 0
    for document in documents:
        size = OVERHEAD_BYTES + sum(len(each) for each in document.values() if isinstance(each, bytes | str))
        if some and held + size > MESSAGE_BYTES:
            yield some
            some, held = [], 0
        some.append(document)
        held += size
    if some:
        yield some
