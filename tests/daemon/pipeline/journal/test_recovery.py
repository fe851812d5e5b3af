"""What an earlier daemon left: the journal's own history, what is behind a hole in it, and other journals."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import daemon.pipeline.journal.identity as identity_module
from daemon.core.outside import SystemDisk
from daemon.pipeline.journal import Journal, JournalRecovery
from daemon.pipeline.journal.segment import scan
from schemas.batch import ClosedBlock, JournalPosition
from tests.daemon.pipeline.journal.test_journal import (
    GROUP,
    ON_DISK,
    ROOMY,
    at,
    block_of,
    everything,
    flip,
    opened,
    same,
    segments,
)
from tests.support.disks import REAL

DISK = SystemDisk()


def reopened(folder: Path, position: JournalPosition | None, **limits: int) -> tuple[Journal, JournalRecovery]:
    journal = Journal(folder, GROUP, REAL, **{**ROOMY, **limits})
    return journal, journal.open(position)


def filled(folder: Path, *numbers: int, segment_bytes: int = 2**20) -> tuple[int, int]:
    """A journal with blocks; return its id and the number of the first."""
    with opened(folder, segment_bytes=segment_bytes) as journal:
        first = journal.next
        for number in numbers:
            journal.append([block_of(number)])
        return journal.id, first


def all_same(found: list[ClosedBlock], *numbers: int) -> bool:
    return len(found) == len(numbers) and all(same(block_of(k), block) for k, block in zip(numbers, found, strict=True))


# --- whose positions and whose segments they are ------------------------------------------------------------------


def test_each_start_has_an_id_of_its_own_and_knows_those_before(tmp_path: Path) -> None:
    journal, _ = filled(tmp_path / "a", 1)
    other, _ = filled(tmp_path / "b", 1)
    assert 0 < journal < 2**63
    assert journal != other
    with opened(tmp_path / "a") as again:
        assert again.id != journal
        assert again.ids == {journal, again.id}
    (path,) = segments(tmp_path / "a")
    head = scan(DISK, path).head
    assert head is not None
    assert head.journal == journal


@pytest.mark.parametrize("whose", ["another's", "nobody's"])
def test_the_position_of_another_journal_trims_nothing(tmp_path: Path, whose: str) -> None:
    journal, first = filled(tmp_path, 1, 2, 3)
    journal, recovered = reopened(
        tmp_path, JournalPosition(sequence=first + 10**6, journal=journal + 1 if whose == "another's" else 0)
    )
    assert recovered.amount.blocks == 3
    assert all_same(list(everything(journal).values()), 1, 2, 3)
    assert journal.next > first + 10**6
    journal.close()


def test_the_segments_of_another_journal_are_left_alone_until_they_are_dropped(tmp_path: Path) -> None:
    """A folder in which somebody put the files of another host."""
    theirs, first = filled(tmp_path / "theirs", 1, 2, 3, segment_bytes=1)
    filled(tmp_path / "mine", 4)
    (tmp_path / "mine").joinpath(segments(tmp_path / "mine")[0].name).unlink()
    for path in segments(tmp_path / "theirs"):
        shutil.copy(path, tmp_path / "mine")
    held = at(tmp_path / "mine", first + 100)
    for _ in range(2):
        journal, recovered = reopened(tmp_path / "mine", held)
        assert recovered.amount.blocks == 0
        assert [(each.journal, each.amount.blocks) for each in recovered.foreign] == 3 * [(theirs, 1)]
        assert all_same(list(journal.read_foreign()), 1, 2, 3)
        assert everything(journal) == {}
        journal.append([block_of(9)])
        journal.trim(journal.next)
        journal.close()
    journal, _ = reopened(tmp_path / "mine", held)
    journal.drop_foreign()
    assert list(journal.read_foreign()) == []
    journal.close()
    journal, recovered = reopened(tmp_path / "mine", held)
    assert recovered.foreign == ()
    journal.close()


@pytest.mark.parametrize("most", [1, 256])
def test_ids_are_known_for_as_long_as_anything_is_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(identity_module, "FORMER_MOST", most)
    held, first = filled(tmp_path, 1, 2)
    written, _ = filled(tmp_path, 3)
    position = JournalPosition(sequence=first, journal=held)
    for _ in range(5):
        journal, recovered = reopened(tmp_path, position)
        assert (recovered.amount.blocks, recovered.loose.blocks, recovered.foreign) == (2, 0, ())
        journal.close()
    assert {held, written} < journal.ids
    assert len(journal.ids) == (4 if most == 1 else 7)


def test_a_copy_of_the_folder_has_another_id(tmp_path: Path) -> None:
    before, first = filled(tmp_path / "here", 1, 2)
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    copied, last = filled(tmp_path / "copy", 3)
    with opened(tmp_path / "here") as journal:
        journal.append([block_of(4)])
    journal, recovered = reopened(tmp_path / "here", JournalPosition(sequence=last, journal=copied))
    assert copied not in journal.ids
    assert before in journal.ids
    assert recovered.amount.blocks == 3  # nothing of it is trimmed
    journal.close()
    journal, recovered = reopened(tmp_path / "copy", JournalPosition(sequence=first, journal=before))
    assert recovered.amount.blocks == 2
    journal.close()


def test_a_start_that_fails_at_any_moment_leaves_the_journal_to_the_next(tmp_path: Path) -> None:
    """A start makes known a new id; nothing was committed under it, and those before are known."""
    journal, first = filled(tmp_path / "0", 1, 2, 3)
    position = JournalPosition(sequence=first, journal=journal)
    for life in range(40):
        folder = tmp_path / str(life)
        shutil.copytree(folder, tmp_path / str(life + 1))
        disk = FailsFrom(life)
        try:
            Journal(folder, GROUP, replace(REAL, disk=disk), **ROOMY).open(position)
        except OSError:
            again, recovered = reopened(folder, position)
            assert (recovered.amount.blocks, recovered.loose.blocks, recovered.foreign) == (2, 0, ())
            again.close()
        else:
            return
    pytest.fail("it opens with no disk that fails")


class FailsFrom(SystemDisk):
    """A disk of which nothing can be changed from one moment on. left: changes until then."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError(5, "input/output error")

    def replace(self, path: Path, data: bytes) -> None:
        self._change()
        super().replace(path, data)

    def remove(self, path: Path) -> None:
        self._change()
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        self._change()
        super().sync_folder(folder)


