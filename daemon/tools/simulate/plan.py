"""The plan of what is sent when: pure, vectorised, and the same for the same seed.

Triggers have an index 0, 1, 2, ...; numbers and times follow from it. A plan is made in chunks of triggers; what is
due after its chunk is carried over into the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from daemon.tools.simulate.settings import SimulateSettings, Step
from schemas.readings import Array

LATE, COPY, SWAPPED, STUCK, SLIPPED = 1, 2, 4, 8, 16
"""What is the matter with a reading in a plan; a copy is the second sending of a duplicated one."""

READING = np.dtype(
    [
        ("due_ns", "<i8"),
        ("index", "<i8"),
        ("target", "<i8"),
        ("instrument", "<i4"),
        ("connection", "<i4"),
        ("kind", "<i4"),
    ]
)
"""One reading to be sent: when (ns after the start), index of the trigger it is taken at, index of the trigger whose
number it carries (another one only when stuck or slipped), and which connection sends it."""

TICK_NS = 5_000_000
"""Readings due within the same 5 ms are written together; 200 rounds a second cost little."""

CHUNK_READINGS = 16_384


@dataclass(frozen=True, kw_only=True)
class Numbering:
    """Trigger numbers, runs and times by index."""

    first_trigger: int
    first_epoch: int
    restart_after: int | None
    period_ns: float
    pause_ns: int

    @classmethod
    def of(cls, settings: SimulateSettings) -> "Numbering":
        """Take what matters out of the settings."""
        return cls(
            first_trigger=settings.first_trigger,
            first_epoch=settings.epoch,
            restart_after=settings.restart_after,
            period_ns=settings.period_ns,
            pause_ns=int(settings.restart_pause_ms * 1e6),
        )

    def run(self, index: Array) -> Array:
        """How often the numbers have started again, int64 of the shape of `index`."""
        runs: Array = index // self.restart_after if self.restart_after else np.zeros_like(index)
        return runs

    def epoch(self, index: Array) -> Array:
        """Epoch, int64 of the shape of `index`: one higher in each run; 0 where it is not to be known."""
        return self.first_epoch + self.run(index) if self.first_epoch else np.zeros_like(index)

    def trigger(self, index: Array) -> Array:
        """Trigger number, int64 of the shape of `index`."""
        if not self.restart_after:
            return np.asarray(index + self.first_trigger)
        first = np.where(index < self.restart_after, self.first_trigger, 1)
        numbers: Array = first + index % self.restart_after
        return numbers

    def time_ns(self, index: Array) -> Array:
        """When the trigger is, in ns after the start, int64 of the shape of `index`."""
        times: Array = np.rint(index * self.period_ns).astype(np.int64) + self.run(index) * self.pause_ns
        return times


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A stretch of the plan.

    readings: READING, ordered by tick, connection and time.
    settled: triggers with an index below this get no further reading, but for those of a stuck instrument.
    """

    readings: Array
    settled: int


