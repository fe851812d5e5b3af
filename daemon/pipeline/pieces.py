"""Pieces taken apart and put together: what is committed as one is sometimes kept, or rejected, as several."""

from collections.abc import Sequence

import numpy as np

from schemas.batch import ClosedTriggers
from schemas.readings import Array, join

Key = tuple[int, int]
"""Run and number of a trigger."""


def keys_of(piece: ClosedTriggers) -> list[Key]:
    """The triggers that a piece closes or revises, each once."""
    return [(int(row["run"]), int(row["trigger"])) for row in (*piece.ledger, *piece.revised)]


def revised_keys(piece: ClosedTriggers) -> list[Key]:
    """The triggers of earlier pieces that a piece revises."""
    return [(int(row["run"]), int(row["trigger"])) for row in piece.revised]


def split(piece: ClosedTriggers) -> list[ClosedTriggers]:
    """Take a piece apart into the smallest that stand for themselves: a trigger each, or what came late for one."""
    own = [_part(piece, np.array([k]), np.empty(0, np.intp)) for k in range(len(piece.ledger))]
    late = [_part(piece, np.empty(0, np.intp), np.array([k])) for k in range(len(piece.revised))]
    return [*own, *late]


def _part(piece: ClosedTriggers, own: Array, revised: Array) -> ClosedTriggers:
    is_late = np.isin(piece.late_of, revised)
    return ClosedTriggers(
        readings=piece.readings[own],
        present=piece.present[own],
        ledger=piece.ledger[own],
        late=piece.late[is_late],
        late_of=np.searchsorted(revised, piece.late_of[is_late]).astype(np.intp),
        revised=piece.revised[revised],
    )


def merge(pieces: Sequence[ClosedTriggers]) -> ClosedTriggers:
    """Put pieces together, in their order; of a row that was revised several times the last one stays."""
    if len(pieces) == 1:
        return pieces[0]
    closing = [piece for piece in pieces if piece.triggers] or pieces[:1]
    late, late_of, revised = _merge_revised([piece for piece in pieces if len(piece.revised)] or pieces[:1])
    return ClosedTriggers(
        readings=join([piece.readings for piece in closing]),
        present=np.concatenate([piece.present for piece in closing]),
        ledger=np.concatenate([piece.ledger for piece in closing]),
        late=late,
        late_of=late_of,
        revised=revised,
    )


def _merge_revised(pieces: Sequence[ClosedTriggers]) -> tuple[Array, Array, Array]:
    """Join late readings and revised rows; of a row that was revised several times, keep the last."""
    revised = np.concatenate([piece.revised for piece in pieces])
    starts = np.cumsum([0, *(len(piece.revised) for piece in pieces[:-1])])
    late_of = np.concatenate([piece.late_of + start for piece, start in zip(pieces, starts, strict=True)])
    order = np.lexsort((np.arange(len(revised)), revised["trigger"], revised["run"]))
    ordered = revised[order]
    is_last = np.ones(len(revised), bool)
    is_last[:-1] = (ordered["run"][1:] != ordered["run"][:-1]) | (ordered["trigger"][1:] != ordered["trigger"][:-1])
    row_of = np.empty(len(revised), np.intp)
    # Of rows that belong together, the last one follows the others: each belongs to the next last one.
    row_of[order] = np.cumsum(is_last) - is_last
    return join([piece.late for piece in pieces]), row_of[late_of], ordered[is_last]
