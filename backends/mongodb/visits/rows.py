"""The paper's tables as collections: a document a row.

DIAObjectLast has the last version of each object: it gets the new ones, and a broken-off try is completed.

Documents are laid out and parsed with numpy, the columns of a row as fields. FLOAT and DOUBLE are doubles, which hold
both exactly; INT and BIGINT are int32 and int64; what is NULL is null, so that every document has all columns. `_id` is
the key: its columns big-endian, one after the other, with the sign bit turned over, so that bytes are in the order of
the key and a repeat finds what is there.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import bson
import numpy as np
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument

from backends.mongodb.protocol.documents import NULL, USER_DEFINED, DocumentFormat, Field, binary, number, turned
from backends.mongodb.visits.session import Document, Session, in_chunks
from backends.visits.rows import SECONDS, STEP_TABLES, as_table, in_key_order, newest_of_each, tables_by_name, written
from schemas.api.visits import TableSize
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT, DIA_OBJECT_LAST, LAST_DTYPE, NULLS, Column, LastUpdate, Step, Table

KEY_BYTES = 8
"""Of each column of a key."""


def key_bytes(*values: int) -> bytes:
    """The bytes of an `_id`, or of its first columns."""
    return b"".join((value + 2**63).to_bytes(KEY_BYTES, "big") for value in values)


def key_binary(*values: int) -> Binary:
    """An `_id`, or what no smaller one begins with: for ranges, all columns have to be given."""
    return Binary(key_bytes(*values), USER_DEFINED)


class RowFormat:
    """How the rows of a table are documents.

    read: columns of an answer; None is all that are not always NULL.
    """

    def __init__(self, table: Table, read: Iterable[str] | None = None) -> None:
        self.table = table
        columns = _in_document(table)
        values = [column for column in columns if column.name in (table.dtype.names or ())]
        wanted = {column.name for column in values} if read is None else set(read)
        asked = [column for column in values if column.name in wanted]
        self._whole = DocumentFormat([_id_field(table), *map(_field, columns)])
        self._values = DocumentFormat([*map(_field, columns)])
        self._answer = DocumentFormat([_field(column) for column in asked])
        self._dtype = np.dtype([(name, table.dtype[name]) for name in table.dtype.names or () if name in wanted])
        self.projection: dict[str, int] = {"_id": 0, **{column.name: 1 for column in asked}}

    @property
    def width(self) -> int:
        """Bytes of a document of an answer."""
        return self._answer.width

    def encode(self, rows: Array, *, all_doubles: bool) -> Array:
        """Rows of `table.dtype` as documents; uint8, shape (rows, width).

        all_doubles: the server keeps them all (`DocumentFormat.mark_specials`).
        """
        return self._filled(self._whole, rows, all_doubles=all_doubles)

    def decode(self, data: bytes) -> Array:
        """Parse documents of an answer; structured, shape (rows,).

        Raises:
            NotOurDocuments: they are laid out in another way.
        """
        columns = self._answer.columns(self._answer.parse(data))
        rows = np.empty(len(data) // self._answer.width, self._dtype)
        for name, values in columns.items():
            rows[name] = values
        return rows

    def upserts(self, rows: Array, how: LastUpdate, *, all_doubles: bool) -> Array:
        """Update statements that replace each row's document or set its columns, and make one where there is none.

        They are laid out once, since all are of one width: `{q: {_id: ...}, u: {...}, upsert: true}`.
        """
        form = self._whole if how is LastUpdate.REPLACE else self._values
        documents = self._filled(form, rows, all_doubles=all_doubles)
        id_bytes = KEY_BYTES * len(self.table.key)
        ids = _ids(rows, self.table).view(np.uint8).reshape(len(rows), id_bytes)
        template, at_id, at_document = _statement(id_bytes, form.blank(1)[0].tobytes(), how)
        statements = np.broadcast_to(np.frombuffer(template, np.uint8), (len(rows), len(template))).copy()
        statements[:, at_id : at_id + id_bytes] = ids
        statements[:, at_document : at_document + form.width] = documents
        return statements

    def _filled(self, form: DocumentFormat, rows: Array, *, all_doubles: bool) -> Array:
        documents = form.blank(len(rows))
        columns = form.columns(documents)
        for name in self.table.dtype.names or ():
            columns[name][:] = rows[name]
        if "_id" in columns:
            columns["_id"][:] = _ids(rows, self.table)
        if not all_doubles:
            form.mark_specials(documents)
        return documents


@lru_cache
def row_format(table: Table, read: tuple[str, ...] | None = None) -> RowFormat:
    """Lay out a table's documents, once."""
    return RowFormat(table, read)


