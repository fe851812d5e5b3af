"""The documents of a group: what they say, and how a trigger is put together from them.

The `_id`, 16 bytes, big-endian, is what a document is: run, trigger (sign turned), part. Every document has the ledger
row of its trigger as it was when it was written.

- Part 0 is the closing, with all readings that the trigger had by then: their times and, a channel, their values, one
  instrument's after the other. `missing` says which instruments are not there.
- Where that would be larger than `SLICE_BYTES` part 0 has no readings: they are cut by instruments into parts 1, 2, and
  so on, which are written first.
- A part from `REVISION` on has no reading: a ledger row that counts more duplicates.
- A part from `LATE` on is one reading that came after the closing.

No document is ever replaced, so a trigger is all documents with its run and number: `merged` makes its ledger row of
them. What retention drops loses its times and values, and is marked as `dropped`.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from backends.mongodb.protocol.documents import (
    BOOL,
    DOCUMENT,
    DocumentFormat,
    Field,
    NotOurDocuments,
    binary,
    number,
    split,
    turned,
    turned_back,
)
from schemas.batch import ClosedBlock
from schemas.ledger import COUNTS, NUMBERS, bitmap_bytes, ledger_dtype, pack_missing, unpack_missing
from schemas.queries import answer_dtype
from schemas.readings import CHANNEL_DTYPES, Array, InstrumentGroup

LAYOUT = 2
"""Number of this layout, in the description of a group; the one before, with a collection for the ledger, had none."""
SLICE_BYTES = 4 * 1024 * 1024
"""Readings of one document; a server allows 16 MB."""
REVISION, LATE = 0x4000_0000, 0x8000_0000
ID = np.dtype([("run", ">i4"), ("trigger", ">u8"), ("part", ">u4")])
KEY = np.dtype([("run", "<i4"), ("trigger", "<i8")])
TIME_BYTES = 8


@lru_cache
def header_fields(instruments: int) -> tuple[Field, ...]:
    """Return the fields that every document has."""
    return (
        binary("_id", ID.itemsize),
        number("run", "<i4"),
        number("trigger_id", "<i8"),
        number("part", "<i8"),
        *(number(name, "<i8") for name in NUMBERS),
        *(number(name, "<i4") for name in COUNTS),
        Field(name="complete", type=BOOL, form="u1"),
        Field(name="dropped", type=BOOL, form="u1"),
        binary("missing", bitmap_bytes(instruments)),
    )


@lru_cache
def document_format(group: InstrumentGroup, slots: int) -> DocumentFormat:
    """Return the layout of documents with room for the readings of so many instruments."""
    if not slots:
        return DocumentFormat(header_fields(group.size))
    values = tuple(binary(c.name, slots * np.dtype(CHANNEL_DTYPES[c.dtype]).itemsize) for c in group.channels)
    readings = [binary("times", slots * TIME_BYTES), Field(name="values", type=DOCUMENT, fields=values)]
    return DocumentFormat([*header_fields(group.size), *readings])


def projection(instruments: int) -> dict[str, int]:
    """Return the projection of documents without their readings."""
    return {field.name: 1 for field in header_fields(instruments)}


def slot_bytes(group: InstrumentGroup) -> int:
    """Return what one reading takes of a document."""
    return TIME_BYTES + sum(np.dtype(CHANNEL_DTYPES[channel.dtype]).itemsize for channel in group.channels)


def slice_of(group: InstrumentGroup) -> int:
    """Return how many instruments a slice has; 0 where one document has them all."""
    most = max(1, SLICE_BYTES // slot_bytes(group))
    return most if group.size > most else 0


def _format_of(group: InstrumentGroup, width: int) -> tuple[DocumentFormat, int]:
    """Return the layout of documents of a width, and how many slots they have."""
    header = document_format(group, 0)
    if width == header.width:
        return header, 0
    each = slot_bytes(group)
    slots, rest = divmod(width - (document_format(group, 1).width - each), each)
    if rest or not 0 < slots <= group.size:
        raise NotOurDocuments(f"a document is {width} bytes long")
    return document_format(group, slots), slots


# --- writing --------------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """The documents of a batch.

    rows, readings, present: triggers that it closes, late readings of the same batch in their places; as in
        `ClosedBlock`.
    late, late_rows: readings for earlier triggers, and the ledger row of each; shape (late,).
    revised: ledger rows of earlier triggers that get no reading; shape (revised,).
    """

    rows: Array
    readings: Array
    present: Array
    late: Array
    late_rows: Array
    revised: Array


def written_by(batch: ClosedBlock) -> Written:
    """Divide a batch into what is written of it."""
    rows, readings, present = batch.ledger, batch.readings, batch.present
    if not len(batch.revised):
        return Written(rows, readings, present, batch.late, batch.revised, batch.revised)
    at = {key: k for k, key in enumerate(keys_of(rows).tolist())}
    own = np.array([at.get(key, -1) for key in keys_of(batch.revised).tolist()])
    of = own[batch.late_of]
    mine = of >= 0
    if (own >= 0).any():
        rows, readings, present = rows.copy(), readings.copy(), present.copy()  # a journal's cannot be written to
        rows[own[own >= 0]] = batch.revised[own >= 0]
        place = of[mine], batch.late["instrument"][mine].astype(np.intp)
        readings[place], present[place] = batch.late[mine], True
    others = own < 0
    others[batch.late_of] = False
    return Written(
        rows, readings, present, batch.late[~mine], batch.revised[batch.late_of[~mine]], batch.revised[others]
    )


def encode_closed(written: Written, group: InstrumentGroup) -> Iterator[Array]:
    """Make the documents of closed triggers, slices before what names them; uint8, shape (documents, width)."""
    some = slice_of(group)
    for index, first in enumerate(range(0, group.size, some) if some else (), 1):
        slots = slice(first, first + some)
        part = np.full(len(written.rows), index)
        yield _encode(group, written.rows, part, written.readings[:, slots], written.present[:, slots])
    nothing = slice(0, 0 if some else None)
    part = np.zeros(len(written.rows), np.int64)
    yield _encode(group, written.rows, part, written.readings[:, nothing], written.present[:, nothing])


def encode_late(rows: Array, late: Array, group: InstrumentGroup) -> Array:
    """Make the documents of late readings, each with its trigger's ledger row."""
    part = LATE | late["instrument"].astype(np.int64)
    return _encode(group, rows, part, late[:, None], np.ones((len(late), 1), bool))


