"""The note of what the database acknowledged last, and what a database behind it lacks."""

from pathlib import Path

import pytest

from daemon.pipeline.files import Acknowledged
from daemon.pipeline.files.acknowledged import NOWHERE, read_acknowledged, readings_behind
from schemas.batch import JournalPosition
from tests.support.disks import REAL, FaultyDisk, faulty


@pytest.mark.parametrize(
    ("position", "lacking"),
    [
        (JournalPosition(sequence=9, journal=7, readings=90), 10),
        (JournalPosition(sequence=10, journal=7, readings=90), 0),  # an operator set the account
        (JournalPosition(sequence=11, journal=6, readings=120), 0),
        (JournalPosition(sequence=9, journal=6, readings=50), 50),  # a former id
        (JournalPosition(sequence=3, journal=5, readings=101), 0),
        (JournalPosition(sequence=300, journal=5, readings=80), 20),
    ],
)
def test_by_the_position_and_the_account(position: JournalPosition, lacking: int) -> None:
    noted = JournalPosition(sequence=10, journal=7, readings=100, triggers=20)
    assert readings_behind(noted, position, {7, 6, 8}) == lacking
    assert readings_behind(NOWHERE, position, {7, 6, 8}) == 0


async def test_a_note_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    disk = FaultyDisk()
    note = Acknowledged(tmp_path / "bpm", faulty(disk))
    first, second = (JournalPosition(sequence=n, journal=7, triggers=n, readings=5 * n) for n in (1, 2))
    note.note(first)
    await note.end()
    assert note.read() == first
    note.note(second)
    disk.failing["replace"] = OSError("no")
    await note.end()
    assert note.read() == first
    del disk.failing["replace"]
    await note.end()
    assert note.read() == second


@pytest.mark.parametrize("text", ["", "1 2 3", "1 2 3 x\n", "\0" * 40])
def test_what_is_no_note_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "acknowledged").write_text(text)
    assert read_acknowledged(tmp_path, REAL.disk) == NOWHERE
