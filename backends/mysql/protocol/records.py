"""Values in the binary protocol of MariaDB and MySQL, laid out and read with numpy: no Python object a reading.

Every value has a fixed width: integers and floats little-endian, arrays and bitmaps as byte strings whose length stands
before them. So a row of parameters is one packed structured dtype, and so is a row of a result, except that a NULL has
no bytes: rows with the same NULLs are alike (https://mariadb.com/kb/en/com_stmt_execute/,
https://mariadb.com/kb/en/resultset-row/).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

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
from backends.mysql.protocol.connection import HEADER, Packets
from backends.sql.tables import reduced_columns
from schemas.batch import ClosedBlock
from schemas.decimation import reduced_dtype
from schemas.ledger import COUNTS, NUMBERS, ledger_dtype
from schemas.readings import Array, InstrumentGroup

TYPES = {"<i2": 2, "<i4": 3, "<i8": 8, "<f4": 4, "<f8": 5}
"""MYSQL_TYPE_SHORT, LONG, LONGLONG, FLOAT, DOUBLE."""
BLOB = 252
INDICATED_NULL = 1
NULLS_OFFSET = 2
"""Bits of a result row's bitmap of NULLs that stand for nothing."""

EXACT = "exact$"
"""The column for the floats of a reading some of which DOUBLE does not hold; no channel has a $ in its name."""


class NotAsMade(ValueError):
    """Rows that came back have not the fixed widths asked for."""


class Field(NamedTuple):
    """A column. elements: 0 is a plain value, more is a byte string of that many values of `dtype`."""

    name: str
    dtype: str
    elements: int = 0

    @property
    def width(self) -> int:
        """Bytes of its value, without the length before a byte string."""
        return np.dtype(self.dtype).itemsize * max(1, self.elements)


def length_prefix(length: int) -> bytes:
    """How the protocol writes the length of a byte string."""
    if length < 251:
        return bytes([length])
    first, width = next((first, width) for first, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)) if length < 1 << 8 * width)
    return bytes([first]) + length.to_bytes(width, "little")


class Chunk(NamedTuple):
    """Rows of parameters for one command: how many, their bitmap of NULLs (COM_STMT_EXECUTE has it first), values."""

    rows: int
    nulls: bytes
    values: memoryview


