"""Events: what an operator should know, for the log, the status and the page."""

import logging
import time
from collections import deque
from enum import StrEnum

from schemas.api.status import Event

_KEPT = 50

OFTEN_S = 10.0
"""Time between two events of a kind that a sender can provoke at will."""


class Severity(StrEnum):
    """How much an event matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_LEVELS = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.ERROR}

log = logging.getLogger("triggerlog")


class Events:
    """The last few events, newest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._last: dict[str, tuple[float, int]] = {}  # by kind: when it was recorded last, and how often not since

    def record(self, severity: Severity, text: str) -> None:
        """Log an event and keep it."""
        log.log(_LEVELS[severity], "%s", text)
        self._events.appendleft(Event(time_ns=time.time_ns(), severity=severity, text=text))

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

    def warning_seldom(self, kind: str, text: str) -> None:
        """Warn of what a sender can provoke: one of a kind in `OFTEN_S`, with how many were left out before it."""
        moment = time.monotonic()
        before, left_out = self._last.get(kind, (-OFTEN_S, 0))
        if moment - before < OFTEN_S:
            self._last[kind] = before, left_out + 1
            return
        self._last[kind] = moment, 0
        self.warning(f"{text} (and {left_out} more times before)" if left_out else text)
