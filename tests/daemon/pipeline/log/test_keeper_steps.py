"""The keeper of the intake's log step by step, on a clock and a disk that the test moves."""

import asyncio
import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.pipeline.files.beside import AGAIN_S
from daemon.pipeline.log import Log, LogKeeper, LogState
from daemon.pipeline.log.format import encode
from daemon.pipeline.log.keeper import LAZY_S, WAITING_MOST, WRITTEN_FROM
from tests.daemon.pipeline.log.test_log import ALL, GROUP, ON_DISK, ROOMY, Opened, record, triggers
from tests.support.disks import ByHand, FaultyDisk, StoppedClock, faulty

BAD = OSError(errno.EIO, "input/output error")
MOMENT_S = 0.001
READ_ONLY = {name: OSError(errno.EROFS, "read-only file system") for name in ("create", "append", "sync", "remove")}


class Kept:
    """A keeper whose steps the test does."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.disk, self.clock, self.workers = FaultyDisk(), StoppedClock(), ByHand()
        for path in folder.glob("*"):
            self.disk.keep(path)
        outside = faulty(self.disk, clock=self.clock, workers=self.workers)
        self.log = Log(folder, GROUP, outside, **{**ROOMY, "segment_bytes": 1500, **limits})
        self.log.open()
        self.states: list[LogState] = []
        self.keeper = LogKeeper(self.log, self.states.append)
        self.keeper.start()

    def put(self, count: int = 1, *, at_once: bool = True) -> None:
        for _ in range(count):
            made = record(self.keeper.next)
            self.keeper.put(made.received_ns, made.runs, made.readings, at_once=at_once)

    async def step(self, after_s: float = 0.0) -> float:
        self.clock.move(after_s)
        rest_s = self.workers.step()
        assert rest_s is not None
        await asyncio.sleep(0)  # what it reports arrives
        return rest_s


async def test_what_fails_is_tried_again_after_a_while_and_no_sooner(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(2)
    kept.disk.failing = {"sync": BAD}
    for _ in range(10):
        assert 0 < await kept.step() <= AGAIN_S
    assert kept.disk.calls["sync"] == 1
    assert kept.keeper.state.synced == 0
    assert "cannot be written" in str(kept.keeper.state.problem)
    kept.disk.failing = {}
    await kept.step(AGAIN_S)
    assert (kept.keeper.state.synced, kept.keeper.state.problem) == (2, None)


async def test_on_a_disk_that_cannot_be_written_nothing_piles_up(tmp_path: Path) -> None:
    """What was safe elsewhere stayed in memory until all senders were held back, those of other levels too."""
    kept = Kept(tmp_path)
    kept.put()
    await kept.step()
    kept.disk.failing = dict(READ_ONLY)
    for _ in range(2000):
        kept.put(100)
        await kept.step(0.05)
        kept.keeper.trim(kept.keeper.next - 1)
    assert not kept.keeper.is_full
    assert kept.keeper.first_waiting == kept.keeper.next
    await kept.step(AGAIN_S)
    state = kept.keeper.state
    assert state.skipped == kept.keeper.next - 1
    kept.disk.failing = {}
    kept.put()
    await kept.step(AGAIN_S)
    assert kept.keeper.state.synced == kept.keeper.state.tried == kept.keeper.next - 1
    assert kept.keeper.state.gone == kept.keeper.state.skipped


async def test_without_trimming_what_a_bad_disk_does_not_take_fills_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.disk.failing = {"create": BAD}
    many = WAITING_MOST // record(1).nbytes + 1
    kept.put(many - 1)
    assert not kept.keeper.is_full
    kept.put()
    assert kept.keeper.is_full
    kept.disk.failing = {}
    await kept.step()
    assert not kept.keeper.is_full
    assert kept.keeper.state.synced == many


async def test_more_than_there_is_room_for_fills_the_room(tmp_path: Path) -> None:
    """All of it waited, and nobody was told `received`, until there was room for what came together."""
    kept = Kept(tmp_path, max_bytes=20_000)
    kept.put(1000)
    await kept.step()
    state = kept.keeper.state
    assert "MiB are in use" in str(state.problem)
    assert 0 < state.synced < state.tried < 1000
    assert 0 <= kept.log.room < sum(len(part) for part in encode(record(1), GROUP))
    assert triggers(Opened(tmp_path).read(ALL)) == list(range(1, state.synced + 1))
    kept.keeper.trim(state.synced)
    await kept.step(AGAIN_S)
    await kept.step(AGAIN_S)
    assert kept.keeper.state.synced > state.synced


async def test_what_is_trimmed_before_it_is_written_is_not_written(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(3)
    kept.keeper.trim(2)
    await kept.step()
    assert triggers(Opened(tmp_path).read(ALL)) == [3]


async def test_nothing_is_written_while_the_database_keeps_up(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for _ in range(1000):
        kept.put(2, at_once=False)
        await kept.step(LAZY_S / 4)
        kept.keeper.trim(kept.keeper.next - 2)  # all but the newest is committed by then
    assert kept.disk.calls["append"] == kept.disk.calls["create"] == 0
    assert kept.keeper.first_waiting >= kept.keeper.next - 1


async def test_what_stays_is_written_after_a_while(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(3, at_once=False)
    waited_s = 0.0
    while kept.keeper.state.synced < 3:
        assert waited_s <= 2 * LAZY_S + MOMENT_S
        rest_s = await kept.step() + MOMENT_S
        waited_s += rest_s
        await kept.step(rest_s)
    assert waited_s >= LAZY_S
    assert kept.disk.calls["sync"] == 1
    assert triggers(Opened(tmp_path).read(ALL)) == [1, 2, 3]


async def test_the_young_are_not_written_with_the_old(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for synced in (0, 0, 1, 2):
        await kept.step(LAZY_S + MOMENT_S)
        assert kept.keeper.state.synced == synced
        kept.put(at_once=False)


async def test_what_somebody_waits_for_is_written_at_once_with_what_came_before(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(2, at_once=False)
    kept.put()
    kept.put(at_once=False)
    await kept.step()
    assert kept.keeper.state.synced == 3
    assert kept.disk.calls["sync"] == 1


async def test_who_waits_wakes_it_and_others_only_while_it_sleeps(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.step()
    before = kept.workers.woken
    kept.put(100, at_once=False)
    assert kept.workers.woken == before + 1
    kept.put()
    assert kept.workers.woken == before + 2


async def test_much_in_memory_is_written_however_young(tmp_path: Path) -> None:
    kept = Kept(tmp_path, segment_bytes=2**20)
    kept.put(WRITTEN_FROM // record(1).nbytes + 1, at_once=False)
    await kept.step()
    assert kept.keeper.state.synced == kept.keeper.next - 1


STEP = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 5)),
    st.tuples(st.just("put later"), st.integers(1, 5)),
    st.tuples(st.just("step"), st.sampled_from([0.0, 0.5, 6.0])),
    st.tuples(st.just("fail"), st.sets(st.sampled_from(["create", "append", "sync", "sync_folder", "remove"]))),
    st.tuples(st.just("trim"), st.integers(0, 10)),
    st.tuples(st.just("read"), st.integers(1, 3000)),
)


@ON_DISK
@given(steps=st.lists(STEP, max_size=40), was_there=st.integers(0, 5))
async def test_what_is_told_holds_after_a_power_cut(
    tmp_path_factory: pytest.TempPathFactory, steps: list, was_there: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    kept = Kept(folder)
    kept.put(was_there)
    await kept.step()
    trimmed, read = 0, list[int]()
    for name, argument in steps:
        if name == "put":
            kept.put(argument)
        elif name == "put later":
            kept.put(argument, at_once=False)
        elif name == "fail":
            kept.disk.failing = dict.fromkeys(argument, BAD)
        elif name == "trim":
            trimmed = max(trimmed, kept.keeper.next - 1 - argument)
            kept.keeper.trim(trimmed)
        elif name == "read":
            reading = asyncio.ensure_future(kept.keeper.read(argument))
            await asyncio.sleep(0)
            await kept.step()
            read += triggers(await reading)
        else:
            await kept.step(argument)
        state = kept.keeper.state
        kept.disk.after_power_cut(folder, folder / "after")
        there = triggers(Opened(folder / "after").read(ALL))
        assert there == sorted(set(there))
        assert set(range(trimmed + 1, state.synced + 1)) <= set(there)
        assert not set(there) & set(range(1, state.gone + 1))
        assert not set(there) & set(range(state.tried + 1, state.skipped + 1))
        assert all(number <= state.tried or number > state.skipped for number in there)
    assert read == sorted(set(read))
