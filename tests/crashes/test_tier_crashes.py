"""kill -9 of daemon and server by turns while hours move down and up, under load, beside readers: all is there, once.

The daemon moves hours down whenever it starts, and somebody moves hours down and up by hand all the time. `make
test-old-readings` kills 4 times under a light load; `make test-tier-crashes` 20 times, with 100 triggers/s of 120
instruments.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from backends.base import Store, StoreUnavailable, Tiered
from backends.ending import end_tasks
from backends.throwaway.base import ThrowawayServer
from daemon.client.sender import Sender
from daemon.core.configuration import load_config
from daemon.core.configuration.database import asked_store_of, store_of
from daemon.tools.drill.load import HOST
from daemon.tools.drill.machine import CHANNELS, GROUP, Machine
from daemon.tools.drill.system import DrillSystem, Target, count_in, running_system
from schemas.batch import Layout
from schemas.queries import Means, Query, Totals, WindowReadings
from schemas.readings import Array
from schemas.wire import Ack
from tests.crashes.test_move_crashes import elsewhere, folder, kind, move_each, rng, see_no_files_left, server, slow
from tests.support.crashing import SETTINGS, ForkedDaemon
from tests.support.kills import KILLS, THOROUGH
from tests.support.lives import Life
from tests.support.places import SLOW
from tests.support.tier_crash_process import live, periods_of

__all__ = ["folder", "kind", "rng", "server", "slow"]

RATE, INSTRUMENTS = (100.0, 120) if THOROUGH else (20.0, 12)
HOUR_NS = 3_600_000_000_000
HOURS = 6
TRIGGERS = 400
"""Of an old hour."""
LAYOUTS = {"postgresql": Layout.ROWS, "mariadb": Layout.ARRAYS}
LASTS_S = 3.0
MOVED_WITHIN_S = 300.0
ANSWERED_WITHIN_S = 60.0
SETTLED_S = 900.0
TIERS = """
[[tiers]]
name = "fast"

