"""The backlog over a real journal: in order, nothing lost, nothing twice, and memory bounded."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.columns.filling import readings_in
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.backlog import backlog as module
from daemon.pipeline.durable_state import DurableState, States
from daemon.pipeline.journal import Amount, Journal
from schemas.batch import ClosedBlock
from tests.daemon.pipeline.journal.test_journal import GROUP, at, block_of, flip, same, segments
from tests.support.disks import REAL, FaultyDisk, faulty

WITHIN_S = 20.0
BLOCK_BYTES = max(block_of(number).nbytes for number in range(1, 20))


class Opened:
    """A backlog with its journal, and what it called."""

    def __init__(
        self, folder: Path | None, *, position: int = 0, memory: int, outside: Outside = REAL, **limits: int
    ) -> None:
        self.calls: list[bool] = []
        self.spooled: list[int] = []
        journal, recovered = None, Amount()
        if folder is not None:
            journal = Journal(folder, GROUP, outside, **{"max_bytes": 2**30, "segment_bytes": 2**16, **limits})
            recovered = journal.open(at(folder, position)).amount
        self.backlog = Backlog(
            journal,
            position=position,
            state=DurableState(),
            newest=DurableState(),
            states=States(),
            clock=REAL.clock,
            recovered=recovered,
            max_memory=memory,
            announcements=Announcements(GROUP.name, Events()),
            full=self.calls.append,
            spooled=self.spooled.append,
        )
        self.backlog.start()

    @property
    def written(self) -> int:
        """The last number that is in the journal's files."""
        assert self.backlog._journal is not None
        return self.backlog._journal.state.written

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():  # noqa: ASYNC110 - what is waited for is told by another thread
                await asyncio.sleep(0.002)

    async def drained(self, count: int) -> list[int]:
        """Take and settle so many blocks; return their numbers, and see that each is the block it should be."""
        numbers = []
        async with asyncio.timeout(WITHIN_S):
            while len(numbers) < count:
                taken = await self.backlog.take(4 * BLOCK_BYTES)
                numbers += [waiting.number for waiting in taken]
                self.backlog.settle(len(taken))
        return numbers


@asynccontextmanager
async def opened(folder: Path | None, *, outside: Outside = REAL, **settings: int) -> AsyncIterator[Opened]:
    here = Opened(folder, outside=outside, **{"memory": 10 * BLOCK_BYTES, **settings})
    try:
        yield here
    finally:
        await here.backlog.close(WITHIN_S, has_it)


async def test_while_the_database_keeps_up_all_is_in_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        first = here.backlog._last + 1
        for number in range(1, 31):
            here.backlog.put([block_of(number)])
            (waiting,) = await here.backlog.take(2**20)
            assert waiting.put_ns is not None
            assert same(waiting.block, block_of(number))
            assert here.backlog.settle(1) == 1
        assert here.backlog.waiting == Amount()
        assert here.backlog._last == first + 29
        assert here.calls == []


async def test_beyond_its_share_of_memory_it_waits_on_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        count = 300
        for number in range(1, count + 1):
            here.backlog.put([block_of(number)])
            assert here.backlog.memory_bytes <= 11 * BLOCK_BYTES
        assert here.backlog.waiting.blocks == count
        assert here.backlog.waiting.readings == sum(readings_in(block_of(k)) for k in range(1, count + 1))
        seen = []
        async with asyncio.timeout(WITHIN_S):
            while len(seen) < count:
                taken = await here.backlog.take(3 * BLOCK_BYTES)
                seen += [waiting.block for waiting in taken]
                here.backlog.settle(len(taken))
                assert here.backlog.memory_bytes <= 17 * BLOCK_BYTES
        assert all(same(block, block_of(k)) for k, block in enumerate(seen, 1))
        assert here.backlog.waiting == Amount()
        assert here.calls == []


