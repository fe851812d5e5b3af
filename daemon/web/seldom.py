"""Lines that somebody else can cause: so many of a kind, and then one in a while that says how many were left out."""

import logging
import time
from collections import OrderedDict

KINDS = 1024
"""Kinds that are remembered; the one that was quiet longest is forgotten for a new one."""
LINES = 20
LINES_EVERY_S = 10.0
"""Lines of the log of one kind that come at once, and the time in which one more of it comes: 9,000 a day at most."""


class Seldom:
    """Limits how often something of a kind happens: `burst` at once, then one in `every_s`.

    Memory is bounded, whatever the kinds are.
    """

    def __init__(self, burst: int = 1) -> None:
        self._burst = float(burst)
        self._kinds: OrderedDict[str, tuple[float, float, int]] = OrderedDict()

    def take(self, kind: str, every_s: float) -> int | None:
        """Return how many of the kind were left out since the last one, or None where this one is left out, too."""
        moment = time.monotonic()
        room, at_s, left_out = self._kinds.get(kind, (self._burst, moment, 0))
        room = min(self._burst, room + (moment - at_s) / every_s) if every_s else self._burst
        is_due = room >= 1.0
        self._kinds[kind] = (room - 1.0, moment, 0) if is_due else (room, moment, left_out + 1)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > KINDS:
            self._kinds.popitem(last=False)
        return left_out if is_due else None


def with_left_out(text: str, left_out: int) -> str:
    """Return a line that says how many like it were left out before it."""
    return f"{text} (and {left_out} more times before)" if left_out else text


class SeldomLines(logging.Filter):
    """Limits the lines of a log that are alike: of one logger and level, with one text before its arguments.

    Libraries write a line, or a traceback, for each wrong request: whoever reaches a port could fill the disk.

    exempt: loggers whose lines are limited where they are made.
    """

    def __init__(self, *exempt: str) -> None:
        super().__init__()
        self._exempt = frozenset(exempt)
        self._seldom = Seldom(LINES)

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written."""
        if record.name in self._exempt:
            return True
        # asyncio puts what differs into the lines below the first.
        kind = f"{record.name} {record.levelno} {str(record.msg).partition(chr(10))[0]}"
        left_out = self._seldom.take(kind, LINES_EVERY_S)
        if left_out:
            record.msg, record.args = with_left_out(record.getMessage(), left_out), ()
        return left_out is not None