def dealt(instruments: int, connections: int) -> Array:
    """Deal instruments out over connections in stretches of (nearly) equal length; int32 of shape (instruments,)."""
    return (np.arange(instruments) * connections // instruments).astype(np.int32)


def chunks(settings: SimulateSettings, *, instruments: int, connections: int, salt: int = 0) -> Iterator[Chunk]:
    """Plan all that is to be sent, chunk by chunk; without end when the settings name none.

    Args:
        settings: what is to be simulated.
        instruments: how many the group has.
        connections: over how many connections they are dealt out.
        salt: makes groups of the same settings differ.
    """
    numbering = Numbering.of(settings)
    size = max(1, CHUNK_READINGS // instruments)
    if settings.rate:
        size = max(1, min(size, round(settings.rate)))
    carried, start = np.empty(0, READING), 0
    behind = max((-int(slip.size) for slip in settings.slips if slip.size < 0), default=0)
    while settings.end is None or start < settings.end:
        stop = start + size if settings.end is None else min(start + size, settings.end)
        rng = np.random.default_rng([settings.seed, salt, start])
        new = _chunk(settings, numbering, rng, np.arange(start, stop), dealt(instruments, connections))
        readings = np.concatenate([carried, new])
        # Nothing planned later is due before the next chunk's first trigger.
        now = readings["due_ns"] // TICK_NS < numbering.time_ns(np.array(stop)) // TICK_NS
        carried, readings = readings[~now], readings[now]
        yield Chunk(readings=_ordered(readings), settled=min(int(carried["index"].min(initial=stop)), stop) - behind)
        start = stop
    if len(carried):
        yield Chunk(readings=_ordered(carried), settled=start)


def _chunk(
    settings: SimulateSettings, numbering: Numbering, rng: np.random.Generator, triggers: Array, connection: Array
) -> Array:
    sent = rng.random((len(triggers), len(connection)), np.float32) >= settings.missing
    row, instrument = np.nonzero(sent)
    readings = np.zeros(len(row), READING)
    readings["index"] = readings["target"] = triggers[row]
    readings["instrument"] = instrument
    readings["connection"] = connection[instrument]
    readings["due_ns"] = numbering.time_ns(triggers)[row] + (rng.random(len(row)) * settings.jitter_ms * 1e6).astype(
        int
    )
    late = rng.random(len(row), np.float32) < settings.late
    readings["due_ns"][late] += int(settings.late_by_ms * 1e6)
    readings["kind"][late] |= LATE
    for slip in settings.slips:
        slipped = (readings["instrument"] == slip.instrument) & begun(slip, numbering, readings["index"])
        readings["target"][slipped] += int(slip.size)
        readings["kind"][slipped] |= SLIPPED
    if settings.stuck is not None:
        stuck = (readings["instrument"] == settings.stuck) & (readings["index"] > settings.stuck_from)
        readings["target"][stuck] = settings.stuck_from
        readings["kind"][stuck] |= STUCK
    copies = readings[rng.random(len(row), np.float32) < settings.duplicated]
    copies["kind"] |= COPY
    readings = np.concatenate([readings, copies])
    return _swapped(readings[np.lexsort((readings["due_ns"], readings["connection"]))], rng, settings.out_of_order)


def begun(step: Step, numbering: Numbering, index: Array) -> Array:
    """At which triggers a step has been made: bool of the shape of `index`."""
    return np.asarray(numbering.time_ns(index) >= step.from_s * 1e9)


def clock_steps_ns(settings: SimulateSettings, numbering: Numbering, readings: Array) -> Array:
    """How far the timestamps of planned readings are off, in ns: int64 of shape (n,)."""
    off = np.zeros(len(readings), np.int64)
    for step in settings.clock_steps:
        stepped = (readings["instrument"] == step.instrument) & begun(step, numbering, readings["index"])
        off[stepped] += int(step.size * 1e6)
    return off


def _swapped(readings: Array, rng: np.random.Generator, fraction: float) -> Array:
    """Swap a fraction of the readings with the next one of their connection; both go when the later one is due."""
    if not fraction or len(readings) < 2:
        return readings
    chosen = rng.random(len(readings) - 1, np.float32) < fraction
    chosen &= readings["connection"][:-1] == readings["connection"][1:]
    # A reading that is late stays behind: swapped, it would make another one late, which would not be counted.
    chosen &= (readings["kind"][:-1] | readings["kind"][1:]) & LATE == 0
    chosen[1:] &= ~chosen[:-1]  # pairs must not overlap
    first = np.flatnonzero(chosen)
    swapped = readings.copy()
    swapped[first], swapped[first + 1] = readings[first + 1], readings[first]
    swapped["due_ns"][first + 1] = swapped["due_ns"][first]
    swapped["kind"][first + 1] |= SWAPPED
    return swapped


def _ordered(readings: Array) -> Array:
    tick = readings["due_ns"] // TICK_NS
    return readings[np.lexsort((readings["due_ns"], readings["connection"], tick))]


def rounds(readings: Array) -> list[tuple[int, int]]:
    """Where the readings of one tick begin and end, in order."""
    return _stretches(readings["due_ns"] // TICK_NS)


def shares(readings: Array) -> list[tuple[int, int]]:
    """Where the readings of one connection begin and end within a round."""
    return _stretches(readings["connection"])


def _stretches(key: Array) -> list[tuple[int, int]]:
    if not len(key):
        return []
    return list(pairwise([0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)]))
