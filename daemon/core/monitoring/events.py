"""Events: what an operator should know, for the log, the status and the page."""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from daemon.core.monitoring.event_log import EventLog
from daemon.core.words import duration, utc
from daemon.web.rates import KINDS, Seldom, with_left_out
from schemas.api.status import Event
from schemas.states import Severity

KEPT = 50

OFTEN_S = 10.0
"""Time between two events of a kind that a sender can provoke at will."""


_LEVELS = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.ERROR}

log = logging.getLogger("triggerlog")


@dataclass(kw_only=True)
class Order:
    """An order that is being carried out. is_recorded: whether an event has said what it did.

    What an order starts goes on with a copy of its context: its events are the order's only while that is_open.
    """

    origin: str
    is_open: bool = True
    is_recorded: bool = False


_order: ContextVar[Order | None] = ContextVar("order", default=None)


class Events:
    """The last few events, newest first.

    kept: keeps them for the next daemon, and has those of the one before.
    """

    def __init__(self, kept: EventLog | None = None) -> None:
        self._kept = kept
        self._events: deque[Event] = deque(reversed(kept.earlier) if kept else (), maxlen=KEPT)
        self._seldom = Seldom()
        self._left_out: OrderedDict[str, tuple[Severity, str, int]] = OrderedDict()  # the last of each kind, and when

    def record(self, severity: Severity, text: str) -> None:
        """Log an event and keep it."""
        order = _order.get()
        if order is not None and order.is_open and severity == Severity.INFO:
            text, order.is_recorded = f"{text} (ordered from {order.origin})", True
        log.log(_LEVELS[severity], "%s", text)
        self._keep(severity, text)

    def keep_error(self, text: str) -> None:
        """Keep what somebody has to act on, and is told by other means than the log."""
        self._keep(Severity.ERROR, text)

    def _keep(self, severity: Severity, text: str) -> None:
        event = Event(time_ns=time.time_ns(), severity=severity, text=text)
        self._events.appendleft(event)
        if self._kept is not None:
            self._kept.keep(event)

    @contextmanager
    def ordered(self, origin: str) -> Iterator[Order]:
        """What is recorded in here as good to know is done by an order, and names where that came from."""
        order = Order(origin=origin)
        before = _order.set(order)
        try:
            yield order
        finally:
            order.is_open = False
            _order.reset(before)

    def info(self, text: str) -> None:
        """Record what is good to know."""
        self.record(Severity.INFO, text)

    def warning(self, text: str) -> None:
        """Record what somebody should look into."""
        self.record(Severity.WARNING, text)

    def error(self, text: str) -> None:
        """Record what somebody has to act on."""
        self.record(Severity.ERROR, text)

    def newest(self, most: int = 12) -> list[Event]:
        """The newest events, newest first."""
        return list(self._events)[:most]

    async def since(self, start_ns: int) -> list[Event]:
        """The events from a time on (ns since 1970-01-01 UTC), oldest first, as far as they are kept.

        Raises:
            OSError: those that are not in memory cannot be read.
        """
        found = list(reversed(self._events))
        if self._kept is not None and not (found and found[0].time_ns < start_ns):
            known = set(found)
            earlier = await asyncio.to_thread(self._kept.read)
            found = [*(event for event in earlier if event not in known), *found]
        return [event for event in found if event.time_ns >= start_ns]

    def taking_readings(self) -> None:
        """Record that readings are taken from now on: how the daemon before ended, and for how long none were."""
        if self._kept is None:
            return
        self._kept.take()
        if self._kept.ended is None:
            return
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._kept.last_ns / 1e9))
        away_s = (time.time_ns() - self._kept.last_ns) / 1e9
        how_long = f"nothing was taken for {duration(away_s)}"
        if away_s < 0:
            how_long = "for how long nothing was taken is not known, the clock was set back since"
        if self._kept.ended:
            self.info(f"the daemon before took readings until {at}, and ended by itself: {how_long}")
        else:
            self.warning(
                f"the daemon before did not end by itself (killed, or the node went down), and was last at work at {at}"
                f": {how_long}"
            )

    def taking_no_more(self) -> None:
        """Take note that no readings are taken from now on: the end of the daemon has begun."""
        if self._kept is not None:
            self._kept.take_no_more()

    def warning_seldom(self, kind: str, text: str) -> None:
        """Warn of what a sender can provoke: one of a kind in `OFTEN_S`, with how many were left out before it."""
        self.seldom(Severity.WARNING, kind, text, OFTEN_S)

    def seldom(self, severity: Severity, kind: str, text: str, every_s: float) -> bool:
        """Record one of a kind in `every_s`, with how many were left out before it; tell whether it was recorded."""
        left_out = self._seldom.take(kind, every_s)
        if left_out is None:
            self._left_out[kind] = severity, text, time.time_ns()
            self._left_out.move_to_end(kind)
            if len(self._left_out) > KINDS:
                self._left_out.popitem(last=False)
            return False
        self.forget(kind)
        self.record(severity, with_left_out(text, left_out))
        return True

    def forget(self, kind: str) -> None:
        """Leave out what of a kind was left out: another event tells it."""
        self._left_out.pop(kind, None)

    def end(self) -> None:
        """Record the last of each kind that was left out, and how many were before it: nothing more will come."""
        for kind, (severity, text, time_ns) in self._left_out.items():
            left_out = (self._seldom.take(kind, 0.0) or 1) - 1
            self.record(severity, with_left_out(f"{text}, at {utc(time_ns)}", left_out))
        self._left_out.clear()
