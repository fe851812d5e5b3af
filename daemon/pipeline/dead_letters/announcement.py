"""What an operator is told of dead letters: at once, but not a hundred times a second."""

import time
from collections.abc import Sequence

from daemon.core.events import Events
from daemon.pipeline.dead_letters.format import Letter

QUIET_NS = 10_000_000_000
"""What is kept within so long after it was said is said with the next."""


class Announcement:
    """Says what was kept as dead letters of one group."""

    def __init__(self, group: str, events: Events) -> None:
        self._group = group
        self._events = events
        self._said_ns = -QUIET_NS
        self._unsaid = 0

    def buried(self, letters: Sequence[Letter]) -> None:
        """These were kept."""
        self._unsaid += len(letters)
        now = time.monotonic_ns()
        if now - self._said_ns < QUIET_NS:
            return
        run, trigger = letters[0].key
        which = f"trigger {trigger} of run {run}"
        if self._unsaid > 1:
            which = f"{self._unsaid} triggers, among them {which},"
        self._events.say(
            "error",
            f"group {self._group}: the database rejected {which}; kept in the dead letters, see"
            f" `triggerlog dead-letters list FILE`: {letters[0].reason}",
        )
        self._said_ns, self._unsaid = now, 0