class ParameterFormat:
    """Rows of parameters of a prepared statement.

    Args:
        fields: in the order of the statement's parameters.
        indicated: each value has a byte before it that says whether it is NULL, as COM_STMT_BULK_EXECUTE wants it.
    """

    def __init__(self, fields: Sequence[Field], *, indicated: bool) -> None:
        self.fields = tuple(fields)
        self.indicated = indicated
        self.types = b"".join(bytes([BLOB if field.elements else TYPES[field.dtype], 0]) for field in fields)
        self.dtype = np.dtype([part for field in fields for part in self._parts(field)])
        self._template = np.zeros(1, self.dtype)
        for field in fields:
            if field.elements:
                self._template[f"{field.name}:length"] = np.frombuffer(length_prefix(field.width), np.uint8)

    def blank(self, count: int) -> Array:
        """Make `count` rows whose values are still to be set."""
        width = f"V{self.dtype.itemsize}"
        rows = np.empty(count, self.dtype)
        rows.view(width)[:] = self._template.view(width)
        return rows

    def chunks(self, rows: Array, nulls: Array | None, sizes: Iterable[int]) -> Iterator[Chunk]:
        """Cut rows into commands of the sizes given. nulls: bool, shape (rows, fields); None when there are none."""
        start = 0
        for size in sizes:
            part = slice(start, start + size)
            start += size
            values = rows[part].view(np.uint8)
            if nulls is None:
                yield Chunk(size, b"" if self.indicated else bytes(-(-size * len(self.fields) // 8)), _bytes(values))
            else:
                yield self._with_nulls(values.reshape(size, -1), nulls[part])

    def _with_nulls(self, values: Array, nulls: Array) -> Chunk:
        keep = np.ones(values.shape, bool)
        assert self.dtype.fields is not None
        for number, field in enumerate(self.fields):
            first = f"{field.name}:length" if field.elements else field.name
            start = self.dtype.fields[first][1]
            end = self.dtype.fields[field.name][1] + field.width
            keep[:, start:end] = ~nulls[:, number, None]
            if self.indicated:
                values[nulls[:, number], start - 1] = INDICATED_NULL
        bitmap = b"" if self.indicated else np.packbits(nulls, bitorder="little").tobytes()
        return Chunk(len(values), bitmap, _bytes(values[keep]))

    def _parts(self, field: Field) -> Iterator[tuple[Any, ...]]:
        if self.indicated:
            yield f"{field.name}:indicator", "u1"
        yield from _value_parts(field)


def _value_parts(field: Field) -> Iterator[tuple[Any, ...]]:
    if field.elements:
        yield f"{field.name}:length", "u1", (len(length_prefix(field.width)),)
        yield field.name, field.dtype, (field.elements,)
    else:
        yield field.name, field.dtype


def _bytes(values: Array) -> memoryview:
    return memoryview(np.ascontiguousarray(values).reshape(-1))  # type: ignore[arg-type]


class _Part(NamedTuple):
    """Rows of a result with the same NULLs, and which rows of it they are."""

    numbers: Array | slice
    rows: Array
    missing: frozenset[str]


class ResultFormat:
    """Rows of a result; fields in the order of the query's columns."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._bitmap = -(-(len(self.fields) + NULLS_OFFSET) // 8)

    def parse(self, packets: Packets) -> tuple[Columns, dict[str, Array]]:
        """Read columns, and for those with NULLs which values are (bool, shape (rows,)); a NULL reads as zeros.

        Raises:
            NotAsMade: a value has another width than its field.
        """
        parts: list[_Part] = []
        count = 0
        for stretch in packets.stretches:
            parts += self._parts(packets.of(stretch), count)
            count += stretch.packets
        columns: dict[str, Array] = {}
        nulls: dict[str, Array] = {}
        for field in self.fields:
            columns[field.name] = self._column(field, parts, count)
            if any(field.name in part.missing for part in parts):
                nulls[field.name] = np.zeros(count, bool)
                for part in parts:
                    nulls[field.name][part.numbers] = field.name in part.missing
        return columns, nulls

    def _column(self, field: Field, parts: Sequence["_Part"], count: int) -> Array:
        if len(parts) == 1 and field.name not in parts[0].missing:
            return np.asarray(parts[0].rows[field.name])
        column = np.zeros((count, field.elements) if field.elements else count, field.dtype)
        for part in parts:
            if field.name not in part.missing:
                column[part.numbers] = part.rows[field.name]
        return column

    def _parts(self, block: Array, first: int) -> Iterator["_Part"]:
        """Take packets of one length apart by what is NULL in them; the first is row `first` of the result."""
        start, end = HEADER + 1, HEADER + 1 + self._bitmap
        if block.shape[1] <= end:
            raise NotAsMade(f"a row of {block.shape[1] - HEADER} bytes")
        bitmaps = block[:, start:end]
        if (bitmaps == bitmaps[0]).all():
            yield _Part(slice(first, first + len(block)), *self._alike(block, bitmaps[0]))
            return
        for bitmap in np.unique(bitmaps, axis=0):
            (which,) = np.nonzero((bitmaps == bitmap).all(axis=1))
            yield _Part(first + which, *self._alike(block[which], bitmap))

    def _alike(self, block: Array, bitmap: Array) -> tuple[Array, frozenset[str]]:
        bits = np.unpackbits(bitmap, bitorder="little")[NULLS_OFFSET:]
        missing = frozenset(field.name for field, bit in zip(self.fields, bits, strict=False) if bit)
        dtype = _row_dtype(self.fields, self._bitmap, missing)
        if dtype.itemsize != block.shape[1]:
            raise NotAsMade(f"a row of {block.shape[1] - HEADER} bytes instead of {dtype.itemsize - HEADER}")
        rows = np.ascontiguousarray(block).view(dtype)[:, 0]
        for field in self.fields:
            if field.elements and field.name not in missing:
                expected = np.frombuffer(length_prefix(field.width), np.uint8)
                if (rows[f"{field.name}:length"] != expected).any():
                    raise NotAsMade(f"{field.name} has not {field.width} bytes in every row")
        return rows, missing


@lru_cache(maxsize=256)
def _row_dtype(fields: tuple[Field, ...], bitmap: int, missing: frozenset[str]) -> np.dtype[Any]:
    head: list[tuple[Any, ...]] = [("packet", f"V{HEADER + 1}"), ("nulls", f"V{bitmap}")]
    return np.dtype([*head, *(part for field in fields if field.name not in missing for part in _value_parts(field))])


# --- what this store's tables hold ----------------------------------------------------------------------------------


class GroupFormats:
    """The formats of one group's rows."""

    def __init__(self, group: InstrumentGroup, *, indicated: bool) -> None:
        self.group = group
        self.indicated = indicated

    @cached_property
    def rows(self) -> ParameterFormat:
        """Single readings."""
        return ParameterFormat(rows_fields(self.group), indicated=self.indicated)

    @cached_property
    def rows_exact(self) -> ParameterFormat:
        """Single readings, some of which DOUBLE cannot hold."""
        return ParameterFormat([*rows_fields(self.group), exact_field(self.group)], indicated=self.indicated)

    @cached_property
    def arrays(self) -> ParameterFormat:
        """Arrays of a trigger."""
        return ParameterFormat(arrays_fields(self.group), indicated=self.indicated)

    @cached_property
    def ledger(self) -> ParameterFormat:
        """Ledger rows."""
        return ParameterFormat(ledger_fields(self.group.size), indicated=self.indicated)


@lru_cache
def rows_fields(group: InstrumentGroup) -> tuple[Field, ...]:
    """Columns of the `rows` table."""
    head = [("run", "<i4"), ("trigger_id", "<i8"), ("instrument", "<i2"), ("time_ns", "<i8")]
    channels = [(channel.name, STORED_DTYPES[channel.dtype]) for channel in group.channels]
    return tuple(Field(name, dtype) for name, dtype in [*head, *channels])


@lru_cache
def floats_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """The float channels of a reading, packed: what `exact$` holds."""
    return np.dtype([(c.name, STORED_DTYPES[c.dtype]) for c in group.channels if c.is_float])


def exact_field(group: InstrumentGroup) -> Field:
    """The column of readings that DOUBLE cannot hold."""
    return Field(EXACT, "u1", floats_dtype(group).itemsize)


@lru_cache
def arrays_fields(group: InstrumentGroup) -> tuple[Field, ...]:
    """Columns of the `arrays` table."""
    head = [Field("run", "<i4"), Field("trigger_id", "<i8"), Field("time_ns", "<i8")]
    channels = [Field(channel.name, STORED_DTYPES[channel.dtype], group.size) for channel in group.channels]
    return (*head, Field("time_offset_ns", "<i8", group.size), *channels)


@lru_cache
def element_fields(group: InstrumentGroup) -> tuple[Field, ...]:
    """Columns of one instrument's readings, picked out of the arrays as byte strings."""
    head = [Field("run", "<i4"), Field("trigger_id", "<i8"), Field("time_ns", "<i8"), Field("time_offset_ns", "<i8", 1)]
    return (*head, *(Field(channel.name, STORED_DTYPES[channel.dtype], 1) for channel in group.channels))


@lru_cache
def ledger_fields(instruments: int) -> tuple[Field, ...]:
    """Columns of the ledger, without the logger's name."""
    bitmap = ledger_dtype(instruments)["missing"].shape[0]
    head = [Field("run", "<i4"), Field("trigger_id", "<i8"), *(Field(name, "<i8") for name in NUMBERS)]
    return (*head, *(Field(name, "<i4") for name in COUNTS), Field("missing", "u1", bitmap))


@lru_cache
def reduced_fields(group: InstrumentGroup) -> tuple[Field, ...]:
    """Columns of the table of what readings are reduced to."""
    return tuple(Field(column.name, column.dtype) for column in reduced_columns(group))


def lay_reduced(figures: Array, group: InstrumentGroup, *, indicated: bool) -> tuple[ParameterFormat, Array, Array]:
    """Lay out figures, `reduced_dtype(group)`; format, rows, NULLs, which stand for what DOUBLE does not hold."""
    form = ParameterFormat(reduced_fields(group), indicated=indicated)
    rows, nulls = form.blank(len(figures)), np.zeros((len(figures), len(form.fields)), bool)
    for number, column in enumerate(reduced_columns(group)):
        values = (figures[column.channel] if column.channel else figures)[column.figure]
        rows[column.name] = values
        if values.dtype.kind == "f":
            nulls[:, number] = ~np.isfinite(values)
    return form, rows, nulls


def read_reduced(packets: Packets, group: InstrumentGroup) -> Array:
    """Read figures; `reduced_dtype(group)`, shape (n,)."""
    columns, nulls = ResultFormat(reduced_fields(group)).parse(packets)
    figures = np.empty(len(packets), reduced_dtype(group))
    for column in reduced_columns(group):
        of = figures[column.channel] if column.channel else figures
        of[column.figure] = columns[column.name]
        if column.name in nulls:
            of[column.figure][nulls[column.name]] = np.nan
    for channel in group.channels:
        if channel.is_float:
            _tell_infinite(figures[channel.name])
        else:
            figures[channel.name]["n"] = figures["readings"]
    return figures


def _tell_infinite(figures: Array) -> None:
    """Put infinite values in place of NaN where figures of a channel tell that there are some.

    Where one end is no number the other one tells which infinity it is, and so does the mean of both. Where all values
    are infinite nothing tells.
    """
    there, least, greatest = figures["n"] > 0, figures["least"], figures["greatest"]
    is_above = there & np.isnan(greatest) & ~np.isnan(least)
    is_below = there & np.isnan(least) & ~np.isnan(greatest)
    greatest[is_above] = figures["mean"][is_above] = np.inf
    least[is_below] = figures["mean"][is_below] = -np.inf


def lay_rows(batch: ClosedBlock, formats: GroupFormats) -> tuple[ParameterFormat, Array, Array | None]:
    """Lay out all readings of a batch in order of time, the key of the table; format, rows, NULLs."""
    group = formats.group
    rows = formats.rows.blank(readings_in(batch))
    fill_readings(fields_of(rows), batch, group)
    times = rows["time_ns"]
    if (times[1:] < times[:-1]).any():
        # A key behind the last one is searched for and splits pages: a quarter more of the server's time.
        rows = rows.view(f"V{rows.itemsize}")[np.argsort(times, kind="stable")].view(rows.dtype)
    floats = floats_dtype(group)
    if all(_all_held(rows[name]) for name in floats.names or ()):
        return formats.rows, rows, None
    return (formats.rows_exact, *_with_exact(rows, formats, floats))


def _all_held(values: Array) -> bool:
    minus_zero = np.iinfo(f"i{values.itemsize}").min  # has the sign bit and no other
    return bool(np.isfinite(values).all() and not (values.view(f"<i{values.itemsize}") == minus_zero).any())


def _not_held(values: Array) -> Array:
    """Which floats DOUBLE does not hold: NaN and infinities are refused, and -0.0 becomes 0.0."""
    return np.asarray(~np.isfinite(values) | ((values == 0) & np.signbit(values)))


def _with_exact(rows: Array, formats: GroupFormats, floats: np.dtype[Any]) -> tuple[Array, Array]:
    wider = formats.rows_exact.blank(len(rows))
    width = rows.itemsize
    wider.view(np.uint8).reshape(len(rows), -1)[:, :width] = rows.view(np.uint8).reshape(len(rows), width)
    exact = np.empty(len(rows), floats)
    names = [field.name for field in formats.rows_exact.fields]
    nulls = np.zeros((len(rows), len(names)), bool)
    kept = np.zeros(len(rows), bool)
    for name in floats.names or ():
        exact[name] = rows[name]
        nulls[:, names.index(name)] = ~np.isfinite(rows[name])
        kept |= _not_held(rows[name])
    wider[EXACT] = exact.view(np.uint8).reshape(len(rows), -1)
    nulls[:, names.index(EXACT)] = ~kept
    return wider, nulls


def lay_arrays(batch: ClosedBlock, formats: GroupFormats, earlier: Columns | None) -> Array:
    """Lay out a batch a trigger a row; `earlier` are rows taken out to be put back with late readings."""
    rows = formats.arrays.blank(len(array_rows(batch)))
    fill_arrays(fields_of(rows), batch, formats.group, earlier)
    return rows


def lay_ledger(ledger: Array, formats: GroupFormats) -> Array:
    """Lay out ledger rows."""
    rows = formats.ledger.blank(len(ledger))
    rows["trigger_id"] = ledger["trigger"]
    for name in ("run", *NUMBERS, *COUNTS, "missing"):
        rows[name] = ledger[name]
    return rows


def read_rows(packets: Packets, group: InstrumentGroup) -> Array:
    """Read single readings; `answer_dtype(group)`, shape (readings,)."""
    floats = floats_dtype(group)
    fields = (*rows_fields(group), *([exact_field(group)] if floats.names else []))
    columns, nulls = ResultFormat(fields).parse(packets)
    kept = ~nulls.get(EXACT, np.zeros(len(packets), bool))
    if floats.names and kept.any():
        exact = np.ascontiguousarray(columns[EXACT][kept]).view(floats)[:, 0]
        for name in floats.names:
            columns[name][kept] = exact[name]
    return readings_from(columns, group)


def parse_arrays(packets: Packets, group: InstrumentGroup) -> Columns:
    """Read arrays as columns, as `fill_arrays` takes them."""
    return ResultFormat(arrays_fields(group)).parse(packets)[0]


def read_arrays(packets: Packets, group: InstrumentGroup) -> Array:
    """Read arrays and spread them out; `answer_dtype(group)`, shape (readings,)."""
    return readings_from_arrays(parse_arrays(packets, group), group)


def read_elements(packets: Packets, group: InstrumentGroup, instrument: int) -> Array:
    """Read one instrument's readings out of arrays; `answer_dtype(group)`, shape (readings,)."""
    columns = dict(ResultFormat(element_fields(group)).parse(packets)[0])
    columns["time_ns"] = columns["time_ns"] + columns.pop("time_offset_ns")[:, 0]
    for channel in group.channels:
        columns[channel.name] = columns[channel.name][:, 0]
    columns["instrument"] = np.full(len(columns["run"]), instrument)
    return readings_from(columns, group)


def read_ledger(packets: Packets, instruments: int) -> Array:
    """Read ledger rows; `ledger_dtype(instruments)`, shape (triggers,)."""
    columns, _ = ResultFormat(ledger_fields(instruments)).parse(packets)
    answer = np.empty(len(columns["run"]), ledger_dtype(instruments))
    answer["trigger"] = columns["trigger_id"]
    for name in ("run", *NUMBERS, *COUNTS, "missing"):
        answer[name] = columns[name]
    return answer
