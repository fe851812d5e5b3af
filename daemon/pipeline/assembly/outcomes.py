"""What becomes of readings that go into no trigger: they are refused, or set aside; and the counts of all."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.reading_set import ReadingSet
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.assembly.unplaced import Unplaced
from schemas.readings import Array, InstrumentGroup
from schemas.states import FOR_THE_DATABASE, AsideReason


@dataclass(kw_only=True)
class AssemblyCounts:
    """Counts since the start. Readings: received = accepted + duplicate + refused + set aside + held back as strays.

    aside: readings by the name of `AsideReason`, in small letters. missing: instruments, summed over the triggers that
    closed incomplete. skipped: trigger numbers that no trigger was closed for; of what came after all, none.
    """

    received: int = 0
    accepted: int = 0
    late: int = 0
    duplicate: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    aside: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    complete: int = 0
    incomplete: int = 0
    missing: int = 0
    skipped: int = 0

    def plus(self, other: "AssemblyCounts") -> "AssemblyCounts":
        """Both together."""
        return self._with(other, 1)

    def less(self, other: "AssemblyCounts") -> "AssemblyCounts":
        """Return what is left without the other."""
        return self._with(other, -1)

    def copy(self) -> "AssemblyCounts":
        """The same counts, which do not change with these."""
        return self.plus(AssemblyCounts())

    def _with(self, other: "AssemblyCounts", sign: int) -> "AssemblyCounts":
        values = dict[str, Any]()
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, dict):
                keys = [*mine, *(key for key in more if key not in mine)]
                values[each.name] = {key: mine.get(key, 0) + sign * more.get(key, 0) for key in keys}
            else:
                values[each.name] = mine + sign * more
        return AssemblyCounts(**values)


class Outcomes:
    """Refuses readings, sets them aside, and counts them.

    sets_aside: whether the dead letters have room. may_come_again: something may still be taken again that has come by
    then. unplaced: what goes with the next closed block.
    """

    def __init__(self, group: InstrumentGroup, receipts: Receipts, sessions: Sessions, letters: ReadingSet) -> None:
        self.counts = AssemblyCounts()
        self.sets_aside = True
        self.may_come_again = True
        self.unplaced = Unplaced(group)
        self.receipts, self.sessions = receipts, sessions
        self._letters = letters

    def refuse(self, reason: str, origin: Origin) -> None:
        """Refuse readings, for a named reason."""
        count = len(origin.column)
        self.receipts.refuse(origin)
        if self.sessions.has_any(origin):
            # Acknowledged with a closed block, even an empty one: after a restart the session has to go on behind it.
            self.receipts.wait_in_next_block(origin)
            self.unplaced.is_awaited = True
        self.counts.refused[reason] = self.counts.refused.get(reason, 0) + count

    def set_aside(self, block: Array, origin: Origin, run: int, reason: AsideReason) -> None:
        """Let readings that can be put nowhere go on with the next closed block, with their run if known, else 0."""
        if not len(block):
            return
        fits = self._fit_aside(block, origin, run, reason)
        if not fits.all():
            self.refuse("no_room_aside", origin[~fits])
            block, origin = block[fits], origin[fits]
            if not len(block):
                return
        self.receipts.wait_in_next_block(origin)
        self.unplaced.set_aside(block, run, reason)
        if self.may_come_again and not (reason in FOR_THE_DATABASE and run):
            self._letters.add(block)  # its sender may still send it again
        name = reason.name.lower()
        self.counts.aside[name] = self.counts.aside.get(name, 0) + len(block)

    def _fit_aside(self, block: Array, origin: Origin, run: int, reason: AsideReason) -> Array:
        """Which readings may be set aside: bool, shape (n,)."""
        fits = self.receipts.are_promised(origin)
        fits[~fits] = self._have_room(block[~fits], run, reason)
        return fits

    def _have_room(self, block: Array, run: int, reason: AsideReason) -> Array:
        if self.sets_aside:
            return self.unplaced.fits(block, run, reason)
        # What an epoch proves to belong to its trigger goes to the database, and not to the dead letters.
        return np.asarray((block["epoch"] != 0) & (reason in FOR_THE_DATABASE and run > 0))
