"""Documents of fixed width, laid out and parsed with numpy: many at once, no reading as a Python object.

BSON (https://bsonspec.org/spec.html): a document is its length as int32, its elements and a NUL; an element is a type
byte, a name that ends with a NUL, and a value. An array is a document whose names are "0", "1", ...: names of one digit
and of three have different widths, so an array is a few evenly spaced spans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from backends.columns.filling import Columns
from schemas.readings import Array

DOUBLE, STRING, DOCUMENT, ARRAY, BINARY, OBJECT_ID, BOOL, NULL, INT32, TIMESTAMP, INT64 = (
    *(0x01, 0x02, 0x03, 0x04, 0x05),
    *(0x07, 0x08, 0x0A, 0x10, 0x11, 0x12),
)
FORMS: dict[int, str] = {DOUBLE: "<f8", BOOL: "u1", INT32: "<i4", INT64: "<i8"}
USER_DEFINED = 0x80
"""Subtype of binary data that means something to us alone."""


class NotOurDocuments(Exception):
    """Documents are not laid out as this store lays them out: somebody else wrote or changed them."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """An element: its BSON type, and `form`, the dtype of its value, of an array's elements, or of binary data's bytes.

    count: how many elements an array of `type` has; None for a single value.
    constant: its value where that is the same in every document (STRING).
    """

    name: str
    type: int
    form: str = ""
    count: int | None = None
    constant: bytes = b""

    @property
    def width(self) -> int:
        """Bytes of a value, or of an element's."""
        return np.dtype(self.form).itemsize


@dataclass(frozen=True, kw_only=True)
class _Span:
    """Evenly spaced values within a document: elements `first` to `first + count` of a field."""

    first: int
    count: int
    offset: int  # of the first value, in bytes
    stride: int  # from value to value, in bytes
    name_bytes: int  # of each element, NUL included: the type byte is 1 + name_bytes before the value


def number(name: str, stored: str, count: int | None = None) -> Field:
    """A field of numbers of a dtype (`STORED_DTYPES`) in the BSON type that holds all its values.

    BSON has int32, int64 and double; float32 is exact in a double.
    """
    kind, width = stored[1], int(stored[2])
    bson = DOUBLE if kind == "f" else INT64 if width == 8 else INT32
    return Field(name=name, type=bson, form=FORMS[bson], count=count)


class Raw:
    """Documents that stand one after the other, for pymongo's encoder: it copies `raw` into the message as it is.

    documents: uint8, shape (documents, width).
    """

    _type_marker = 101

    def __init__(self, documents: Array) -> None:
        self.raw = documents.tobytes()


