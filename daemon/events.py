"""Events: what an operator would want to have been told, for the log, the status and the page."""

import logging
import time
from collections import deque

from schemas.status import Event

_KEPT = 50
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

log = logging.getLogger("triggerlog")


class Events:
    """The last few events, newest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)

    def say(self, severity: str, text: str) -> None:
        """Log an event and keep it; severity is info, warning or error."""
        log.log(_LEVELS[severity], "%s", text)
        self._events.appendleft(Event(time_ns=time.time_ns(), severity=severity, text=text))

    def newest(self, most: int = 12) -> list[Event]:
        """The newest events, newest first."""
        return list(self._events)[:most]
