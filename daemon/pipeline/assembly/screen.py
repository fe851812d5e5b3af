"""What goes no further: readings that can be none of the group's, and those that are dead letters already."""

from collections.abc import Iterable, Iterator

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.outcomes import Outcomes, ReadingSet
from daemon.pipeline.assembly.progress import MOST_TRIGGER
from daemon.pipeline.assembly.strays import Stray
from schemas.readings import Array, InstrumentGroup


class Screen:
    """Takes readings out before it is asked which run they are of."""

    def __init__(self, group: InstrumentGroup, outcomes: Outcomes, letters: ReadingSet) -> None:
        self._size = group.size
        self._outcomes = outcomes
        self._letters = letters

    def without_impossible(self, block: Array, origin: Origin) -> tuple[Array, Origin]:
        """Refuse readings that can be none of the group's; return the others."""
        unknown = block["instrument"] >= self._size
        impossible = block["trigger"].view(np.uint64) >= MOST_TRIGGER  # those below 0 are high
        bad = unknown | impossible
        if not bad.any():
            return block, origin
        for reason, these in (("unknown_instrument", unknown), ("impossible_trigger", impossible & ~unknown)):
            if these.any():
                self._outcomes.refuse(reason, origin[these])
        return block[~bad], origin[~bad]

    def without_letters(self, block: Array, origin: Origin, now: Instant) -> tuple[Array, Origin]:
        """What was sent before, and made a dead letter of then, is a double.

        What comes without its time has another one each time that it is sent: with an epoch the rest tells which it is.
        What a session knows does not matter here: a letter is kept before the database knows of its session, and what
        the log holds, and may have acknowledged, comes again.
        """
        if not self._letters:
            return block, origin
        double = self._outcomes.sessions.may_be_resent(origin) | self._outcomes.receipts.are_promised(origin)
        if double.any():
            sent = block[double]
            have = self._letters.have(sent)
            is_untimed = ~have & (sent["time_ns"] == now.utc_ns) & (sent["epoch"] != 0)
            if is_untimed.any():
                have[is_untimed] = self._letters.have_but_for_times(sent[is_untimed])
            double[double] = have
        if not double.any():
            return block, origin
        self._outcomes.counts.duplicate += int(np.count_nonzero(double))
        # Acknowledged behind the blocks that are still to become letters.
        self._outcomes.receipts.wait_in_next_block(origin[double])
        self._outcomes.unplaced.is_awaited = True
        return block[~double], origin[~double]

    def still_wanted(self, held: Iterable[Stray], now: Instant) -> Iterator[Stray]:
        """What was held, one after the other: what came twice may be a dead letter since the one before was placed."""
        for stray in held:
            wanted = self.without_letters(*stray, now)
            if len(wanted[0]):
                yield wanted
