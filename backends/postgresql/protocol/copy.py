"""PostgreSQL's binary COPY format, written and read with numpy: no Python object a reading.

A COPY file is a signature, rows and a trailer; a row is a count of fields, then a length and the bytes of each field,
big-endian (https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"). With fixed lengths and no NULLs
a row is one packed structured dtype whose counts and lengths are constants: they are laid down once as a template, and
values are then assigned a column at a time. Signature and trailer are part of the same buffer.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from backends.columns.filling import (
    Columns,
    array_rows,
    fields_of,
    fill_arrays,
    fill_readings,
    readings_from,
    readings_from_arrays,
    readings_in,
)
from backends.columns.stored import STORED_DTYPES
from backends.sql.tables import reduced_columns
from schemas.batch import ClosedBlock, Layout
from schemas.decimation import reduced_dtype
from schemas.ledger import COUNTS, NUMBERS, ledger_dtype
from schemas.readings import Array, Channel, InstrumentGroup

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
OIDS = {"<i2": 21, "<i4": 23, "<i8": 20, "<f4": 700, "<f8": 701}
"""Types of array elements: pg_type.oid of int2, int4, int8, float4, float8, which never change."""

FIELDS = "fields:count"
"""How many fields a row has; no column has a colon in its name."""


class NotBinaryCopy(ValueError):
    """What came out of a COPY has not the fixed rows asked for."""


class RowFormat:
    """Rows of fixed width.

    Args:
        fields: name, dtype and number of elements of each; 0 elements is a plain value, more is an array.
    """

    def __init__(self, fields: Sequence[tuple[str, str, int]]) -> None:
        self.fields = tuple(fields)
        layout: list[tuple[Any, ...]] = [(FIELDS, ">i2")]
        for name, dtype, elements in self.fields:
            layout.append((f"{name}:length", ">i4"))
            layout.append((name, _array_field(dtype, elements) if elements else _big_endian(dtype)))
        self.dtype: np.dtype[Any] = np.dtype(layout)
        self._template = self._lay_template()

    def blank(self, count: int) -> tuple[Array, Array]:
        """Make a whole COPY file of `count` rows, uint8, and a view of its rows, whose values are still to be set."""
        width = self.dtype.itemsize
        whole = np.empty(len(SIGNATURE) + count * width + len(TRAILER), np.uint8)
        whole[: len(SIGNATURE)] = np.frombuffer(SIGNATURE, np.uint8)
        whole[-len(TRAILER) :] = np.frombuffer(TRAILER, np.uint8)
        whole[len(SIGNATURE) : -len(TRAILER)].view(f"V{width}")[:] = self._template.view(f"V{width}")
        return whole, self.rows(whole)

    def rows(self, whole: Array) -> Array:
        """View the rows of a COPY file that `blank` made; uint8."""
        return whole[len(SIGNATURE) : -len(TRAILER)].view(self.dtype)

    def parse(self, data: bytes | bytearray) -> Array:
        """View the rows of a COPY file.

        Raises:
            NotBinaryCopy: it is cut short, or a row has another width (a NULL, an array of another size).
        """
        body = len(data) - len(SIGNATURE) - len(TRAILER)
        count, rest = divmod(body, self.dtype.itemsize)
        if body < 0 or rest or data[: len(SIGNATURE)] != SIGNATURE or data[-len(TRAILER) :] != TRAILER:
            raise NotBinaryCopy(f"{len(data)} bytes are not whole rows of {self.dtype.itemsize} bytes")
        return self._checked(data, count, len(SIGNATURE))

    def parse_begun(self, data: bytearray) -> Array:
        """Take the whole rows off the front of what came of a COPY file without its signature; leave the rest.

        Raises:
            NotBinaryCopy: as `parse`.
        """
        count = len(data) // self.dtype.itemsize
        size = count * self.dtype.itemsize
        rows = self._checked(bytes(memoryview(data)[:size]), count, 0)
        del data[:size]
        return rows

    def _checked(self, data: bytes | bytearray, count: int, offset: int) -> Array:
        rows = np.frombuffer(data, self.dtype, count=count, offset=offset)
        for name in self._constants():
            if (rows[name] != self._template[name][0]).any():
                raise NotBinaryCopy(f"a row has another {name} than expected")
        return rows

    def _constants(self) -> list[str]:
        return [FIELDS, *(f"{name}:length" for name, _, _ in self.fields)]

    def _lay_template(self) -> Array:
        template = np.zeros(1, self.dtype)
        template[FIELDS] = len(self.fields)
        for name, dtype, elements in self.fields:
            template[f"{name}:length"] = template.dtype[name].itemsize
            if elements:
                field = template[name]
                field["dimensions"], field["oid"] = 1, OIDS[dtype]
                field["size"], field["lower"] = elements, 1
                field["elements"]["length"] = np.dtype(dtype).itemsize
        return template


def _big_endian(dtype: str) -> str:
    return dtype.replace("<", ">")


def _array_field(dtype: str, elements: int) -> np.dtype[Any]:
    element = np.dtype([("length", ">i4"), ("value", _big_endian(dtype))])
    head = [(name, ">i4") for name in ("dimensions", "nulls", "oid", "size", "lower")]
    return np.dtype([*head, ("elements", element, (elements,))])


def _stored(channels: Sequence[Channel]) -> list[tuple[str, str]]:
    return [(channel.name, STORED_DTYPES[channel.dtype]) for channel in channels]


@lru_cache
def rows_format(group: InstrumentGroup) -> RowFormat:
    """One reading a row, in the columns of the `rows` table."""
    head = [("run", "<i4"), ("trigger_id", "<i8"), ("instrument", "<i2"), ("time_ns", "<i8")]
    return RowFormat([(name, dtype, 0) for name, dtype in [*head, *_stored(group.channels)]])


@lru_cache
def arrays_format(group: InstrumentGroup) -> RowFormat:
    """One trigger a row, in the columns of the `arrays` table."""
    head = [("run", "<i4", 0), ("trigger_id", "<i8", 0), ("time_ns", "<i8", 0), ("time_offset_ns", "<i8", group.size)]
    return RowFormat([*head, *((name, dtype, group.size) for name, dtype in _stored(group.channels))])


@lru_cache
def ledger_format(instruments: int, logger: bytes | None) -> RowFormat:
    """One ledger row, in the columns of the ledger table; without the logger's name when `logger` is None."""
    bitmap = ledger_dtype(instruments)["missing"].itemsize
    fields = [("run", "<i4"), ("trigger_id", "<i8"), *((name, "<i8") for name in NUMBERS)]
    fields += [*((name, "<i4") for name in COUNTS), ("missing", f"V{bitmap}")]
    if logger is not None:
        fields.append(("logger", f"S{len(logger)}"))
    return RowFormat([(name, dtype, 0) for name, dtype in fields])


