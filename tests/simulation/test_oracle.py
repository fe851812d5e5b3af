"""The oracle finds each kind of wrong that is planted, and nothing where all is right."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
import pytest

from schemas.batch import Batch, Durability, JournalPosition
from schemas.ledger import ledger_dtype, pack_missing
from tests.simulation.disk import Drive, Inode
from tests.simulation.loop import START_NS, VirtualLoop, virtual_loop
from tests.simulation.machine import Machine
from tests.simulation.oracle import Oracle
from tests.simulation.plan import Plan, Settings, draw
from tests.simulation.store import RecordingStore

SETTINGS = replace(
    draw(1).settings,
    instruments=4,
    crates=(("committed", True), ("spooled", True)),
    rate=10.0,
    duration_s=2.0,
    epochs=True,
    missing=0.0,
)


class Scene:
    """A machine that has run, with a restart of its numbers, and a store that holds all of it as it should."""

    def __init__(self, loop: VirtualLoop, settings: Settings = SETTINGS, restart_s: float = 1.0) -> None:
        self.loop = loop
        self.restart_s = restart_s
        self.machine = Machine(Plan(seed=1, settings=settings, events=()), loop)
        self.store = RecordingStore({"bpm": self.machine.group}, lambda: loop.now_ns)
        self.drive = Drive(rng=random.Random(1))
        self.oracle = Oracle(settings, self.machine, self.store, [self.drive])

    async def make(self) -> None:
        self.loop.call_at(START_NS / 1e9 + self.restart_s, self.machine.restart_numbers, "zero", 1, 0.0)
        await self.machine.run()
        for crate in self.machine.crates:
            crate.streams = [list(crate.waiting)]
        by_key: dict[tuple[int, int], list[int]] = {}
        for mark, reading in self.machine.readings.items():
            by_key.setdefault((reading.start + 1, reading.trigger), []).append(mark)
        for number, (key, marks) in enumerate(sorted(by_key.items()), 1):
            await self.store.commit(self.batch(number, key, marks))

    def batch(self, number: int, key: tuple[int, int], marks: list[int]) -> Batch:
        readings = self.machine.block_of([self.machine.readings[mark] for mark in marks]).reshape(1, -1)
        present = np.ones(readings.shape, bool)
        ledger = np.zeros(1, ledger_dtype(4))
        ledger["run"], ledger["trigger"] = key
        ledger["expected"], ledger["arrived"], ledger["missing"] = 4, len(marks), pack_missing(present)
        return Batch(
            readings=readings,
            present=present,
            ledger=ledger,
            late=readings[0, :0],
            late_of=np.empty(0, np.intp),
            revised=ledger[:0],
            group=self.machine.group,
            position=JournalPosition(sequence=number, triggers=number, readings=4 * number),
            durability=Durability.SYNC,
        )

    @property
    def kept(self):
        return self.store._groups["bpm"]

    def change(self, name: str, row: int, value: int) -> None:
        rows = self.kept.everything().copy()
        rows[name][row] = value
        self.kept.readings = [rows]


def found(plant: Callable[[Scene], object], dead: Counter[int] | None = None) -> set[str]:
    with virtual_loop() as loop:
        scene = Scene(loop)
        loop.run_until_complete(scene.make())
        plant(scene)
        scene.oracle.see_end([dead or Counter()])
        return {finding.kind for finding in scene.oracle.findings}


@pytest.mark.parametrize("is_settled", [True, False])
def test_an_announced_restart_has_a_run_of_its_own_without_epochs_too(is_settled: bool) -> None:
    """Asked where all from before it is acknowledged, and nothing from after it is there."""
    with virtual_loop() as loop:
        scene = Scene(loop, replace(SETTINGS, epochs=False))
        loop.run_until_complete(scene.make())
        machine, oracle, readings = scene.machine, scene.oracle, scene.machine.readings
        before = {mark: reading for mark, reading in readings.items() if reading.start == 0}
        for crate in machine.crates:
            crate.waiting.clear()
            crate.streams = [[reading for reading in before.values() if reading.instrument in crate.instruments]]
            oracle.acknowledged[crate.number] = 1, len(crate.streams[-1]) - (not is_settled)
        oracle.see_announced()
        assert not oracle.announced
        machine.readings = before
        oracle.see_announced()
        assert oracle.announced == ({1} if is_settled else set())
        machine.readings = readings
        oracle.see_end([Counter()])
        assert not oracle.findings
        rows = scene.kept.everything().copy()
        rows["run"][rows["run"] == 2] = 1
        scene.kept.readings = [rows]
        oracle.see_end([Counter()])
        assert ("an announced restart in the run before" in {each.kind for each in oracle.findings}) == is_settled


def remove_reading(scene: Scene) -> None:
    scene.kept.readings = [scene.kept.everything()[1:]]


def store_twice(scene: Scene) -> None:
    rows = scene.kept.everything()
    scene.kept.readings = [np.concatenate([rows, rows[:1]])]


def drop_row(scene: Scene) -> None:
    del scene.kept.ledger[min(scene.kept.ledger)]


def miscount(scene: Scene) -> None:
    scene.kept.ledger[min(scene.kept.ledger)]["arrived"] = 3


def test_what_is_called_lost_is_compared_with_what_is_there() -> None:
    with virtual_loop() as loop:
        scene = Scene(loop)
        loop.run_until_complete(scene.make())
        oracle, (crate, *_) = scene.oracle, scene.machine.crates
        oracle.see_acknowledged(crate, 5)
        gone = [reading.mark for reading in crate.streams[-1][:3]]
        scene.store.marks.subtract(gone[:2])
        oracle.see_declared_lost(crate, 2, scene.drive)
        oracle.see_lost_commits(None, gone)
        for declared in (2, 3):
            oracle.see_lost_commits(declared, gone)
        assert not oracle.findings
        oracle.see_declared_lost(crate, 3, scene.drive)
        for declared in (1, 4):
            oracle.see_lost_commits(declared, gone)
        kinds = [finding.kind for finding in oracle.findings]
        assert kinds == ["called lost, and there", *["the lost commits are others"] * 2]


def test_what_is_discarded_is_what_was_there() -> None:
    with virtual_loop() as loop:
        oracle = Scene(loop).oracle
        oracle.see_discarded(2, [1, 2])
        assert not oracle.findings
        for declared in (1, 3):
            oracle.see_discarded(declared, [1, 2])
        assert [finding.kind for finding in oracle.findings] == ["what was discarded is other"] * 2


def test_a_row_behind_a_gap_says_that_there_is_one() -> None:
    with virtual_loop() as loop:
        scene = Scene(loop)
        loop.run_until_complete(scene.make())
        sent = max(reading.trigger for crate in scene.machine.crates for reading in crate.sent)
        rows = np.zeros(2, ledger_dtype(4))
        rows["run"], rows["closed_ns"] = 1, [1, 2]
        for behind, skipped, is_wrong in ((sent + 9, 3, False), (sent + 9, 0, True), (sent + 1, 0, False)):
            rows["trigger"], rows["skipped"][1] = [sent - 5, behind], skipped
            scene.oracle.findings.clear()
            scene.oracle._see_gaps(rows, rows)
            assert bool(scene.oracle.findings) is is_wrong, (behind, skipped)


def test_it_finds_nothing_where_all_is_right() -> None:
    assert found(lambda scene: None) == set()


@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (remove_reading, {"lost", "the ledger has it, the data does not", "the account is not the rows"}),
        (store_twice, {"stored twice", "two readings of one key", "the account is not the rows"}),
        (drop_row, {"the data has it, the ledger does not", "the account is not the ledger"}),
        (miscount, {"the ledger's count is not its bitmap"}),
        (lambda scene: scene.change("mark", 0, 7), {"lost", "nobody sent it"}),
        (lambda scene: scene.change("trigger", 0, 9999), {"stored as another"}),
        (lambda scene: scene.change("run", 0, 2), {"start of the timing system in two runs"}),
    ],
)
def test_it_finds_what_is_wrong_at_the_end(plant: Callable[[Scene], object], kinds: set[str]) -> None:
    assert kinds <= found(plant)


@pytest.mark.parametrize(("restart_s", "is_found"), [(1.2, True), (0.5, False)])
def test_without_epochs_only_a_number_that_comes_again_within_a_moment_may_be_in_two_runs(
    restart_s: float, is_found: bool
) -> None:
    with virtual_loop() as loop:
        scene = Scene(loop, replace(SETTINGS, epochs=False), restart_s)
        loop.run_until_complete(scene.make())
        store_twice(scene)
        scene.oracle.see_end([Counter()])
        assert ("stored twice" in {finding.kind for finding in scene.oracle.findings}) is is_found


def test_a_dead_letter_is_no_loss_and_one_that_is_stored_too_is_wrong() -> None:
    with virtual_loop() as loop:
        scene = Scene(loop)
        loop.run_until_complete(scene.make())
        first = int(scene.kept.everything()["mark"][0])
        scene.oracle.see_end([Counter([first])])
        assert {finding.kind for finding in scene.oracle.findings} == {"stored and a dead letter"}
        scene.oracle.findings.clear()
        remove_reading(scene)
        scene.oracle.see_end([Counter([first])])
        assert "lost" not in {finding.kind for finding in scene.oracle.findings}


@pytest.mark.parametrize(("letters_at", "kinds"), [(0, {"stored and a dead letter"}), (1, set())])
def test_of_a_dead_letter_another_host_cannot_know(letters_at: int, kinds: set[str]) -> None:
    with virtual_loop() as loop:
        scene = Scene(loop)
        loop.run_until_complete(scene.make())
        first = int(scene.kept.everything()["mark"][0])
        scene.oracle.stored_from[first] = 0
        dead: list[Counter[int]] = [Counter(), Counter()]
        dead[letters_at][first] = 1
        scene.oracle.see_end(dead)
        assert {finding.kind for finding in scene.oracle.findings} == kinds


@pytest.mark.parametrize(
    ("crate", "place", "kept"), [(0, "journal", False), (0, "dead-letters", True), (1, "journal", True)]
)
def test_what_is_acknowledged_is_in_the_database_or_where_the_crate_asked_for(
    crate: int, place: str, kept: bool
) -> None:
    """A reading that only a synced file has is spooled, and not committed; a dead letter is both."""
    with virtual_loop() as loop:
        scene = Scene(loop)
        loop.run_until_complete(scene.make())
        oracle, crates = scene.oracle, scene.machine.crates
        oracle.see_acknowledged(crates[crate], len(crates[crate].sent))
        assert not oracle.findings
        scene.store.take_back(0)
        oracle.acknowledged.clear()
        oracle.see_acknowledged(crates[crate], 3)
        assert oracle.findings
        oracle.findings.clear()
        oracle.acknowledged.clear()

        folder = PurePosixPath("/") / place
        scene.drive.make_folder(folder)
        scene.drive.sync_folder(PurePosixPath("/"))
        inode = Inode()
        scene.drive.set_name(folder / "file", inode)
        scene.drive.sync_folder(folder)
        inode.write(0, scene.machine.block_of(crates[crate].sent).tobytes())
        oracle.see_acknowledged(crates[crate], 2)
        assert oracle.findings, "it is not synced"
        oracle.findings.clear()
        oracle.acknowledged.clear()
        inode.sync()
        oracle.see_acknowledged(crates[crate], 3)
        assert bool(oracle.findings) is not kept


def test_the_machine_makes_what_its_plan_says() -> None:
    with virtual_loop() as loop:
        scene = Scene(loop)
        scene.machine.dead(3, 100.0)
        scene.machine.clock(1, 3_600_000.0, 0.5)
        scene.machine.wrong_number(2, 100, 0.25)
        loop.run_until_complete(scene.make())
        readings = list(scene.machine.readings.values())
        assert {reading.start for reading in readings} == {0, 1}
        assert {reading.instrument for reading in readings} == {0, 1, 2}
        far = [r for r in readings if r.time_ns > loop.utc_ns + 1_000 * 10**9]
        assert {reading.instrument for reading in far} == {1}
        assert 0 < len(far) < len(readings) / 3
        assert {reading.instrument for reading in readings if reading.is_wrong} == {2}
        epochs = scene.machine.block_of(readings)["epoch"]
        assert epochs.tolist() == [reading.start + 1 for reading in readings]
