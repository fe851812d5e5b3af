"""Fans the daemon's status out to browsers: encoded once for all, a bounded queue each."""

import asyncio
import time
from collections import deque
from typing import Any

import orjson

from dashboard.feed.frames import COLUMNS, ReadRates, Sections, changed, points, sections
from dashboard.feed.groups import SIDE_BY_SIDE_MOST, WHOLE
from dashboard.feed.history import History, Rows
from dashboard.feed.sentences import alarm_count, alarm_line, known_marks, mark_section
from schemas.api.alarms import AlarmStatus
from schemas.api.status import Status
from schemas.marks import Mark

QUEUE = 16
"""Frames a browser may lie behind (4 s) before it is given a fresh snapshot instead of its backlog."""

WAYS = 240
"""Frames (1 minute) of which the one that came quickest tells how far the daemon's clock is from ours."""


BRIEF = 240
"""Points (1 minute) that it gets of each of these, for a sparkline."""


class Viewer:
    """One connected browser: the messages that it has yet to be sent."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[str] = asyncio.Queue(QUEUE)

    @property
    def full(self) -> bool:
        """Whether the browser does not keep up."""
        return self._waiting.full()

    def put(self, message: str) -> None:
        """Add a message; there must be room."""
        self._waiting.put_nowait(message)

    def restart(self, snapshot: str) -> None:
        """Forget the backlog: a snapshot says all that it would have said."""
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(snapshot)

    async def next(self) -> str:
        """The next message, as soon as there is one."""
        return await self._waiting.get()


class Hub:
    """What the page knows: the newest status, an hour of points, and who is watching.

    Everything runs on one event loop: no method here waits, so none sees another's work half done.
    """

    def __init__(self, *, daemon: str, build: str) -> None:
        self._daemon = daemon
        self._build = build
        self._viewers: set[Viewer] = set()
        self._sections: Sections = {}
        self._rates = ReadRates()
        self._histories: dict[str, History] = {}
        self._runs: dict[str, tuple[int, int]] = {}  # by group: the run, and since when as far as is known, in ms
        self._recent: deque[tuple[int, int, str]] = deque(maxlen=QUEUE)
        self._ways: deque[float] = deque(maxlen=WAYS)
        self._snapshot: str | None = None
        self._heard, self._heard_monotonic_s = time.time(), time.monotonic()
        self._lost_since: float | None = self._heard
        self._problem = "not reached yet"
        self.names: dict[str, list[str]] = {}
        self.marks: tuple[Mark, ...] = ()
        self.marks_problem: str | None = None
        """Why the newest are not known; None where they are."""
        self.known_marks: list[tuple[Mark, bool]] = []
        """With those that wait for the database, see `feed.marks.known_marks`."""
        self._mark_section: dict[str, Any] = {}
        self._marks_of: tuple[tuple[Mark, ...], list[Mark]] | None = None
        self.status: Status | None = None

    @property
    def viewers(self) -> int:
        """How many browsers are connected."""
        return len(self._viewers)

    @property
    def problem(self) -> str | None:
        """Why the daemon is not heard, in one line; None when it is."""
        return None if self._lost_since is None else self._problem

    def take(self, status: Status) -> None:
        """Take in a snapshot of the daemon and pass it on."""
        row = points(status, self._rates.take(status))
        now = sections(status) | _alarms(status.alarms)
        now["marks"] = self._marks(status)
        now |= {f"names/{group}": names for group, names in self.names.items() if group in status.groups}
        time_ms = status.time_ns / 1e6
        for name in row:
            section = now[f"group/{name}"]
            section["run_since_ms"] = self._run_since(name, section["run"], round(time_ms))
        for name, values in row.items():
            self._histories.setdefault(name, History(len(COLUMNS))).add(round(time_ms), values)
        frame = _encode(
            {
                "kind": "frame",
                "epoch": str(status.epoch),
                "sequence": status.sequence,
                "t": round(time_ms),
                "lag": self._lag(status),
                "points": row,
                "changed": changed(now, self._sections),
            }
        )
        self._sections, self.status, self._lost_since, self._snapshot = now, status, None, None
        self._heard, self._heard_monotonic_s = time.time(), time.monotonic()
        self._recent.append((status.epoch, status.sequence, frame))
        self._publish(frame)

    def lost(self, problem: str) -> None:
        """Note that the daemon is gone, and why (one line)."""
        if self._lost_since is None:
            self._lost_since = self._heard
        self._problem = problem
        self._snapshot = None
        self.beat()

    def beat(self) -> None:
        """While the daemon is gone, send the browsers that: they see that the page itself still runs."""
        if self._lost_since is not None:
            self._publish(_encode({"kind": "link", "link": self._link()}))

    def _run_since(self, group: str, run: int, time_ms: int) -> int:
        """When the run began; 0 where it was there before this page."""
        known = self._runs.get(group)
        if known is None or known[0] != run:
            self._runs[group] = (run, 0 if known is None else time_ms)
        return self._runs[group][1]

    def _marks(self, status: Status) -> dict[str, Any]:
        """The section of marks, made anew only where they changed: of hundreds it takes milliseconds."""
        waiting = status.marks.waiting_marks if status.marks is not None else []
        if self._marks_of is None or self._marks_of[0] is not self.marks or self._marks_of[1] != waiting:
            self._marks_of = (self.marks, waiting)
            self.known_marks = known_marks(self.marks, waiting)
            self._mark_section = mark_section(self.known_marks)
        return self._mark_section | {"problem": self.marks_problem}

    def join(self, *, epoch: int | None, sequence: int | None) -> Viewer:
        """Let a browser in; one that names its last frame gets what it missed, any other a snapshot."""
        viewer = Viewer()
        missed = self._missed(epoch, sequence)
        if missed is None or self._lost_since is not None:
            viewer.put(self.snapshot())
        else:
            for frame in missed:
                viewer.put(frame)
        self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Let a browser go."""
        self._viewers.discard(viewer)

    def snapshot(self) -> str:
        """All that a new browser needs, encoded once however many ask."""
        if self._snapshot is None:
            self._snapshot = _encode(
                {
                    "kind": "snapshot",
                    "build": self._build,
                    "columns": COLUMNS,
                    "epoch": str(self.status.epoch) if self.status else None,
                    "sequence": self.status.sequence if self.status else None,
                    "t": round(self.status.time_ns / 1e6) if self.status else None,
                    "lag": round((time.monotonic() - self._heard_monotonic_s) * 1e3),
                    "link": self._link(),
                    "sections": self._sections,
                    "history": {group: self._history(group) for group in self._histories},
                    "brief": self._brief(),
                }
            )
        return self._snapshot

    def history(self, group: str) -> str | None:
        """Encode all that is kept of the points of a group; None where there is no such group."""
        return _encode({"history": _columns(self._histories[group].rows())}) if group in self._histories else None

    def _brief(self) -> list[str]:
        """Return the groups of which a snapshot has the newest points alone: those of many would be megabytes."""
        groups = [group for group in self._histories if group != WHOLE]
        return groups if len(groups) > SIDE_BY_SIDE_MOST else []

    def _history(self, group: str) -> list[list[float]]:
        rows = self._histories[group].rows()
        return _columns(rows[-BRIEF:] if group in self._brief() else rows)

    def _lag(self, status: Status) -> int:
        """How old a frame was on arrival, in ms, however the two clocks differ, and though the page's is set."""
        if self.status is None or status.epoch != self.status.epoch or status.time_ns < self.status.time_ns:
            self._ways.clear()
        self._ways.append(time.monotonic() * 1e3 - status.time_ns / 1e6)
        return round(self._ways[-1] - min(self._ways))

    def _missed(self, epoch: int | None, sequence: int | None) -> list[str] | None:
        if epoch is None or sequence is None:
            return None
        frames = list(self._recent)
        for place, (held_epoch, held_sequence, _) in enumerate(frames):
            if (held_epoch, held_sequence) == (epoch, sequence):
                return [frame for _, _, frame in frames[place + 1 :]]
        return None

    def _link(self) -> dict[str, Any]:
        up = self._lost_since is None
        return {
            "up": up,
            "since": None if self._lost_since is None else round(self._lost_since * 1e3),
            "problem": None if up else self._problem,
            "daemon": self._daemon,
        }

    def _publish(self, message: str) -> None:
        for viewer in self._viewers:
            if viewer.full:
                viewer.restart(self.snapshot())
            else:
                viewer.put(message)


def _alarms(alarms: list[AlarmStatus]) -> Sections:
    return {"alarms": [alarm_line(alarm) for alarm in alarms], "alarm_count": alarm_count(alarms)}


def _columns(rows: Rows) -> list[list[float]]:
    """Time and each column of a history as lists; JSON has no NaN, and orjson writes it as null."""
    return [column.tolist() for column in rows.T]


def _encode(message: dict[str, Any]) -> str:
    return orjson.dumps(message).decode()
