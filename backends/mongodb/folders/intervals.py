"""Intervals of a folder: a document each, which has the version that inserted it.

`classes` is a list of one class of lengths, by which it is found. An interval that gets another end is written anew
with it. The old document gets the version that did so (`replaced`), and REPLACED as a second class. Who reads an older
version takes the old one. After LAG more insertions it is deleted. So a reader is right as long as not more than LAG
insertions happened while he read; else he reads again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymongo
from bson import Int64
from pymongo import WriteConcern
from pymongo.asynchronous.collection import AsyncCollection

from backends.mongodb.conditions.segments import Document
from backends.mongodb.conditions.session import MESSAGE_BYTES, Session
from backends.mongodb.conditions.turns import Turn
from backends.mongodb.folders.nodes import ROWS, folder_of, lengths_of
from schemas.folders.blocks import OPEN, joined
from schemas.folders.folders import Folder, FolderKind
from schemas.folders.timeline import OPEN_CLASS, Changes, hull, length_classes, spans_before
from schemas.readings import Array

LAG = 100
REPLACED = OPEN_CLASS + 1
"""No class of lengths."""
MESSAGE_DOCUMENTS = 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Intervals that a question found. versions: int64, shape (n,). ids: `_id` of each, by channel and since."""

    block: Array
    versions: Array
    ids: Mapping[tuple[int, int], Any]


