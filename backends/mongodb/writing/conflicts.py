"""What to do where an `_id` is taken: pure functions of our documents and those that are there.

Documents are uint8, shape (documents, width), each of ours beside the one there with the same `_id`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from bson import Int64, ObjectId
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from backends.columns.stored import MISSING_OFFSET
from backends.mongodb.protocol.documents import DocumentFormat
from backends.mongodb.protocol.formats import BATCH, arrays_format
from backends.mongodb.reading.documents import times_of, with_ids
from schemas.readings import Array, InstrumentGroup

GROWING = ("arrived", "late", "duplicates")
"""Counts of a ledger entry that only grow from revision to revision."""
OF_CLOSING = ("run", "trigger_id", "time_ns", "expected", "closed_ns")
"""What of a ledger entry no revision changes; closed_ns, by the daemon's clock, makes it one of a kind."""


AT_ONCE = 1_000
"""So many documents get another mark with one update."""


def same(mine: Array, theirs: Array, form: DocumentFormat) -> Array:
    """Which readings are the same, byte for byte but for the marks of their batches; bool, shape (documents,)."""
    there = theirs.copy()
    form.columns(there)[BATCH][:] = form.columns(mine)[BATCH]
    return np.asarray((mine == there).all(axis=1))


def marks_to_set(
    mine: Array, theirs: Array, form: DocumentFormat, *, narrowed: bool
) -> Iterator[tuple[dict[str, Any], int]]:
    """Updates that give what is there the mark of our batch, each with the number of documents that it is to find.

    Each demands the mark that was found: a command that takes out what an earlier batch has left, and that comes late,
    is then either seen here, or finds nothing.

    narrowed: the times leave less to compare, where the server reads all there is.
    """
    ours, there = form.columns(mine), form.columns(theirs)
    differs = ours[BATCH] != there[BATCH]
    for mark in np.unique(there[BATCH][differs]).tolist():
        these = np.flatnonzero(differs & (there[BATCH] == mark))
        change = {"$set": {BATCH: int(ours[BATCH][these[0]])}}
        within = times_of(ours["time_ns"][these]) if narrowed else {}
        for start, wanted in enumerate(with_ids(ours["_id"][these], AT_ONCE)):
            count = min(AT_ONCE, len(these) - start * AT_ONCE)
            yield {"q": {**within, **wanted, BATCH: mark}, "u": change, "multi": True}, count


def arrays_to_set(
    mine: Array, theirs: Array, group: InstrumentGroup, *, all_doubles: bool, guarded: bool
) -> tuple[Array, Array, list[dict[str, Any]]]:
    """Compare the readings of triggers; bool, shape (documents,): none of ours differs from one that is there.

    And which documents lack some of ours, with an update of each that sets ours, an element of each array at a time,
    and the mark of our batch.

    all_doubles: the server keeps them all (`DocumentFormat.mark_specials`).
    guarded: an update demands the mark that was found, so that one which was given up does nothing when it is carried
    out late, after a newer one.
    """
    form = arrays_format(group)
    ours, there = form.get_arrays(mine), form.get_arrays(theirs)
    here = ours["time_offset_ns"] != MISSING_OFFSET
    both = here & (there["time_offset_ns"] != MISSING_OFFSET)
    equal = np.ones(both.shape, bool)
    for name, values in ours.items():
        width = np.dtype(f"V{values.dtype.itemsize}")
        # As bytes, since NaN is equal to nothing.
        equal &= values.view(width) == there[name].view(width)
    fits = (~both | equal).all(axis=1) & (form.columns(mine)["time_ns"] == form.columns(theirs)["time_ns"])
    ids, marks, found_marks = form.columns(mine)["_id"], form.columns(mine)[BATCH], form.columns(theirs)[BATCH]
    lacks = fits & (here & ~both).any(axis=1)
    updates = []
    for k in np.flatnonzero(lacks):
        changes: dict[str, Any] = {BATCH: int(marks[k])}
        # All of ours: what is there may be made missing before this is carried out.
        for i in np.flatnonzero(here[k]):
            for name, values in ours.items():
                changes[f"{name}.{i}"] = bson_value(values[k, i], all_doubles=all_doubles)
        found: dict[str, Any] = {"_id": ObjectId(ids[k].tobytes())}
        if guarded:
            found[BATCH] = int(found_marks[k])
        updates.append({"q": found, "u": {"$set": changes}})
    return fits, lacks, updates


def ledger_to_replace(
    mine: Array, theirs: Array, form: DocumentFormat, *, guarded: bool
) -> tuple[Array, list[dict[str, Any]]]:
    """Compare ledger entries; bool, shape (documents,): both are of the same closing of a trigger.

    With updates that replace those there which are earlier revisions than ours.

    guarded: an update says again that what it replaces is earlier, so that a command which was given up does nothing
    when it is carried out late, after a newer one.
    """
    ours, there = form.columns(mine), form.columns(theirs)
    fits = np.all([ours[name] == there[name] for name in OF_CLOSING], axis=0)
    changed = np.any([ours[name] != there[name] for name in ours if name != "batch"], axis=0)
    later = np.all([ours[name] >= there[name] for name in GROWING], axis=0) & changed
    updates = []
    for k in np.flatnonzero(fits & later):
        found: dict[str, Any] = {"_id": ObjectId(ours["_id"][k].tobytes())}
        if guarded:
            found |= {name: {"$lte": int(ours[name][k])} for name in GROWING}
        updates.append({"q": found, "u": RawBSONDocument(mine[k].tobytes())})
    return fits, updates


def bson_value(value: Any, *, all_doubles: bool) -> float | int | Timestamp:
    """The value in the BSON type that its array has; a Python int alone would become the narrowest."""
    if value.dtype == np.int64:
        return Int64(int(value))
    if value.dtype == np.int32:
        return int(value)
    bits = int(value.view(np.uint64))
    if all_doubles or (np.isfinite(value) and bits != 1 << 63):
        return float(value)
    return Timestamp(bits >> 32, bits & 0xFFFF_FFFF)