def encode_rows(batch: ClosedBlock, group: InstrumentGroup) -> Array:
    """Lay out all readings of a batch, late ones after the others, for the `rows` table; uint8."""
    whole, rows = rows_format(group).blank(readings_in(batch))
    fill_readings(fields_of(rows), batch, group)
    return whole


def encode_arrays(batch: ClosedBlock, group: InstrumentGroup, earlier: Array | None = None) -> Array:
    """Lay out a batch for the `arrays` table; uint8.

    earlier: rows taken out of the table to be put back with late readings, as `arrays_format(group).parse` gives them.
    """
    whole, rows = arrays_format(group).blank(len(array_rows(batch)))
    fill_arrays(_array_columns(rows, group), batch, group, None if earlier is None else _array_columns(earlier, group))
    return whole


def _array_columns(rows: Array, group: InstrumentGroup) -> Columns:
    arrays = ("time_offset_ns", *(channel.name for channel in group.channels))
    return {
        **{name: rows[name] for name in ("run", "trigger_id", "time_ns")},
        **{name: rows[name]["elements"]["value"] for name in arrays},
    }


def encode_ledger(ledger: Array, instruments: int, logger: bytes) -> Array:
    """Lay out ledger rows for the ledger table; uint8."""
    whole, rows = ledger_format(instruments, logger).blank(len(ledger))
    rows["run"], rows["trigger_id"] = ledger["run"], ledger["trigger"]
    for name in (*NUMBERS, *COUNTS):
        rows[name] = ledger[name]
    rows["missing"] = np.ascontiguousarray(ledger["missing"]).view(rows.dtype["missing"])[:, 0]
    rows["logger"] = logger
    return whole


@lru_cache
def reduced_format(group: InstrumentGroup) -> RowFormat:
    """Figures of a bucket, in the columns of the table of these."""
    return RowFormat([(column.name, column.dtype, 0) for column in reduced_columns(group)])


def encode_reduced(figures: Array, group: InstrumentGroup) -> Array:
    """Lay out figures, `reduced_dtype(group)`, for their table; uint8."""
    whole, rows = reduced_format(group).blank(len(figures))
    for column in reduced_columns(group):
        rows[column.name] = (figures[column.channel] if column.channel else figures)[column.figure]
    return whole


def decode_reduced(data: bytes | bytearray, group: InstrumentGroup) -> Array:
    """Parse figures; `reduced_dtype(group)`, shape (n,)."""
    rows = reduced_format(group).parse(data)
    figures = np.empty(len(rows), reduced_dtype(group))
    for column in reduced_columns(group):
        (figures[column.channel] if column.channel else figures)[column.figure] = rows[column.name]
    for channel in group.channels:
        if not channel.is_float:
            figures[channel.name]["n"] = figures["readings"]
    return figures


def data_format(group: InstrumentGroup, layout: Layout) -> RowFormat:
    """A row of a group's table."""
    return arrays_format(group) if layout is Layout.ARRAYS else rows_format(group)


def readings_of_rows(rows: Array, group: InstrumentGroup, layout: Layout) -> Array:
    """Readings, `answer_dtype(group)`, shape (readings,), of rows as `data_format` parsed them."""
    if layout is Layout.ARRAYS:
        return readings_from_arrays(_array_columns(rows, group), group)
    return readings_from(fields_of(rows), group)


def decode_rows(data: bytes | bytearray, group: InstrumentGroup) -> Array:
    """Parse readings that came one a row; `answer_dtype(group)`, shape (readings,)."""
    return readings_of_rows(rows_format(group).parse(data), group, Layout.ROWS)


def decode_arrays(data: bytes | bytearray, group: InstrumentGroup) -> Array:
    """Parse readings that came one trigger a row, and spread them out; `answer_dtype(group)`, shape (readings,)."""
    return readings_of_rows(arrays_format(group).parse(data), group, Layout.ARRAYS)


def decode_ledger(data: bytes | bytearray, instruments: int) -> Array:
    """Parse ledger rows; `ledger_dtype(instruments)`, shape (triggers,)."""
    rows = ledger_format(instruments, None).parse(data)
    answer = np.empty(len(rows), ledger_dtype(instruments))
    answer["run"], answer["trigger"] = rows["run"], rows["trigger_id"]
    for name in (*NUMBERS, *COUNTS):
        answer[name] = rows[name]
    answer["missing"] = np.ascontiguousarray(rows["missing"]).view(np.uint8).reshape(answer["missing"].shape)
    return answer
