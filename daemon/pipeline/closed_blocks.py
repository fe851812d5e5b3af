"""Closed blocks taken apart and put together: what is committed as one is sometimes kept, or rejected, as several."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from schemas.batch import Aside, ClosedBlock
from schemas.readings import Array, join
from schemas.states import AsideReason

Key = tuple[int, int]
"""Run and number of a trigger; instrument and time of a report on change."""

ASIDE = -1
"""In place of the run: readings that are for no trigger, and hold up none."""


def keys_of(block: ClosedBlock) -> list[Key]:
    """The triggers that a block closes or revises, each once; of what it sets aside, the reasons."""
    keys = [(int(row["run"]), int(row["trigger"])) for row in (*block.ledger, *block.revised)]
    return keys if block.aside is None else [*keys, *((ASIDE, int(reason)) for reason in np.unique(block.aside.reason))]


def words_of(key: Key, *, reports: bool) -> str:
    """Which trigger a key is of, or which report on change."""
    run, trigger = key
    return f"the report of instrument {run} at {trigger} ns" if reports else f"trigger {trigger} of run {run}"


def revised_keys(block: ClosedBlock) -> list[Key]:
    """The triggers of earlier blocks that a block revises."""
    return [(int(row["run"]), int(row["trigger"])) for row in block.revised]


def times_in(block: ClosedBlock) -> list[Array]:
    """The times (int64 ns) of all that a block has: of triggers, revised ones too, and of what is set aside."""
    aside = [] if block.aside is None else [block.aside.readings["time_ns"]]
    return [block.ledger["time_ns"], block.revised["time_ns"], *aside]


def readings_of(block: ClosedBlock) -> Array:
    """All readings of a block, late ones and those set aside too: record dtype, shape (n,)."""
    parts = [block.readings[block.present], block.late]
    return join(parts if block.aside is None else [*parts, block.aside.readings])


def split(block: ClosedBlock) -> list[ClosedBlock]:
    """Take a block apart into the smallest that stand for themselves: a trigger each, or what came late for one.

    What is set aside, and what it says of sessions, is in none of them.
    """
    own = [_part(block, np.array([k]), np.empty(0, np.intp)) for k in range(len(block.ledger))]
    late = [_part(block, np.empty(0, np.intp), np.array([k])) for k in range(len(block.revised))]
    return [*own, *late]


def _part(block: ClosedBlock, own: Array, revised: Array) -> ClosedBlock:
    is_late = np.isin(block.late_of, revised)
    return ClosedBlock(
        readings=block.readings[own],
        present=block.present[own],
        ledger=block.ledger[own],
        late=block.late[is_late],
        late_of=np.searchsorted(revised, block.late_of[is_late]).astype(np.intp),
        revised=block.revised[revised],
    )


def nothing_of(block: ClosedBlock) -> ClosedBlock:
    """A block of the same group with nothing in it: what it says is that there is no more."""
    return _part(block, np.empty(0, np.intp), np.empty(0, np.intp))


def aside_parts(block: ClosedBlock) -> list[tuple[ClosedBlock, AsideReason]]:
    """What a block sets aside, by reason, each as a block of its own."""
    if block.aside is None:
        return []
    parts = []
    for reason in np.unique(block.aside.reason).tolist():
        aside = block.aside[block.aside.reason == reason]
        parts.append((replace(nothing_of(block), aside=aside), AsideReason(reason)))
    return parts


def merge(blocks: Sequence[ClosedBlock]) -> ClosedBlock:
    """Put blocks together, in their order; of a row that was revised several times the last one stays."""
    if len(blocks) == 1:
        return blocks[0]
    closing = [block for block in blocks if block.triggers] or blocks[:1]
    late, late_of, revised = _merge_revised([block for block in blocks if len(block.revised)] or blocks[:1])
    return ClosedBlock(
        readings=join([block.readings for block in closing]),
        present=np.concatenate([block.present for block in closing]),
        ledger=np.concatenate([block.ledger for block in closing]),
        late=late,
        late_of=late_of,
        revised=revised,
        aside=Aside.joined([block.aside for block in blocks if block.aside is not None]),
        sessions=np.concatenate([block.sessions for block in blocks]),
    )


def _merge_revised(blocks: Sequence[ClosedBlock]) -> tuple[Array, Array, Array]:
    """Join late readings and revised rows; of a row that was revised several times, keep the last."""
    revised = np.concatenate([block.revised for block in blocks])
    starts = np.cumsum([0, *(len(block.revised) for block in blocks[:-1])])
    late_of = np.concatenate([block.late_of + start for block, start in zip(blocks, starts, strict=True)])
    order = np.lexsort((np.arange(len(revised)), revised["trigger"], revised["run"]))
    ordered = revised[order]
    is_last = np.ones(len(revised), bool)
    is_last[:-1] = (ordered["run"][1:] != ordered["run"][:-1]) | (ordered["trigger"][1:] != ordered["trigger"][:-1])
    row_of = np.empty(len(revised), np.intp)
    # Of rows that belong together, the last one follows the others: each belongs to the next last one.
    row_of[order] = np.cumsum(is_last) - is_last
    return join([block.late for block in blocks]), row_of[late_of], ordered[is_last]
