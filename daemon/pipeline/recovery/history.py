"""The triggers that were closed before this daemon began, so that what comes late or twice finds its trigger."""

from collections.abc import Collection, Iterable

import numpy as np

from daemon.pipeline.assembly import RUNS_MOST
from schemas.batch import ClosedBlock
from schemas.readings import Array

RUNS = 2
"""Runs remembered: right after a restart of the timing system readings still come for the run before."""


def heard_last(runs: Iterable[int]) -> list[int]:
    """Of the runs of epochs, in the order in which they were heard, those that are remembered."""
    return list(runs)[-RUNS_MOST:]


def history_of(stored: Array, blocks: Iterable[ClosedBlock], most: int, heard: Collection[int]) -> Array:
    """Ledger rows of the newest runs, the last `most` of each, ascending.

    stored: the store's ledger tails; ledger dtype. blocks: what the journal has beyond them, in order; a later row of a
    trigger replaces an earlier one, and a revised one is none where its trigger is not there: the database lost that.
    heard: runs that are remembered whatever their numbers; of a machine whose epoch is known the highest number may be
    that of an instrument with a wrong one.
    """
    parts = [stored, *(part for block in blocks for part in (block.ledger, block.revised))]
    rows = np.concatenate(parts)
    is_closed = np.repeat(np.arange(len(parts)) % 2 == 1, [len(part) for part in parts])
    is_closed[: len(stored)] = True
    # Of equal keys np.unique gives the first: in reverse that is the last.
    _, last, key_of = np.unique(rows[["run", "trigger"]][::-1], return_index=True, return_inverse=True)
    has_closed = np.zeros(len(last), bool)
    has_closed[key_of[is_closed[::-1]]] = True
    newest: Array = rows[::-1][last[has_closed]]
    runs = np.unique(newest["run"])
    remembered = runs[np.isin(runs, list(heard)) | (np.arange(len(runs)) >= len(runs) - (1 if heard else RUNS))]
    tails = [newest[newest["run"] == run][-most:] for run in remembered]
    return np.concatenate([newest[:0], *tails])
