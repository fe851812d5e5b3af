"""Events: what an operator would want to have been told, for the log, the status and the page."""

import logging
import time
from collections import deque

from schemas.api.status import Event

_KEPT = 50

OFTEN_S = 10.0
"""Time between two events of a kind that a sender can provoke at will."""

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

log = logging.getLogger("triggerlog")


class Events:
    """The last few events, newest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._said: dict[str, tuple[float, int]] = {}  # by kind: when it was said last, and how often it was not since

    def say(self, severity: str, text: str) -> None:
        """Log an event and keep it; severity is info, warning or error."""
        log.log(_LEVELS[severity], "%s", text)
        self._events.appendleft(Event(time_ns=time.time_ns(), severity=severity, text=text))

    def newest(self, most: int = 12) -> list[Event]:
        """The newest events, newest first."""
        return list(self._events)[:most]

    def say_seldom(self, kind: str, severity: str, text: str) -> None:
        """Say what a sender can provoke at will: one of a kind in `OFTEN_S`, with how many were left out before it."""
        moment = time.monotonic()
        before, left_out = self._said.get(kind, (-OFTEN_S, 0))
        if moment - before < OFTEN_S:
            self._said[kind] = before, left_out + 1
            return
        self._said[kind] = moment, 0
        self.say(severity, f"{text} (and {left_out} more times before)" if left_out else text)
