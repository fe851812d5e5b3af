"""The machine: a timing system, instruments with clocks of their own, and crates that send their readings.

Each reading carries a mark of its own, the value of its only channel, by which the oracle knows it anywhere.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from schemas.readings import Array, Channel, InstrumentGroup
from tests.simulation.loop import START_NS, VirtualLoop
from tests.simulation.network import ADDRESS
from tests.simulation.plan import Plan

MARK = 0x5A17 << 48
"""High bits of every mark: nothing else in a file looks like it."""


def is_mark(word: int) -> bool:
    """Whether a 64-bit word is the mark of a reading."""
    return word >> 48 == MARK >> 48


def make_group(instruments: int) -> InstrumentGroup:
    """The only group."""
    names = tuple(f"bpm_{i:03d}" for i in range(instruments))
    return InstrumentGroup(name="bpm", instruments=names, channels=(Channel(name="mark", unit="", dtype="int64"),))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reading really is. start: how often the timing system has started, which is its true run."""

    mark: int
    start: int
    trigger: int
    instrument: int
    time_ns: int
    is_wrong: bool  # the instrument gave it another number than its trigger has
    is_timed: bool = True  # it comes with its time, and not with 0
    odd_epoch: int | None = None  # the instrument gave it this one

    @property
    def epoch(self) -> int:
        """The epoch that it says, in a plan with epochs."""
        return self.start + 1 if self.odd_epoch is None else self.odd_epoch

    @property
    def key(self) -> tuple[int, int, int]:
        """What identifies it, as far as the daemon can know."""
        return self.epoch - 1, self.trigger, self.instrument


class SendsReadings(Protocol):
    """The part of a sender that a crate uses."""

    async def send(self, block: Array) -> None: ...

    async def drain_acknowledged(self, timeout_s: float | None) -> None: ...


@dataclass(eq=False)
class Crate:
    """A sender of several instruments.

    waiting: readings it has not handed to its sender yet. streams: those it has, in the order of the sender's
    numbers, a list for each start of the crate. is_done: its instruments give nothing more. leaves: set to have its
    sender say goodbye, and another one begin.
    """

    number: int
    instruments: list[int]
    waiting: deque[Reading] = field(default_factory=deque)
    streams: list[list[Reading]] = field(default_factory=list)
    stopped_until_ns: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    restart: asyncio.Event = field(default_factory=asyncio.Event)
    leaves: asyncio.Event = field(default_factory=asyncio.Event)
    is_done: bool = False

    @property
    def sent(self) -> list[Reading]:
        """All that was ever handed to a sender."""
        return [reading for stream in self.streams for reading in stream]

    @property
    def is_over(self) -> bool:
        """Whether all of its readings were handed to its sender."""
        return self.is_done and not self.waiting

    def leave(self) -> None:
        """Have its sender say goodbye once everything is acknowledged, and another one begin."""
        self.leaves.set()
        self.arrived.set()

    @property
    def address(self) -> str:
        return f"10.0.0.{self.number + 1}"


