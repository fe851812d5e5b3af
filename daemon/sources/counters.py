"""Trigger counters of 8, 16 or 32 bits: their numbers become whole ones before readings are handed on."""

import asyncio
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.assembly import Origin
from daemon.pipeline.intake import Intake
from schemas.readings import Array, InstrumentGroup

LARGEST_BYTES = 2**20

POINTS = 4096
"""Points of the timeline that are remembered, of which a counter passes eight while it goes round once."""

POINTS_SAVED = 64

CANDIDATES = 64
"""Triggers that may become points."""

EPOCHS = 8
"""Epochs whose timelines are remembered: those with the most readings."""

LATER_NS = 1_000_000_000
"""A reading that comes so much later than the one before is of a later trigger, whatever the rate."""

Number = Annotated[int, Field(ge=0, lt=2**63)]


class Point(BaseModel):
    """Return the time of a trigger, by the time of its readings."""

    model_config = ConfigDict(extra="forbid")

    trigger: Number
    time_ns: int


class Timeline(BaseModel):
    """The triggers of an epoch. taken: readings. points: ascending by trigger. last: the newest that was handed on."""

    model_config = ConfigDict(extra="forbid")

    epoch: Number
    taken: Number
    points: list[Point]
    last: Point | None


class CountersFile(BaseModel):
    """The state of a group's counters in the state folder."""

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    timelines: list[Timeline]


