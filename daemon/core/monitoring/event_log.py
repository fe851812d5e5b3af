"""The events of a state folder, kept across starts, and how the daemon before ended.

`events.jsonl` has an event a line, as the status has them. The file `taking` is there while a daemon takes readings,
and its time of change is when that was last known. A daemon that ends by itself renames it to `taken`, which needs no
room on the disk. A start that fails before it takes readings changes neither.
"""

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from pydantic import ValidationError

from daemon.core.outside import SystemDisk
from schemas.api.status import Event

NAME = "events.jsonl"
OLDER = "events.jsonl.1"
TAKING, TAKEN = "taking", "taken"
MOST_BYTES = 2**20
"""A file that has more becomes the older one, in the place of the one that was that before."""
ALIVE_EVERY_S = 5.0
ENDS_WITHIN_S = 2.0
"""The daemon does not wait longer at its end for a disk that hangs."""

log = logging.getLogger("triggerlog")

DISK = SystemDisk()


def read_events(folder: Path) -> list[Event]:
    """All events that are kept in a state folder, oldest first; a running daemon may write on. Raises OSError."""
    newest, older = _events_in(folder / NAME), _events_in(folder / OLDER)
    # In between the one may have become the other.
    return list(dict.fromkeys([*older, *newest]))


def _events_in(path: Path) -> list[Event]:
    found = []
    try:
        lines = DISK.read(path, 0, DISK.size(path)).splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            found.append(Event.model_validate_json(line))
        except ValidationError:
            continue  # what a crash, a full disk, or one that cannot be read, left of a line
    return found


class EventLog:
    """Keeps events in a thread of its own: a disk that fails, or hangs, costs events and nothing else.

    folder: that of the state. earlier: the newest events of the daemons before, oldest first. ended: whether the last
    of these that took readings ended by itself; None where there was none. last_ns: when it was last known to take them
    (UTC). problem: why the last event is not kept.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._path, self._older = folder / NAME, folder / OLDER
        self._taking, self._taken = folder / TAKING, folder / TAKEN
        self.earlier: list[Event] = []
        self.ended: bool | None = None
        self.last_ns = 0
        self.problem: str | None = None
        self._is_taking = self._has_taken = False
        self._is_torn = False  # the last line, by a crash or a full disk: what is appended must not become part of it
        try:
            self._read(folder, most)
        except OSError as error:
            self._say(error)
        self._steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def keep(self, event: Event) -> None:
        """Keep an event."""
        self._steps.put(partial(self._append, event.model_dump_json().encode()))

    def take(self) -> None:
        """Keep that readings are taken from now on."""
        self._steps.put(self._begin)

    def take_no_more(self) -> None:
        """Keep that no readings are taken from now on, though what was taken may still have to be committed."""
        self._steps.put(self._stop)

    def read(self) -> list[Event]:
        """All events that are kept, oldest first; what was recorded a moment ago may not be there yet. Blocks."""
        return read_events(self._path.parent)

    def end(self) -> None:
        """Keep that the daemon ended by itself."""
        self._steps.put(self._end)
        self._steps.put(None)
        self._thread.join(ENDS_WITHIN_S)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be written."""
        return self._thread.is_alive()

    def _read(self, folder: Path, most: int) -> None:
        for path in (self._taken, self._taking):
            if path.exists():
                self.ended, self.last_ns = path == self._taken, path.stat().st_mtime_ns
        for path in filter(Path.exists, (self._path, self._older)):
            path.chmod(path.stat().st_mode & 0o640)  # an earlier version let everybody read it
        self.earlier = read_events(folder)[-most:]
        if self._path.exists():
            self._is_torn = not (b"\n" + DISK.read(self._path, 0, DISK.size(self._path))).endswith(b"\n")

    def _run(self) -> None:
        while True:
            try:
                step = self._steps.get(timeout=ALIVE_EVERY_S)
            except Empty:
                step = self._note_alive
            if step is None:
                return
            try:
                step()
                self.problem = None
            except OSError as error:
                self._say(error)

    def _begin(self) -> None:
        if self._taken.exists():
            self._taken.replace(self._taking)
        self._taking.touch()
        self._is_taking = self._has_taken = True

    def _note_alive(self) -> None:
        if self._is_taking:
            os.utime(self._taking)

    def _stop(self) -> None:
        self._note_alive()
        self._is_taking = False

    def _end(self) -> None:
        self._stop()
        if self._has_taken:
            self._taking.replace(self._taken)

    def _append(self, line: bytes) -> None:
        self._note_alive()
        if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
            self._path.replace(self._older)
        is_torn, self._is_torn = self._is_torn, True
        with open(self._path, "ab", opener=partial(os.open, mode=0o640)) as file:
            file.write(b"\n" * is_torn + line + b"\n")
        self._is_torn = False

    def _say(self, error: OSError) -> None:
        if self.problem != str(error):
            self.problem = str(error)
            log.warning("events are not kept: %s", error)