class Machine:
    """Makes triggers at a rate until its end, and hands each crate the readings of its instruments."""

    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        settings = plan.settings
        self.group = make_group(settings.instruments)
        self.readings: dict[int, Reading] = {}
        self.starts: list[int] = [0]
        self.start = 0
        self._plan, self._loop = plan, loop
        self._rng = plan.stream("machine")
        self._next = settings.first_trigger
        self._marks = 0
        self._paused_until_ns = 0
        self._off_ms = [self._rng.uniform(-1, 1) * settings.clocks_ms / 2 for _ in range(settings.instruments)]
        self._clock: dict[int, tuple[float, int]] = {}  # by instrument: how far it is off, until when
        self._dead: dict[int, int] = {}
        self._wrong: dict[int, tuple[int, int]] = {}
        self._no_clock: dict[int, int] = {}
        self._odd: dict[int, tuple[float, int]] = {}  # by instrument: how often it sends anything at all, until when
        count = len(settings.crates)
        self.crates = [Crate(k, list(range(k, settings.instruments, count))) for k in range(count)]
        self._crate_of = {i: crate for crate in self.crates for i in crate.instruments}

    async def run(self) -> None:
        """Make triggers until the end of the plan."""
        settings = self._plan.settings
        end_ns = START_NS + int(settings.duration_s * 1e9)
        period_s = 1 / settings.rate
        while self._loop.now_ns < end_ns:
            if self._loop.now_ns >= self._paused_until_ns:
                self._trigger()
            await asyncio.sleep(period_s)
        # The last ones may still be on their way from the instruments to the crates.
        await asyncio.sleep(0.05)
        for crate in self.crates:
            crate.is_done = True
            crate.arrived.set()

    def _trigger(self) -> None:
        trigger, self._next = self._next, self._next + 1
        # One stream a trigger: what happens to one leaves the others as they are.
        rng = random.Random(f"{self._plan.seed} trigger {self.start} {trigger}")
        now_ns = self._loop.now_ns
        for i in range(self._plan.settings.instruments):
            noise_ns, late_s = rng.randint(-20_000, 20_000), rng.random() ** 4 * 0.03
            is_missing = rng.random() < self._plan.settings.missing or self._dead.get(i, 0) > now_ns
            if is_missing:
                continue
            how_often, until_ns = self._odd.get(i, (0.0, 0))
            if now_ns < until_ns and rng.random() < how_often:
                for _ in range(rng.randint(1, 4)):
                    self._add(self._odd_reading(rng, trigger, i), late_s)
                continue
            off_ms, until_ns = self._clock.get(i, (0.0, 0))
            off_ms = self._off_ms[i] + (off_ms if now_ns < until_ns else 0.0)
            by, until_ns = self._wrong.get(i, (0, 0))
            number = trigger + by if now_ns < until_ns and trigger + by >= 0 else trigger
            reading = Reading(
                self._mark(),
                self.start,
                number,
                i,
                self._loop.utc_ns + noise_ns + int(off_ms * 1e6),
                number != trigger,
                self._no_clock.get(i, 0) <= now_ns,
            )
            self._add(reading, late_s)

    def _mark(self) -> int:
        self._marks += 1
        return MARK | self._marks

    def _add(self, reading: Reading, late_s: float) -> None:
        self.readings[reading.mark] = reading
        self._loop.call_later(late_s, self._arrive, reading)

    def _odd_reading(self, rng: random.Random, trigger: int, instrument: int) -> Reading:
        """A reading with an epoch that is none, that of another time, or that nobody has, and any number."""
        ours = self.start + 1
        epoch = rng.choice((0, 0, ours, max(1, ours - 1), ours + 1, ours + 2, ours + rng.randint(90, 93)))
        number = rng.choice((1, 2, 5, 300, trigger, trigger, trigger + 1, trigger + 3))
        return Reading(self._mark(), self.start, number, instrument, self._loop.utc_ns, True, odd_epoch=epoch)

    def _arrive(self, reading: Reading) -> None:
        crate = self._crate_of[reading.instrument]
        crate.waiting.append(reading)
        crate.arrived.set()

    # --- events -------------------------------------------------------------------------------------------------

    def restart_numbers(self, first: str, by: int, pause_s: float) -> None:
        """The timing system starts again, with another first number."""
        newest = self._next - 1
        firsts = {"zero": 0, "same": newest, "near": newest - by, "far": newest + 100 * by}
        self._next = max(0, firsts[first])
        self.start += 1
        self.starts.append(self.start)
        self._paused_until_ns = self._loop.now_ns + int(pause_s * 1e9)

    def jump(self, by: int) -> None:
        """Numbers are left out."""
        self._next += by

    def clock(self, instrument: int, off_ms: float, for_s: float) -> None:
        """An instrument's clock is off for some time."""
        self._clock[instrument] = (off_ms, self._loop.now_ns + int(for_s * 1e9))

    def odd(self, instrument: int, how_often: float, for_s: float) -> None:
        """An instrument sends readings of any epoch and number in place of its own, so often, for some time."""
        self._odd[instrument] = (how_often, self._loop.now_ns + int(for_s * 1e9))

    def dead(self, instrument: int, for_s: float) -> None:
        """An instrument gives nothing for some time."""
        self._dead[instrument] = self._loop.now_ns + int(for_s * 1e9)

    def no_clock(self, instrument: int, for_s: float) -> None:
        """An instrument's readings come with the time 0 for some time."""
        self._no_clock[instrument] = self._loop.now_ns + int(for_s * 1e9)

    def wrong_number(self, instrument: int, by: int, for_s: float) -> None:
        """An instrument's numbers are off for some time."""
        self._wrong[instrument] = (by, self._loop.now_ns + int(for_s * 1e9))

    def block_of(self, readings: list[Reading]) -> Array:
        """The records of readings."""
        block = np.zeros(len(readings), self.group.record)
        for row, reading in zip(block, readings, strict=True):
            row["trigger"], row["instrument"] = reading.trigger, reading.instrument
            row["time_ns"], row["mark"] = reading.time_ns if reading.is_timed else 0, reading.mark
            if self._plan.settings.epochs:
                row["epoch"] = reading.epoch
        return block


async def run_crate(crate: Crate, machine: Machine, loop: VirtualLoop, sender: SendsReadings) -> None:
    """Send what the instruments give until they give no more, or the crate leaves, and all of it is acknowledged."""
    stream: list[Reading] = []
    crate.streams.append(stream)
    while not (crate.is_over or crate.leaves.is_set()):
        crate.arrived.clear()
        while crate.waiting:
            if crate.stopped_until_ns > loop.now_ns:
                await asyncio.sleep((crate.stopped_until_ns - loop.now_ns) / 1e9)
            readings = [crate.waiting.popleft() for _ in range(min(len(crate.waiting), 64))]
            stream += readings
            await sender.send(machine.block_of(readings))
        if not crate.is_done:
            await crate.arrived.wait()
    await sender.drain_acknowledged(None)


def from_address(address: str, what: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
    """Run something that connects from this address."""
    context = contextvars.copy_context()
    context.run(ADDRESS.set, address)
    coroutine = what()
    return asyncio.get_running_loop().create_task(coroutine, context=context)
