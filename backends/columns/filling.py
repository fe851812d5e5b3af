"""From closed triggers to columns: what every bulk format of every database is filled with.

A backend lays fixed-width records (a COPY row, a bound parameter row, a document) from a template of constants, and
hands in views of their values, one a column. Here the values are assigned, a column at a time: numpy converts the byte
order on the way, and no reading becomes a Python object.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES
from schemas.batch import ClosedBlock
from schemas.queries import answer_dtype
from schemas.readings import Array, InstrumentGroup

Columns = Mapping[str, Array]
"""Views of the values of records, by name. Single readings: run, trigger_id, instrument, time_ns and the channels, each
of shape (readings,). Arrays: run, trigger_id, time_ns of shape (triggers,); time_offset_ns and the channels of shape
(triggers, instruments)."""

_KEY = np.dtype([("run", "<i8"), ("trigger", "<i8")])


def readings_in(batch: ClosedBlock) -> int:
    """How many readings a batch has, late ones included."""
    return int(np.count_nonzero(batch.present)) + len(batch.late)


def fill_readings(columns: Columns, batch: ClosedBlock, group: InstrumentGroup) -> None:
    """Assign all readings of a batch, `readings_in(batch)` of them: those of its triggers, then the late ones."""
    readings, counts = _present_readings(batch)
    on_time, late = ({name: column[part] for name, column in columns.items()} for part in _parts(len(readings)))
    if counts is None:
        shape = batch.readings.shape
        on_time["run"].reshape(shape)[:] = batch.ledger["run"][:, None]
        on_time["trigger_id"].reshape(shape)[:] = batch.ledger["trigger"][:, None]
    else:
        on_time["run"][:] = np.repeat(batch.ledger["run"], counts)
        on_time["trigger_id"][:] = np.repeat(batch.ledger["trigger"], counts)
    _fill_values(on_time, readings, group)
    if len(batch.late):
        of = batch.revised[batch.late_of]
        late["run"][:], late["trigger_id"][:] = of["run"], of["trigger"]
        _fill_values(late, batch.late, group)


def array_rows(batch: ClosedBlock) -> Array:
    """The triggers whose arrays a batch writes, as ledger rows: its own, then `revised_with_late`.

    The latter may be in the table already, and then have to be taken out and merged.
    """
    again = revised_with_late(batch)
    return np.concatenate([batch.ledger, again]) if len(again) else batch.ledger


def revised_with_late(batch: ClosedBlock) -> Array:
    """Ledger rows of the triggers of earlier batches that get late readings in this one."""
    if not len(batch.late):
        return batch.revised[:0]
    return _not_among(batch.revised[np.unique(batch.late_of)], batch.ledger)


def fill_arrays(columns: Columns, batch: ClosedBlock, group: InstrumentGroup, earlier: Columns | None) -> None:
    """Assign the arrays of `array_rows(batch)`, late readings in their places.

    Missing instruments get MISSING_OFFSET, and NaN or 0.

    earlier: columns of records taken out of the database, of triggers among `revised_with_late(batch)`; those that the
    database lacks begin empty.
    """
    rows, own = array_rows(batch), len(batch.ledger)
    columns["run"][:], columns["trigger_id"][:], columns["time_ns"][:] = rows["run"], rows["trigger"], rows["time_ns"]
    _fill_own({name: column[:own] for name, column in columns.items()}, batch, group)
    if not len(batch.late):
        return
    put_back = {name: column[own:] for name, column in columns.items()}
    put_back["time_offset_ns"][:] = MISSING_OFFSET
    for channel in group.channels:
        put_back[channel.name][:] = np.nan if channel.is_float else 0
    if earlier is not None and len(earlier["run"]):
        at = _find(_key(earlier["run"], earlier["trigger_id"]), _key_of(rows[own:]))
        for name in ("time_offset_ns", *(channel.name for channel in group.channels)):
            put_back[name][at] = earlier[name]
    _merge_late(columns, rows, batch, group)


def ledger_rows(batch: ClosedBlock) -> Array:
    """Put the ledger rows of a batch together, revised ones in place of those they revise."""
    if not len(batch.revised):
        return batch.ledger
    return np.concatenate([_not_among(batch.ledger, batch.revised), batch.revised])


def readings_from(columns: Columns, group: InstrumentGroup) -> Array:
    """Read single readings back; `answer_dtype(group)`, shape (readings,)."""
    answer = np.empty(len(columns["run"]), answer_dtype(group))
    answer["trigger"] = columns["trigger_id"]
    for name in ("run", "instrument", "time_ns", *(channel.name for channel in group.channels)):
        answer[name] = columns[name]
    return answer


def readings_from_arrays(columns: Columns, group: InstrumentGroup) -> Array:
    """Read arrays back and spread them out; `answer_dtype(group)`, shape (readings,), missing ones left out."""
    offsets = columns["time_offset_ns"].astype("<i8")
    answer = np.empty(offsets.shape, answer_dtype(group))
    answer["run"], answer["trigger"] = columns["run"][:, None], columns["trigger_id"][:, None]
    answer["instrument"] = np.arange(group.size)
    answer["time_ns"] = columns["time_ns"].astype("<i8")[:, None] + offsets
    for channel in group.channels:
        answer[channel.name] = columns[channel.name]
    return np.asarray(answer[offsets != MISSING_OFFSET])


@lru_cache
def arrays_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """A trigger's arrays as one little-endian record, for formats that cannot be filled in place."""
    size = (group.size,)
    head: list[tuple[Any, ...]] = [("run", "<i4"), ("trigger_id", "<i8"), ("time_ns", "<i8")]
    arrays = [(channel.name, STORED_DTYPES[channel.dtype], size) for channel in group.channels]
    return np.dtype([*head, ("time_offset_ns", "<i8", size), *arrays])


