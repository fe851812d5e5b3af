"""The journal's keeper step by step, on a clock that the test moves."""

import asyncio
from pathlib import Path

import pytest

from daemon.pipeline.journal import Journal
from daemon.pipeline.journal.beside import AGAIN_S
from daemon.pipeline.journal.keeper import ROOM_EVERY_S, SYNC_WITHIN_S, JournalKeeper, JournalState
from tests.daemon.pipeline.journal.test_journal import GROUP, ROOMY, block_of
from tests.support.disks import ByHand, FaultyDisk, StoppedClock, faulty

BAD = OSError(5, "input/output error")


class Kept:
    """A keeper whose steps the test does."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.disk, self.clock, self.workers = FaultyDisk(), StoppedClock(), ByHand()
        self.journal = Journal(
            folder, GROUP, faulty(self.disk, clock=self.clock, workers=self.workers), **{**ROOMY, **limits}
        )
        self.journal.open(None)
        self.first = self.journal.next
        self.states: list[JournalState] = []
        self.begin()

    def begin(self) -> None:
        self.keeper = JournalKeeper(self.journal, self.states.append)
        self.keeper.start()

    @property
    def state(self) -> JournalState:
        return self.keeper.state

    def step(self, after_s: float = 0.0) -> float:
        self.clock.move(after_s)
        rest_s = self.workers.step()
        assert rest_s is not None
        return rest_s

    def write(self) -> None:
        """Let the time pass in which others could come."""
        self.keeper._due()
        self.step()


async def test_without_work_it_rests_until_it_looks_at_the_room(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    assert kept.step() == pytest.approx(ROOM_EVERY_S)
    assert kept.step(ROOM_EVERY_S) == pytest.approx(ROOM_EVERY_S)


async def test_what_nobody_waits_for_is_synced_in_time(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.keeper.put([block_of(1)])
    kept.step()
    assert kept.state.written == 0
    kept.write()
    assert (kept.state.written, kept.state.synced) == (kept.first, 0)
    kept.step(SYNC_WITHIN_S)
    assert kept.state.synced == kept.first
    assert kept.disk.calls["sync"] == 1


async def test_a_failed_sync_is_tried_again_after_a_while_and_no_sooner(tmp_path: Path) -> None:
    """With the database away nothing else ends it: the thread span, and the status was green."""
    kept = Kept(tmp_path)
    kept.keeper.sync_at_once(True)
    kept.disk.failing = {"sync": BAD, "replace": BAD}
    kept.keeper.put([block_of(1)])
    rest_s = kept.step()
    for _ in range(20):
        assert 0 < rest_s <= AGAIN_S
        assert kept.state.synced == 0
        assert kept.state.problem is not None
        assert "cannot be put on the disk" in kept.state.problem
        rest_s = kept.step()
    assert (kept.disk.calls["sync"], kept.disk.calls["replace"]) == (1, 1)  # the id was written before
    for k in range(1, 4):
        kept.step(rest_s)
        rest_s = kept.step()
        assert kept.disk.calls["replace"] == 1 + k
    # What is put meanwhile is written, and reading does not make it try any sooner.
    kept.keeper.put([block_of(2)])
    reading = asyncio.ensure_future(kept.keeper.read(0, 2**30))
    await asyncio.sleep(0)
    kept.step()
    assert len(await reading) == 2
    assert kept.disk.calls["replace"] == 4
    kept.disk.failing = {}
    kept.step(AGAIN_S)
    assert (kept.state.problem, kept.state.synced) == (None, kept.first + 1)


async def test_a_full_journal_is_tried_again_when_there_is_room_and_not_before_in_vain(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=10_000, segment_bytes=2500)
    kept.keeper.put([block_of(number) for number in range(1, 21)])
    kept.write()
    written = kept.state.written
    assert written < kept.first + 19
    assert kept.state.problem is not None
    assert 0 < kept.step() <= AGAIN_S
    kept.keeper.trim(written)
    kept.write()
    assert kept.state.written > written


async def test_what_an_earlier_process_did_not_sync_is_a_problem_until_it_is(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.keeper.put([block_of(1)])
    kept.write()
    kept.journal._release()
    kept.disk.failing = {"sync": BAD}
    kept.journal = again = Journal(tmp_path, GROUP, kept.journal.outside, **ROOMY)
    kept.disk.before = lambda operation, path: (_ for _ in ()).throw(BAD) if path.suffix == ".journal" else None
    again.open(None)
    kept.begin()
    assert kept.state.problem is not None
    kept.step()
    assert "cannot be put on the disk" in str(kept.state.problem)
    kept.disk.before = lambda operation, path: None
    kept.step(AGAIN_S)
    assert kept.state.problem is None
    assert kept.state.synced >= kept.first


async def test_the_last_step_keeps_what_was_put(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.keeper.put([block_of(1), block_of(2)])
    await kept.keeper.end()
    again = Kept(tmp_path)
    assert len(again.journal.read(0, 2**30)) == 2
