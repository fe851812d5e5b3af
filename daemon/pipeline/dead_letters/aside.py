"""What assembly sets aside, as dead letters: readings of no trigger, which no database takes."""

import numpy as np

from schemas.batch import Aside, ClosedBlock
from schemas.readings import Array
from schemas.states import AsideReason

REASONS = {
    AsideReason.OLDER: "its trigger is older than those that are remembered",
    AsideReason.AHEAD: "its trigger number is far beyond those of the others",
    AsideReason.AMBIGUOUS: "a reading of that number is there, and nothing proves that this is the same",
    AsideReason.CONFLICT: "a reading of that number is there, and this one is another",
    AsideReason.EPOCH: "its epoch is older than those that are remembered, or there are too many new ones",
}
"""In words, for the operator."""


def aside_parts(block: ClosedBlock) -> list[tuple[ClosedBlock, str]]:
    """What a block set aside, in a block of its own for each reason, with the reason in words."""
    if block.aside is None:
        return []
    reasons = np.unique(block.aside.reason).tolist()
    return [(_only_aside(block, block.aside.reason == reason), REASONS[AsideReason(reason)]) for reason in reasons]


def _only_aside(block: ClosedBlock, which: Array) -> ClosedBlock:
    assert block.aside is not None
    aside = block.aside
    return ClosedBlock(
        readings=block.readings[:0],
        present=block.present[:0],
        ledger=block.ledger[:0],
        late=block.late[:0],
        late_of=block.late_of[:0],
        revised=block.revised[:0],
        aside=Aside(readings=aside.readings[which], run=aside.run[which], reason=aside.reason[which]),
    )