def fields_of(records: Array) -> Columns:
    """The fields of a structured array as columns, without a copy."""
    return {name: records[name] for name in records.dtype.names or ()}


# --- how ------------------------------------------------------------------------------------------------------------


def _parts(on_time: int) -> tuple[slice, slice]:
    return slice(None, on_time), slice(on_time, None)


def _present_readings(batch: ClosedBlock) -> tuple[Array, Array | None]:
    if batch.present.all():
        return batch.readings.reshape(-1), None
    return batch.readings[batch.present], batch.present.sum(axis=1)


def _fill_values(columns: Columns, readings: Array, group: InstrumentGroup) -> None:
    for name in ("instrument", "time_ns", *(channel.name for channel in group.channels)):
        columns[name][:] = readings[name]


def _fill_own(columns: Columns, batch: ClosedBlock, group: InstrumentGroup) -> None:
    offsets = _offsets(batch.readings["time_ns"], batch.ledger["time_ns"][:, None])
    complete = bool(batch.present.all())
    columns["time_offset_ns"][:] = offsets if complete else np.where(batch.present, offsets, MISSING_OFFSET)
    for channel in group.channels:
        values = batch.readings[channel.name]
        if not complete:
            values = np.where(batch.present, values, values.dtype.type(np.nan if channel.is_float else 0))
        columns[channel.name][:] = values


def _offsets(times: Array, of: Array) -> Array:
    """Subtract, where it overflows up to the largest offset: adding it again must never overflow in the database."""
    offsets = np.asarray(times - of)
    overflowed = ((times ^ of) & (times ^ offsets)) < 0
    if overflowed.any():
        offsets = np.where(overflowed, np.where(times < of, MISSING_OFFSET + 1, 2**63 - 1), offsets)
    return offsets


def _merge_late(columns: Columns, rows: Array, batch: ClosedBlock, group: InstrumentGroup) -> None:
    at = _find(_key_of(batch.revised)[batch.late_of], _key_of(rows))
    position = batch.late["instrument"].astype(np.intp)
    columns["time_offset_ns"][at, position] = _offsets(batch.late["time_ns"], batch.revised["time_ns"][batch.late_of])
    for channel in group.channels:
        columns[channel.name][at, position] = batch.late[channel.name]


def _key(run: Array, trigger: Array) -> Array:
    key = np.empty(len(run), _KEY)
    key["run"], key["trigger"] = run, trigger
    return key


def _key_of(rows: Array) -> Array:
    return _key(rows["run"], rows["trigger"])


def _find(wanted: Array, among: Array) -> Array:
    """Find where each wanted key is; all are there, each once."""
    order = np.argsort(among)
    return np.asarray(order[np.searchsorted(among, wanted, sorter=order)])


def _not_among(rows: Array, others: Array) -> Array:
    return np.asarray(rows[~np.isin(_key_of(rows), _key_of(others))])
