"""Marks of alarms: one at the begin of each and one at its end, whatever restarts, is killed or is away."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backends.base import StoreUnavailable
from backends.ending import end_tasks
from daemon.alarms import AlarmKeeper, Marking
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.marks import MarkKeeper
from schemas.api.status import Status
from schemas.config import parse_config
from schemas.marks import Mark, MarksWithin
from schemas.states import AlarmCause
from tests.page.served import STARTED_NS, snapshot
from tests.support.batches import by_group, group_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually

ALL = MarksWithin(start_ns=-(2**63), end_ns=2**63 - 1, most=1000)
SECOND_NS = 1_000_000_000
BEGIN_NS = STARTED_NS + 1_000 * SECOND_NS
SLOW = {"p99": 50.0, "wave": False}
WELL = {"p99": 5.0, "wave": False}
LATENCY = Marking(logger="gallery", causes=frozenset({AlarmCause.LATENCY}), groups=frozenset({"bpm"}))
CRITICAL = Marking(logger="gallery", groups=frozenset({"bpm"}))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(by_group(group_of()))


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.marks.keeper.ANSWER_WITHIN_S", 0.5)
    monkeypatch.setattr("daemon.marks.keeper.RETRY_MOST_S", 0.25)
    monkeypatch.setattr("daemon.alarms.keeper.MARK_AGAIN_S", 0.05)
    monkeypatch.setattr("daemon.alarms.keeper.LOOK_EVERY_S", 1000.0)


class Watched:
    """A keeper of alarms that looks when it is told to, at seconds of its own."""

    def __init__(self, seconds: Iterator[int]) -> None:
        self.figures: dict[str, Any] = WELL
        self._seconds = seconds
        self.has_looked = False
        self.alarms: AlarmKeeper

    def status(self) -> Status:
        self.has_looked = True
        return snapshot(1, BEGIN_NS + next(self._seconds) * SECOND_NS, **self.figures)

    def look(self, times: int, **figures: Any) -> None:
        """Look so often, a second after another, at these figures."""
        self.figures = figures
        for _ in range(times):
            self.alarms.look()


@asynccontextmanager
async def watching(
    store: MemoryStore, folder: Path, seconds: Iterator[int], marking: Marking = LATENCY
) -> AsyncIterator[Watched]:
    outside, events = Outside.real(), Events()
    marks = MarkKeeper(store, folder, outside, events)
    watched = Watched(seconds)
    watched.alarms = AlarmKeeper(folder, outside, events, watched.status, marking=marking, make_mark=marks.keep_once)
    await marks.open()
    await watched.alarms.open()
    tasks = [asyncio.create_task(marks.run()), asyncio.create_task(watched.alarms.run())]
    while not watched.has_looked:  # noqa: ASYNC110 - once, as a daemon does when it starts
        await asyncio.sleep(0)
    try:
        yield watched
    finally:
        await end_tasks(*tasks)


def told(marks: list[Mark]) -> list[tuple[int, str, str | None]]:
    return [(round((mark.time_ns - BEGIN_NS) / SECOND_NS), mark.text.split(":")[0], mark.group) for mark in marks]


async def there(store: MemoryStore, count: int) -> list[Mark]:
    """The marks, once there are so many."""

    async def enough() -> bool:
        return len(await store.marks(ALL)) >= count

    async with asyncio.timeout(120):
        while not await enough():  # noqa: ASYNC110 - the store has no event for that
            await asyncio.sleep(0.02)
    return await store.marks(ALL)


async def test_the_begin_and_the_end_of_an_alarm_are_marks_of_its_group(store: MemoryStore, tmp_path: Path) -> None:
    async with watching(store, tmp_path, iter(range(10_000))) as watched:
        watched.look(9, **SLOW)
        watched.look(20, **WELL)
        watched.look(100, **SLOW)  # from the 30th second on
        assert told(await there(store, 1)) == [(30, "alarm", "bpm")]
        watched.look(10, **WELL)
        marks = await there(store, 2)
    assert told(marks) == [(30, "alarm", "bpm"), (129, "alarm cleared", "bpm")]
    assert marks[0].text == "alarm: Commit p99 over its budget of 20 ms: bpm 50 ms"
    assert {mark.author for mark in marks} == {"triggerlog"}


@pytest.mark.parametrize("marking", [CRITICAL, Marking(logger="gallery", causes=LATENCY.causes), Marking()])
async def test_what_is_not_asked_for_makes_no_mark(store: MemoryStore, tmp_path: Path, marking: Marking) -> None:
    async with watching(store, tmp_path, iter(range(10_000)), marking) as watched:
        watched.look(100, **SLOW)
        watched.look(10, **WELL)
        assert watched.alarms.marks_waiting == 0
        watched.alarms.change(LATENCY)
        watched.look(100, **SLOW)
        assert told(await there(store, 1)) == [(111, "alarm", "bpm")]


async def test_one_that_comes_and_goes_makes_few_marks(store: MemoryStore, tmp_path: Path) -> None:
    async with watching(store, tmp_path, iter(range(10_000))) as watched:
        for _ in range(20):
            watched.look(15, **SLOW)
            watched.look(5, **WELL)
        await there(store, 1)
        await eventually(lambda: watched.alarms.marks_waiting == 0)
        begins = [second for second, what, _ in told(await store.marks(ALL)) if what == "alarm"]
    assert len(begins) > 3
    assert min(after - before for before, after in pairwise(begins)) >= 60


async def test_one_that_is_in_force_after_a_restart_is_not_marked_again(store: MemoryStore, tmp_path: Path) -> None:
    seconds = iter(range(10_000))
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(100, **SLOW)
        before = await there(store, 1)
    for _ in range(3):
        async with watching(store, tmp_path, seconds) as watched:
            watched.look(50, **SLOW)
            await eventually(lambda: watched.alarms.marks_waiting == 0)
            assert await store.marks(ALL) == before
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(100, **SLOW)
        watched.look(10, **WELL)
        assert [what for _, what, _ in told(await there(store, 2))] == ["alarm", "alarm cleared"]


async def test_another_that_is_raised_long_after_is_marked(store: MemoryStore, tmp_path: Path) -> None:
    seconds = iter([*range(191), *range(2000, 3000)])
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(190, **SLOW)
        await there(store, 1)
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(100, **SLOW)
        assert [what for _, what, _ in told(await there(store, 2))] == ["alarm", "alarm"]


async def test_while_the_database_is_away_marks_wait_and_come_once(store: MemoryStore, tmp_path: Path) -> None:
    seconds = iter(range(10_000))
    store.fail_with(StoreUnavailable("no route to host"))
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(100, **SLOW)
        await eventually(lambda: len(list((tmp_path / "marks").glob("*.json"))) == 1)
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(100, **SLOW)
        store.fail_with(None)
        assert told(await there(store, 1)) == [(1, "alarm", "bpm")]


async def test_a_kill_between_remembering_and_marking_makes_one_mark(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(10_000))
    killed = asyncio.Event()

    async def hang(*_: object) -> bool:
        killed.set()
        await asyncio.Event().wait()
        return True

    for when in ("before", "after"):
        keep = MarkKeeper.keep

        async def act(keeper: MarkKeeper, mark: Mark, keep: Callable[..., Any] = keep, when: str = when) -> bool:
            if when == "after":
                await keep(keeper, mark)
            return await hang()

        with monkeypatch.context() as patched:
            patched.setattr(MarkKeeper, "keep", act)
            async with watching(store, tmp_path, seconds) as watched:
                watched.look(100, **SLOW)
                await killed.wait()
                killed.clear()
    async with watching(store, tmp_path, seconds) as watched:
        watched.look(50, **SLOW)
        await eventually(lambda: watched.alarms.marks_waiting == 0)
        assert told(await there(store, 1)) == [(1, "alarm", "bpm")]


def test_a_configuration_names_alarms_by_their_causes() -> None:
    text = '[[groups]]\nname = "bpm"\ninstruments = ["a"]\nchannels = [{ name = "x" }]\n[decimation]\n'
    config = parse_config(
        text + 'after_days = 30\nbucket_s = 60\nwindow_s = 300\nmark_alarms = ["lost", "slow visits"]'
    )
    marking = Marking.of(config)
    assert marking.causes == {AlarmCause.LOST, AlarmCause.SLOW_VISITS}
    assert (marking.groups, marking.again_s) == ({"bpm"}, 300)
    assert Marking.of(parse_config(text)).groups == frozenset()
    with pytest.raises(Exception, match=r"decimation\.mark_alarms\[0\]"):
        parse_config(text + 'mark_alarms = ["loss"]')
