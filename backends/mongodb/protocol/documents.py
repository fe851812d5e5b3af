"""Documents of fixed width, laid out and parsed with numpy: many at once, no reading as a Python object.

BSON (https://bsonspec.org/spec.html): a document is its length as int32, its elements and a NUL; an element is a type
byte, a name that ends with a NUL, and a value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backends.columns.filling import Columns
from schemas.readings import Array

DOUBLE, DOCUMENT, BINARY, BOOL, NULL, INT32, TIMESTAMP, INT64 = (0x01, 0x03, 0x05, 0x08, 0x0A, 0x10, 0x11, 0x12)
FORMS: dict[int, str] = {DOUBLE: "<f8", BOOL: "u1", INT32: "<i4", INT64: "<i8"}
USER_DEFINED = 0x80
"""Subtype of binary data that means something to us alone."""


class NotOurDocuments(Exception):
    """Documents are not laid out as this store lays them out: somebody else wrote or changed them."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """An element: its BSON type, and `form`, the dtype of its value (of binary data: of its bytes).

    fields: those of an embedded document (DOCUMENT); their columns are called `name.field`.
    """

    name: str
    type: int
    form: str = ""
    fields: tuple["Field", ...] = ()

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return np.dtype(self.form).itemsize


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Place of a value in a document, and the byte of its type; in bytes."""

    field: Field
    offset: int
    type_offset: int


def number(name: str, stored: str) -> Field:
    """Return a field of numbers of a dtype (`STORED_DTYPES`) in the BSON type that holds all its values.

    BSON has int32, int64 and double; float32 is exact in a double.
    """
    kind, width = stored[1], int(stored[2])
    bson = DOUBLE if kind == "f" else INT64 if width == 8 else INT32
    return Field(name=name, type=bson, form=FORMS[bson])


def binary(name: str, width: int) -> Field:
    """Return a field of so many bytes."""
    return Field(name=name, type=BINARY, form=f"V{width}")


class Raw:
    """Documents that stand one after the other, for pymongo's encoder: it copies `raw` into the message as it is."""

    _type_marker = 101

    def __init__(self, documents: Array | bytes) -> None:
        self.raw = documents if isinstance(documents, bytes) else documents.tobytes()


class DocumentFormat:
    """The layout of documents that all have the same width."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._places: dict[str, _Place] = {}
        whole = bytearray()
        self._add_document(whole, fields, "")
        self._template = np.frombuffer(bytes(whole), np.uint8)
        self._mask = np.full(len(whole), 0xFF, np.uint8)
        for place in self._places.values():
            self._mask[place.offset : place.offset + place.field.width] = 0
            if place.field.type == DOUBLE:
                # See `mark_specials`.
                self._mask[place.type_offset] = 0xFF & ~(DOUBLE ^ TIMESTAMP)

    @property
    def width(self) -> int:
        """Bytes of a document."""
        return len(self._template)

    def blank(self, count: int) -> Array:
        """Return documents whose values are not set yet; uint8, shape (count, width)."""
        return np.broadcast_to(self._template, (count, self.width)).copy()

    def parse(self, data: bytes | bytearray | Array) -> Array:
        """See documents that stand one after the other as an array; uint8, shape (documents, width).

        Raises:
            NotOurDocuments: one of them is laid out in another way.
        """
        if len(data) % self.width:
            raise NotOurDocuments(f"a document is not {self.width} bytes long")
        documents = np.frombuffer(data, np.uint8).reshape(-1, self.width)
        # In stretches, so that what is compared stays in the processor's cache.
        step = max(1, 2**18 // self.width)
        for start in range(0, len(documents), step):
            if ((documents[start : start + step] ^ self._template) & self._mask).any():
                raise NotOurDocuments("fields, their order or their types are others")
        return documents

    def columns(self, documents: Array) -> Columns:
        """Return views of the values of documents, by name; shape (documents,)."""
        return {name: self._view(documents, place) for name, place in self._places.items()}

    def mark_specials(self, documents: Array) -> None:
        """Give doubles that are NaN, infinite or -0.0 the type `timestamp`, with the same 8 bytes.

        For servers that refuse the former and lose the sign of the latter. It is as wide, is no number that a query
        could take for a value, and `parse` takes it for the double it is.
        """
        for place in self._places.values():
            if place.field.type == DOUBLE:
                values = self._view(documents, place)
                special = ~np.isfinite(values) | (values.view("<i8") == -(2**63))
                documents[special, place.type_offset] = TIMESTAMP

    def _view(self, documents: Array, place: _Place) -> Array:
        form = np.dtype(place.field.form)
        if not len(documents):
            return np.empty(0, form)
        # As a writable view where the documents are writable; `documents` is contiguous.
        return np.ndarray((len(documents),), form, documents.data, place.offset, (self.width,))

    def _add_document(self, whole: bytearray, fields: Sequence[Field], prefix: str) -> None:
        start = len(whole)
        whole += bytes(4)
        for field in fields:
            self._add(whole, field, prefix)
        whole.append(0)
        whole[start : start + 4] = (len(whole) - start).to_bytes(4, "little")

    def _add(self, whole: bytearray, field: Field, prefix: str) -> None:
        type_offset = len(whole)
        whole += bytes([field.type]) + field.name.encode() + b"\0"
        if field.type == NULL:
            return
        if field.type == DOCUMENT:
            self._add_document(whole, field.fields, f"{prefix}{field.name}.")
            return
        if field.type == BINARY:
            whole += field.width.to_bytes(4, "little") + bytes([USER_DEFINED])
        self._places[prefix + field.name] = _Place(field=field, offset=len(whole), type_offset=type_offset)
        whole += bytes(field.width)


def split(data: bytes | bytearray) -> Iterator[tuple[int, Array]]:
    """Divide documents that stand one after the other by their width, and keep their order: width, and uint8, 1-d.

    Raises:
        NotOurDocuments: they are no documents.
    """
    whole = np.frombuffer(data, np.uint8)
    starts, at, end = [], 0, len(data)
    while at < end:
        starts.append(at)
        width = int.from_bytes(data[at : at + 4], "little")
        if width < 5:
            raise NotOurDocuments("they are no BSON")
        at += width
    if at != end:
        raise NotOurDocuments("the last one is cut off")
    widths = np.diff([*starts, end])
    found = np.unique(widths)
    if len(found) == 1:
        yield int(found[0]), whole
        return
    for width in found.tolist():
        of_width = np.array(starts)[widths == width].tolist()
        yield width, np.concatenate([whole[start : start + width] for start in of_width])


def turned(trigger: Array) -> Array:
    """Turn the sign bit of int64 triggers over; uint64."""
    return np.asarray(trigger).astype("<i8").view("<u8") ^ np.uint64(1 << 63)


def turned_back(trigger: Array) -> Array:
    """Return the int64 triggers of what `turned` gave, in any byte order."""
    return np.asarray((trigger.astype("<u8") ^ np.uint64(1 << 63)).view("<i8"))
