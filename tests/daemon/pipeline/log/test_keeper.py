"""The keeper of the intake's log over real files: what is put is synced, read back, and trimmed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.pipeline.log import LogKeeper, LogState
from tests.daemon.pipeline.log.test_log import ALL, Opened, record, triggers

ON_BOTH_LOOPS = True
WITHIN_S = 20.0


class Watched:
    """A keeper and its newest report."""

    def __init__(self, folder: Path) -> None:
        self.log = Opened(folder)
        self._news = asyncio.Event()
        self.keeper = LogKeeper(self.log, lambda state: self._news.set())
        self.keeper.start()

    def put(self, *numbers: int) -> None:
        for number in numbers:
            made = record(number)
            assert self.keeper.put(made.received_ns, made.runs, made.readings, at_once=True) == number

    async def until(self, holds: Callable[[LogState], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds(self.keeper.state):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def keeping(folder: Path) -> AsyncIterator[Watched]:
    watched = Watched(folder)
    try:
        yield watched
    finally:
        await watched.keeper.end()


async def test_what_is_put_is_synced_and_found_by_the_next(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        watched.put(*range(1, 30))
        await watched.until(lambda state: state.synced == 29)
        assert triggers(await watched.keeper.read(ALL)) == list(range(1, 30))
    async with keeping(tmp_path) as again:
        assert triggers(await again.keeper.read(ALL)) == list(range(1, 30))
        again.put(30)
        await again.until(lambda state: state.synced == 30)


async def test_what_is_retained_follows_on_what_was_read(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        watched.put(*range(1, 10))
        await watched.until(lambda state: state.synced == 9)
        watched.put(10)
        watched.keeper.retain()
        read = triggers(await watched.keeper.read(ALL))
        watched.put(*range(11, 20))
        await watched.until(lambda state: state.synced == 19)
        waiting = watched.keeper.release()
        assert [*read, *(each.number for each in waiting if each.number > read[-1])] == list(range(1, 20))
        assert watched.keeper.release() == []


@pytest.mark.parametrize("count", [0, 3])
async def test_the_end_keeps_what_was_put(tmp_path: Path, count: int) -> None:
    async with keeping(tmp_path) as watched:
        watched.put(*range(1, count + 1))
    assert Opened(tmp_path).found.readings == count


async def test_what_is_trimmed_is_gone_from_the_disk(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        watched.put(1, 2, 3)
        await watched.until(lambda state: state.synced == 3)
        watched.keeper.trim(3)
        await watched.until(lambda state: state.gone == 3)
    assert Opened(tmp_path).found.readings == 0


async def test_what_was_read_is_read_again_from_the_first_that_is_there(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        watched.put(*range(1, 10))
        await watched.until(lambda state: state.synced == 9)
        assert triggers(await watched.keeper.read(ALL)) == list(range(1, 10))
        assert await watched.keeper.read(ALL) == []
        await watched.keeper.read_again()
        watched.put(10)
        await watched.until(lambda state: state.synced == 10)
        assert triggers(await watched.keeper.read(ALL)) == list(range(1, 11))


async def test_what_is_retained_ends_with_reading_again(tmp_path: Path) -> None:
    async with keeping(tmp_path) as watched:
        watched.keeper.retain()
        watched.put(1, 2)
        await watched.until(lambda state: state.synced == 2)
        assert watched.keeper.first_waiting == 1
        await watched.keeper.read_again()
        watched.put(3)
        await watched.until(lambda state: state.synced == 3)
        await asyncio.sleep(0)
        assert watched.keeper.first_waiting == 4
        assert triggers(await watched.keeper.read(ALL)) == [1, 2, 3]
