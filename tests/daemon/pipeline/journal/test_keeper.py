"""The journal's keeper over real files: what is put is kept, synced when somebody waits for it, and read back."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.pipeline.journal import Journal
from daemon.pipeline.journal.keeper import JournalKeeper, JournalState
from tests.daemon.pipeline.journal.test_journal import GROUP, at, block_of, same
from tests.support.disks import REAL

ON_BOTH_LOOPS = True
WITHIN_S = 10.0


class Watched:
    """A keeper and all its reports."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.journal = Journal(folder, GROUP, REAL, **{"max_bytes": 2**30, "segment_bytes": 2**20, **limits})
        self.recovered = self.journal.open(at(folder, 0))
        self.first = self.journal.next
        self.states: list[JournalState] = []
        self._news = asyncio.Event()
        self.keeper = JournalKeeper(self.journal, self._note)
        self.keeper.start()

    def _note(self, state: JournalState) -> None:
        self.states.append(state)
        self._news.set()

    async def until(self, holds: Callable[[JournalState], bool]) -> JournalState:
        async with asyncio.timeout(WITHIN_S):
            while not (self.states and holds(self.states[-1])):
                self._news.clear()
                await self._news.wait()
        return self.states[-1]


@asynccontextmanager
async def keeping(folder: Path, **limits: int) -> AsyncIterator[Watched]:
    watched = Watched(folder, **limits)
    try:
        yield watched
    finally:
        await watched.keeper.end()


async def test_what_is_put_is_kept_in_order(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        for number in range(1, 30):
            watched.keeper.put([block_of(number)])
        found = await watched.keeper.read(0, 2**30)
        assert [number for number, _ in found] == list(range(watched.first, watched.first + 29))
        assert all(same(block_of(k), block) for k, (_, block) in enumerate(found, 1))
        await watched.until(lambda state: state.written == watched.first + 28)
    async with keeping(tmp_path) as again:
        assert again.recovered.amount.blocks == 29


async def test_a_sync_is_done_at_once_for_who_waits_and_soon_for_the_others(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        watched.keeper.put([block_of(1)])
        state = await watched.until(lambda state: state.written == watched.first)
        assert state.synced == 0
        await watched.until(lambda state: state.synced == watched.first)
        watched.keeper.sync_at_once(True)
        watched.keeper.put([block_of(2)])
        # Written and synced in one step: nobody is told of one without the other.
        await watched.until(lambda state: state.written > watched.first)
        assert watched.states[-1].synced == watched.states[-1].written


async def test_a_full_journal_goes_on_when_it_is_trimmed(tmp_path: Path) -> None:
    async with keeping(tmp_path, max_bytes=30_000, segment_bytes=4096) as watched:
        count = 60
        for number in range(1, count + 1):
            watched.keeper.put([block_of(number)])
            await asyncio.sleep(0)
        seen: list[int] = []
        full = False
        async with asyncio.timeout(WITHIN_S):
            while len(seen) < count:
                found = await watched.keeper.read(seen[-1] if seen else 0, 5_000)
                seen += [number for number, _ in found]
                full |= any(state.problem is not None for state in watched.states)
                assert all(state.nbytes <= 30_000 for state in watched.states)
                if seen:
                    watched.keeper.trim(seen[-1])
        assert full
        assert seen == list(range(watched.first, watched.first + count))
        await watched.until(lambda state: state.problem is None)


async def test_a_full_disk_is_told_and_mended(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with keeping(tmp_path) as watched:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
        try:
            watched.keeper.put([block_of(1)])
            state = await watched.until(lambda state: state.problem is not None)
            assert state.problem is not None
            assert "is full" in state.problem
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        # Nobody says that there is room again.
        await watched.until(lambda state: state.problem is None and state.written == watched.first)


@pytest.mark.parametrize("blocks", [0, 3])
async def test_the_end_keeps_what_was_put(tmp_path: Path, blocks: int) -> None:
    async with keeping(tmp_path) as watched:
        watched.keeper.put([block_of(number) for number in range(1, blocks + 1)])
    async with keeping(tmp_path) as again:
        assert again.recovered.amount.blocks == blocks
