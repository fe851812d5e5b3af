"""The triggers that were closed before this daemon began, so that what comes late or twice finds its trigger."""

from collections.abc import Iterable

import numpy as np

from schemas.batch import ClosedBlock
from schemas.readings import Array


def history_of(stored: Array, blocks: Iterable[ClosedBlock], most: int) -> Array:
    """Ledger rows of the newest run, the last `most` of them, ascending.

    stored: the store's ledger tail; ledger dtype. blocks: what the journal has beyond it, in order; a later row of a
    trigger replaces an earlier one.
    """
    rows = np.concatenate([stored, *(part for block in blocks for part in (block.ledger, block.revised))])
    rows = rows[rows["run"] == rows["run"].max(initial=0)]
    # Of equal keys np.unique gives the first: in reverse that is the last.
    _, last = np.unique(rows["trigger"][::-1], return_index=True)
    newest: Array = rows[::-1][last]
    return newest[-most:]
