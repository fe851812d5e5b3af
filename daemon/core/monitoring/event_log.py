"""The events of a state folder, kept across starts, and how the daemon before ended.

`events.jsonl` has an event a line, as the status has them; the last line of a daemon that ended by itself says so. Its
time of change is when the daemon was last known to be at work.
"""

import json
import logging
import os
import time
from collections import deque
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from pydantic import ValidationError

from schemas.api.status import Event

NAME = "events.jsonl"
MOST_BYTES = 2**20
"""A file that has more becomes `events.jsonl.1`, in the place of the one that was that before."""
ALIVE_EVERY_S = 5.0
ENDS_WITHIN_S = 2.0
"""The daemon does not wait longer at its end for a disk that hangs."""

log = logging.getLogger("triggerlog")


class EventLog:
    """Keeps events in a thread of its own: a disk that fails, or hangs, costs events and nothing else.

    folder: that of the state. earlier: the newest events of the daemons before, oldest first. ended: whether the last
    of these said that it ended; None where there was none. last_ns: when it was last known to be at work (UTC).
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._path = folder / NAME
        self.earlier: list[Event] = []
        self.ended: bool | None = None
        self.last_ns = 0
        self._problem: str | None = None
        try:
            self._read(most)
        except OSError as error:
            self._say(error)
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def keep(self, event: Event) -> None:
        """Keep an event."""
        self._lines.put(event.model_dump_json().encode())

    def end(self) -> None:
        """Keep that the daemon ended by itself."""
        self._lines.put(json.dumps({"ended_ns": time.time_ns()}).encode())
        self._lines.put(None)
        self._thread.join(ENDS_WITHIN_S)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be written."""
        return self._thread.is_alive()

    def _read(self, most: int) -> None:
        found: deque[Event] = deque(maxlen=most)
        for path in (self._path.with_suffix(".jsonl.1"), self._path):
            if not path.exists():
                continue
            for line in path.read_bytes().splitlines():
                self.ended = line.startswith(b'{"ended_ns"')
                try:
                    found.append(Event.model_validate_json(line))
                except ValidationError:
                    continue  # the end of a daemon, or what a crash left of a line
        if self.ended is not None:
            self.last_ns = self._path.stat().st_mtime_ns
        self.earlier = list(found)

    def _run(self) -> None:
        while True:
            try:
                line = self._lines.get(timeout=ALIVE_EVERY_S)
            except Empty:
                line = b""
            if line is None:
                return
            try:
                self._write(line)
                self._problem = None
            except OSError as error:
                self._say(error)

    def _write(self, line: bytes) -> None:
        if not line:
            os.utime(self._path)
            return
        if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
            self._path.replace(self._path.with_suffix(".jsonl.1"))
        with self._path.open("ab") as file:
            file.write(line + b"\n")

    def _say(self, error: OSError) -> None:
        if self._problem != str(error):
            self._problem = str(error)
            log.warning("events are not kept: %s", error)
