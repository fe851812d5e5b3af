"""What the documents of a group hold: readings, arrays, ledger rows; between `backends.columns.filling` and BSON."""

from functools import lru_cache
from typing import Any

import numpy as np

from backends.columns.filling import (
    array_rows,
    arrays_dtype,
    fields_of,
    fill_arrays,
    fill_readings,
    readings_from,
    readings_from_arrays,
    readings_in,
)
from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES
from backends.mongodb.protocol.documents import (
    BINARY,
    BOOL,
    OBJECT_ID,
    STRING,
    DocumentFormat,
    Field,
    figure_id_dtype,
    id_dtype,
    number,
    turned,
)
from schemas.batch import ClosedBlock, Layout
from schemas.decimation import FIGURES, reduced_dtype
from schemas.ledger import COUNTS, NUMBERS, bitmap_bytes, ledger_dtype
from schemas.readings import Array, InstrumentGroup

READING_ID, TRIGGER_ID = f"V{id_dtype(reading=True).itemsize}", f"V{id_dtype(reading=False).itemsize}"
FIGURE_ID = f"V{figure_id_dtype().itemsize}"
BATCH = "B"
"""Field of readings' documents: the mark of the batch that wrote it last (`mark_of`). No channel can have this name,
and it is short, since every reading has it."""


def mark_of(mark: int) -> int:
    """The part of a batch's mark that documents of readings have: 31 bits, so that it takes 4 bytes."""
    return mark & 0x7FFF_FFFF


def no_ids(layout: Layout) -> Array:
    """No `_id`s of readings' documents; void, shape (0,)."""
    return np.empty(0, TRIGGER_ID if layout is Layout.ARRAYS else READING_ID)


@lru_cache
def rows_format(group: InstrumentGroup) -> DocumentFormat:
    """A document a reading."""
    return DocumentFormat(
        [
            Field(name="_id", type=BINARY, form=READING_ID),
            number("run", "<i4"),
            number("trigger_id", "<i8"),
            number("instrument", "<i4"),
            number("time_ns", "<i8"),
            number(BATCH, "<i4"),
            *(number(channel.name, STORED_DTYPES[channel.dtype]) for channel in group.channels),
        ]
    )


@lru_cache
def arrays_format(group: InstrumentGroup) -> DocumentFormat:
    """A document a trigger: element i of each array is instrument i's."""
    return DocumentFormat(
        [
            Field(name="_id", type=OBJECT_ID, form=TRIGGER_ID),
            number("run", "<i4"),
            number("trigger_id", "<i8"),
            number("time_ns", "<i8"),
            number(BATCH, "<i4"),
            number("time_offset_ns", "<i8", group.size),
            *(number(channel.name, STORED_DTYPES[channel.dtype], group.size) for channel in group.channels),
        ]
    )


@lru_cache
def ledger_format(instruments: int, logger: str) -> DocumentFormat:
    """A document a trigger.

    complete: so that an index can hold the complete ones alone.
    batch: the mark of the batch that wrote it last (`backends.mongodb.writing.unfinished`).
    """
    return DocumentFormat(
        [
            Field(name="_id", type=OBJECT_ID, form=TRIGGER_ID),
            number("run", "<i4"),
            number("trigger_id", "<i8"),
            *(number(name, "<i8") for name in NUMBERS),
            *(number(name, "<i4") for name in COUNTS),
            Field(name="complete", type=BOOL, form="u1"),
            Field(name="missing", type=BINARY, form=f"V{bitmap_bytes(instruments)}"),
            number("batch", "<i8"),
            Field(name="logger", type=STRING, constant=logger.encode()),
        ]
    )


@lru_cache
def reduced_format(group: InstrumentGroup) -> DocumentFormat:
    """A document an instrument, bucket and step of reducing; n of a channel without NaN is the number of readings."""
    stored = {channel.name: STORED_DTYPES[channel.dtype] for channel in group.channels}
    figures = (number(f"{name}_{figure}", _figure_form(figure, stored[name])) for name, figure in _figures_of(group))
    head = (number("time_ns", "<i8"), number("instrument", "<i4"), number("step", "<i4"), number("readings", "<i8"))
    return DocumentFormat([Field(name="_id", type=BINARY, form=FIGURE_ID), *head, *figures])


