"""Which records of a journal are history: those with all before them, on the disk or in the database.

Each record says which number it follows. Where that one is neither here nor in the database, something was lost, and
nothing behind it can be trusted to continue what is before it: a revised ledger row may tell of readings that are gone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.journal.segment import Scan
from schemas.batch import JournalPosition
from schemas.readings import Array


@dataclass(kw_only=True)
class Chain:
    """What is history and what is loose, by segment.

    whole, loose: INDEX, for each segment; without what the database has, which is in `held`. reach: the last number of
    the history. hole: between which numbers the first records are missing that a later one follows. state: what the
    head of the newest segment in the history holds; it is how things were after the number `state_at`.
    """

    whole: list[Array]
    loose: list[Array]
    held: list[Array]
    reach: int
    hole: tuple[int, int] | None = None
    state: bytes = b""
    state_at: int = 0


def follow(scans: Sequence[Scan], journals: Collection[int], position: JournalPosition | None) -> Chain:
    """Go through the segments of one journal.

    journals: its ids.
    position: where the database is; None if nobody could ask it: then the first record is taken to follow what it has.
    """
    held = position.sequence if position is not None and position.journal in journals else 0
    chain = Chain(whole=[], loose=[], held=[], reach=held if position is not None else _first_follows(scans))
    for k, scan in enumerate(scans):
        if scan.head is not None and scan.head.follows <= chain.reach:
            chain.state, chain.state_at = scan.head.state, scan.head.follows
        records = scan.records
        if k + 1 < len(scans):
            # What a failed write left at the end of a segment was written again into the next.
            records = records[records["sequence"] < int(scans[k + 1].path.stem)]
        is_whole = _extend(chain, records)
        is_held = records["sequence"] <= held
        chain.whole.append(records[is_whole & ~is_held])
        chain.held.append(records[is_whole & is_held])
        chain.loose.append(records[~is_whole])
    return chain


def _first_follows(scans: Sequence[Scan]) -> int:
    return next((scan.head.follows for scan in scans if scan.head is not None), 0)


def _extend(chain: Chain, records: Array) -> Array:
    """Which of the next records are history; bool, shape (records,)."""
    numbers, follows = records["sequence"], records["follows"]
    before = np.maximum(chain.reach, np.concatenate([[0], numbers[:-1]]))[: len(records)]
    is_whole: Array = follows <= before
    good = len(records) if is_whole.all() else int(is_whole.argmin())
    if good:
        chain.reach = max(chain.reach, int(numbers[good - 1]))
    for k in range(good, len(records)):
        is_whole[k] = follows[k] <= chain.reach
        if is_whole[k]:
            chain.reach = max(chain.reach, int(numbers[k]))
        elif chain.hole is None:
            chain.hole = (chain.reach, int(follows[k]))
    return is_whole
