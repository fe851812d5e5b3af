"""The settings of a simulation, and the plan of what is sent when: pure, and the same for the same seed."""

import math
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from schemas.readings import Array, InstrumentGroup
from schemas.wire import DATAGRAM_MAX, Ack

LATE, COPY, SWAPPED, STUCK, SLIPPED = 1, 2, 4, 8, 16
"""What is the matter with a reading in a plan; a copy is the second sending of a duplicated one."""

VIRTUAL_RATE = 10_000.0
"""Triggers a second of the readings' own clock when they are sent as fast as possible."""


class SettingsError(ValueError):
    """A setting cannot be used.

    setting: its name, a field of `SimulateSettings`. fix: what to give instead, one line.
    """

    def __init__(self, setting: str, fix: str) -> None:
        super().__init__(f"{setting}: {fix}")
        self.setting = setting
        self.fix = fix


@dataclass(frozen=True, kw_only=True)
class Step:
    """From `from_s` seconds on, by the triggers' times, something of an instrument is off by `size`."""

    instrument: int
    size: float
    from_s: float

    @classmethod
    def parse(cls, text: str, name: str) -> "Step":
        """Read INSTRUMENT:SIZE@SECONDS, e.g. `7:-1@5`. Raises SettingsError, which calls it `name`."""
        found = re.fullmatch(r"(\d+):([+-]?\d+(?:\.\d+)?)@(\d+(?:\.\d+)?)", text)
        _check(found is not None, name, f"instrument:size@seconds, like 7:-1@5 (this is {text!r})")
        assert found is not None
        return cls(instrument=int(found[1]), size=float(found[2]), from_s=float(found[3]))


