"""The disk: what a power cut takes, and what a failed call leaves."""

import contextlib
import errno
import random
from pathlib import Path

import pytest

from backends.files import FolderInUse
from daemon.pipeline.files.acknowledged import Acknowledged, read_acknowledged
from schemas.batch import JournalPosition
from tests.simulation.disk import SECTOR, Drive, Fault, SimulatedDisk
from tests.simulation.loop import Killed, Life
from tests.simulation.outside import outside_of

FOLDER = Path("/state/journal")
FILE = FOLDER / "1.journal"


@pytest.fixture
def drive() -> Drive:
    """A drive that loses all that is not synced."""
    drive = Drive(rng=random.Random(1))
    drive.kept = drive.torn = 0.0
    return drive


@pytest.fixture
def disk(drive: Drive) -> SimulatedDisk:
    disk = SimulatedDisk(drive, Life("a"))
    disk.make_folder(FOLDER)
    return disk


def after_power_cut(drive: Drive) -> SimulatedDisk:
    drive.cut_power()
    return SimulatedDisk(drive, Life("b"))


def test_a_power_cut_loses_unsynced_data_and_a_kill_does_not(drive: Drive, disk: SimulatedDisk) -> None:
    file = disk.create(FILE)
    disk.sync_folder(FOLDER)
    file.append([b"a" * 600])
    file.sync()
    file.append([b"b" * 600])
    assert SimulatedDisk(drive, Life("after a kill")).read(FILE, 0, 9999) == b"a" * 600 + b"b" * 600
    assert after_power_cut(drive).read(FILE, 0, 9999) == b"a" * 600


def test_a_power_cut_loses_unsynced_names(drive: Drive, disk: SimulatedDisk) -> None:
    file = disk.create(FILE)
    file.append([b"a"])
    file.sync()
    assert after_power_cut(drive).names(FOLDER) == []


def test_a_power_cut_brings_back_a_name_whose_removal_is_not_synced(drive: Drive, disk: SimulatedDisk) -> None:
    file = disk.create(FILE)
    file.append([b"a"])
    file.sync()
    disk.sync_folder(FOLDER)
    disk.remove(FILE)
    assert disk.names(FOLDER) == []
    assert after_power_cut(drive).names(FOLDER) == [FILE.name]


def test_a_folder_whose_name_is_not_synced_goes_with_all_that_is_in_it(drive: Drive, disk: SimulatedDisk) -> None:
    drive.make_folder(drive_path := FOLDER / "new")  # type: ignore[arg-type]
    file = disk.create(Path(drive_path) / "file")
    file.append([b"a"])
    file.sync()
    disk.sync_folder(Path(drive_path))
    assert after_power_cut(drive).names(Path(drive_path)) == []


def test_sectors_are_kept_lost_or_torn_each_by_itself(drive: Drive, disk: SimulatedDisk) -> None:
    drive.kept, drive.torn = 0.4, 0.3
    file = disk.create(FILE)
    disk.sync_folder(FOLDER)
    file.append([b"a" * SECTOR * 200])
    data = after_power_cut(drive).read(FILE, 0, 1 << 20)
    sectors = [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]
    kept = sum(sector == b"a" * SECTOR for sector in sectors)
    lost = sum(sector == bytes(len(sector)) for sector in sectors)
    assert kept > 20
    assert lost > 20
    assert len(sectors) - kept - lost > 20


def test_after_a_failed_sync_another_one_proves_nothing(drive: Drive, disk: SimulatedDisk) -> None:
    file = disk.create(FILE)
    disk.sync_folder(FOLDER)
    file.append([b"a" * 2000])
    drive.faults.append(Fault("sync", 1))
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    with pytest.raises(AssertionError, match="may only be closed"):
        file.sync()
    inode = drive.inode(FILE)  # type: ignore[arg-type]
    inode.sync()
    assert disk.read(FILE, 0, 9999) == b"a" * 2000
    assert after_power_cut(drive).read(FILE, 0, 9999) == b""


