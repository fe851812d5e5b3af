"""The triggers that were closed before this daemon began, so that what comes late or twice finds its trigger."""

from collections.abc import Collection, Iterable

import numpy as np

from daemon.pipeline.assembly import RUNS_MOST
from daemon.pipeline.revising import rows_after
from schemas.batch import ClosedBlock
from schemas.readings import Array

RUNS = 2
"""Runs remembered: right after a restart of the timing system readings still come for the run before."""


def heard_last(runs: Iterable[int]) -> list[int]:
    """Of the runs of epochs, in the order in which they were heard, those that are remembered."""
    return list(runs)[-RUNS_MOST:]


def history_of(stored: Array, blocks: Iterable[ClosedBlock], most: int, heard: Collection[int]) -> Array:
    """Ledger rows of the newest runs, the last `most` of each, ascending.

    stored: the store's ledger tails; ledger dtype. blocks: dead letters, in order. A row that closes a trigger replaces
    an earlier one of it; a revised one changes it, and is none where it is not there. heard: runs that are remembered
    whatever their numbers; of a machine whose epoch is known the highest number may be that of an instrument with a
    wrong one.
    """
    rows, _ = rows_after(stored, list(blocks))
    runs = np.unique(rows["run"])
    remembered = runs[np.isin(runs, list(heard)) | (np.arange(len(runs)) >= len(runs) - (1 if heard else RUNS))]
    tails = [rows[rows["run"] == run][-most:] for run in remembered]
    return np.concatenate([rows[:0], *tails])
