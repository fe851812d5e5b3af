"""Rows of visits as documents: a document a row, its columns as fields, laid out and parsed with numpy.

FLOAT and DOUBLE are doubles, which hold both exactly; INT and BIGINT are int32 and int64; what is NULL is null, so that
every document has all columns. `_id` is the key: its columns big-endian, one after the other, with the sign bit turned
over, so that bytes are in the order of the key and a repeat finds what is there.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import bson
import numpy as np
from bson import Binary
from bson.raw_bson import RawBSONDocument

from backends.mongodb.protocol.documents import NULL, USER_DEFINED, DocumentFormat, Field, binary, number, turned
from schemas.readings import Array
from schemas.visits.tables import DIA_OBJECT_LAST, NULLS, Column, LastUpdate, Table

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