def encode_revised(rows: Array, group: InstrumentGroup) -> Array:
    """Make the documents of ledger rows that changed without a reading; their number grows with each."""
    part = REVISION | ((rows["late"].astype(np.int64) + rows["duplicates"]) & (REVISION - 1))
    return _encode(group, rows, part, np.empty((len(rows), 0), group.record), np.empty((len(rows), 0), bool))


def _encode(group: InstrumentGroup, rows: Array, part: Array, readings: Array, present: Array) -> Array:
    slots = readings.shape[1]
    form = document_format(group, slots)
    documents = form.blank(len(rows))
    columns = form.columns(documents)
    columns["_id"][:] = ids_of(rows, part)
    columns["run"][:], columns["trigger_id"][:], columns["part"][:] = rows["run"], rows["trigger"], part
    for name in (*NUMBERS, *COUNTS):
        columns[name][:] = rows[name]
    columns["complete"][:] = rows["arrived"] == rows["expected"]
    columns["missing"][:] = _packed(rows["missing"])
    if slots:
        is_whole = bool(present.all())
        columns["times"][:] = _packed(_filled(readings["time_ns"], "<i8", None if is_whole else present))
        for channel in group.channels:
            values = _filled(readings[channel.name], CHANNEL_DTYPES[channel.dtype], None if is_whole else present)
            columns[f"values.{channel.name}"][:] = _packed(values)
    return documents


