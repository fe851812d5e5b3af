"""Ledger rows as closed blocks change them.

A revised row says how assembly remembered its trigger. The database may have less of that by now, or more: it fell
back, or another daemon wrote to it. So what came late is noted in the row that is there, and of the revised row only
what it says beside the readings.
"""

from collections.abc import Sequence

import numpy as np

from daemon.pipeline.assembly.window import missing_in, note_late
from schemas.batch import ClosedBlock
from schemas.readings import Array

KEY = ["run", "trigger"]


def rows_after(stored: Array, blocks: Sequence[ClosedBlock]) -> tuple[Array, Array]:
    """Ledger rows after closed blocks, in order; a row that closes a trigger replaces an earlier one of it.

    stored: rows from before; ledger dtype. A revised row whose trigger is not there is none.

    Returns the rows, by run and trigger, and which of the readings that came late are among those that the rows lacked:
    bool, shape (late,).
    """
    rows, closed_in = _closed([stored, *(block.ledger for block in blocks)])
    if not blocks:
        return rows, np.zeros(0, bool)
    is_new = _note_late(rows, closed_in, blocks)
    _note_counts(rows, closed_in, blocks)
    return rows, is_new


def find(rows: Array, wanted: Array) -> tuple[Array, Array]:
    """Where rows of these triggers are among rows that ascend by run and trigger: intp; and which are there, bool."""
    keys = rows[KEY]
    at = np.searchsorted(keys, wanted[KEY])
    is_there = at < len(rows)
    is_there[is_there] = keys[at[is_there]] == wanted[KEY][is_there]
    return at, is_there


def _closed(parts: Sequence[Array]) -> tuple[Array, Array]:
    """The last row of each trigger, ascending, and in which of the parts it is."""
    rows = np.concatenate(parts)[::-1]
    # Of equal keys np.unique gives the first: in reverse that is the last.
    _, last = np.unique(rows[KEY], return_index=True)
    return rows[last], _part_of_each(parts)[::-1][last]


def _note_late(rows: Array, closed_in: Array, blocks: Sequence[ClosedBlock]) -> Array:
    """Note in these rows what the blocks have for them; return which readings they lacked."""
    late = np.concatenate([block.late for block in blocks])
    at, is_new = _find(rows, closed_in, [block.revised[block.late_of] for block in blocks])
    is_missing = missing_in(rows, at, late[is_new])
    is_new[is_new] = is_missing
    note_late(rows, at[is_missing], late[is_new], utc_ns=0)
    return is_new


def _note_counts(rows: Array, closed_in: Array, blocks: Sequence[ClosedBlock]) -> None:
    """Note what revised rows say beside the readings: doubles, and times."""
    parts = [block.revised for block in blocks]
    at, is_there = _find(rows, closed_in, parts)
    revised = np.concatenate([rows[:0], *parts])[is_there]
    np.minimum.at(rows["first_ns"], at, revised["first_ns"])
    for name in ("last_ns", "last_received_ns", "duplicates"):
        np.maximum.at(rows[name], at, revised[name])


def _find(rows: Array, closed_in: Array, parts: Sequence[Array]) -> tuple[Array, Array]:
    """Find the triggers of revised rows among these, closed in the same block or an earlier one.

    parts: ledger dtype, one for each block. Returns the place of those that are there, intp, and which of all are,
    bool.
    """
    at, is_there = find(rows, np.concatenate([rows[:0], *parts]))
    # The first part of what is closed is the database's.
    is_there[is_there] = closed_in[at[is_there]] <= 1 + _part_of_each(parts)[is_there]
    return at[is_there], is_there


def _part_of_each(parts: Sequence[Array]) -> Array:
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])