class DocumentFormat:
    """The layout of documents that all have the same width."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = {field.name: field for field in fields}
        self._spans: dict[str, list[_Span]] = {}
        whole = bytearray(4)
        for field in fields:
            self._add(whole, field)
        whole.append(0)
        whole[:4] = len(whole).to_bytes(4, "little")
        self._template = np.frombuffer(bytes(whole), np.uint8)
        self._mask = np.full(len(whole), 0xFF, np.uint8)
        for name, spans in self._spans.items():
            for span in spans:
                self._bytes(self._mask[None], name, span)[:] = 0
                if self._fields[name].type == DOUBLE:
                    # See `mark_specials`.
                    self._types(self._mask[None], span)[:] = 0xFF & ~(DOUBLE ^ TIMESTAMP)

    @property
    def width(self) -> int:
        """Bytes of a document."""
        return len(self._template)

    def blank(self, count: int) -> Array:
        """Documents whose values are not set yet; uint8, shape (count, width)."""
        return np.broadcast_to(self._template, (count, self.width)).copy()

    def parse(self, data: bytes | bytearray) -> Array:
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
        """Views of the single values of documents, by name; shape (documents,)."""
        return {
            name: self._values(documents, name, spans[0])[:, 0]
            for name, spans in self._spans.items()
            if self._fields[name].count is None
        }

    def put_arrays(self, documents: Array, arrays: Columns) -> None:
        """Set the arrays of documents; each of `arrays` has shape (documents, elements)."""
        for name in self._array_names():
            for span in self._spans[name]:
                values = arrays[name][:, span.first : span.first + span.count]
                self._values(documents, name, span)[:] = values

    def get_arrays(self, documents: Array) -> Columns:
        """Copy the arrays of documents, by name; shape (documents, elements)."""
        found: dict[str, Array] = {}
        for name in self._array_names():
            field = self._fields[name]
            values = found[name] = np.empty((len(documents), field.count or 0), field.form)
            for span in self._spans[name]:
                values[:, span.first : span.first + span.count] = self._values(documents, name, span)
        return found

    def mark_specials(self, documents: Array) -> None:
        """Give doubles that are NaN, infinite or -0.0 the type `timestamp`, with the same 8 bytes.

        For servers that refuse the former and lose the sign of the latter. It is as wide, is no number that a query
        could take for a value, and `parse` takes it for the double it is.
        """
        for name in self._doubles():
            for span in self._spans[name]:
                values = self._values(documents, name, span)
                bits = self._view(documents, span, np.dtype("<i8"))
                special = ~np.isfinite(values) | (bits == -(2**63))
                if special.any():
                    self._types(documents, span)[special] = TIMESTAMP

    def _doubles(self) -> list[str]:
        return [field.name for field in self._fields.values() if field.type == DOUBLE]

    def _array_names(self) -> list[str]:
        return [field.name for field in self._fields.values() if field.count is not None]

    def _values(self, documents: Array, name: str, span: _Span) -> Array:
        return self._view(documents, span, np.dtype(self._fields[name].form))

    def _bytes(self, documents: Array, name: str, span: _Span) -> Array:
        width = self._fields[name].width
        return self._view(documents, span, np.dtype((np.uint8, (width,))))

    def _types(self, documents: Array, span: _Span) -> Array:
        return self._view(documents, span, np.dtype(np.uint8), -1 - span.name_bytes)

    def _view(self, documents: Array, span: _Span, form: np.dtype[Any], ahead: int = 0) -> Array:
        shape, strides = (len(documents), span.count), (self.width, span.stride)
        if not len(documents):
            return np.empty(shape, form)
        # As a writable view where the documents are writable; `documents` is contiguous.
        return np.ndarray(shape, form, documents.data, span.offset + ahead, strides)

    def _add(self, whole: bytearray, field: Field) -> None:
        name = field.name.encode() + b"\0"
        if field.count is not None:
            whole += bytes([ARRAY]) + name
            self._add_array(whole, field, field.count)
            return
        whole += bytes([field.type]) + name
        if field.type == NULL:
            return
        if field.type == STRING:
            whole += (len(field.constant) + 1).to_bytes(4, "little") + field.constant + b"\0"
            return
        width = field.width
        if field.type == BINARY:
            whole += width.to_bytes(4, "little") + bytes([USER_DEFINED])
        span = _Span(first=0, count=1, offset=len(whole), stride=width, name_bytes=len(name))
        self._spans[field.name] = [span]
        whole += bytes(width)

    def _add_array(self, whole: bytearray, field: Field, count: int) -> None:
        start, width = len(whole), field.width
        whole += bytes(4)
        spans = self._spans[field.name] = []
        for first, end in _same_width(count):
            name_bytes = len(str(first)) + 1
            before = 1 + name_bytes
            offset, stride = len(whole) + before, before + width
            spans.append(_Span(first=first, count=end - first, offset=offset, stride=stride, name_bytes=name_bytes))
            whole += b"".join(bytes([field.type]) + b"%d\0" % k + bytes(width) for k in range(first, end))
        whole.append(0)
        whole[start : start + 4] = (len(whole) - start).to_bytes(4, "little")


def array_bytes(count: int, width: int) -> int:
    """Bytes that an array takes of values `width` bytes wide, without its name."""
    return 4 + sum((end - first) * (2 + len(str(first)) + width) for first, end in _same_width(count)) + 1


def _same_width(count: int) -> Iterator[tuple[int, int]]:
    """Stretches of an array's elements whose names have as many digits."""
    return pairwise([0, *(10**digits for digits in range(1, len(str(count - 1)))), count])


@lru_cache
def id_dtype(*, reading: bool) -> np.dtype[Any]:
    """What an `_id` is made of, big-endian, so that its bytes are in the order of run, trigger, instrument.

    The 12 bytes of an ObjectId are exactly a run and a trigger; a reading's is two bytes more of binary data. `trigger`
    has its sign bit turned over, since bytes are compared without one.
    """
    fields = [("run", ">i4"), ("trigger", ">u8")]
    return np.dtype([*fields, ("instrument", ">u2")] if reading else fields)


def keys_of(ids: Array) -> Array:
    """See `_id`s of readings' documents, void, as what they are made of: `id_dtype`."""
    return ids.view(id_dtype(reading=ids.dtype.itemsize == id_dtype(reading=True).itemsize))


@lru_cache
def figure_id_dtype() -> np.dtype[Any]:
    """What the `_id` of figures is made of, big-endian: those of an attempt lie together, in order of time.

    mark: of the attempt to reduce, 63 bits. time: where the bucket begins, turned as triggers are. step: of the
    attempt's steps the one that they are of.
    """
    return np.dtype([("mark", ">u8"), ("time", ">u8"), ("instrument", ">u2"), ("step", ">u4")])


def turned(trigger: Array) -> Array:
    """Turn the sign bit of int64 triggers over; uint64."""
    return np.asarray(trigger).astype("<i8").view("<u8") ^ np.uint64(1 << 63)


def turned_back(trigger: Array) -> Array:
    """The int64 triggers of what `turned` gave, in any byte order."""
    return np.asarray((trigger.astype("<u8") ^ np.uint64(1 << 63)).view("<i8"))


def id_bytes(run: int, trigger: int, instrument: int | None = None) -> bytes:
    """The bytes of one `_id`."""
    tail = b"" if instrument is None else instrument.to_bytes(2, "big")
    return run.to_bytes(4, "big", signed=True) + (trigger + 2**63).to_bytes(8, "big") + tail


def figure_bytes(mark: int, time_ns: int, instrument: int = 0, step: int = 0) -> bytes:
    """The bytes of the `_id` of figures."""
    return np.array((mark, time_ns + 2**63, instrument, step), figure_id_dtype()).tobytes()
