"""Rows of `positions` in SQL text: which batch moves one, and to what; as `backends.base.is_committed` has it.

A batch moves none, either, where one of its triggers is in the ledger already: at another time it would be there twice,
since partitions allow no key without the time.
"""

from collections.abc import Mapping

import numpy as np

from schemas.batch import Batch
from schemas.readings import Array

DAY_NS = 86_400_000_000_000
"""So much may be between the two times at which a trigger was closed."""
LEAST_NS = -(2**63) + 1
"""The least int64 that is a constant in every dialect."""


def least_of_ours(batch: Batch) -> int:
    """The least sequence at which a store at our own journal may be before a batch."""
    follows = batch.follows
    if follows is None or not follows.sequence:
        return 0
    # At 0 it would have lost what it acknowledged; else our journal took over, and the answer was lost.
    return follows.sequence if follows.journal == batch.position.journal else 1


def move(
    table: str, *, key: str, to: Mapping[str, str], least: str, followed: tuple[str, str], closed: str | None
) -> str:
    """The statement that moves a position; that it changes no row says that it may not, or that the batch is there.

    key: the condition that names the row. to: by column its new value. least: `least_of_ours`. followed: journal and
    sequence of `batch.follows`, NULL without one. closed: a select of triggers of the batch that are in the ledger;
    None where none can be. All are SQL.
    """
    journal, sequence = followed
    return (
        f"UPDATE {table} SET {', '.join(f'{name} = {value}' for name, value in to.items())} WHERE {key} AND"
        f" (journal = {to['journal']} AND sequence >= {least} AND sequence < {to['sequence']}"
        f" OR journal <> {to['journal']} AND ({sequence} IS NULL OR sequence = {sequence}"
        f" AND (journal = {journal} OR sequence = 0)))" + (f" AND NOT EXISTS ({closed})" if closed else "")
    )


def followed(batch: Batch) -> tuple[int, int] | tuple[None, None]:
    """Journal and sequence of the position that a batch follows."""
    return (None, None) if batch.follows is None else (batch.follows.journal, batch.follows.sequence)


def followed_in_sql(batch: Batch) -> tuple[str, str]:
    """The same as constants."""
    journal, sequence = followed(batch)
    return ("NULL", "NULL") if sequence is None else (str(journal), str(sequence))


def closed_triggers(ledger: str, batch: Batch, *, around: bool) -> str:
    """Select run and trigger of the batch's triggers that are in the ledger.

    around: only from a day before to a day after their times; else anywhere, which is for a single partition.
    """
    runs, triggers, times = (batch.ledger[name] for name in ("run", "trigger", "time_ns"))
    of_runs = (f"run = {run} AND ({_among(triggers[runs == run])})" for run in np.unique(runs).tolist())
    found = f"SELECT run, trigger_id FROM {ledger} WHERE ({' OR '.join(of_runs)})"
    low, high = max(int(times.min()) - DAY_NS, LEAST_NS), min(int(times.max()) + DAY_NS, 2**63 - 1)
    return f"{found} AND time_ns >= {low} AND time_ns <= {high}" if around else found


def _among(triggers: Array) -> str:
    """Name triggers by ranges: a list of many is a key to look up each."""
    numbers = np.unique(triggers)
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    alone = [str(part[0]) for part in parts if len(part) == 1]
    ranges = [f"trigger_id BETWEEN {part[0]} AND {part[-1]}" for part in parts if len(part) > 1]
    return " OR ".join([*ranges, *([f"trigger_id IN ({','.join(alone)})"] if alone else [])])
