"""Closed blocks that a version before 0.2 left are never started over: they would be lost without a word."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.core.outcome import CommandFailed
from daemon.pipeline.files.format import counted_of, encode, segment_head
from daemon.pipeline.files.segment import path_of
from daemon.pipeline.recovery.refusing import ENDING, readings_left, refuse_earlier_version
from schemas.batch import ClosedBlock
from tests.daemon.pipeline.files.test_format import GROUP, block_of
from tests.support.disks import REAL

JOURNAL = 77


def journal_of(
    state_dir: Path, *numbers: int, name: str = "bpm", blocks: Sequence[ClosedBlock] | None = None
) -> list[ClosedBlock]:
    """A journal as that version wrote it, with blocks of these numbers; return them."""
    folder = state_dir / "journal" / name
    folder.mkdir(parents=True)
    (folder / "id").write_text(f"{JOURNAL} 1000000 75 76\n")
    blocks = [block_of(number) for number in numbers] if blocks is None else blocks
    for first, half in ((0, blocks[:2]), (2, blocks[2:])):
        if half:
            parts = [segment_head(GROUP, JOURNAL, numbers[first] - 1)]
            for number, block in zip(numbers[first:], half, strict=False):
                parts += encode(number, block, GROUP, follows=number - 1)
            path_of(folder, numbers[first], ENDING).write_bytes(b"".join(bytes(part) for part in parts))
    return list(blocks)


def acknowledged(state_dir: Path, sequence: int, journal: int = JOURNAL) -> None:
    (state_dir / "journal" / "bpm" / "acknowledged").write_text(f"{journal} {sequence} 6 30\n")


def test_a_folder_without_a_journal_is_started_in(tmp_path: Path) -> None:
    refuse_earlier_version(tmp_path, "bpm", REAL.disk)
    journal_of(tmp_path)
    refuse_earlier_version(tmp_path, "bpm", REAL.disk)


def test_what_the_database_lacked_is_refused_with_what_to_do(tmp_path: Path) -> None:
    blocks = journal_of(tmp_path, 5, 6, 7, 8)
    acknowledged(tmp_path, 6)
    left = sum(counted_of(block) for block in blocks[2:])
    assert readings_left(tmp_path / "journal" / "bpm", REAL.disk) == left
    with pytest.raises(
        CommandFailed, match=rf"journal/bpm holds {left} readings .* run that version with the database"
    ):
        refuse_earlier_version(tmp_path, "bpm", REAL.disk)


def test_what_it_had_is_not(tmp_path: Path) -> None:
    """An asynchronous database had it, and may have lost it since: that version would have committed it again."""
    journal_of(tmp_path, 5, 6, 7)
    acknowledged(tmp_path, 7)
    refuse_earlier_version(tmp_path, "bpm", REAL.disk)


@pytest.mark.parametrize(
    ("journal", "is_known"), [(JOURNAL, True), (75, True), (76, True), (1000000, False), (9, False)]
)
def test_a_note_counts_that_this_journal_wrote(tmp_path: Path, journal: int, is_known: bool) -> None:
    """The second word of the file is a number that was given out, and no id."""
    journal_of(tmp_path, 5, 6)
    acknowledged(tmp_path, 6, journal)
    assert (readings_left(tmp_path / "journal" / "bpm", REAL.disk) == 0) == is_known


def test_without_a_note_all_of_it_counts(tmp_path: Path) -> None:
    blocks = journal_of(tmp_path, 5, 6, 7)
    left = sum(counted_of(block) for block in blocks)
    assert readings_left(tmp_path / "journal" / "bpm", REAL.disk) == left


def test_a_folder_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "journal" / "bpm" / "acknowledged").mkdir(parents=True)
    with pytest.raises(CommandFailed, match="cannot be used"):
        refuse_earlier_version(tmp_path, "bpm", REAL.disk)