async def test_a_full_journal_holds_the_senders_back(tmp_path: Path) -> None:
    async with opened(tmp_path, max_bytes=60_000, segment_bytes=8_192) as here:
        first = here.backlog._last + 1
        put = 0
        async with asyncio.timeout(WITHIN_S):
            while not here.backlog.is_full:
                put += 1
                here.backlog.put([block_of(put)])
                await asyncio.sleep(0.001)
        assert here.backlog.problem is not None
        assert put > 30
        assert await here.drained(put) == list(range(first, first + put))
        await here.until(lambda: not here.backlog.is_full)
        assert here.calls == [True, False]
        assert here.backlog.waiting == Amount()


async def test_what_a_daemon_left_is_committed_by_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        first = here.backlog._last + 1
        for number in range(1, 101):
            here.backlog.put([block_of(number)])
        await here.drained(20)
    async with opened(tmp_path, position=first + 19) as again:
        assert again.backlog.waiting.blocks == 80
        again.backlog.put([block_of(7)])
        numbers = []
        mine = 0
        async with asyncio.timeout(WITHIN_S):
            while len(numbers) < 81:
                taken = await again.backlog.take(2**20)
                numbers += [waiting.number for waiting in taken]
                mine += again.backlog.settle(len(taken))
        assert numbers[:80] == list(range(first + 20, first + 100))
        assert numbers[80] > numbers[79]
        assert mine == 1


async def test_what_cannot_be_read_any_more_is_told_and_stops_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, segment_bytes=2**20) as here:
        for number in range(1, 61):
            here.backlog.put([block_of(number)])
        await here.until(lambda: here.written == here.backlog._last)
        (path,) = segments(tmp_path)
        flip(path, path.stat().st_size - 100, 4)
        numbers = await here.drained(59)
        here.backlog.put([block_of(99)])
        (last,) = await here.backlog.take(2**20)
        assert same(last.block, block_of(99))
        assert numbers[-1] == last.number - 2
        assert here.backlog.lost == Amount(blocks=1, triggers=3, readings=readings_in(block_of(60)))


async def test_without_a_journal_memory_is_the_limit() -> None:
    async with opened(None) as here:
        put = 0
        while not here.backlog.is_full:
            put += 1
            here.backlog.put([block_of(put)])
        assert 9 <= put <= 40
        assert await here.drained(put) == list(range(1, put + 1))
        assert here.calls == [True, False]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), memory=st.integers(1, 12), disk=st.sampled_from([40_000, 10**9]))
def test_any_order_of_events_loses_and_repeats_nothing(tmp_path: Path, seed: int, memory: int, disk: int) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path / str(len(list(tmp_path.iterdir())))

    async def go() -> None:
        async with opened(folder, memory=memory * BLOCK_BYTES, max_bytes=disk, segment_bytes=8_192) as here:
            first, put, seen = here.backlog._last + 1, 0, 0
            for _ in range(60):
                if rng.random() < 0.6 and not here.backlog.is_full:
                    count = int(rng.integers(1, 5))
                    here.backlog.put([block_of(put + k) for k in range(1, count + 1)])
                    put += count
                elif seen < put:
                    taken = await asyncio.wait_for(here.backlog.take(int(rng.integers(1, 5)) * BLOCK_BYTES), WITHIN_S)
                    for waiting in taken:
                        seen += 1
                        assert waiting.number == first + seen - 1
                        assert same(waiting.block, block_of(seen))
                    here.backlog.settle(len(taken))
                assert here.backlog.waiting.blocks == put - seen
            assert len(await here.drained(put - seen)) == put - seen
            assert here.backlog.waiting == Amount()

    asyncio.run(go())