@dataclass(slots=True)
class Counter:
    """The counter of one epoch, which goes round after `size` triggers.

    last, heard_ns: the last reading of those in order, and when it came. is_certain: no later one was handed on, which
    nobody knows after a process that was killed. taken: readings. agreeing: instruments that make a point.
    """

    size: int
    agreeing: int = 2
    points: list[Point] = field(default_factory=list)
    last: Point | None = None
    heard_ns: int = 0
    is_certain: bool = True
    taken: int = 0
    _times: dict[int, int] = field(default_factory=dict)  # of the newest point's trigger, by instrument
    _candidates: dict[int, dict[int, int]] = field(default_factory=dict)  # the same of triggers that may be points

    @property
    def step(self) -> int:
        """Triggers between two points."""
        return self.size // 8

    def number(self, time_ns: Array, wrapped: Array, instrument: Array, now_ns: int) -> Array:
        """Return the whole numbers of readings, int64 (n,), by their times and what the counter said.

        Readings older than the newest point are late: theirs is the number that fits the time between the points around
        it. The others have the number nearest to that point, or after a while, in the order of their times, to the one
        before. A number below 0 is of a trigger before the first of the epoch.
        """
        numbers = np.empty(len(wrapped), np.int64)
        is_late = time_ns < (self.points[-1].time_ns if self.points else time_ns.min())
        if is_late.any():
            expected = self._expected(time_ns[is_late])
            rounds = np.rint((expected - wrapped[is_late]) / self.size).astype(np.int64)
            numbers[is_late] = rounds * self.size + wrapped[is_late]
        in_order = np.flatnonzero(~is_late)
        in_order = in_order[np.argsort(time_ns[in_order], kind="stable")]
        is_near = time_ns[in_order] <= self._near_ns()
        for part, numbering in ((in_order[is_near], self._near), (in_order[~is_near], self._chained)):
            if len(part):
                numbers[part] = numbering(wrapped[part], int(time_ns[part[0]]), now_ns)
                lately = sorted(numbers[part[-5:]].tolist())
                self.last = Point(trigger=max(lately[len(lately) // 2], 0), time_ns=int(time_ns[part[-1]]))
                self.heard_ns, self.is_certain = now_ns, True
        self._note(numbers, time_ns, instrument)
        return numbers

    def _near(self, wrapped: Array, time_ns: int, now_ns: int) -> Array:
        """Go by the newest point, whatever wrong numbers there are among them."""
        newest = self.points[-1].trigger
        return np.asarray(newest + (wrapped - newest + self.size // 4) % self.size - self.size // 4)

    def _near_ns(self) -> float:
        """Until when the newest point tells the numbers."""
        pace = self._pace_ns()
        return -math.inf if pace is None else self.points[-1].time_ns + pace * self.size / 4

    def _chained(self, wrapped: Array, time_ns: int, now_ns: int) -> Array:
        """Each by the one before."""
        steps = np.diff(wrapped, prepend=wrapped[0])
        first = self._first(int(wrapped[0]), time_ns, now_ns)
        return np.asarray(first + np.cumsum((steps + self.size // 2) % self.size - self.size // 2))

    def _first(self, wrapped: int, time_ns: int, now_ns: int) -> int:
        """The number of the first reading in order: the nearest to the last, but a higher one if it is much later."""
        if self.last is None:
            # Unless it was just started, readings of the round before may still come.
            return wrapped + (self.size if 1 < wrapped < self.size // 4 else 0)
        ahead = (wrapped - self.last.trigger) % self.size
        is_later = min(time_ns - self.last.time_ns, now_ns - self.heard_ns) > self._far_ns()
        if not is_later:
            return self.last.trigger + ahead - (self.size if ahead >= self.size // 2 else 0)
        # Of what a killed process handed on since the last point, nobody knows the numbers.
        least = 1 if self.is_certain else self.size // 4
        return self.last.trigger + least + (ahead - least) % self.size

    def _far_ns(self) -> float:
        """After so much time a reading is of no trigger near the last one: a quarter round."""
        pace = self._pace_ns()
        return LATER_NS if pace is None else pace * self.size / 4

    def _pace_ns(self) -> float | None:
        if len(self.points) < 2:
            return None
        before, newest = self.points[-2:]
        return (newest.time_ns - before.time_ns) / (newest.trigger - before.trigger)

    def _expected(self, time_ns: Array) -> Array:
        base_ns = self.points[0].time_ns
        times = np.maximum.accumulate([point.time_ns - base_ns for point in self.points])
        found = np.interp(time_ns - base_ns, times, [point.trigger for point in self.points])
        pace = self._pace_ns() or 0
        if pace > 0:  # before all that is remembered
            found += np.minimum(time_ns - base_ns, 0) / pace
        return np.asarray(found)

    def _note(self, numbers: Array, time_ns: Array, instrument: Array) -> None:
        """Make a point of a trigger that is a step beyond the last one, once `agreeing` instruments say its number."""
        order = np.argsort(numbers, kind="stable")
        found, begins = np.unique(numbers[order], return_index=True)
        for number, part in zip(found.tolist(), np.split(order, begins[1:]), strict=True):
            is_newest = bool(self.points) and number == self.points[-1].trigger
            if not is_newest and number < (self.points[-1].trigger + self.step if self.points else 0):
                continue
            times = self._times if is_newest else self._candidates.setdefault(number, {})
            times |= zip(instrument[part].tolist(), time_ns[part].tolist(), strict=True)
            if not is_newest and len(times) >= self.agreeing:
                self.points.append(Point(trigger=number, time_ns=0))
                self._times, self._candidates, is_newest = times, {}, True
            if is_newest:
                self.points[-1].time_ns = sorted(times.values())[(len(times) - 1) // 2]
        for oldest in list(self._candidates)[:-CANDIDATES]:
            del self._candidates[oldest]
        del self.points[:-POINTS]


class Counters:
    """The counters of a group, one an epoch, which all of its instruments have in common. Use `load` first."""

    def __init__(self, group: InstrumentGroup, bits: int, state_dir: Path, outside: Outside, events: Events) -> None:
        self._group = group
        self._size = 1 << bits
        self._agreeing = min(2, group.size)
        self._path = state_dir / f"counters-{group.name}.json"
        self._outside = outside
        self._events = events
        self._by_epoch: dict[int, Counter] = {}
        self._saved: dict[int, int] = {}
        self._saving: asyncio.Task[None] | None = None
        self._has_problem = False

    async def load(self) -> None:
        """Read what earlier processes left."""
        try:
            data = await self._outside.workers.call(self._outside.disk.read, self._path, 0, LARGEST_BYTES)
            timelines = CountersFile.model_validate_json(data).timelines
        except FileNotFoundError:
            return
        except (OSError, ValidationError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is damaged"
            self._events.error(
                f"group {self._group.name}: {self._path} cannot be used ({reason}): trigger numbers go on from what the"
                " counters say now; announce a restart of the timing system, so that they begin a new run"
            )
            return
        for found in timelines:
            last = found.last or (found.points[-1] if found.points else None)
            is_certain = found.last is not None
            self._by_epoch[found.epoch] = Counter(
                self._size, self._agreeing, found.points, last, is_certain=is_certain, taken=found.taken
            )

    def into(self, intake: Intake) -> Intake:
        """Return a way into an intake that takes readings with the numbers of these counters."""
        return cast("Intake", UnwrappedIntake(intake, self))

    def unwrap(self, block: Array) -> None:
        """Replace what the counters said by whole numbers, in place: record dtype, shape (n,).

        A number below 0 stays, and is refused later.
        """
        now_ns = self._outside.clock.now().utc_ns
        counted = np.flatnonzero(block["trigger"] >= 0)
        epochs = block["epoch"][counted]
        for epoch in np.unique(epochs).tolist():
            of_epoch = counted[epochs == epoch]
            times = block["time_ns"][of_epoch]
            wrapped = block["trigger"][of_epoch] % self._size
            counter = self._by_epoch.setdefault(epoch, Counter(self._size, self._agreeing))
            counter.taken += len(of_epoch)
            block["trigger"][of_epoch] = counter.number(
                np.where(times == 0, now_ns, times), wrapped, block["instrument"][of_epoch], now_ns
            )
            if len(self._by_epoch) > EPOCHS:
                del self._by_epoch[min(self._by_epoch.keys() - {epoch}, key=lambda each: self._by_epoch[each].taken)]
        self._save_soon()

    async def close(self) -> None:
        """Save where the counters are: nothing more comes."""
        if self._saving is not None:
            await self._saving
        if self._by_epoch:
            await self._save(is_end=True)

    def _save_soon(self) -> None:
        if self._newest != self._saved and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save_all(), name=f"counters {self._group.name}")

    @property
    def _newest(self) -> dict[int, int]:
        return {epoch: counter.points[-1].trigger for epoch, counter in self._by_epoch.items() if counter.points}

    @fail_stop()
    async def _save_all(self) -> None:
        while self._newest != self._saved:
            await self._save()

    async def _save(self, *, is_end: bool = False) -> None:
        self._saved = self._newest
        timelines = [
            Timeline(
                epoch=epoch,
                taken=counter.taken,
                points=counter.points[-POINTS_SAVED:],
                last=counter.last if is_end else None,
            )
            for epoch, counter in self._by_epoch.items()
        ]
        data = CountersFile(timelines=timelines).model_dump_json().encode()
        try:
            await self._outside.workers.call(self._outside.disk.replace, self._path, data)
        except OSError as error:
            if not self._has_problem:
                self._events.error(
                    f"group {self._group.name}: {self._path} cannot be written: {reason_of(error)}; after a start that"
                    " follows, trigger numbers may go on at another place: make room on the disk of the state folder"
                )
            self._has_problem = True
        else:
            self._has_problem = False


class UnwrappedIntake:
    """An intake whose readings come with the numbers of a counter that wraps; all else is the intake's own."""

    def __init__(self, intake: Intake, counters: Counters) -> None:
        self._intake = intake
        self._counters = counters

    def __getattr__(self, name: str) -> object:
        return getattr(self._intake, name)

    def receive(self, block: Array, origin: Origin | None = None) -> None:
        """Take readings, as `Intake.receive` does."""
        self._counters.unwrap(block)
        self._intake.receive(block, origin)
