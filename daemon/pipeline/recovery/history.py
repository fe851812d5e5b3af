"""The triggers that were closed before this daemon began, so that what comes late or twice finds its trigger."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from daemon.pipeline.assembly import RUNS_MOST
from daemon.pipeline.assembly.window import missing_in, note_late
from schemas.batch import ClosedBlock
from schemas.readings import Array

KEY = ["run", "trigger"]

RUNS = 2
"""Runs remembered: right after a restart of the timing system readings still come for the run before."""


def heard_last(runs: Iterable[int]) -> list[int]:
    """Of the runs of epochs, in the order in which they were heard, those that are remembered."""
    return list(runs)[-RUNS_MOST:]


def history_of(stored: Array, blocks: Iterable[ClosedBlock], most: int, heard: Collection[int]) -> Array:
    """Ledger rows of the newest runs, the last `most` of each, ascending.

    stored: the store's ledger tails; ledger dtype. blocks: what the journal has beyond them, in order. A row that
    closes a trigger replaces an earlier one of it; a revised one changes it, and is none where it is not there: the
    database lost that. heard: runs that are remembered whatever their numbers; of a machine whose epoch is known the
    highest number may be that of an instrument with a wrong one.
    """
    every = list(blocks)
    rows, closed_in = _closed([stored, *(block.ledger for block in every)])
    if every:
        _note_late(rows, closed_in, every)
        _note_counts(rows, closed_in, every)
    runs = np.unique(rows["run"])
    remembered = runs[np.isin(runs, list(heard)) | (np.arange(len(runs)) >= len(runs) - (1 if heard else RUNS))]
    tails = [rows[rows["run"] == run][-most:] for run in remembered]
    return np.concatenate([rows[:0], *tails])


def _closed(parts: Sequence[Array]) -> tuple[Array, Array]:
    """The last row of each trigger, ascending, and in which of the parts it is."""
    rows = np.concatenate(parts)[::-1]
    # Of equal keys np.unique gives the first: in reverse that is the last.
    _, last = np.unique(rows[KEY], return_index=True)
    return rows[last], _part_of_each(parts)[::-1][last]


def _note_late(rows: Array, closed_in: Array, blocks: Sequence[ClosedBlock]) -> None:
    """Note in these rows what the blocks have for them, and not what their revised rows say of other readings.

    Those say how assembly remembered the trigger; a database that fell back may have it again with fewer readings.
    """
    late = np.concatenate([block.late for block in blocks])
    at, is_there = _find(rows, closed_in, [block.revised[block.late_of] for block in blocks])
    late = late[is_there]
    is_missing = missing_in(rows, at, late)
    note_late(rows, at[is_missing], late[is_missing], utc_ns=0)


def _note_counts(rows: Array, closed_in: Array, blocks: Sequence[ClosedBlock]) -> None:
    """Note what revised rows say beside the readings: doubles, numbers that are skipped, and times."""
    parts = [block.revised for block in blocks]
    at, is_there = _find(rows, closed_in, parts)
    revised = np.concatenate([rows[:0], *parts])[is_there]
    rows["skipped"][at] = revised["skipped"]
    np.minimum.at(rows["first_ns"], at, revised["first_ns"])
    for name in ("last_ns", "last_received_ns", "duplicates"):
        np.maximum.at(rows[name], at, revised[name])


def _find(rows: Array, closed_in: Array, parts: Sequence[Array]) -> tuple[Array, Array]:
    """Find the triggers of revised rows among these, closed in the same block or an earlier one.

    parts: ledger dtype, one for each block. Returns the place of those that are there, intp, and which of all are,
    bool.
    """
    wanted = np.concatenate([rows[:0], *parts])
    keys = rows[KEY]
    at = np.searchsorted(keys, wanted[KEY])
    is_there = at < len(rows)
    is_there[is_there] = keys[at[is_there]] == wanted[KEY][is_there]
    # The first part of what is closed is the database's.
    is_there[is_there] = closed_in[at[is_there]] <= 1 + _part_of_each(parts)[is_there]
    return at[is_there], is_there


def _part_of_each(parts: Sequence[Array]) -> Array:
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])
