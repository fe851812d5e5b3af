"""What counts as on the disk is on the disk, whatever failed before: seen by what a power cut leaves."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.core.outside import SystemDisk
from daemon.pipeline.journal import Journal, JournalFull, JournalRecovery
from daemon.pipeline.journal.identity import read_ids
from daemon.pipeline.journal.segment import scan
from schemas.batch import ClosedBlock, JournalPosition
from tests.daemon.pipeline.journal.test_journal import GROUP, ROOMY, block_of, everything, flip, same, segments
from tests.support.disks import REAL, FaultyDisk, faulty

DISK = SystemDisk()
BAD = OSError(5, "input/output error")
FULL = OSError(28, "no space left")
READ_ONLY = OSError(30, "read-only file system")


@contextmanager
def opened(folder: Path, disk: FaultyDisk, **limits: int) -> Iterator[tuple[Journal, JournalRecovery]]:
    """A journal whose process is killed at the end."""
    journal = Journal(folder, GROUP, faulty(disk), **{**ROOMY, **limits})
    recovered = journal.open(None)
    try:
        yield journal, recovered
    finally:
        journal._release()


def after_power_cut(disk: FaultyDisk, folder: Path, to: Path) -> dict[int, ClosedBlock]:
    disk.after_power_cut(folder, to)
    journal = Journal(to, GROUP, REAL, **ROOMY)
    journal.open(None)
    found = everything(journal)
    journal.close()
    return found


def test_what_is_synced_survives_a_power_cut_with_its_name(tmp_path: Path) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk, segment_bytes=3000) as (journal, _):
        for number in range(1, 10):
            journal.append([block_of(number)])
        last = journal.sync()
        journal.append([block_of(10)])
        journal.append([block_of(11)])
    assert len(segments(folder)) > 2
    assert max(after_power_cut(disk, folder, tmp_path / "after")) == last


def test_the_parents_of_a_new_folder_are_synced(tmp_path: Path) -> None:
    disk = FaultyDisk()
    synced: list[Path] = []
    disk.before = lambda operation, path: synced.append(path) if operation == "sync_folder" else None
    for _ in range(2):  # an earlier process may have made it, and died
        with opened(tmp_path / "state" / "journal" / "bpm", disk):
            assert {tmp_path / "state", tmp_path / "state" / "journal"} <= set(synced)
        synced.clear()


def test_what_a_sync_failed_for_is_written_anew(tmp_path: Path) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        first = journal.append([block_of(1)])
        disk.failing["sync"] = BAD
        with pytest.raises(OSError, match="input/output"):
            journal.sync()
        assert not journal.is_durable
        # What comes then is in another file, whose sync says nothing of the first.
        journal.append([block_of(2)])
        disk.failing["replace"] = BAD
        with pytest.raises(OSError, match="input/output"):
            journal.sync()
        disk.failing.clear()
        assert journal.sync() == first + 1
        assert journal.is_durable
        assert len(everything(journal)) == 2
    found = after_power_cut(disk, folder, tmp_path / "after")
    assert list(found) == [first, first + 1]
    assert same(found[first], block_of(1))


def test_a_file_that_a_failure_left_is_not_in_the_way(tmp_path: Path) -> None:
    """It could not even be removed; the next one begins with the same number."""
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        disk.failing |= {"append": BAD, "remove": READ_ONLY}
        for _ in range(2):
            with pytest.raises(OSError, match="read-only"):
                journal.append([block_of(1)])
        disk.failing.clear()
        assert len(segments(folder)) == 1
        first = journal.append([block_of(1)])
        assert journal.sync() == first
    assert list(after_power_cut(disk, folder, tmp_path / "after")) == [first]


@pytest.mark.parametrize("operation", ["sync", "sync_folder"])
def test_a_sealed_segment_that_a_sync_failed_for_is_written_anew(tmp_path: Path, operation: str) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk, segment_bytes=3000) as (journal, _):
        first = journal.next
        for number in range(1, 10):
            journal.append([block_of(number)])
        assert len(segments(folder)) > 2
        disk.failing[operation] = BAD
        for _ in range(2):
            with pytest.raises(OSError, match="input/output"):
                journal.sync()
        disk.failing.clear()
        assert journal.sync() == first + 8
    assert list(after_power_cut(disk, folder, tmp_path / "after")) == list(range(first, first + 9))


def test_what_cannot_be_read_to_be_written_anew_never_counts_as_synced(tmp_path: Path) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        first = journal.append([block_of(1)])
        end = segments(folder)[0].stat().st_size
        journal.append([block_of(2)])
        disk.failing["sync"] = BAD
        with pytest.raises(OSError, match="input/output"):
            journal.sync()
        disk.failing.clear()
        (path,) = segments(folder)
        # The page cache let go of it, and the disk never had it.
        path.write_bytes(path.read_bytes()[: end - 64] + bytes(64) + path.read_bytes()[end:])
        journal.append([block_of(3)])
        assert journal.sync() == first - 1
        assert list(everything(journal)) == [first + 1, first + 2]
        assert journal.is_durable
        # Once the database has it there is nothing to doubt.
        journal.trim(first)
        journal.append([block_of(4)])
        assert journal.sync() == first + 3


def test_after_a_failed_append_the_segment_takes_no_more(tmp_path: Path) -> None:
    """A short write that cannot be taken back would hide what is written behind it."""
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        first = journal.append([block_of(1)])
        for error, raised in ((BAD, OSError), (FULL, JournalFull)):
            disk.failing["append"] = error
            with pytest.raises(raised):
                journal.append([block_of(number) for number in range(2, 6)])
            disk.failing.clear()
        journal.append([block_of(number) for number in range(2, 6)])
        assert journal.sync() == first + 4
        assert list(everything(journal)) == list(range(first, first + 5))
    found = after_power_cut(disk, folder, tmp_path / "after")
    assert list(found) == list(range(first, first + 5))
    assert all(same(block_of(k), block) for k, block in enumerate(found.values(), 1))


def test_what_a_killed_process_did_not_sync_is_put_on_the_disk_at_the_start(tmp_path: Path) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk, segment_bytes=3000) as (journal, _):
        first = journal.next
        for number in range(1, 10):
            journal.append([block_of(number)])
    assert after_power_cut(disk, folder, tmp_path / "after") == {}
    with opened(folder, disk) as (journal, recovered):
        assert (recovered.amount.blocks, recovered.problem) == (9, None)
        assert journal.is_durable
    assert list(after_power_cut(disk, folder, tmp_path / "after")) == list(range(first, first + 9))


def test_what_is_behind_a_hole_is_put_on_the_disk_at_the_start_too(tmp_path: Path) -> None:
    """It is taken again, and its senders go on behind it."""
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk, segment_bytes=3000) as (journal, _):
        for number in range(1, 10):
            journal.append([block_of(number)])
    segments(folder)[1].unlink()
    with opened(folder, disk) as (journal, recovered):
        count = recovered.loose.blocks
        assert count > 0
        assert journal.is_durable
    disk.after_power_cut(folder, tmp_path / "after")
    journal = Journal(tmp_path / "after", GROUP, REAL, **ROOMY)
    journal.open(None)
    assert len(list(journal.read_loose())) == count
    journal.close()


def test_a_killed_process_that_could_not_sync_leaves_no_file_that_is_believed(tmp_path: Path) -> None:
    """After a sync that failed the system takes the file for written: syncing it again proves nothing."""
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        first = journal.append([block_of(1)])
        disk.failing["sync"] = BAD
        with pytest.raises(OSError, match="input/output"):
            journal.sync()
        disk.failing.clear()
    with opened(folder, disk) as (journal, _):
        assert journal.is_durable
    assert list(after_power_cut(disk, folder, tmp_path / "after")) == [first]


def test_a_disk_that_fails_at_the_start_is_told_and_tried_again(tmp_path: Path) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        first = journal.append([block_of(1)])

    def fail(operation: str, path: Path) -> None:
        if operation == "replace" and path.name != "id":
            raise FULL

    disk.before = fail
    with opened(folder, disk) as (journal, recovered):
        assert recovered.problem is not None
        assert "no space left" in recovered.problem
        assert not journal.is_durable
        assert list(everything(journal)) == [first]
        disk.before = lambda operation, path: None
        assert journal.sync() >= first
        assert journal.is_durable
    assert list(after_power_cut(disk, folder, tmp_path / "after")) == [first]


def test_what_was_synced_before_is_not_written_again_at_the_start(tmp_path: Path) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk, segment_bytes=3000) as (journal, _):
        for number in range(1, 20):
            journal.append([block_of(number)])
            journal.sync()
    before = disk.calls["replace"]
    with opened(folder, disk):
        # The id, and the last segment, of which no later record says that it was synced.
        assert disk.calls["replace"] - before == 2


def test_a_segment_that_was_replaced_all_the_same_is_read_where_its_records_are(tmp_path: Path) -> None:
    """The new file has its name, and the name is not certain to be on the disk: some records lie elsewhere by then."""
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        first = journal.append([block_of(1)])
        for number in (2, 3):
            journal.append([block_of(number)])

    replace = disk.replace

    def half(path: Path, data: bytes) -> None:
        replace(path, data)
        if path.suffix == ".journal":
            raise BAD

    disk.replace = half  # type: ignore[method-assign]
    journal = Journal(folder, GROUP, faulty(disk), **ROOMY)
    recovered = journal.open(JournalPosition(sequence=first, journal=journal_id(folder)))
    assert recovered.problem is not None
    del disk.replace  # type: ignore[method-assign]
    found = everything(journal)
    assert list(found) == [first + 1, first + 2]
    assert all(same(found[first + k], block_of(k + 1)) for k in (1, 2))
    assert journal.sync() >= first + 2
    assert list(everything(journal)) == [first + 1, first + 2]
    journal._release()


def journal_id(folder: Path) -> int:
    return int((folder / "id").read_text().split()[0])


# --- a disk that takes nothing at the start ----------------------------------------------------------------------


@pytest.mark.parametrize("error", [FULL, READ_ONLY, BAD, OSError(13, "permission denied"), OSError(122, "quota")])
def test_a_disk_that_takes_nothing_keeps_no_journal_from_being_opened(tmp_path: Path, error: OSError) -> None:
    disk, folder = FaultyDisk(), tmp_path / "bpm"
    with opened(folder, disk) as (journal, _):
        before, last = journal.id, journal.append([block_of(1), block_of(2), block_of(3)])
        journal.sync()
    (path,) = segments(folder)
    flip(path, int(scan(DISK, path).records[0]["end"]) - 9, 1)
    whole = path.read_bytes()
    disk.failing |= dict.fromkeys(("replace", "create", "remove", "append", "sync"), error)
    for _ in range(2):
        with opened(folder, disk) as (journal, recovered):
            assert f"{folder} cannot be written" in str(recovered.problem)
            assert journal.has_deferred
            assert not journal.is_durable
            assert journal.id not in (0, before)
            assert (recovered.loose.blocks, len(list(journal.read_loose()))) == (2, 2)
            with pytest.raises((OSError, JournalFull), match="cannot be written"):
                journal.append([block_of(4)])
            # What is damaged stays until it is copied.
            with pytest.raises(OSError, match="cannot be written"):
                journal.drop_loose()
            assert path.read_bytes() == whole
            disk_id = read_ids(folder, DISK)
            assert disk_id[0] == before
    with opened(folder, disk) as (journal, _):
        disk.failing.clear()
        journal.append([block_of(4)])
        journal.sync()
        assert journal.is_durable
        assert read_ids(folder, DISK)[0] == journal.id
        assert read_ids(folder, DISK)[1] > last
        journal.drop_loose()
        assert [each.read_bytes() for each in (folder / "damaged").iterdir()]
    assert [same(block_of(4), block) for block in after_power_cut(disk, folder, tmp_path / "after").values()] == [True]