def _in_document(table: Table) -> Sequence[Column]:
    """Columns in the order of a document's fields.

    Of DIAObjectLast by name: so a server orders those that `$set` makes
    (https://www.mongodb.com/docs/manual/reference/operator/update/set/), and all ways to update it lay out the same.
    """
    if table.name == DIA_OBJECT_LAST.name:
        return sorted(table.columns, key=lambda column: column.name)
    return table.columns


def _field(column: Column) -> Field:
    if column.dtype == "V" or column.name in NULLS:
        return Field(name=column.name, type=NULL)
    return number(column.name, column.dtype)


def _id_field(table: Table) -> Field:
    return binary("_id", KEY_BYTES * len(table.key))


def _ids(rows: Array, table: Table) -> Array:
    """`_id`s, void, shape (rows,)."""
    ids = np.empty(len(rows), [(name, ">u8") for name in table.key])
    for name in table.key:
        ids[name] = turned(rows[name])
    return ids.view(f"V{ids.dtype.itemsize}")


def _statement(id_bytes: int, document: bytes, how: LastUpdate) -> tuple[bytes, int, int]:
    """An update statement with a blank `_id` and document, and where these are in it."""
    # Marks that can be found again: bytes that no name or length has.
    mark = b"\xa5" * id_bytes
    body = RawBSONDocument(document)
    found = {"_id": Binary(mark, USER_DEFINED)}
    change = body if how is LastUpdate.REPLACE else {"$set": body}
    statement = bson.encode({"q": found, "u": change, "upsert": True})
    return statement, statement.index(mark), statement.index(document)


async def update_last(session: Session, visits: VisitsConfig, table: Table, rows: Array, known: Array) -> None:
    """Put new versions in place of earlier ones.

    rows: of `table.dtype`; known: int64, ids of those that had a version before.
    """
    how = visits.last_update or LastUpdate.REPLACE
    form, all_doubles = row_format(table), session.server.keeps_all_doubles
    if how is not LastUpdate.DELETE_INSERT:
        await session.update(table.name, form.upserts(rows, how, all_doubles=all_doubles))
        return
    for ids in in_chunks(known, visits.id_chunk):
        await session.delete_many(table.name, {"diaObjectId": {"$in": ids}})
    await session.insert(table.name, form.encode(rows, all_doubles=all_doubles))


async def complete_last(session: Session, visits: VisitsConfig, table: Table, time_ns: int) -> None:
    """Put back what a try that was cut short had deleted and not inserted yet, as it would have been.

    DIAObject has each new version before the earlier one goes from DIAObjectLast. One that has not gone yet stays: its
    tile is done again.
    """
    if visits.last_update is not LastUpdate.DELETE_INSERT:
        return
    whole = row_format(DIA_OBJECT)
    found = await session.find_raw(DIA_OBJECT.name, {"validityStart": Int64(time_ns)}, whole.projection, whole.width)
    rows = as_table(whole.decode(found), table)
    await session.insert(table.name, row_format(table).encode(rows, all_doubles=session.server.keeps_all_doubles))


LOWEST = -(2**63)


def joined(parts: list[Array], table: Table) -> Array:
    """Answers one after the other; `table.dtype` where there are none."""
    return np.concatenate(parts) if parts else np.empty(0, table.dtype)