def _figure_form(figure: str, stored: str) -> str:
    return {"n": "<i8", "mean": "<f8", "m2": "<f8"}.get(figure, stored)


def data_format(group: InstrumentGroup, layout: Layout) -> DocumentFormat:
    """The format of a group's readings."""
    return arrays_format(group) if layout is Layout.ARRAYS else rows_format(group)


@lru_cache
def ids_format(layout: Layout) -> DocumentFormat:
    """The `_id`s of a group's readings alone."""
    return DocumentFormat([_id_field(layout)])


@lru_cache
def marked_ids_format(layout: Layout) -> DocumentFormat:
    """The `_id`s of a group's readings, and the marks of their batches."""
    return DocumentFormat([_id_field(layout), number(BATCH, "<i4")])


def _id_field(layout: Layout) -> Field:
    id_type = OBJECT_ID if layout is Layout.ARRAYS else BINARY
    return Field(name="_id", type=id_type, form=no_ids(layout).dtype.str)


def encode_rows(batch: ClosedBlock, group: InstrumentGroup, mark: int = 0) -> Array:
    """All readings of a batch, late ones last; uint8, shape (readings, width).

    mark: of the batch; 0 where nothing of it is written.
    """
    form = rows_format(group)
    documents = form.blank(readings_in(batch))
    columns = form.columns(documents)
    fill_readings(columns, batch, group)
    ids = _ids(columns["_id"], reading=True)
    ids["run"], ids["trigger"] = columns["run"], turned(columns["trigger_id"])
    ids["instrument"] = columns["instrument"]
    columns["_id"][:] = ids.view(READING_ID)
    columns[BATCH][:] = mark_of(mark)
    return documents


def encode_arrays(batch: ClosedBlock, group: InstrumentGroup, mark: int = 0) -> Array:
    """The arrays of `array_rows(batch)`, of earlier triggers only the late readings; uint8, shape (triggers, width).

    mark: of the batch; 0 where nothing of it is written.
    """
    form, rows = arrays_format(group), array_rows(batch)
    arrays = np.empty(len(rows), arrays_dtype(group))
    fill_arrays(fields_of(arrays), batch, group, None)
    documents = form.blank(len(rows))
    columns = form.columns(documents)
    for name in ("run", "trigger_id", "time_ns"):
        columns[name][:] = arrays[name]
    _put_trigger_ids(columns["_id"], rows)
    columns[BATCH][:] = mark_of(mark)
    form.put_arrays(documents, fields_of(arrays))
    return documents


def encode_ledger(rows: Array, instruments: int, logger: str, batch: int | Array) -> Array:
    """Ledger rows with the mark of their batch; uint8, shape (triggers, width)."""
    form = ledger_format(instruments, logger)
    documents = form.blank(len(rows))
    columns = form.columns(documents)
    _put_trigger_ids(columns["_id"], rows)
    columns["run"][:], columns["trigger_id"][:] = rows["run"], rows["trigger"]
    for name in (*NUMBERS, *COUNTS):
        columns[name][:] = rows[name]
    columns["batch"][:] = batch
    columns["complete"][:] = rows["arrived"] == rows["expected"]
    columns["missing"][:] = np.ascontiguousarray(rows["missing"]).view(columns["missing"].dtype)[:, 0]
    return documents


def decode_readings(data: bytes | bytearray, group: InstrumentGroup, layout: Layout) -> Array:
    """Parse readings of either layout; `answer_dtype(group)`, shape (readings,)."""
    form = data_format(group, layout)
    documents = form.parse(data)
    if layout is Layout.ROWS:
        return readings_from(form.columns(documents), group)
    return readings_from_arrays({**form.columns(documents), **form.get_arrays(documents)}, group)