[[tiers]]
name = "slow"
{place}
after_days = {after_days}
mib_per_s = 100000
"""


class TieredDaemon(ForkedDaemon):
    """The daemon of a system, with two tiers, and old hours before its load. slow: the second place."""

    def __init__(self, file: Path, folder: Path, *, api_port: int, slow: str) -> None:
        place = f'{"tablespace" if slow == SLOW else "directory"} = "{slow}"'
        file.write_text(file.read_text() + TIERS.format(place=place, after_days=2 / 24))
        super().__init__(file, folder, api_port=api_port)
        self.file = file
        self.old_ns = time.time_ns() // HOUR_NS * HOUR_NS

    async def start(self) -> None:
        """Start it; the first time old hours are sent to it, of the epoch before that of the load."""
        await super().start()
        if self.starts == 1:
            await fill(self.file, self.old_ns)


@dataclass
class Old:
    """Hours that are moved: their readings, and how often somebody has found them whole. end_ns: all ended by then."""

    end_ns: int
    readings: Array
    looks: int = 0

    @property
    def begin_ns(self) -> int:
        return self.end_ns - HOURS * HOUR_NS


def of_old(machine: Machine, end_ns: int) -> WindowReadings:
    return WindowReadings(group=machine.group, start_ns=end_ns - HOURS * HOUR_NS, end_ns=end_ns)


async def fill(file: Path, end_ns: int) -> None:
    """Send old hours."""
    (source,) = load_config(file).config.sources
    sender = await Sender.connect(HOST, source.port, GROUP, ack=Ack.COMMITTED)
    async with sender:
        for hour in range(HOURS):
            block = np.zeros((TRIGGERS, INSTRUMENTS), sender.record)
            block["epoch"], block["instrument"] = 1, np.arange(INSTRUMENTS)
            block["trigger"] = (1 + hour * TRIGGERS + np.arange(TRIGGERS))[:, None]
            block["time_ns"] = end_ns - (HOURS - hour) * HOUR_NS + block["trigger"] * 1_000_000 + block["instrument"]
            for number, name in enumerate(CHANNELS):
                block[name] = -1.0 - block["trigger"] - number / 4
            await sender.send(block.reshape(-1))
        await sender.drain_acknowledged(ANSWERED_WITHIN_S)


class Hand:
    """Somebody who moves old hours, in a process that is killed. moved: how many moves have ended."""

    def __init__(self, file: Path, end_ns: int, slow: str) -> None:
        self.moved = 0
        self._given = file, GROUP, end_ns, slow
        self.start()

    def start(self) -> None:
        self._life: Life | None = Life(live, *self._given)

    def kill(self) -> None:
        if self._life is not None:
            life, self._life = self._life, None
            self.moved += life.end()


async def look_on(store: Store, machine: Machine, old: Old, layout: Layout) -> None:
    """Ask again and again, as a reader does: at each moment all of the old hours is found, and what the ledger has."""
    means = Means(group=machine.group, start_ns=old.begin_ns, end_ns=old.end_ns, step_ns=HOUR_NS)
    while True:
        began_s = time.monotonic()
        try:
            found = await store.ask(means)
            totals = await store.ask(Totals(group=machine.group, within_s=ANSWERED_WITHIN_S))
        except StoreUnavailable:
            await asyncio.sleep(0.05)  # it was killed
            continue
        assert found["count"].tolist() == [TRIGGERS] * HOURS * INSTRUMENTS
        assert totals["stored"].tolist() == totals["arrived" if layout is Layout.ROWS else "triggers"].tolist()
        old.looks += 1
        # A reader like this one takes a processor from the writing, and each look is longer than the one before.
        await asyncio.sleep(time.monotonic() - began_s)


async def see_whole(store: Store, machine: Machine, old: Old) -> None:
    """See that each reading of the old hours is there as it was, and once."""

    async def ask() -> Array:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            while True:
                with contextlib.suppress(StoreUnavailable):
                    return await store.ask(of_old(machine, old.end_ns))

    np.testing.assert_array_equal(await ask(), old.readings)


class Newer:
    """A store that is asked for readings since a moment alone."""

    def __init__(self, store: Store, since_ns: int) -> None:
        self._store = store
        self._since_ns = since_ns

    async def ask(self, query: Query) -> Array:
        if isinstance(query, WindowReadings):
            end_ns = max(query.end_ns, self._since_ns)
            query = replace(query, start_ns=max(query.start_ns, self._since_ns), end_ns=end_ns)
        return await self._store.ask(query)


@asynccontextmanager
async def tiered_system(
    server: ThrowawayServer, layout: Layout, schema: str, slow: str, folder: Path, seed: int
) -> AsyncIterator[DrillSystem]:
    """A daemon under load with two tiers. The first run is that of the old hours."""
    dsn = await asyncio.to_thread(server.start)
    machine = Machine(instruments=INSTRUMENTS, rate=RATE, start_ns=time.time_ns(), absent=0.05)
    machine.runs.restart(1)
    daemon = partial(TieredDaemon, slow=slow)
    target = Target(settings={"dsn": dsn, "layout": layout.value, "partition": "hour"}, server=server)
    async with (
        elsewhere(dsn, schema, slow, GROUP),
        running_system(target, machine, folder, schema=schema, settings=SETTINGS, seed=seed, daemon=daemon) as system,
    ):
        yield system


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon acknowledges nothing until all is committed that was in the journal at its start: here that is much."""
    monkeypatch.setattr("daemon.tools.drill.system.SETTLED_S", SETTLED_S)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_daemon_and_server_are_killed_by_turns_while_hours_move(
    server: ThrowawayServer, kind: str, schema: str, slow: str, tmp_path: Path, rng: random.Random
) -> None:
    print(f"{kind}: {KILLS} kills under {RATE:g} triggers/s of {INSTRUMENTS} instruments")  # noqa: T201 - the log
    async with tiered_system(server, LAYOUTS[kind], schema, slow, tmp_path, rng.randrange(2**32)) as system:
        machine, daemon = system.machine, system.daemon
        assert isinstance(daemon, TieredDaemon)
        looking = asked_store_of(load_config(daemon.file), give_up_s=ANSWERED_WITHIN_S)
        old = Old(end_ns=daemon.old_ns, readings=await looking.ask(of_old(machine, daemon.old_ns)))
        assert len(old.readings) == HOURS * TRIGGERS * INSTRUMENTS
        reader = asyncio.create_task(look_on(looking, machine, old, LAYOUTS[kind]))
        hand = await asyncio.to_thread(Hand, daemon.file, old.end_ns, slow)
        try:
            for number in range(KILLS):
                # Every other time all is committed before, or a slow machine would have all of it at the end.
                if number % 2:
                    await system.recover()
                await system.under_load(0.0, LASTS_S)
                if number % 2:
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                else:
                    await daemon.kill()
                    await asyncio.to_thread(hand.kill)
                    await asyncio.to_thread(hand.start)
                    await daemon.start()
                await see_whole(looking, machine, old)
                if reader.done():
                    reader.result()
                print(_line(number, hand.moved, old, system), flush=True)  # noqa: T201 - the log
        finally:
            await asyncio.to_thread(hand.kill)
            await end_tasks(reader)
        if not reader.cancelled():
            reader.result()
        await system.recover()
        await system.load.finish(SETTLED_S)
        await daemon.stop()
        await daemon.close()
        load, newer = system.load, Newer(looking, old.end_ns)
        count = await count_in(newer, machine, load.marked(acknowledged=False), load.marked(acknowledged=True))
        assert load.sent == load.acknowledged == count.found
        assert (load.refused, count.faults) == (0, {})
        assert hand.moved
        assert old.looks
        await see_it_end(system, daemon, old, slow, looking)
        await looking.close()
        said = (
            f"{count.found} readings found, {load.acknowledged} acknowledged, {count.lost} lost, {count.doubled} twice"
        )
        print(f"{said}; {hand.moved} moves by hand, {old.looks} looks: all of the old hours")  # noqa: T201 - the log


def _line(number: int, moved: int, old: Old, system: DrillSystem) -> str:
    victim = "server" if number % 2 else "daemon"
    return f"kill {number + 1} ({victim}): {moved} moves, {old.looks} looks, {system.load.acknowledged} acknowledged"


async def see_it_end(system: DrillSystem, daemon: TieredDaemon, old: Old, slow: str, looking: Store) -> None:
    """See that the next start goes on with what was begun, or clears it up, and that nothing else is left over."""
    loaded = load_config(daemon.file)
    store = store_of(loaded)
    assert isinstance(store, Tiered)
    await daemon.start()
    periods = await periods_of(store, GROUP, old.end_ns)
    assert len(periods) == HOURS

    async def is_done() -> bool:
        lie = {each.name: each.place for each in (await store.partitions())[GROUP]}
        # The others ended less than two hours ago.
        return not await store.moves() and all(lie[each.name] == slow for each in periods[:-2])

    async with asyncio.timeout(MOVED_WITHIN_S):
        while not await is_done():  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.5)
    await daemon.stop()
    await move_each(store, periods, None)
    async with elsewhere(loaded.config.database.dsn, loaded.config.database.schema_name, slow, GROUP) as places:
        await see_no_files_left(places)
    await see_whole(looking, system.machine, old)
    await store.close()