def test_a_full_disk_takes_a_part(drive: Drive, disk: SimulatedDisk) -> None:
    file = disk.create(FILE)
    drive.capacity = 100
    with pytest.raises(OSError, match="No space") as raised:
        file.append([b"a" * 60, b"b" * 60])
    assert raised.value.errno == errno.ENOSPC
    assert (b"a" * 60 + b"b" * 40).startswith(disk.read(FILE, 0, 9999))
    with pytest.raises(AssertionError, match="may only be closed"):
        file.append([b"c"])


def test_faults_come_after_so_many_calls_and_for_so_many(drive: Drive, disk: SimulatedDisk) -> None:
    drive.faults.append(Fault("create", left=2, skip=1))
    disk.create(FOLDER / "0")
    for name in "12":
        with pytest.raises(OSError, match="Input/output"):
            disk.create(FOLDER / name)
    disk.create(FOLDER / "3")


def test_faults_are_of_the_calls_for_one_path(drive: Drive, disk: SimulatedDisk) -> None:
    drive.faults.append(Fault("create", left=1, where="/1"))
    disk.create(FOLDER / "0")
    with pytest.raises(OSError, match="Input/output"):
        disk.create(FOLDER / "1")
    disk.create(FOLDER / "2")


def test_replacing_leaves_the_old_or_the_new_whole(drive: Drive) -> None:
    """Whenever it is killed, and the power goes at the same time."""
    seen = set()
    for calls in range(20):
        drive = Drive(rng=random.Random(calls))
        drive.kept = drive.torn = 0.5
        life = Life("a")
        disk = SimulatedDisk(drive, life)
        disk.make_folder(FOLDER)
        disk.replace(FILE, b"old" * 400)
        life.kill_after("disk", calls)
        try:
            disk.replace(FILE, b"new" * 400)
            returned = True
        except Killed:
            returned = False
        content = after_power_cut(drive).read(FILE, 0, 9999)
        assert content in ((b"new" * 400,) if returned else (b"old" * 400, b"new" * 400))
        seen.add((returned, content[:3]))
    assert seen == {(False, b"old"), (False, b"new"), (True, b"new")}


def test_a_dead_life_changes_nothing(drive: Drive) -> None:
    life = Life("a")
    disk = SimulatedDisk(drive, life)
    disk.make_folder(FOLDER)
    file = disk.create(FILE)
    life.kill()
    for call in (lambda: file.append([b"a"]), lambda: disk.remove(FILE), lambda: disk.names(FOLDER)):
        with pytest.raises(Killed):
            call()
    assert SimulatedDisk(drive, Life("b")).names(FOLDER) == [FILE.name]


def test_a_lock_is_held_until_its_holder_dies(drive: Drive) -> None:
    life = Life("a")
    SimulatedDisk(drive, life).make_folder(FOLDER)
    SimulatedDisk(drive, life).lock(FOLDER / "lock")
    with pytest.raises(FolderInUse):
        SimulatedDisk(drive, Life("b")).lock(FOLDER / "lock")
    life.kill()
    SimulatedDisk(drive, Life("b")).lock(FOLDER / "lock")


@pytest.mark.parametrize("call", range(8))
@pytest.mark.parametrize("power_too", [False, True])
def test_a_note_of_what_was_acknowledged_is_the_former_or_the_newer_wherever_its_writing_ends(
    drive: Drive, call: int, power_too: bool
) -> None:
    life = Life("writer")
    writing = Acknowledged(FOLDER, outside_of(None, drive, life, random.Random(1)))
    first, second = (JournalPosition(sequence=n, journal=7, triggers=n, readings=5 * n) for n in (1, 2))
    writing.note(first)
    writing.write()
    writing.note(second)
    life.kill_after("disk", call)
    with contextlib.suppress(Killed):
        writing.write()
    if power_too:
        drive.cut_power()
    assert read_acknowledged(FOLDER, SimulatedDisk(drive, Life("reader"))) in (first, second)