def marks_of_readings(data: bytes | bytearray, group: InstrumentGroup, layout: Layout) -> Array:
    """The marks of the documents that the readings of `decode_readings` are in; int32, shape (readings,)."""
    form = data_format(group, layout)
    documents = form.parse(data)
    marks = form.columns(documents)[BATCH]
    if layout is Layout.ROWS:
        return np.ascontiguousarray(marks)
    there = form.get_arrays(documents)["time_offset_ns"] != MISSING_OFFSET
    return np.repeat(marks, np.count_nonzero(there, axis=1))


@lru_cache
def entries_dtype(instruments: int) -> np.dtype[Any]:
    """A ledger row, and the mark of the batch that wrote it last."""
    return np.dtype([("row", ledger_dtype(instruments)), ("batch", "<i8")])


def decode_entries(data: bytes | bytearray, instruments: int, logger: str) -> Array:
    """Parse ledger entries; `entries_dtype(instruments)`, shape (triggers,)."""
    form = ledger_format(instruments, logger)
    columns = form.columns(form.parse(data))
    answer = np.empty(len(columns["run"]), entries_dtype(instruments))
    rows, answer["batch"] = answer["row"], columns["batch"]
    rows["run"], rows["trigger"] = columns["run"], columns["trigger_id"]
    for name in (*NUMBERS, *COUNTS):
        rows[name] = columns[name]
    rows["missing"] = np.ascontiguousarray(columns["missing"]).view(np.uint8).reshape(rows["missing"].shape)
    return answer


def decode_ledger(data: bytes | bytearray, instruments: int, logger: str) -> Array:
    """Parse ledger rows; `ledger_dtype(instruments)`, shape (triggers,)."""
    return np.ascontiguousarray(decode_entries(data, instruments, logger)["row"])


def encode_reduced(figures: Array, group: InstrumentGroup, mark: int, step: int) -> Array:
    """Figures, `reduced_dtype(group)`, of a step of an attempt; uint8, shape (figures, width)."""
    form = reduced_format(group)
    documents = form.blank(len(figures))
    columns = form.columns(documents)
    for name in ("time_ns", "instrument", "readings"):
        columns[name][:] = figures[name]
    columns["step"][:] = step
    for channel, figure in _figures_of(group):
        columns[f"{channel}_{figure}"][:] = figures[channel][figure]
    ids = np.empty(len(figures), figure_id_dtype())
    ids["mark"], ids["step"] = mark, step
    ids["time"], ids["instrument"] = turned(figures["time_ns"]), figures["instrument"]
    columns["_id"][:] = ids.view(FIGURE_ID)
    return documents


def decode_reduced(documents: Array, group: InstrumentGroup) -> Array:
    """Read figures of parsed documents; `reduced_dtype(group)`, in their order."""
    columns = reduced_format(group).columns(documents)
    figures = np.empty(len(documents), reduced_dtype(group))
    for name in ("time_ns", "instrument", "readings"):
        figures[name] = columns[name]
    for channel in group.channels:
        figures[channel.name]["n"] = columns["readings"]
    for channel_name, figure in _figures_of(group):
        figures[channel_name][figure] = columns[f"{channel_name}_{figure}"]
    return figures


@lru_cache
def _figures_of(group: InstrumentGroup) -> tuple[tuple[str, str], ...]:
    """Channel and figure of what a document has."""
    every = ((channel, figure) for channel in group.channels for figure in FIGURES)
    return tuple((channel.name, figure) for channel, figure in every if figure != "n" or channel.is_float)


def _ids(like: Array, *, reading: bool) -> Array:
    return np.empty(like.shape, id_dtype(reading=reading))


def _put_trigger_ids(column: Array, rows: Array) -> None:
    ids = _ids(column, reading=False)
    ids["run"], ids["trigger"] = rows["run"], turned(rows["trigger"])
    column[:] = ids.view(TRIGGER_ID)
