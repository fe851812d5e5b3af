"""The archive of runs: what is listed, what is read again, and what goes."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from daemon.workloads.frame.archive import ID, Files, RunArchive


class Record(BaseModel):
    id: str
    value: int


class Line(BaseModel):
    id: str
    value: int
    has_report: bool


@pytest.fixture
def reads() -> list[str]:
    """The records that were read for a list."""
    return []


@pytest.fixture
def archive(tmp_path: Path, reads: list[str]) -> RunArchive[Record, Line]:
    def line(record: Record, files: Files) -> Line:
        reads.append(record.id)
        return Line(id=record.id, value=record.value, has_report=".html" in files)

    return RunArchive(tmp_path / "runs", Record, line)


def test_a_list_is_read_again_only_where_something_changed(archive: RunArchive[Record, Line], reads: list[str]) -> None:
    assert archive.summaries() == []
    names = ["20260101T000000Z-10", "20260101T000000Z-2", "20260101T000000Z"]
    for name in names:
        archive.write(name, Record(id=name, value=1))
    assert [line.id for line in archive.summaries()] == names
    assert [line.id for line in archive.summaries()] == names
    assert reads == names
    archive.path(names[1], ".html").write_text("x")
    archive.write(names[2], Record(id=names[2], value=25))
    assert [(line.value, line.has_report) for line in archive.summaries()] == [(1, False), (1, True), (25, False)]
    assert reads[3:] == names[1:]


def test_what_is_damaged_is_named_and_the_rest_is_listed(archive: RunArchive[Record, Line]) -> None:
    archive.write("20260101T000000Z", Record(id="20260101T000000Z", value=1))
    archive.path("20260102T000000Z").write_text('{"id": 5')
    assert [line.id for line in archive.summaries()] == ["20260101T000000Z"]
    (problem,) = archive.damaged
    assert problem.startswith(f"{archive.path('20260102T000000Z')} is no record of a run that this version can read (")
    archive.remove("20260102T000000Z")
    archive.summaries()
    assert archive.damaged == []


def test_the_oldest_runs_go_with_all_of_their_files(archive: RunArchive[Record, Line]) -> None:
    for second in range(4):
        name = f"20260101T00000{second}Z"
        archive.write(name, Record(id=name, value=second))
        archive.path(name, ".csv").write_text("")
    (archive.folder / "process.log").write_text("")
    assert archive.remove_old(2) == ["20260101T000001Z", "20260101T000000Z"]
    assert sorted(path.name for path in archive.folder.iterdir()) == [
        *("20260101T000002Z.csv", "20260101T000002Z.json", "20260101T000003Z.csv", "20260101T000003Z.json"),
        "process.log",
    ]
    assert ID.fullmatch(archive.new_id())
