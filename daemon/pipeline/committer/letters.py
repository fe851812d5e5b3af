"""What of blocks becomes dead letters while they are committed, and what became so when they came before."""

import numpy as np

from daemon.pipeline.assembly.outcomes import ReadingSet
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.closed_blocks import ASIDE, aside_parts
from daemon.pipeline.committer.transactions import Attempts
from daemon.pipeline.dead_letters import DeadLetters, Letter, Reason
from daemon.pipeline.placing import to_place, without
from schemas.batch import ClosedBlock
from schemas.readings import Array, join
from schemas.states import AsideReason

ASIDE_REASONS = {
    AsideReason.OLDER: "its trigger is older than those that are remembered, and its run is unknown",
    AsideReason.AHEAD: "its trigger number is far beyond those of the other instruments",
    AsideReason.AMBIGUOUS: "a reading of that instrument and trigger is there, and nothing proves that it is the same",
    AsideReason.CONFLICT: "another reading is in its place",
    AsideReason.EPOCH: "its epoch is older than those that are remembered, or too many epochs have begun",
    AsideReason.DOUBTFUL: "a reading of that instrument and trigger is there, and its run is unknown",
    AsideReason.PARTIAL: "some of its values are no finite numbers, and not all of them NaN",
    AsideReason.FUTURE: "its time is more than an hour ahead of the clock of the daemon's node",
    AsideReason.DROPPED: "the readings of its time were dropped by retention, or about to be",
}
"""Why what assembly set aside is a dead letter."""

CANNOT_READ = "dead letters cannot be read"


class Discarded(Exception):
    """Dead letters were discarded while blocks were under way that may tell of them."""


class LettersOfBlocks:
    """Keeps letters of the blocks that are under way, and reads those of a block that comes again.

    The disk is asked again for as long as it fails: what is not kept must not be passed.
    """

    def __init__(self, dead_letters: DeadLetters, attempts: Attempts) -> None:
        self._dead_letters = dead_letters
        self._attempts = attempts
        self._discards = 0  # that what is under way takes into account

    def begin(self) -> None:
        """What is under way from now on tells of no letter that was discarded."""
        self._discards = self._dead_letters.discards

    def see_discards(self) -> None:
        """See that none was discarded since `begin`; raises Discarded."""
        if self._dead_letters.discards != self._discards:
            raise Discarded

    async def keep(self, letters: list[tuple[Letter, ClosedBlock]]) -> list[Letter]:
        """Put letters on the disk."""
        if letters:
            problem = f"dead letters ({letters[0][0].reason}) cannot be kept on disk"
            await self._attempts.at_disk(problem, lambda: self._dead_letters.keep(letters))
        return [letter for letter, _ in letters]

    async def keep_aside(self, blocks: list[Waiting]) -> None:
        """Keep as dead letters what assembly could put nowhere; after a crash the blocks come again.

        All at once: with a sync for each, one instrument whose number stands still would hold up its group.
        """
        letters: list[tuple[Letter, ClosedBlock]] = []
        for waiting in blocks:
            if waiting.block.aside is not None:
                lost = await self._without_letters(waiting, without(waiting.block, to_place(waiting.block)))
                parts = [(part, Reason(ASIDE_REASONS[reason])) for part, reason in aside_parts(lost)]
                letters += self._dead_letters.address(parts, waiting.number)
        await self.keep(letters)

    async def _without_letters(self, waiting: Waiting, lost: ClosedBlock) -> ClosedBlock:
        """What a block sets aside, without what was kept when it came before.

        What the database has in their places may be something else now, and so may be which readings these are. Of what
        was discarded nobody knows them.
        """
        kept = self._kept_aside(waiting)
        if lost.aside is None or not kept:
            return lost
        letters = await self.aside(waiting)
        have = ReadingSet(join([lost.late[:0], *letters.values()])).have(lost.aside.readings)
        is_discarded = np.isin(lost.aside.reason, [reason for reason in kept if reason not in letters])
        return without(lost, have | is_discarded)

    async def aside(self, waiting: Waiting) -> dict[int, Array]:
        """The readings that were kept when a block came before, of those that it set aside, by their reason."""
        if not self._kept_aside(waiting):
            return {}
        found = await self._attempts.at_disk(CANNOT_READ, lambda: self._dead_letters.read_aside(waiting.number))
        parts = [(letter.key[1], block.aside.readings) for letter, block in found if block.aside is not None]
        return {reason: join([part for of, part in parts if of == reason]) for reason, _ in parts}

    def _kept_aside(self, waiting: Waiting) -> list[int]:
        """The reasons for which something of a block was kept when it came before."""
        return [reason for run, reason in self._dead_letters.of_block(waiting.number) if run == ASIDE]

    async def of_triggers(self, run: int, triggers: Array) -> list[ClosedBlock]:
        """What dead letters have of triggers of a run."""
        keys = [(run, trigger) for trigger in triggers.tolist()]
        return await self._attempts.at_disk(CANNOT_READ, lambda: self._dead_letters.read_triggers(keys))
