"""Marks in MongoDB: a document a mark, by its id.

None is ever removed: a mark that is withdrawn stays, with the time of that, so that a request that made it and comes
again does not bring it back.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from bson import Int64

from backends.diagnosis import stored_mark
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import Database
from schemas.marks import Mark, MarksWithin


class MarkDocuments:
    """The marks of one logger in the collection `marks`."""

    def __init__(self, database: Database, logger: str, *, concern: dict[str, Any], target: str) -> None:
        self._database = database
        self._marks = database.get_collection("marks")
        self._logger = logger
        self._concern = concern
        self._target = target

    async def keep(self, mark: Mark) -> bool:
        """Insert a mark, unless its id is there; whether it is there as given."""
        await self._write("insert", documents=[self._document(mark)])
        found = await self._marks.find_one(self._of(mark.id))
        return found is not None and _mark(found) == mark and found.get("withdrawn_ns") is None

    async def withdraw(self, mark: UUID, at_ns: int) -> bool:
        """Note when a mark was withdrawn, unless it was before; whether there is one of this id."""
        change = {"q": {**self._of(mark), "withdrawn_ns": None}, "u": {"$set": {"withdrawn_ns": Int64(at_ns)}}}
        await self._write("update", updates=[change])
        return await self._marks.find_one(self._of(mark)) is not None

    async def within(self, query: MarksWithin) -> list[Mark]:
        """The marks of a span of time, in order of time."""
        lasts = [{"until_ns": {"$gte": query.start_ns}}, {"until_ns": None, "time_ns": {"$gte": query.start_ns}}]
        wanted = {"logger": self._logger, "withdrawn_ns": None, "time_ns": {"$lt": query.end_ns}, "$or": lasts}
        newest = self._marks.find(wanted).sort([("time_ns", -1), ("_id", -1)]).limit(query.most)
        return [_mark(found) for found in reversed(await newest.to_list())]

    async def _write(self, command: str, **what: Any) -> None:
        answer = await self._database.command(command, "marks", writeConcern=self._concern, **what)
        check_answer(answer, self._target, but=DUPLICATE_KEY)

    def _of(self, mark: UUID) -> dict[str, Any]:
        return {"_id": str(mark), "logger": self._logger}

    def _document(self, mark: Mark) -> dict[str, Any]:
        return {
            **self._of(mark.id),
            "time_ns": Int64(mark.time_ns),
            "until_ns": None if mark.until_ns is None else Int64(mark.until_ns),
            "text": mark.text,
            "author": mark.author,
            "group": mark.group,
            "withdrawn_ns": None,
        }


def _mark(found: Mapping[str, Any]) -> Mark:
    fields = {name: found.get(name) for name in ("time_ns", "until_ns", "text", "author", "group")}
    return stored_mark("collection 'marks'", {"id": str(found["_id"]), **fields})
