"""Which parts of blocks the store rejects: one bad trigger must not take any other with it."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from daemon.pipeline.announcements import Announcements
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.closed_blocks import Key, keys_of, split
from daemon.pipeline.committer.letters import LettersOfBlocks
from daemon.pipeline.committer.transactions import Transactions
from daemon.pipeline.dead_letters import DeadLetters, Reason, find_refused
from schemas.batch import ClosedBlock

FOLLOWS = "it belongs to a trigger that is a dead letter"
"""Why what comes late for a dead letter is one, too: the database would have it without the trigger it completes."""


class BlockPart(NamedTuple):
    """A trigger of a block that waits, or what came late for one."""

    waiting: Waiting
    block: ClosedBlock
    key: Key


class RejectedParts:
    """Finds the parts that the store rejects by rehearsals, and keeps them as dead letters.

    What was rejected is always asked once more: the store connects anew after a commit that it rejects.

    reports: whether the group reports on change: then nothing follows anything. Which of several reports of one
    instrument and time the store takes, it says by itself: the value that it has, however often.
    """

    def __init__(
        self,
        transactions: Transactions,
        dead_letters: DeadLetters,
        letters: LettersOfBlocks,
        announcements: Announcements,
        *,
        reports: bool,
    ) -> None:
        self._transactions = transactions
        self._dead_letters = dead_letters
        self._letters = letters
        self._announcements = announcements
        self._reports = reports

    async def without(self, blocks: list[Waiting], reason: Reason | None) -> list[BlockPart]:
        """Keep as dead letters what the store rejects of blocks; return the rest, which is not committed yet.

        After a crash in between, the blocks come again; what of them was kept by then is left out. reason: why the
        store rejects them together, None where it was not asked.
        """
        every = [BlockPart(waiting, part, keys_of(part)[0]) for waiting in blocks for part in split(waiting.block)]
        parts = [part for part in every if part.key not in self._dead_letters.of_block(part.waiting.number)]
        # In order: what comes late for a trigger is committed after it.
        follow = [not self._reports and self._dead_letters.has(part.key) for part in parts]
        rejected = [(part, Reason(FOLLOWS)) for part in itertools.compress(parts, follow)]
        others = [part for part, follows in zip(parts, follow, strict=True) if not follows]
        known = reason if len(others) == len(every) else None
        rejected += await self._rejected(others, blocks, known)
        return await self._keep_apart(others, rejected)

    async def without_together(self, parts: list[BlockPart], blocks: list[Waiting]) -> list[BlockPart]:
        """The same of parts that the store takes each by itself, and not together."""
        return await self._keep_apart(parts, await self._rejected(parts, blocks, None, adds_up=True))

    async def keep(self, parts: Sequence[tuple[BlockPart, Reason]]) -> None:
        """Keep parts as dead letters, each with why the store rejects it."""
        letters = [self._dead_letters.address([(part.block, why)], part.waiting.number) for part, why in parts]
        self._announcements.rejected(await self._letters.keep(list(itertools.chain(*letters))))

    async def _keep_apart(self, parts: list[BlockPart], rejected: list[tuple[BlockPart, Reason]]) -> list[BlockPart]:
        """Keep what is rejected as dead letters; return the parts that are not among it."""
        self._letters.see_discards()
        await self.keep(rejected)
        bad = {id(part) for part, _ in rejected}
        return [part for part in parts if id(part) not in bad]

    async def _rejected(
        self, parts: list[BlockPart], blocks: list[Waiting], reason: Reason | None, *, adds_up: bool = False
    ) -> list[tuple[BlockPart, Reason]]:
        """Which of the parts the store rejects, and why.

        reason: why it rejects them together, where that is known. adds_up: offer each with those before it that the
        store would take: it may take each by itself, and not both of two with a unique index on what they share.
        """
        while found := await self._found(parts, blocks, reason, adds_up=adds_up):
            if await self._transactions.takes_nothing(blocks):
                break
            reason = None
        return found

    async def _found(
        self, parts: list[BlockPart], blocks: list[Waiting], reason: Reason | None, *, adds_up: bool
    ) -> list[tuple[BlockPart, Reason]]:
        triggers = [[part] for part in parts] if self._reports else _by_trigger(parts)
        taken: list[BlockPart] = []

        async def offer(some: Sequence[list[BlockPart]]) -> Reason | None:
            offered = [part for trigger in some for part in trigger]
            why = await self._transactions.rehearse([part.block for part in (*taken, *offered)], blocks)
            if why is None and adds_up:
                taken.extend(offered)
            return why

        found = await find_refused(triggers, offer, len(triggers) if reason is None else max(1, len(triggers) // 2))
        rejected = []
        for k, why in found:
            rejected += await self._rejected_of_trigger(triggers[k], blocks, why)
        return rejected

    async def _rejected_of_trigger(
        self, parts: list[BlockPart], blocks: list[Waiting], reason: Reason
    ) -> list[tuple[BlockPart, Reason]]:
        """Which of the parts of one trigger the store rejects: the first that it does not take, and all behind it."""
        for upto in range(1, len(parts)):
            why = await self._transactions.rehearse([part.block for part in parts[:upto]], blocks)
            if why is not None:
                return [(parts[upto - 1], why), *((part, Reason(FOLLOWS)) for part in parts[upto:])]
        return [(parts[-1], reason)]


def _by_trigger(parts: Sequence[BlockPart]) -> list[list[BlockPart]]:
    of_trigger: dict[Key, list[BlockPart]] = {}
    for part in parts:
        of_trigger.setdefault(part.key, []).append(part)
    return list(of_trigger.values())