async def test_what_the_database_lost_again_comes_again(tmp_path: Path) -> None:
    async with opened(tmp_path, memory=100 * BLOCK_BYTES) as here:
        first = here.backlog._last + 1
        here.backlog.hold_for(60.0)
        here.backlog.put([block_of(number) for number in range(1, 21)])
        taken = await here.backlog.take(2**30)
        assert here.backlog.settle(15) == 15
        back = here.backlog.rewind(first + 4, DurableState())
        assert back == Amount(
            blocks=10,
            triggers=sum(waiting.block.triggers for waiting in taken[5:15]),
            readings=sum(waiting.readings for waiting in taken[5:15]),
        )
        assert here.backlog.waiting.blocks == 15
        numbers, mine = [], 0
        async with asyncio.timeout(WITHIN_S):
            while len(numbers) < 15:
                for waiting in await here.backlog.take(4 * BLOCK_BYTES):
                    assert same(waiting.block, block_of(waiting.number - first + 1))
                    numbers.append(waiting.number)
                    mine += here.backlog.settle(1)
        assert numbers == list(range(first + 5, first + 20))
        assert mine == 5  # the other ten were acknowledged before
        assert here.backlog.lost == Amount()


async def test_what_is_safe_in_the_database_is_held_no_longer(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        here.backlog.hold_for(0.05)
        here.backlog.put([block_of(number) for number in range(1, 6)])
        await here.backlog.take(2**30)
        here.backlog.settle(5)
        await asyncio.sleep(0.1)
        # Nothing has shown yet that the server has not crashed meanwhile.
        assert len(here.backlog._held) == 5
        here.backlog.put([block_of(6)])
        await here.backlog.take(2**30)
        here.backlog.settle(1)
        assert here.backlog.rewind(0, DurableState()).blocks == here.backlog.waiting.blocks == 1


async def test_without_a_limit_of_the_risk_nothing_is_held(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        here.backlog.hold_for(float("inf"))
        here.backlog.put([block_of(1)])
        await here.backlog.take(2**30)
        here.backlog.settle(1)
        assert not here.backlog._held


async def test_what_is_held_is_left_to_the_next_daemon(tmp_path: Path) -> None:
    async with opened(tmp_path) as here:
        first = here.backlog._last + 1
        here.backlog.hold_for(60.0)
        here.backlog.put([block_of(number) for number in range(1, 6)])
        await here.backlog.take(2**30)
        here.backlog.settle(5)
        await here.until(lambda: here.written == first + 4)
    async with opened(tmp_path, position=first + 1) as again:
        assert again.backlog.waiting.blocks == 3
        assert await again.drained(3) == [first + 2, first + 3, first + 4]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), memory=st.integers(1, 12))
def test_going_back_any_number_of_times_loses_and_repeats_nothing(tmp_path: Path, seed: int, memory: int) -> None:
    rng = np.random.default_rng(seed)
    folder = tmp_path / str(len(list(tmp_path.iterdir())))

    async def go() -> None:
        async with opened(folder, memory=memory * BLOCK_BYTES, segment_bytes=8_192) as here:
            here.backlog.hold_for(60.0)
            first, put, at, reached, mine = here.backlog._last + 1, 0, 0, 0, 0
            for _ in range(50):
                what = rng.random()
                if what < 0.5:
                    put += 1
                    here.backlog.put([block_of(put)])
                elif what < 0.6:
                    to = int(rng.integers(0, at + 1))
                    assert here.backlog.rewind(first + to - 1, DurableState()).blocks == at - to
                    at = to
                elif at < put:
                    taken = await asyncio.wait_for(here.backlog.take(3 * BLOCK_BYTES), WITHIN_S)
                    for waiting in taken:
                        at += 1
                        assert waiting.number == first + at - 1
                        assert same(waiting.block, block_of(at))
                    mine += here.backlog.settle(len(taken))
                    reached = max(reached, at)
                    assert mine == reached
                assert here.backlog.waiting.blocks == put - at
            assert here.backlog.lost == Amount()

    asyncio.run(go())