class RowTables:
    """The collections of a mode of the paper."""

    def __init__(self, visits: VisitsConfig) -> None:
        self._visits = visits
        self._tables = tables_by_name(visits)
        self._last = self._tables.get(DIA_OBJECT_LAST.name)

    async def create(self, session: Session) -> None:
        """Make the collections and their indexes."""
        for table in self._tables.values():
            await session.create(table.name)
            await session.index(table.name, *_indexes(table))

    async def begin(self, session: Session, visit: int, time_ns: int) -> None:
        """Complete what a try that was cut short left."""
        if self._last is not None:
            await complete_last(session, self._visits, self._last, time_ns)

    async def objects(self, session: Session, region: Region) -> Array:
        """Last versions of a region."""
        table = self._last or self._tables["DIAObject"]
        versions = () if self._last is not None else ("validityStart",)
        form = row_format(table, (*(LAST_DTYPE.names or ()), *versions))
        if not len(region.ranges):
            return form.decode(b"")
        open_ones: Document = {} if self._last is not None else {"validityEnd": None}
        wanted = {"$or": [_pixels(table, *each) for each in region.ranges.tolist()], **open_ones}
        rows = form.decode(await session.find_raw(table.name, wanted, form.projection, form.width))
        # Between a new version and the end of the earlier one's validity, both are open.
        newest = newest_of_each(rows, rows["validityStart"]) if versions else rows
        return as_table(newest, DIA_OBJECT_LAST)

    async def history(self, session: Session, name: str, history: History) -> Array:
        """Rows of a history."""
        table = self._tables[name]
        form, parts = row_format(table), []
        visits = {"$gte": Int64(history.since_visit), "$lt": Int64(history.before_visit)}
        for ids in in_chunks(history.ids, self._visits.id_chunk):
            wanted = {"diaObjectId": {"$in": ids}, "ccdVisitId": visits}
            parts.append(form.decode(await session.find_raw(name, wanted, form.projection, form.width)))
        return joined(parts, table)

    async def write(self, session: Session, write: TileWrite, step: Step) -> Mapping[str, float]:
        """Write a step; DIAObject first, since DIAObjectLast is completed from it."""
        seconds: dict[str, float] = {}
        for name in reversed(STEP_TABLES[step]):
            table = self._tables.get(name)
            if table is not None:
                began_s = time.perf_counter()
                await self._write(session, write, table)
                seconds[SECONDS[name]] = time.perf_counter() - began_s
        return seconds

    async def expire(self, session: Session, before_ns: int) -> None:
        """Nothing is dropped, as in the paper."""

    async def count(self, session: Session, name: str) -> int:
        """Rows of a table."""
        return await session.count(name)

    async def size(self, session: Session, name: str) -> TableSize:
        """A table on the server's disk."""
        stats = await session.stats(name)
        return TableSize(
            rows=int(stats["count"]), table_bytes=int(stats["storageSize"]), index_bytes=int(stats["totalIndexSize"])
        )

    async def whole(self, session: Session, name: str) -> Array:
        """All rows of a table, in the order of its key."""
        form = row_format(self._tables[name])
        rows = form.decode(await session.find_raw(name, {}, form.projection, form.width))
        return in_key_order(as_table(rows, self._tables[name]), self._tables[name])

    async def _write(self, session: Session, write: TileWrite, table: Table) -> None:
        rows, _ = written(write, table, self._visits.index_mode)
        known = write.objects["diaObjectId"][write.known]
        if table is self._last:
            await update_last(session, self._visits, table, rows, known)
            return
        form = row_format(table)
        await session.insert(table.name, form.encode(rows, all_doubles=session.server.keeps_all_doubles))
        if table.name == "DIAObject" and self._last is None:
            await self._end_validity(session, table, known, write.time_ns)

    async def _end_validity(self, session: Session, table: Table, known: Array, time_ns: int) -> None:
        """After the new versions are there, so that an object never has none that is valid."""
        for ids in in_chunks(known, self._visits.id_chunk):
            wanted = {"diaObjectId": {"$in": ids}, "validityEnd": None, "validityStart": {"$lt": Int64(time_ns)}}
            await session.update_many(table.name, wanted, {"$set": {"validityEnd": Int64(time_ns)}})


def _indexes(table: Table) -> list[tuple[str, ...]]:
    """The declared ones. The key is `_id`; where rows are asked for by lists of ids, an index of its columns, too."""
    key = [table.key] if len(table.key) > 1 and table.key[0] == "diaObjectId" else []
    return [*key, *((name,) for name in table.indexes)]


def _pixels(table: Table, begin: int, end: int) -> Document:
    """What lies in a range of HTM indexes: by the key where it begins with them, else by the index of `pixelId`."""
    if table.key[0] != "pixelId":
        return {"pixelId": {"$gte": Int64(begin), "$lt": Int64(end)}}
    rest = [LOWEST] * (len(table.key) - 1)
    return {"_id": {"$gte": key_binary(begin, *rest), "$lt": key_binary(end, *rest)}}
