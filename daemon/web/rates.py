"""How often: requests of a sender, attempts after a failure, and reports of the same."""

import asyncio
import logging
import random
import time
from collections import OrderedDict

from schemas.checking.addresses import neighbourhood

ADDRESSES = 4096
"""Addresses that are remembered; the one that was quiet longest is forgotten for a new one."""


class Rates:
    """A bucket for each address: `burst` at once, then `per_s` a second."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, host: str, now_s: float) -> float:
        """How long until this address may; 0 when it may now."""
        return max(0.0, (1.0 - self._filled(neighbourhood(host), now_s)) / self._per_s)

    def take(self, host: str, now_s: float) -> float:
        """Let it happen once, if it may; else, or after that, how long to wait is what `wait_s` said: 0 when it may."""
        wait = self.wait_s(host, now_s)
        if not wait:
            address = neighbourhood(host)
            self._buckets[address] = (self._filled(address, now_s) - 1.0, now_s)
            self._buckets.move_to_end(address)
            if len(self._buckets) > ADDRESSES:
                self._buckets.popitem(last=False)
        return wait

    def _filled(self, address: str, now_s: float) -> float:
        left, at_s = self._buckets.get(address, (self._burst, now_s))
        return min(self._burst, left + (now_s - at_s) * self._per_s)


SPREAD = 0.5
"""A pause is between this part of its length and all of it, so that several do not come back at the same moment."""


class Backoff:
    """Pauses that double, each spread at random.

    first_s, most_s: the length of the first pause, and of the longest.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The length of the next pause, in s; the one after it is twice as long."""
        length_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        return length_s * random.uniform(SPREAD, 1.0)  # noqa: S311 - not a secret

    async def pause(self) -> None:
        """Wait for the length of the next pause."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Begin with the first pause again: an attempt succeeded."""
        self._next_s = self._first_s


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