def test_a_folder_that_lost_its_id_gets_a_new_one(tmp_path: Path) -> None:
    old, first = filled(tmp_path, 1, 2)
    (tmp_path / "id").write_text("")
    journal, recovered = reopened(tmp_path, JournalPosition(sequence=first + 1, journal=old))
    assert journal.id not in (0, old)
    assert [each.journal for each in recovered.foreign] == [old]
    assert all_same(list(journal.read_foreign()), 1, 2)
    assert journal.next > first + 1
    journal.close()


def test_no_number_comes_again_whatever_is_lost(tmp_path: Path) -> None:
    """The database may have blocks whose records were trimmed, or lost with the power, and be away at the start."""
    with opened(tmp_path) as journal:
        last = journal.append([block_of(number) for number in range(1, 20)])
        journal.trim(last)
    assert segments(tmp_path) == []
    journal, _ = reopened(tmp_path, None)
    assert journal.next > last
    journal.close()


# --- holes --------------------------------------------------------------------------------------------------------


def drop_record(path: Path, which: int) -> None:
    """Spoil a record of a segment."""
    flip(path, int(scan(DISK, path).records[which]["end"]) - 9, 1)


def test_what_is_behind_a_hole_is_no_history(tmp_path: Path) -> None:
    _, first = filled(tmp_path, 1, 2, 3, 4)
    drop_record(segments(tmp_path)[0], 1)
    journal, recovered = reopened(tmp_path, at(tmp_path, 0))
    assert recovered.amount.blocks == 1
    assert recovered.loose.blocks == 2
    assert recovered.hole == (first, first + 1)
    assert list(everything(journal)) == [first]
    assert all(same(block_of(1), block) for block in journal.read_last(100)[0])
    assert all_same(list(journal.read_loose()), 3, 4)
    # They are there until they are dropped, whatever comes after them.
    last = journal.append([block_of(7)])
    journal.close()
    journal, recovered = reopened(tmp_path, at(tmp_path, 0))
    assert list(everything(journal)) == [first, last]
    assert all_same(list(journal.read_loose()), 3, 4)
    journal.trim(first)
    assert all_same(list(journal.read_loose()), 3, 4)
    journal.drop_loose()
    journal.close()
    journal, recovered = reopened(tmp_path, at(tmp_path, first))
    assert (recovered.loose.blocks, recovered.hole) == (0, None)
    assert all_same(list(everything(journal).values()), 7)
    journal.close()


def test_dropping_what_is_loose_leaves_what_is_not(tmp_path: Path) -> None:
    _, first = filled(tmp_path, 1, 2, 3, 4)
    drop_record(segments(tmp_path)[0], 2)
    journal, _ = reopened(tmp_path, at(tmp_path, 0))
    journal.drop_loose()
    for _ in range(2):
        assert list(everything(journal)) == [first, first + 1]
        assert all_same(list(everything(journal).values()), 1, 2)
        journal.close()
        journal, recovered = reopened(tmp_path, at(tmp_path, 0))
        assert (recovered.loose.blocks, recovered.damages) == (0, ())
    journal.close()