def _filled(values: Array, form: str, present: Array | None) -> Array:
    return values.astype(form, copy=False) if present is None else np.where(present, values, 0).astype(form, copy=False)


def _packed(values: Array) -> Array:
    """See the values of each document as its bytes; void, shape (documents,)."""
    whole = np.ascontiguousarray(values)
    nbytes = whole.shape[1] * whole.dtype.itemsize
    return (
        whole.view(np.uint8).reshape(len(whole), nbytes).view(f"V{nbytes}")[:, 0]
        if len(whole)
        else np.empty(0, f"V{nbytes}")
    )


# --- keys -----------------------------------------------------------------------------------------------------------


def keys_of(rows: Array) -> Array:
    """Return the keys of ledger rows, or of answers; `KEY`, in their order."""
    keys = np.empty(len(rows), KEY)
    keys["run"], keys["trigger"] = rows["run"], rows["trigger"]
    return keys


def ids_of(rows: Array, part: Array | int) -> Array:
    """Return `_id`s; void, shape (rows,)."""
    ids = np.empty(len(rows), ID)
    ids["run"], ids["trigger"], ids["part"] = rows["run"], turned(rows["trigger"]), part
    return ids.view(f"V{ID.itemsize}")


def id_bytes(run: int, trigger: int, part: int = 0) -> bytes:
    """Return the bytes of one `_id`."""
    return run.to_bytes(4, "big", signed=True) + (trigger + 2**63).to_bytes(8, "big") + part.to_bytes(4, "big")


def key_in(raw: bytes) -> tuple[int, int]:
    """Return run and trigger of an `_id`."""
    return int.from_bytes(raw[:4], "big", signed=True), int.from_bytes(raw[4:12], "big") - 2**63


# --- reading --------------------------------------------------------------------------------------------------------


@lru_cache
def head_dtype(instruments: int) -> np.dtype[Any]:
    """Return the dtype of what a document says beside its readings."""
    return np.dtype([("row", ledger_dtype(instruments)), ("part", "<i8"), ("dropped", "?")])


def decode_heads(data: bytes | bytearray, group: InstrumentGroup) -> Array:
    """Parse what documents say beside their readings, whether these are there or not; `head_dtype`, in any order."""
    parts: list[Array] = [np.empty(0, head_dtype(group.size))]
    for width, of_width in split(data):
        form, _ = _format_of(group, width)
        columns = form.columns(form.parse(of_width))
        heads: Array = np.empty(len(columns["run"]), head_dtype(group.size))
        rows = heads["row"]
        heads["part"], heads["dropped"] = columns["part"], columns["dropped"]
        rows["run"], rows["trigger"] = columns["run"], columns["trigger_id"]
        for name in (*NUMBERS, *COUNTS):
            rows[name] = columns[name]
        rows["missing"] = np.ascontiguousarray(columns["missing"]).view(np.uint8).reshape(rows["missing"].shape)
        parts.append(heads)
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def decode_readings(data: bytes | bytearray, group: InstrumentGroup) -> Array:
    """Parse the readings of documents; `answer_dtype(group)`, in any order."""
    parts = [np.empty(0, answer_dtype(group))]
    # The widest first: what closed a trigger comes before its late readings.
    for width, of_width in reversed([*split(data)]):
        form, slots = _format_of(group, width)
        documents = form.parse(of_width)
        if slots:
            parts += _readings(form.columns(documents), slots, group)
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def _readings(columns: Any, slots: int, group: InstrumentGroup) -> Iterator[Array]:
    part = columns["part"]
    missing = unpack_missing(np.ascontiguousarray(columns["missing"]).view(np.uint8).reshape(len(part), -1), group.size)
    is_late = part >= LATE
    for kind in np.unique(np.where(is_late, LATE, part)).tolist():
        which = np.flatnonzero(is_late if kind == LATE else part == kind)
        if kind == LATE:
            document, slot = np.arange(len(which)), np.zeros(len(which), np.intp)
            instrument = part[which] - LATE
        else:
            first = max(0, kind - 1) * slice_of(group)
            document, slot = np.nonzero(~missing[which, first : first + slots])
            instrument = first + slot
        found = np.empty(len(document), answer_dtype(group))
        found["run"], found["trigger"] = columns["run"][which][document], columns["trigger_id"][which][document]
        found["instrument"] = instrument
        found["time_ns"] = _unpacked(columns["times"][which], "<i8")[document, slot]
        for channel in group.channels:
            values = _unpacked(columns[f"values.{channel.name}"][which], CHANNEL_DTYPES[channel.dtype])
            found[channel.name] = values[document, slot]
        yield found


