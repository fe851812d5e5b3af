"""The soak: an hour of 100 triggers/s of 120 instruments, with kills and outages at random (`make soak`).

TRIGGERLOG_SOAK_S makes it shorter. In the first half the daemon and its database are killed, stopped and frozen; in the
second the daemon is left alone, so that what it holds can be told flat or not: in the first half of that with outages,
in the rest without. Nothing may be lost or doubled. The report is printed, and kept as build/soak.json.
"""

import asyncio
import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.tools.drill.machine import Machine
from daemon.tools.drill.system import DrillSystem, Target, running_system

REPORT = Path(__file__).parents[2] / "build" / "soak.json"
SECONDS = float(os.environ.get("TRIGGERLOG_SOAK_S") or 3600)
INSTRUMENTS = 120
RATE = 100.0
SETTINGS = {"assembly": {"window": 8192}}
"""What is kept in mind of closed triggers is full after 41 s in the place of 5 minutes: then it cannot grow."""

GROWTH_MIB = 16.0
GROWTH_FILES = 2
"""More than this in the stretch without kills is no noise of an allocator, or of a connection more or less."""


@dataclass(frozen=True)
class Sample:
    """What the daemon held. at_s: since the beginning. waits: readings sent and not acknowledged."""

    at_s: float
    pid: int
    memory_mib: float
    files: int
    threads: int
    waits: int


class Watch:
    """Looks at the daemon once a second."""

    def __init__(self, system: DrillSystem) -> None:
        self.samples: list[Sample] = []
        self._scene = system
        self._began = time.monotonic()

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(1)

    def _look(self) -> None:
        load, pid = self._scene.load, self._scene.daemon.pid
        try:
            process = psutil.Process(pid)
            held = process.memory_info().rss / 2**20, process.num_fds(), process.num_threads()
        except psutil.NoSuchProcess:  # killed just now
            return
        self.samples.append(Sample(self.now_s, pid, *held, load.sent - load.acknowledged))

    def between(self, start_s: float, end_s: float) -> list[Sample]:
        return [sample for sample in self.samples if start_s <= sample.at_s < end_s]


async def stop_server(system: DrillSystem) -> None:
    await asyncio.to_thread(system.server.stop)
    await system.under_load(1, 10)
    await asyncio.to_thread(system.server.start)
    await system.recover()


async def freeze_server(system: DrillSystem) -> None:
    system.server.freeze()
    await system.under_load(1, 6)
    system.server.thaw()
    await system.recover()


KILLS = (DrillSystem.kill_daemon, DrillSystem.kill_server)
OUTAGES = (stop_server, freeze_server)


async def go_wrong(
    system: DrillSystem, watch: Watch, until_s: float, ways: tuple[Callable[[DrillSystem], Awaitable[None]], ...]
) -> Counter[str]:
    """Let something go wrong again and again, each time after a pause; count what."""
    done: Counter[str] = Counter()
    while watch.now_s < until_s:
        way = system.random.choice(ways)
        await way(system)
        done[way.__name__] += 1
        await system.under_load(1, 15)
    return done


@pytest.mark.soak
@pytest.mark.skipif(not os.environ.get("TRIGGERLOG_SOAK"), reason="an hour; `make soak` runs it")
@pytest.mark.timeout(0)
async def test_nothing_is_lost_and_nothing_grows(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("TRIGGERLOG_SOAK_SEED") or random.randrange(2**32))
    server = ThrowawayPostgresql(state_dir)
    target = Target(settings={"dsn": await asyncio.to_thread(server.start)}, server=server)
    machine = Machine(instruments=INSTRUMENTS, rate=RATE, start_ns=time.time_ns())
    try:
        async with running_system(target, machine, tmp_path, schema="soak", settings=SETTINGS, seed=seed) as system:
            watch = Watch(system)
            watching = asyncio.create_task(watch.run())
            happened = await go_wrong(system, watch, SECONDS / 2, KILLS + OUTAGES)
            alone_s = watch.now_s
            happened += await go_wrong(system, watch, SECONDS * 3 / 4, OUTAGES)
            await system.under_load(max(0.0, SECONDS - watch.now_s))
            ended_s = watch.now_s
            watching.cancel()
            count = await system.finish()
            report = {
                "seed": seed,
                "seconds": round(ended_s),
                "triggers_a_second": RATE,
                "instruments": INSTRUMENTS,
                "happened": dict(happened),
                "daemons": system.daemon.starts,
                "sent": system.load.sent,
                "acknowledged": system.load.acknowledged,
                "refused": system.load.refused,
                **asdict(count),
                "recovered_s_worst": round(max(each.first_s for each in system.recoveries), 2),
                "drained_s_worst": round(max(each.drained_s for each in system.recoveries), 2),
                "alone": alone(watch, alone_s, ended_s),
            }
    finally:
        server.thaw()
        await asyncio.to_thread(server.stop)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({**report, "samples": [asdict(sample) for sample in watch.samples]}, indent=1))
    with capsys.disabled():
        print(f"\n{json.dumps(report, indent=1)}\nkept with every sample in {REPORT}")  # noqa: T201
    assert count.faults == {}
    assert report["refused"] == 0
    assert report["sent"] == report["acknowledged"] == count.found
    assert report["alone"]["memory_mib"]["grew"] < GROWTH_MIB
    assert report["alone"]["files"]["grew"] <= GROWTH_FILES


def alone(watch: Watch, start_s: float, end_s: float) -> dict[str, dict[str, float]]:
    """What the daemon held in the stretch in which it was left alone: medians of its quarters, and how much it grew.

    From the second quarter on, that is: caches and pools fill in the first.
    """
    bounds = np.linspace(start_s, end_s, 5)
    quarters = [watch.between(*pair) for pair in itertools.pairwise(bounds)]
    assert len({sample.pid for quarter in quarters for sample in quarter}) == 1, "one daemon"
    found = {}
    for name in ("memory_mib", "files", "threads"):
        medians = [float(np.median([getattr(sample, name) for sample in quarter])) for quarter in quarters]
        rest = [sample for quarter in quarters[1:] for sample in quarter]
        slope = np.polyfit([sample.at_s for sample in rest], [getattr(sample, name) for sample in rest], 1)[0]
        found[name] = {
            "quarters": [round(median, 1) for median in medians],
            "grew": round(medians[3] - medians[1], 2),
            "an_hour": round(float(slope) * 3600, 2),
        }
    return found
