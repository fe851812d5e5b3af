"""The machine of a drill, which defines every reading, and a daemon of it that is killed and started again."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from daemon.client.api.asking import DaemonGone, fetch
from daemon.client.api.reach import Reach
from daemon.core.process.children import Child
from schemas.api.status import GroupStatus
from schemas.config import GroupConfig
from schemas.readings import Array, InstrumentGroup
from schemas.states import DaemonState

GROUP = "drill"
CHANNELS = ("top_in", "bot_in", "bot_out", "top_out")
INSTRUMENT = 2.0**-16
"""An instrument's number in the values of its channels."""


@dataclass(frozen=True, kw_only=True)
class ClockStep:
    """The clock of one instrument is put forward by `by_ns`, from an event on."""

    instrument: int
    event: int
    by_ns: int


class Runs:
    """The restarts of the timing system: from each on, triggers are numbered from 1 again.

    firsts: the first event of each run, int64.
    """

    def __init__(self) -> None:
        self.firsts = np.array([1], np.int64)

    def restart(self, event: int) -> None:
        """Let a run begin with an event that nothing was sent of."""
        self.firsts = np.append(self.firsts, event)

    def of(self, event: Array | int) -> Array:
        """The run of an event, from 0 on."""
        return np.asarray(np.searchsorted(self.firsts, event, side="right") - 1)

    def trigger(self, event: Array | int) -> Array:
        """The trigger number of an event, from 1 on."""
        return np.asarray(event - self.firsts[self.of(event)] + 1, np.int64)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Instruments that take readings at events, event 1 first; the triggers of a run number its events.

    rate: events a second. start_ns: when event 0 would have been, in ns since 1970-01-01 UTC.
    absent: the part of the readings that is never taken; at every event at least one is.
    epochs: whether readings carry the number of their run, from 1 on, as their epoch.
    slow: number of an instrument whose readings come `slow_s` seconds after those of the others; None for none.
    """

    instruments: int
    rate: float
    start_ns: int
    absent: float = 0.0
    epochs: bool = True
    slow: int | None = None
    slow_s: float = 0.0
    clock_step: ClockStep | None = None
    runs: Runs = field(default_factory=Runs)

    @property
    def section(self) -> dict[str, Any]:
        """The group as a section of a configuration."""
        return {"name": GROUP, "count": self.instruments, "channels": [{"name": name} for name in CHANNELS]}

    @property
    def group(self) -> InstrumentGroup:
        """The group as the daemon knows it."""
        return GroupConfig.model_validate(self.section).group()

    def taken(self, event: Array | int, instrument: Array) -> Array:
        """Which readings are taken; bool, of the common shape of both."""
        event, instrument = np.asarray(event, np.uint64), np.asarray(instrument, np.uint64)
        # A hash of both (the finaliser of splitmix64), so that nothing has to be remembered.
        mixed = event * np.uint64(self.instruments) + instrument
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        part = (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64
        return np.asarray((part >= self.absent) | (instrument == event % np.uint64(self.instruments)), bool)

    def fill(self, block: Array, event: Array | int, instrument: Array) -> None:
        """Write readings into a block of the group's record dtype, all of shape (readings,)."""
        block["trigger"] = self.runs.trigger(event)
        block["instrument"] = instrument
        block["epoch"] = self.runs.of(event) + 1 if self.epochs else 0
        block["time_ns"] = self.times(event, instrument)
        for number, name in enumerate(CHANNELS):
            block[name] = self.values(event, instrument, number)

    def times(self, event: Array | int, instrument: Array) -> Array:
        """The instruments' own timestamps, int64, in ns since 1970-01-01 UTC."""
        times = self.start_ns + np.asarray(event, np.int64) * round(1e9 / self.rate) + np.zeros_like(instrument)
        if self.clock_step is not None:
            step = self.clock_step
            times = times + np.where((instrument == step.instrument) & (event >= step.event), step.by_ns, 0)
        return np.asarray(times, np.int64)

    def values(self, event: Array | int, instrument: Array, channel: int) -> Array:
        """The values of a channel, float64; every double of them is exact."""
        return np.asarray(event, np.float64) + np.asarray(instrument, np.float64) * INSTRUMENT + channel / 4

    def events(self, found: Array) -> Array:
        """The events that the values of the first channel name, int64; 0 where they name none."""
        values = found[CHANNELS[0]] - found["instrument"].astype(np.float64) * INSTRUMENT
        whole = np.isfinite(values) & (values == np.floor(values)) & (values >= 1) & (values < 2**53)
        return np.where(whole, values, 0).astype(np.int64)

    def matches(self, event: Array, found: Array) -> Array:
        """Which of the readings found have the time and the values that were sent; bool, shape (readings,)."""
        instrument = found["instrument"].astype(np.int64)
        right = found["time_ns"] == self.times(event, instrument)
        for number, name in enumerate(CHANNELS):
            right &= found[name] == self.values(event, instrument, number)
        return np.asarray(right, bool)