def _unpacked(column: Array, form: str) -> Array:
    return np.ascontiguousarray(column).view(np.uint8).reshape(len(column), -1).view(form)


class Merged(NamedTuple):
    """Triggers that were put together.

    rows: their ledger rows, by run and trigger.
    stored: how many of their readings are there; the others of `arrived` were dropped by retention. int64, as rows.
    is_stored: whether what closed it has its readings; bool, as rows.
    """

    rows: Array
    stored: Array
    is_stored: Array


def merged(heads: Array, instruments: int) -> Merged:
    """Put triggers together from all their documents (`head_dtype`, in any order)."""
    heads = heads[(heads["part"] == 0) | (heads["part"] >= REVISION)]
    found, part = heads["row"], heads["part"]
    order = np.lexsort((part, found["trigger"], found["run"]))
    found, part, kept = found[order], part[order], ~heads["dropped"][order]
    keys = keys_of(found)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), bool), keys[1:] != keys[:-1]]))
    rows, closes = found[starts].copy(), part[starts] == 0
    stored, is_stored = np.where(closes & kept[starts], rows["arrived"], 0).astype(np.int64), kept[starts]
    if len(starts) < len(found) or not closes.all():
        for name, smallest in (("first_ns", True), ("first_received_ns", True), ("last_ns", False)):
            rows[name] = (np.minimum if smallest else np.maximum).reduceat(found[name], starts)
        for name in ("last_received_ns", "late", "duplicates"):
            rows[name] = np.maximum.reduceat(found[name], starts)
        missing = unpack_missing(rows["missing"], instruments)
        missing[~closes] = True
        late = np.flatnonzero(part >= LATE)
        of, instrument = np.searchsorted(starts, late, side="right") - 1, part[late] - LATE
        # One that what closed the trigger has, too, is a command that was carried out late.
        is_new = missing[of, instrument]
        np.add.at(stored, of[is_new & kept[late]], 1)
        missing[of, instrument] = False
        rows["missing"] = pack_missing(~missing)
        rows["arrived"] = instruments - missing.sum(axis=1)
    return Merged(rows, stored, is_stored)


def once(readings: Array) -> Array:
    """Put readings by run, trigger and instrument, each once: of two, that of the document with the earlier part."""
    names = ("run", "trigger", "instrument")
    before, after = readings[:-1], readings[1:]
    rises = after["instrument"] > before["instrument"]
    for name in ("trigger", "run"):
        rises = (after[name] > before[name]) | ((after[name] == before[name]) & rises)
    if rises.all():
        return readings
    # `lexsort` is stable, and the closing of a trigger comes before its late readings.
    readings = readings[np.lexsort([readings[name] for name in reversed(names)])]
    again = np.zeros(len(readings), bool)
    again[1:] = np.all([readings[name][1:] == readings[name][:-1] for name in names], axis=0)
    return np.asarray(readings[~again])


def turned_ids(ids: Array) -> Array:
    """Return the keys in `_id`s (void, shape (n,)); `KEY`."""
    parts = ids.view(ID)
    keys = np.empty(len(ids), KEY)
    keys["run"], keys["trigger"] = parts["run"], turned_back(parts["trigger"])
    return keys
