"""The readings of one group: values that look like an accelerator's, sent when they are due, and booked."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Protocol

import numpy as np

from daemon.tools.simulate.plan import (
    COPY,
    LATE,
    SLIPPED,
    STUCK,
    SWAPPED,
    Numbering,
    SimulateSettings,
    chunks,
    clock_steps_ns,
    dealt,
    rounds,
    shares,
)
from daemon.tools.simulate.report import Account, GroupReport
from schemas.readings import Array
from schemas.wire import Answer

ROUND_BYTES = 1 << 20
"""What is sent in one round when nothing is waited for."""

ROUNDS_A_SECOND = 1000
"""Most rounds a second at a given rate; above it several triggers go together."""


class Link(Protocol):
    """What a `Sender` and a `DatagramSender` have in common."""

    @property
    def free(self) -> bool:
        """Whether more may be handed over."""

    @property
    def sent(self) -> int:
        """Readings handed over."""

    @property
    def acknowledged(self) -> int:
        """Readings dealt with for good."""

    @property
    def refused(self) -> int:
        """Readings refused for good."""

    reconnects: int
    sent_again: int

    def put(self, block: Array) -> None:
        """Hand over without waiting."""

    async def ready(self) -> None:
        """Wait until more may be handed over."""

    async def finish(self, timeout_s: float | None) -> None:
        """Wait for acknowledgements and close."""

    async def close(self) -> None:
        """Close at once."""


class GroupStream:
    """Sends the readings of one group over its links."""

    def __init__(self, settings: SimulateSettings, layout: Answer, links: Sequence[Link], *, salt: int) -> None:
        self._settings = settings
        self._layout = layout
        self._links = links
        self._salt = salt
        self._numbering = Numbering.of(settings)
        self._kinds = dict.fromkeys((LATE, SWAPPED, STUCK, SLIPPED), 0)
        self._newest = -1
        self._begun = self._ended = 0.0
        self.account = Account(layout.instruments, keep=settings.account is not None)

    async def run(self, begun: float, begun_ns: int) -> None:
        """Send until the settings' end. `begun` is the loop's clock at the start (s), `begun_ns` the wall's (ns)."""
        self._begun = self._ended = begun
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.duration_s if not self._settings.rate else None):
                await (self._regular(begun_ns) if self._settings.regular else self._planned(begun_ns))

    async def _regular(self, begun_ns: int) -> None:
        settings, size = self._settings, self._layout.instruments
        if settings.rate:
            together = max(1, round(settings.rate / ROUNDS_A_SECOND))
        else:
            together = max(1, ROUND_BYTES // (size * self._layout.record.itemsize))
        bank = record_bank(self._layout, seed=settings.seed, multiple_of=together)
        offsets = begun_ns + clock_offsets(size, seed=settings.seed)
        edges = np.searchsorted(dealt(size, len(self._links)), np.arange(len(self._links) + 1))
        start = 0
        while settings.end is None or start < settings.end:
            index = np.arange(start, start + together)[: None if settings.end is None else settings.end - start]
            block = bank[start % len(bank) :][: len(index)]
            times = self._numbering.time_ns(index)
            block["trigger"] = self._numbering.trigger(index)[:, None]
            block["epoch"] = self._numbering.epoch(index)[:, None]
            block["time_ns"] = times[:, None] + offsets
            await self._due(int(times[-1]))
            for link, (a, b) in enumerate(pairwise(edges)):
                self._links[link].put(block[:, a:b].reshape(-1))
            self._ended = asyncio.get_running_loop().time()
            self.account.add_whole(start, start + len(index))
            self.account.settle(start)
            start += len(index)
            await self._sent(self._links)

    async def _planned(self, begun_ns: int) -> None:
        settings, size = self._settings, self._layout.instruments
        bank = record_bank(self._layout, seed=settings.seed)
        offsets = begun_ns + clock_offsets(size, seed=settings.seed)
        for chunk in chunks(settings, instruments=size, connections=len(self._links), salt=self._salt):
            readings = chunk.readings
            block = bank[readings["index"] % len(bank), readings["instrument"]]
            block["trigger"] = self._numbering.trigger(readings["target"])
            block["epoch"] = self._numbering.epoch(readings["target"])
            block["time_ns"] = self._numbering.time_ns(readings["index"]) + offsets[readings["instrument"]]
            block["time_ns"] += clock_steps_ns(settings, self._numbering, readings)
            for a, b in rounds(readings):
                await self._due(int(readings["due_ns"][b - 1]))
                await self._round(readings[a:b], block[a:b])
            self.account.settle(chunk.settled)

    async def _round(self, readings: Array, block: Array) -> None:
        links = []
        for a, b in shares(readings):
            link = self._links[readings["connection"][a]]
            link.put(block[a:b])
            links.append(link)
        # Counted by index: an instrument that slipped names triggers that are still to come.
        if int(readings["index"].max()) > self._newest:
            self._newest = int(readings["index"].max())
            self._ended = asyncio.get_running_loop().time()
        # Counted before waiting: the account is exact also when the stream is cancelled here.
        self.account.add(readings["target"], readings["instrument"])
        kind = readings["kind"]
        for what in self._kinds:
            self._kinds[what] += int(np.count_nonzero((kind & (what | COPY)) == what))
        for what in (STUCK, SLIPPED):
            self._kinds[what] += int(np.count_nonzero((kind & what != 0) & (kind & COPY != 0)))
        await self._sent(links)

    async def _due(self, due_ns: int) -> None:
        if self._settings.rate:
            wait = self._begun + due_ns / 1e9 - asyncio.get_running_loop().time()
            if wait > 0:
                await asyncio.sleep(wait)

    async def _sent(self, links: Iterable[Link]) -> None:
        # Gives acknowledgements a turn even when nothing has to wait.
        await asyncio.sleep(0)
        for link in links:
            if not link.free:
                await link.ready()

    def report(self) -> GroupReport:
        """Report what was handed over and acknowledged until now."""
        account, tcp = self.account, self._settings.protocol == "tcp"
        # N triggers at a rate take N periods, though the last one is sent at the beginning of its own.
        elapsed = max(self._ended - self._begun + (1 / self._settings.rate if self._settings.rate else 0), 1e-9)
        expected = account.triggers * self._layout.instruments
        return GroupReport(
            group=self._layout.group,
            instruments=self._layout.instruments,
            connections=len(self._links),
            triggers=account.triggers,
            expected=expected,
            sent=account.sent,
            distinct=account.distinct,
            missing=expected - account.distinct,
            duplicated=account.sent - account.distinct,
            late=self._kinds[LATE],
            out_of_order=self._kinds[SWAPPED],
            stuck=self._kinds[STUCK],
            slipped=self._kinds[SLIPPED],
            acknowledged=sum(link.acknowledged for link in self._links) if tcp else None,
            refused=sum(link.refused for link in self._links) if tcp else None,
            reconnects=sum(link.reconnects for link in self._links),
            sent_again=sum(link.sent_again for link in self._links),
            elapsed_s=elapsed,
            triggers_a_second=account.triggers / elapsed,
            readings_a_second=account.sent / elapsed,
        )


BANK_BYTES = 4 << 20
"""Memory for records made in advance; they are used again and again with new trigger numbers and times."""

TUNE = 5.31
AMPLITUDE = 1.5
NOISE = 0.01
INTEGER_SCALE = 0.3
"""An orbit of TUNE oscillations round the ring, AMPLITUDE (mm, V, ...) high, NOISE of it random. Integer channels read
like the counts of a button: around the middle of their range (at most 1e6), this part of it up and down a unit."""


def record_bank(layout: Answer, *, seed: int, multiple_of: int = 1) -> Array:
    """Make records in advance, shape (triggers, instruments), of `layout.record`; trigger and time_ns are 0.

    The number of triggers is a multiple of `multiple_of`, and going round and round in them shows no step.
    """
    size = layout.instruments
    triggers = max(1, min(512, BANK_BYTES // (size * layout.record.itemsize)) // multiple_of) * multiple_of
    rng = np.random.default_rng([seed, size])
    bank = np.zeros((triggers, size), layout.record)
    bank["instrument"] = np.arange(size)
    where = 2 * np.pi * np.arange(size) / size
    when = 2 * np.pi * np.arange(triggers)[:, None] / triggers
    beta = 1 + 0.5 * np.cos(6 * where)
    channels = (layout.record.names or ())[4:]
    for number, channel in enumerate(channels):
        phase = TUNE * where + np.pi / 2 * number
        orbit = np.sqrt(beta) * (np.cos(phase) + 0.2 * np.sin(when + phase)) / 1.5
        bank[channel] = _as(layout.record[channel], AMPLITUDE * (orbit + NOISE * rng.standard_normal(orbit.shape)))
    return bank


def clock_offsets(instruments: int, *, seed: int) -> Array:
    """How far each instrument's clock is ahead of the trigger, in ns: up to 2 us, as after a good synchronisation."""
    return np.random.default_rng([seed, instruments, 1]).integers(0, 2000, instruments)


def _as(dtype: np.dtype, values: Array) -> Array:
    if dtype.kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    middle = min(limits.max / 2, 1e6)
    return np.clip(middle * (1 + INTEGER_SCALE * values), limits.min, limits.max).astype(dtype)