T = TypeVar("T")

READY_S = 120.0
LOOK_S = 0.02


class DrillFailed(Exception):
    """A drill could not be carried out; the message is one line that says why."""


class DaemonProcess:
    """`triggerlog run` on a configuration, one process after the other, each with a log of its own.

    url: address of its control API.
    """

    def __init__(self, file: Path, folder: Path, *, api_port: int) -> None:
        self.starts = 0
        self.url = f"http://127.0.0.1:{api_port}"
        self._file = file
        self._folder = folder
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._child is not None
        return self._child.pid

    async def start(self) -> None:
        """Start it, and wait until it takes readings.

        Raises:
            DrillFailed: it ended, or takes none.
        """
        self.starts += 1
        log = self._folder / f"daemon-{self.starts}.log"
        self._child = await Child.start("daemon", [sys.executable, "-m", "daemon", "run", str(self._file)], log)
        try:
            async with asyncio.timeout(READY_S):
                while True:
                    if await self._is_running():
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise DrillFailed(f"the daemon takes no readings after {READY_S:g} s; see {log}") from None

    @property
    def said(self) -> str:
        """The log of the process that was started last."""
        log = self._folder / f"daemon-{self.starts}.log"
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def check(self) -> None:
        """Check that it runs, where it was started and not stopped.

        Raises:
            DrillFailed: it has ended.
        """
        if self._child is not None and not self._child.running:
            raise DrillFailed(self._child.ending())

    async def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone."""
        assert self._child is not None
        await self._child.kill()

    async def stop(self) -> None:
        """Ask it to end, which commits what it has.

        Raises:
            DrillFailed: it did not end by itself, or with an exit code.
        """
        child = self._child
        if child is None:
            return
        self._child = None
        if not child.running:
            raise DrillFailed(child.ending())
        if not await child.stop() or child.exit_code:
            raise DrillFailed(child.ending())

    async def close(self) -> None:
        """Kill the process if it still runs."""
        if self._child is not None and self._child.running:
            await self._child.kill()

    async def group(self) -> GroupStatus:
        """The status of its one group.

        Raises:
            DaemonGone: it does not answer.
        """
        (group,) = (await fetch(Reach(url=self.url, token=None))).groups.values()
        return group

    async def _is_running(self) -> bool:
        assert self._child is not None
        if not self._child.running:
            raise DrillFailed(self._child.ending())
        try:
            status = await fetch(Reach(url=self.url, token=None))
        except DaemonGone:  # its API does not listen yet
            return False
        return status.state is not DaemonState.STARTING


async def until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float,
    *,
    progress: Callable[[], object] = lambda: None,
) -> T:
    """Wait until something holds that another process does, and return what it gave.

    Args:
        condition: holds when it gives something true.
        what: the condition in words.
        timeout_s: how long it may take in seconds, from the last change of `progress` on.
        progress: what changes while the other process is at work on it, however slow its machine is.

    Raises:
        DrillFailed: not in time.
    """
    loop = asyncio.get_running_loop()
    seen = progress()
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            while True:
                found = condition()
                if found:
                    return found
                if (now := progress()) != seen:
                    seen = now
                    deadline.reschedule(loop.time() + timeout_s)
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise DrillFailed(f"not within {timeout_s:g} s: {what}") from None


@contextmanager
def work_folder(console: Console, name: str, content: str, *failures: type[Exception]) -> Iterator[Path]:
    """Make a folder for everything; it stays after a failure, and what is in it is said."""
    # The server of root runs under another account, which must pass it, and all folders above it.
    folder = Path(tempfile.mkdtemp(prefix=f"triggerlog-{name}-"))
    folder.chmod(0o711)
    try:
        yield folder
    except failures:
        console.print(f"{content} in {folder}", highlight=False)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