@dataclass(frozen=True, kw_only=True)
class SimulateSettings:
    """What is sent, where to, and what goes wrong with it. Raises SettingsError.

    host, port, protocol: the daemon's source. ack: what it shall acknowledge over TCP. sessions: whether senders go on
        after a loss of their connection, in a session.
    groups: names of the groups; over TCP the daemon says how many instruments each has and how its records look.
    layouts: the groups themselves, which UDP needs because the daemon does not answer there.
    rate: triggers a second; 0 is as fast as possible.
    triggers, duration_s: where to end, whichever comes first; without both at Ctrl-C.
    connections: how many a group; the instruments are dealt out over them. `each`: one an instrument.
    jitter_ms: every reading is sent up to this much after its trigger.
    missing, late, duplicated, out_of_order: fractions of the readings that are not sent, sent `late_by_ms` after their
        trigger, sent twice, swapped with the next one of their connection.
    stuck, stuck_from: instrument number whose trigger number stays what it was at the trigger with this index.
    slips: the trigger numbers of an instrument are off by `size`, a whole number, from then on; ahead if positive.
    clock_steps: the timestamps of an instrument are off by `size` ms from then on.
    first_trigger: number of the first trigger. epoch: of the timing system; 0 is unknown.
    restart_after: after so many triggers, again and again, the numbers start from 1, after a pause of restart_pause_ms.
    seed: same seed, same readings, same faults.
    account: file (.npz) for the exact account of what was sent.
    buffer_mib: what may wait for its acknowledgement on the one connection; a sixteenth of it on each of several.
    finish_timeout_s: how long to wait for the last acknowledgements.
    tls: for a TCP source with a certificate; None is plain TCP.
    datagram_bytes: size of a datagram at most; 1472 fits an Ethernet frame.
    """

    host: str = "127.0.0.1"
    port: int = 8122
    protocol: Literal["tcp", "udp"] = "tcp"
    ack: Ack = Ack.COMMITTED
    sessions: bool = True
    groups: tuple[str, ...] = ("bpm",)
    layouts: tuple[InstrumentGroup, ...] = ()
    rate: float = 100.0
    triggers: int | None = None
    duration_s: float | None = None
    connections: int | Literal["each"] = 1
    jitter_ms: float = 0.0
    missing: float = 0.0
    late: float = 0.0
    late_by_ms: float = 1000.0
    duplicated: float = 0.0
    out_of_order: float = 0.0
    stuck: int | None = None
    stuck_from: int = 0
    slips: tuple[Step, ...] = ()
    clock_steps: tuple[Step, ...] = ()
    first_trigger: int = 1
    epoch: int = 0
    restart_after: int | None = None
    restart_pause_ms: float = 0.0
    seed: int = 1
    account: Path | None = None
    buffer_mib: float = 64.0
    finish_timeout_s: float = 60.0
    datagram_bytes: int = 1472
    sender: str = "simulate"
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for name in ("missing", "late", "duplicated", "out_of_order"):
            _check(0 <= getattr(self, name) <= 1, name, "a fraction from 0 to 1")
        for name in ("rate", "jitter_ms", "late_by_ms", "restart_pause_ms", "first_trigger", "stuck_from", "seed"):
            _check(0 <= getattr(self, name) < math.inf, name, "0 or more")
        _check(0 <= self.epoch < 2**31, "epoch", "0 (unknown) to 2147483647")
        for name in ("triggers", "restart_after"):
            value = getattr(self, name)
            _check(value is None or value >= 1, name, "1 or more, or nothing")
        _check(self.duration_s is None or self.duration_s > 0, "duration_s", "more than 0 seconds")
        _check(self.buffer_mib > 0, "buffer_mib", "more than 0")
        _check(self.stuck is None or self.stuck >= 0, "stuck", "the number of an instrument, from 0")
        for slip in self.slips:
            _check(slip.size == int(slip.size), "slips", "a whole number of triggers, like 7:-1@5")
            begins = math.ceil(slip.from_s * 1e9 / self.period_ns)
            _check(begins + slip.size >= 0, "slips", "a later start: there is no trigger so far back yet")
        _check(not self.slips or self.restart_after is None, "slips", "either a slip or a restart of the numbers")
        _check(self.connections == "each" or self.connections >= 1, "connections", "1 or more, or `each`")
        _check(self.protocol in ("tcp", "udp"), "protocol", "tcp or udp")
        _check(
            len(self.groups) > 0 and len(set(self.groups)) == len(self.groups),
            "groups",
            "different names, at least one",
        )
        _check(256 <= self.datagram_bytes <= DATAGRAM_MAX, "datagram_bytes", f"256 to {DATAGRAM_MAX}")
        known = {group.name for group in self.layouts}
        if self.protocol == "udp":
            _check(
                set(self.groups) <= known,
                "layouts",
                "the groups as configured: over UDP the daemon does not send their layout",
            )

    @property
    def period_ns(self) -> float:
        """Time between two triggers on the readings' own clock, in ns."""
        return 1e9 / (self.rate or VIRTUAL_RATE)

    @property
    def instruments(self) -> int:
        """How many instruments a group must have for all that are named here; 0 when none is."""
        named = [step.instrument for step in (*self.slips, *self.clock_steps)]
        return max([*named, -1 if self.stuck is None else self.stuck]) + 1

    def setting_of(self, instrument: int) -> str:
        """Name a setting that names this instrument."""
        if self.stuck == instrument:
            return "stuck"
        return "slips" if any(slip.instrument == instrument for slip in self.slips) else "clock_steps"

    @property
    def regular(self) -> bool:
        """Whether every reading is sent once, in order and in time."""
        faults = (self.jitter_ms, self.missing, self.late, self.duplicated, self.out_of_order)
        return self.stuck is None and not any(faults) and not self.slips and not self.clock_steps

    @property
    def end(self) -> int | None:
        """How many triggers there are to be; None when only the clock or the operator ends it."""
        by_clock = math.ceil(self.rate * self.duration_s) if self.rate and self.duration_s else None
        ends = [end for end in (self.triggers, by_clock) if end is not None]
        return min(ends, default=None)


def _check(fits: bool, setting: str, wanted: str) -> None:
    if not fits:
        raise SettingsError(setting, f"give {wanted}")


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