class Intervals:
    """The collection of a folder's intervals, as its document says. version: what is read; None is the newest."""

    def __init__(self, session: Session, node: Document, version: int | None = None) -> None:
        self._session = session
        self._folder: Folder = folder_of(node)
        self._lengths = lengths_of(node)
        self._newest = self._folder.version
        self._version = self._newest if version is None else min(version, self._newest)
        self.name = ROWS + node["token"]

    async def create(self) -> None:
        """Make the indexes, where the server has a use for them."""
        if self._session.server.uses_indexes:
            indexes = [{"key": dict.fromkeys(keys, 1), "name": "_".join(keys)} for keys in INDEXES]
            with pymongo.timeout(self._session.timeout_s):
                await self._session.database.command("createIndexes", self.name, indexes=indexes)

    def were_not_overtaken(self, node: Document) -> bool:
        """Whether what was found is right, by the folder's document as it is afterwards."""
        return ROWS + node["token"] == self.name and int(node["version"]) - self._newest <= LAG

    # --- questions ---------------------------------------------------------------------------------------------------

    async def overlapping(self, after: int, upto: int, channels: Document | None = None) -> Found:
        """Intervals with since <= upto and until > after. channels: what is asked of the number."""
        within = [
            {"classes": each, "since": {"$gt": Int64(after - longest), "$lte": Int64(upto)}, "until": _above(after)}
            for each, longest in self._lengths.items()
        ]
        within.append(self._open(upto))
        return await self._find({"$or": within}, channels, after)

    async def touching(self, after: int, upto: int, channels: Document) -> Found:
        """The same, and of a multi-version folder what hides some of them, which may be beyond."""
        found = await self.overlapping(after, upto, channels)
        if self._folder.kind is FolderKind.MULTI and len(found.block):
            found = await self.overlapping(*hull(found.block), channels)
        return found

    async def near(self, reports: Array) -> Found:
        """Intervals that decide where reports go, as `changes_of_reports` needs them."""
        channels = np.unique(reports["channel"]).tolist()
        opened = await self._find(self._open(OPEN - 1), {"$in": channels}, -1)
        if not self._lengths:
            return opened
        late = spans_before(reports, opened.block)
        # Those of the others are found again.
        is_all = ~np.isin(opened.block["channel"], [channel for channel, _, _ in late])
        parts = [replace(opened, block=opened.block[is_all], versions=opened.versions[is_all])]
        for channel, first, last in late:
            for since, order in (({"$lte": Int64(first)}, -1), ({"$gt": Int64(last)}, 1)):
                wanted = {"since": since, "replaced": {"$exists": False}}
                parts.append(await self._find(wanted, {"$eq": channel}, -1, order=order))
            if first < last:
                within = {"since": {"$gt": Int64(first), "$lte": Int64(last)}}
                parts.append(await self._find(within, {"$eq": channel}, -1))
        return Found(
            block=joined([part.block for part in parts], self._folder.dtype),
            versions=np.concatenate([part.versions for part in parts]),
            ids={key: id_ for part in parts for key, id_ in part.ids.items()},
        )

    async def changing(self, after: int, upto: int) -> Found:
        """Intervals that decide what begins in after < since <= upto."""
        if self._folder.kind is FolderKind.MULTI:
            return await self.overlapping(after, upto)
        return await self._find({"since": {"$gt": Int64(after), "$lte": Int64(upto)}}, None, after)

    def _open(self, upto: int) -> Document:
        return {"classes": OPEN_CLASS, "since": {"$lte": Int64(upto)}}

    async def _find(self, wanted: Document, channels: Document | None, after: int, *, order: int = 0) -> Found:
        """Intervals with until > after, and ends. order: of time, 1 or -1: the first one alone."""
        conditions = {**wanted, "version": {"$lte": Int64(self._version)}}
        if channels is not None:
            conditions["channel"] = channels
        with pymongo.timeout(self._session.timeout_s):
            sort = [("since", order)] if order else None
            found = await self._collection().find(conditions, sort=sort, limit=abs(order)).to_list()
        documents = {each["_id"]: each for each in found if each.get("replaced", OPEN) > self._newest}
        held = [each for each in documents.values() if each["until"] > after]
        block = np.empty(len(held), self._folder.dtype)
        for name in ("channel", "since", "until"):
            block[name] = [each[name] for each in held]
        for column in self._folder.columns:
            values = (each["values"][column.name] for each in held)
            block[column.name] = [value.encode() for value in values] if column.is_text else list(values)
        versions = np.array([each["version"] for each in held], np.int64)
        ids = {(each["channel"], each["since"]): each["_id"] for each in held}
        return Found(block=block, versions=versions, ids=ids)

    # --- changes -----------------------------------------------------------------------------------------------------

    async def remove_unfinished(self) -> None:
        """Take back what a writer that was killed has written for a version that the folder does not have."""
        newer = {"$gt": Int64(self._newest)}
        with pymongo.timeout(self._session.timeout_s):
            await self._collection().delete_many({"version": newer})
            back = {"$unset": {"replaced": ""}, "$pull": {"classes": REPLACED}}
            await self._collection().update_many({"classes": REPLACED, "replaced": newer}, back)

    async def write(self, turn: Turn, changes: Changes, ids: Mapping[tuple[int, int], Any]) -> None:
        """Write what an insertion changes for the next version. ids: of intervals that were there, as `Found` has."""
        version = self._newest + 1
        if self._folder.kind is FolderKind.SINGLE:
            await self._delete_replaced()
        replaced = {"$set": {"replaced": Int64(version)}, "$push": {"classes": REPLACED}}
        keys = changes.replaced[["channel", "since"]].tolist()
        statements = [{"q": {"_id": ids[key]}, "u": replaced} for key in keys]
        for first in range(0, len(statements), MESSAGE_DOCUMENTS):
            await turn.keep()
            await self._session.update(self.name, statements[first : first + MESSAGE_DOCUMENTS])
        for block in (changes.replaced, changes.closed, changes.opened):
            size = max(1, min(MESSAGE_DOCUMENTS, MESSAGE_BYTES // (2 * block.itemsize)))
            for first in range(0, len(block), size):
                await turn.keep()
                await self._session.insert(self.name, self._documents(block[first : first + size], version))

    async def _delete_replaced(self) -> None:
        """Delete intervals that were replaced long ago."""
        wanted = {"classes": REPLACED, "replaced": {"$lte": Int64(self._newest - LAG)}}
        with pymongo.timeout(self._session.timeout_s):
            await self._collection().delete_many(wanted)

    def _documents(self, block: Array, version: int) -> list[Document]:
        columns = self._folder.columns
        texts = {column.name for column in columns if column.is_text}
        names = [column.name for column in columns]
        values = zip(*(_values(block[name], is_text=name in texts) for name in names), strict=True)
        keys = (block[name].tolist() for name in ("channel", "since", "until"))
        return [
            {
                "channel": channel,
                "since": Int64(since),
                "until": Int64(until),
                "version": Int64(version),
                "classes": [class_],
                "values": dict(zip(names, row, strict=True)),
            }
            for channel, since, until, class_, row in zip(*keys, length_classes(block).tolist(), values, strict=True)
        ]

    def _collection(self) -> AsyncCollection[Document]:
        return self._session.database.get_collection(self.name, write_concern=WriteConcern(**self._session.concern))


INDEXES = (("classes", "since"), ("channel", "since"))


def _values(column: Array, *, is_text: bool) -> list[Any]:
    if is_text:
        return [text.decode() for text in column.tolist()]
    # BSON has int32 for what fits, which is read as the same number.
    return (
        list(map(Int64, column.tolist()))
        if column.dtype.itemsize == 8 and column.dtype.kind == "i"
        else column.tolist()
    )


def _above(time: int) -> Document:
    return {"$gt": Int64(time)}
