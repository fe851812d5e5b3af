"""The events of a state folder, kept across starts, and how the daemon before ended.

`events.jsonl` has an event a line, as the status has them; the last line of a daemon that ended by itself says so. Its
time of change is when the daemon was last known to be at work.
"""

import json
import logging
import os
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from pydantic import ValidationError

from schemas.api.status import Event

NAME = "events.jsonl"
OLDER = "events.jsonl.1"
MOST_BYTES = 2**20
"""A file that has more becomes the older one, in the place of the one that was that before."""
ALIVE_EVERY_S = 5.0
ENDS_WITHIN_S = 2.0
"""The daemon does not wait longer at its end for a disk that hangs."""

log = logging.getLogger("triggerlog")


def read_events(folder: Path) -> list[Event]:
    """All events that are kept in a state folder, oldest first; a running daemon may write on. Raises OSError."""
    newest, older = _events_in(folder / NAME), _events_in(folder / OLDER)
    # In between the one may have become the other.
    return list(dict.fromkeys([*older, *newest]))


def _events_in(path: Path) -> list[Event]:
    found = []
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            found.append(Event.model_validate_json(line))
        except ValidationError:
            continue  # the end of a daemon, or what a crash left of a line
    return found


class EventLog:
    """Keeps events in a thread of its own: a disk that fails, or hangs, costs events and nothing else.

    folder: that of the state. earlier: the newest events of the daemons before, oldest first. ended: whether the last
    of these said that it ended; None where there was none. last_ns: when it was last known to be at work (UTC).
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._path, self._older = folder / NAME, folder / OLDER
        self.earlier: list[Event] = []
        self.ended: bool | None = None
        self.last_ns = 0
        self._problem: str | None = None
        self._is_torn = False  # the last line, by a crash: what is appended must not become part of it
        try:
            self._read(folder, most)
        except OSError as error:
            self._say(error)
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def keep(self, event: Event) -> None:
        """Keep an event."""
        self._lines.put(event.model_dump_json().encode())

    def read(self) -> list[Event]:
        """All events that are kept, oldest first; what was recorded a moment ago may not be there yet. Blocks."""
        return read_events(self._path.parent)

    def end(self) -> None:
        """Keep that the daemon ended by itself."""
        self._lines.put(json.dumps({"ended_ns": time.time_ns()}).encode())
        self._lines.put(None)
        self._thread.join(ENDS_WITHIN_S)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be written."""
        return self._thread.is_alive()

    def _read(self, folder: Path, most: int) -> None:
        self.earlier = read_events(folder)[-most:]
        for path in (self._path, self._older):
            if path.exists() and (lines := path.read_bytes().splitlines(keepends=True)):
                self.ended, self.last_ns = lines[-1].startswith(b'{"ended_ns"'), path.stat().st_mtime_ns
                self._is_torn = path == self._path and not lines[-1].endswith(b"\n")
                return

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
            self._path.replace(self._older)
        with self._path.open("ab") as file:
            file.write(b"\n" * self._is_torn + line + b"\n")
        self._is_torn = False

    def _say(self, error: OSError) -> None:
        if self._problem != str(error):
            self._problem = str(error)
            log.warning("events are not kept: %s", error)