def test_what_the_database_had_before_it_was_written_leaves_no_hole(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        first = journal.next
        journal.append([block_of(1)], first)
        journal.trim(first + 3)
        journal.append([block_of(5), block_of(6)], first + 4)
    journal, recovered = reopened(tmp_path, at(tmp_path, first + 3))
    assert (recovered.amount.blocks, recovered.loose.blocks) == (2, 0)
    journal.close()
    # A database that fell back lacks what was here never, or is no more.
    journal, recovered = reopened(tmp_path, at(tmp_path, first))
    assert (recovered.amount.blocks, recovered.loose.blocks) == (0, 2)
    assert recovered.hole == (first, first + 3)
    assert all_same(list(journal.read_loose()), 5, 6)
    journal.close()


def test_a_journal_whose_database_was_not_asked_begins_with_what_it_has(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=1) as journal:
        first = journal.next
        for number in (1, 2, 3):
            journal.append([block_of(number)])
        journal.trim(first)
    journal, recovered = reopened(tmp_path, None)
    assert (recovered.amount.blocks, recovered.loose.blocks) == (2, 0)
    last = journal.append([block_of(4)])
    journal.close()
    journal, recovered = reopened(tmp_path, at(tmp_path, first + 1))
    assert list(everything(journal)) == [first + 2, last]
    journal.close()


@ON_DISK
@given(data=st.data())
def test_history_goes_up_to_the_first_hole(tmp_path: Path, data: st.DataObject) -> None:
    """Against a model, over several lives with trims and lost records."""
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    held, whole, spoiled = 0, [], set[int]()
    for life in range(data.draw(st.integers(1, 3))):
        journal, _ = reopened(folder, at(folder, held), segment_bytes=3000)
        assert list(everything(journal)) == whole
        for _ in range(data.draw(st.integers(1, 6))):
            first = journal.next
            if data.draw(st.integers(0, 4)) == 0:
                held = first - 1 + data.draw(st.integers(0, 2))
                journal.trim(held)
                whole = []
                first = journal.next
            whole.append(journal.append([block_of(life)], first))
        journal.close()
        if whole and data.draw(st.booleans()):
            lost = data.draw(st.sampled_from(whole))
            for path in segments(folder):
                for record in scan(DISK, path).records:
                    if int(record["sequence"]) == lost:
                        flip(path, int(record["end"]) - 9, 1)
            spoiled.add(lost)
            whole = [number for number in whole if number < lost]
    journal, recovered = reopened(folder, at(folder, held))
    assert list(everything(journal)) == whole
    assert (recovered.hole is None) == (recovered.loose.blocks == 0)
    journal.close()


# --- what the heads hold ------------------------------------------------------------------------------------------


def test_the_state_of_the_newest_segment_is_found_again(tmp_path: Path) -> None:
    asked: list[int] = []

    def state(first: int) -> bytes:
        asked.append(first)
        return f"below {first}".encode() * 10_000

    journal = Journal(tmp_path, GROUP, REAL, max_bytes=2**30, segment_bytes=2**17, state=state)
    journal.open(None)
    first = journal.next
    for number in range(300):
        journal.append([block_of(number)])
    journal.close()
    assert len(asked) > 2
    journal, recovered = reopened(tmp_path, at(tmp_path, 0))
    assert (recovered.state, recovered.state_at) == (f"below {asked[-1]}".encode() * 10_000, asked[-1] - 1)
    journal.close()
    # A hole before it: what it tells of is not all there.
    drop_record(segments(tmp_path)[-2], 0)
    journal, recovered = reopened(tmp_path, at(tmp_path, 0))
    assert recovered.state_at == asked[-2] - 1
    assert max(everything(journal)) == asked[-2] - 1
    assert first == asked[0]
    journal.close()


def test_a_segment_that_was_written_again_after_a_failure_is_believed(tmp_path: Path) -> None:
    """The end of a segment may hold what a failed write left of records that are whole in the next."""
    _, first = filled(tmp_path, 1, 2, 3)
    (path,) = segments(tmp_path)
    records = scan(DISK, path).records
    data = path.read_bytes()
    start = int(records[2]["start"])
    path.with_name(f"{first + 2:020d}.journal").write_bytes(data[: int(records[0]["start"])] + data[start:])
    journal, recovered = reopened(tmp_path, at(tmp_path, 0))
    assert recovered.amount.blocks == 3
    assert [number for number, _ in journal.read(0, 2**30)] == [first, first + 1, first + 2]

    journal.close()
