"""What the database has, and may lose again in a crash for some time: the journal keeps it as long."""

import math
from collections import deque
from dataclasses import dataclass

from daemon.pipeline.backlog.waiting import Waiting
from daemon.pipeline.journal import Amount
from schemas.readings import Array


@dataclass(frozen=True, slots=True)
class HeldBlock:
    """A block that the database has. since_s: when it said so (monotonic, s)."""

    number: int
    triggers: int
    readings: int
    since_s: float


class HeldBlocks:
    """Blocks that can come again, in order.

    came_back: of those that the database had at the start, what it has lost since.

    Args:
        revocable: what the journal held at the start of what the database has, and may lose again; INDEX.
        position: up to which number the database had the blocks then.
        now_s: the time (monotonic, s).
    """

    def __init__(self, revocable: Array, position: int, now_s: float) -> None:
        self.came_back = Amount()
        self._hold_s = 0.0
        self._blocks = deque(
            HeldBlock(number, triggers, readings, now_s) for number, _, _, _, triggers, readings in revocable.tolist()
        )
        self._before_upto = position  # those up to this number were committed by an earlier process

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def oldest(self) -> HeldBlock:
        """The one with the lowest number; there has to be one."""
        return self._blocks[0]

    @property
    def newest(self) -> int:
        """The highest number; there has to be one."""
        return self._blocks[-1].number

    def hold_for(self, seconds: float) -> None:
        """How long the database may lose again what it acknowledged; without limit nothing is held, as with 0."""
        self._hold_s = 0.0 if math.isinf(seconds) else seconds

    def add(self, waiting: Waiting, now_s: float) -> None:
        """The database has this block now."""
        self._blocks.append(HeldBlock(waiting.number, waiting.block.triggers, waiting.readings, now_s))

    def release(self, now_s: float) -> int | None:
        """Let go of what was held for long enough; return the highest number of it, None where that is nothing."""
        last = None
        while self._blocks and self._blocks[0].since_s + self._hold_s <= now_s:
            last = self._blocks.popleft().number
        return last

    def take_back(self, position: int) -> Amount:
        """The database is back at this position: hold nothing beyond it any more; return how much that was."""
        back = Amount()
        while self._blocks and self._blocks[-1].number > position:
            held = self._blocks.pop()
            back.change(held.triggers, held.readings, 1)
            if held.number <= self._before_upto:
                self.came_back.change(held.triggers, held.readings, 1)
        self._before_upto = min(self._before_upto, position)
        return back

    def left_s(self, now_s: float) -> float:
        """For how long the database may still lose the newest of them; there has to be one."""
        return self._blocks[-1].since_s + self._hold_s - now_s
