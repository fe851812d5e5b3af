"""The triggers that were closed before this daemon began, so that what comes late or twice finds its trigger."""

from collections.abc import Iterable

import numpy as np

from schemas.batch import ClosedBlock
from schemas.readings import Array

RUNS = 2
"""Runs remembered: right after a restart of the timing system readings still come for the run before."""


def history_of(stored: Array, blocks: Iterable[ClosedBlock], most: int) -> Array:
    """Ledger rows of the newest runs, the last `most` of each, ascending.

    stored: the store's ledger tails; ledger dtype. blocks: what the journal has beyond them, in order; a later row of a
    trigger replaces an earlier one.
    """
    rows = np.concatenate([stored, *(part for block in blocks for part in (block.ledger, block.revised))])
    # Of equal keys np.unique gives the first: in reverse that is the last.
    _, last = np.unique(rows[["run", "trigger"]][::-1], return_index=True)
    newest: Array = rows[::-1][last]
    tails = [newest[newest["run"] == run][-most:] for run in np.unique(newest["run"])[-RUNS:]]
    return np.concatenate([newest[:0], *tails])