@pytest.mark.parametrize("blocks", [1, 3])
async def test_taking_waits_until_there_is_something(tmp_path: Path, blocks: int) -> None:
    async with opened(tmp_path) as here:
        taking = asyncio.create_task(here.backlog.take(2**30))
        await asyncio.sleep(0)
        assert not taking.done()
        here.backlog.put([block_of(number) for number in range(1, blocks + 1)])
        assert len(await asyncio.wait_for(taking, WITHIN_S)) == blocks


async def test_what_a_full_disk_never_takes_is_committed_all_the_same(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with opened(tmp_path, memory=2 * BLOCK_BYTES) as here:
        first = here.backlog._last + 1
        # Somebody else has filled the disk, and keeps it so.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            for number in range(1, 31):
                here.backlog.put([block_of(number)])
            await here.until(lambda: here.backlog.is_full)
            assert await here.drained(30) == list(range(first, first + 30))
            await here.until(lambda: not here.backlog.is_full)
            assert here.backlog.waiting == Amount()
            assert here.backlog.lost == Amount()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_what_was_let_go_of_and_cannot_be_removed_does_not_come_again(tmp_path: Path) -> None:
    """Nobody counts it any more: else as much of what comes then would be taken for read."""
    disk = FaultyDisk()
    async with opened(tmp_path, outside=faulty(disk), memory=2 * BLOCK_BYTES, segment_bytes=1) as here:
        first = here.backlog._last + 1
        disk.failing["remove"] = OSError(30, "Read-only file system")
        for number in range(1, 8):
            here.backlog.put([block_of(number)])
            await here.until(lambda number=number: here.written >= first + number - 1)
        await here.drained(4)  # and let go of
        here.backlog.hold_for(60.0)
        await here.drained(3)
        assert here.backlog.rewind(first - 1, DurableState()).blocks == 3
        for number in range(8, 21):
            here.backlog.put([block_of(number)])
            await here.until(lambda number=number: here.written >= first + number - 2)
        assert await here.drained(16) == list(range(first + 4, first + 20))
        assert here.backlog.waiting == here.backlog.lost == Amount()
        disk.failing.clear()


async def test_a_journal_that_could_not_be_read_once_has_no_problem_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_AGAIN_S", 0.01)
    async with opened(tmp_path, memory=BLOCK_BYTES) as here:
        first = here.backlog._last + 1
        journal = here.backlog._journal
        assert journal is not None
        read, tries = journal.read, 0

        async def fails_once(after: int, most_bytes: int) -> list[tuple[int, ClosedBlock]]:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise OSError(5, "input/output error")
            return await read(after, most_bytes)

        monkeypatch.setattr(journal, "read", fails_once)
        here.backlog.sync_at_once(wanted=True)
        here.backlog.put([block_of(number) for number in range(1, 9)])
        await here.until(lambda: journal.state.synced == here.backlog.last)
        taken = await here.drained(1)
        await here.until(lambda: tries == 1 and here.backlog.problem is not None)
        assert taken + await here.drained(8 - len(taken)) == list(range(first, first + 8))
        assert here.backlog.problem is None


async def test_what_cannot_be_read_is_not_looked_for_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the journal has a problem too, it is not certain that all is written."""
    async with opened(tmp_path, memory=BLOCK_BYTES) as here:
        journal = here.backlog._journal
        assert journal is not None
        reads = 0

        async def nothing(after: int, most_bytes: int) -> list[tuple[int, ClosedBlock]]:
            nonlocal reads
            reads += 1
            journal._state = replace(journal._state, problem="input/output error")
            here.backlog.problem = journal._state.problem
            return []

        monkeypatch.setattr(journal, "read", nothing)
        here.backlog.put([block_of(number) for number in range(1, 4)])
        await here.drained(1)
        await asyncio.sleep(0.2)
        assert 1 <= reads <= 3


async def has_it(number: int) -> bool:
    """The database has what it is asked for."""
    return True


async def filled(here: Opened) -> int:
    """Put blocks until the journal is full, and commit all of them; how many readings are in no journal then."""
    put = 0
    while here.backlog.problem is None:
        put += 1
        here.backlog.put([block_of(put)])
        await asyncio.sleep(0.001)
    await here.drained(put)
    journal = here.backlog._journal
    assert journal is not None
    assert journal.pending_bytes > 0
    return sum(readings_in(block) for block in journal._pending)


async def test_the_end_waits_until_what_the_database_may_lose_is_in_the_journal(tmp_path: Path) -> None:
    here = Opened(tmp_path, memory=10 * BLOCK_BYTES, max_bytes=60_000, segment_bytes=8_192)
    here.backlog.hold_for(10 * WITHIN_S)
    assert await filled(here)
    closing = asyncio.create_task(here.backlog.close(10 * WITHIN_S, has_it))
    await asyncio.sleep(0.1)
    assert not closing.done()
    here.backlog.change_limits(max_memory=10 * BLOCK_BYTES, max_journal=2**30, segment=8_192)
    assert await closing == 0
    assert here.backlog._journal is not None
    assert here.backlog._journal.pending_bytes == 0


async def test_the_end_tells_what_the_database_may_lose_and_the_journal_never_takes(tmp_path: Path) -> None:
    here = Opened(tmp_path, memory=10 * BLOCK_BYTES, max_bytes=60_000, segment_bytes=8_192)
    here.backlog.hold_for(10 * WITHIN_S)
    unwritten = await filled(here)
    assert await here.backlog.close(0.05, has_it) == unwritten


async def test_the_end_waits_no_longer_than_the_database_may_lose_something(tmp_path: Path) -> None:
    here = Opened(tmp_path, memory=10 * BLOCK_BYTES, max_bytes=60_000, segment_bytes=8_192)
    here.backlog.hold_for(0.2)
    assert await filled(here)
    async with asyncio.timeout(WITHIN_S):
        assert await here.backlog.close(100 * WITHIN_S, has_it) == 0


async def test_the_end_tells_what_the_database_has_lost_and_did_not_take_again(tmp_path: Path) -> None:
    """It was acknowledged, and waits again: its sender has it no more."""
    here = Opened(tmp_path, memory=10 * BLOCK_BYTES, max_bytes=60_000, segment_bytes=8_192)
    here.backlog.hold_for(10 * WITHIN_S)
    unwritten = await filled(here)
    here.backlog.rewind(here.backlog.held_from - 1, DurableState())
    assert await here.backlog.close(0.05, has_it) == unwritten


async def test_the_end_waits_for_the_journal_to_take_what_the_database_has_lost(tmp_path: Path) -> None:
    here = Opened(tmp_path, memory=10 * BLOCK_BYTES, max_bytes=60_000, segment_bytes=8_192)
    here.backlog.hold_for(0.5)
    assert await filled(here)
    here.backlog.rewind(here.backlog.held_from - 1, DurableState())
    closing = asyncio.create_task(here.backlog.close(10 * WITHIN_S, has_it))
    await asyncio.sleep(1.5)
    assert not closing.done()
    here.backlog.change_limits(max_memory=10 * BLOCK_BYTES, max_journal=2**30, segment=8_192)
    assert await closing == 0


async def test_the_end_believes_no_time_that_the_database_has_something_still(tmp_path: Path) -> None:
    """Its server may have crashed before the time was over, and nobody has asked it since."""
    here = Opened(tmp_path, memory=10 * BLOCK_BYTES, max_bytes=60_000, segment_bytes=8_192)
    here.backlog.hold_for(0.5)
    unwritten = await filled(here)
    asked = []

    async def has(number: int) -> bool:
        asked.append(number)
        return False

    await asyncio.sleep(0.5)
    assert await here.backlog.close(100 * WITHIN_S, has) == unwritten
    assert asked == [here.backlog.last]
