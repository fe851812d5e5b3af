"""Files of intervals: what is written is read again; what is wrong is said with its row and the fix."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daemon.core.outcome import CommandFailed
from daemon.tools.conditions.files import ENDINGS, SCHEMA, FileWriter, checked_ending, read_file
from schemas.conditions.intervals import END, LARGEST, Intervals, Key
from tests.support.calibrations import intervals_of

CONTENT = {
    "bpm": [(Key(1, 0), Key(2, 5), "a b.json", "ab" * 32), (Key(2, 5), Key(2, LARGEST), 'µ"\n.json', "")],
    "field map": [(Key(0, 1_763_000_000_123_456_789), END, "x/y", "00")],
}


def rows(intervals: Intervals) -> list[tuple[Any, ...]]:
    columns = (intervals.starts, intervals.ends, intervals.urls, intervals.checksums, intervals.sizes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def written(path: Path, content: Mapping[str, Intervals]) -> None:
    writer = FileWriter(path, path.suffix)
    for of_type, intervals in content.items():
        writer.write(of_type, intervals)
    writer.close()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read_again(tmp_path: Path, ending: str) -> None:
    content = {of_type: intervals_of(spans) for of_type, spans in CONTENT.items()}
    content["bpm"].sizes[0] = 12
    written(tmp_path / f"x{ending}", content)
    found = read_file(tmp_path / f"x{ending}")
    assert {of_type: rows(each) for of_type, each in found.items()} == {
        of_type: rows(each) for of_type, each in content.items()
    }


def test_both_formats_have_the_same_columns(tmp_path: Path) -> None:
    for ending in ENDINGS:
        written(tmp_path / f"x{ending}", {"bpm": intervals_of(CONTENT["bpm"])})
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert list(lines[0]) == SCHEMA.names
    assert lines == pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert lines[0]["size"] is None
    assert (lines[0]["major"], lines[0]["minor_end"]) == (1, 5)


def test_without_ends_an_interval_ends_where_the_next_begins(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    given = [("bpm", 7, 1), ("map", 3, 0), ("bpm", 2, 9), ("bpm", 7, 0)]
    lines = [{"type": of_type, "url": f"{major}", "major": major, "minor": minor} for of_type, major, minor in given]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert {of_type: [row[:3] for row in rows(each)] for of_type, each in read_file(file).items()} == {
        "bpm": [((2, 9), (7, 0), "2"), ((7, 0), (7, 1), "7"), ((7, 1), tuple(END), "7")],
        "map": [((3, 0), tuple(END), "3")],
    }


ROW = {"type": "bpm", "url": "a", "major": 1, "minor": 0}
WRONG: list[tuple[list[dict[str, Any]], str]] = [
    ([ROW, {**ROW, "major": -1}], "major of row 2: it is below 0; give 0 to 9223372036854775807"),
    ([ROW, {**ROW, "url": None}], "url of row 2: missing; give it in every row"),
    ([{**ROW, "major_end": 1, "minor_end": 0}], "bpm (1, 0): it ends before it begins; give an end after the start"),
    ([{**ROW, "major_end": 1}], "bpm (1, 0): only a half of its end is given; give both, or none of them"),
    ([ROW, ROW], "bpm (1, 0): two intervals begin there; give each start once"),
    (
        [{**ROW, "major_end": 5, "minor_end": 0}, {**ROW, "major": 4}],
        "bpm (4, 0): the interval before it is valid there, too; let each end where the next begins",
    ),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_is_wrong_is_refused_with_row_and_fix(
    tmp_path: Path, ending: str, given: list[dict[str, Any]], says: str
) -> None:
    file = tmp_path / f"x{ending}"
    if ending == ".jsonl":
        file.write_text("\n".join(map(json.dumps, given)))
    else:
        pq.write_table(pa.Table.from_pylist(given), file)
    with pytest.raises(CommandFailed) as refused:
        read_file(file)
    assert str(refused.value).startswith(f"{file}: {says}")


def test_columns_of_another_type_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"type": ["bpm"], "url": ["a"], "major": [1.5], "minor": [0]}), file)
    with pytest.raises(CommandFailed, match="major: it holds double; give values that fit int64"):
        read_file(file)
    pq.write_table(pa.table({"type": ["bpm"], "url": ["a"], "major": [1]}), file)
    with pytest.raises(CommandFailed, match="minor: there is no such column; give the columns `type`, `url`"):
        read_file(file)
    pq.write_table(pa.table({"type": ["bpm"], "url": ["a"], "major": np.array([2**63], np.uint64), "minor": [0]}), file)
    with pytest.raises(CommandFailed, match="major: it holds uint64; give values that fit int64"):
        read_file(file)
    lines = tmp_path / "x.jsonl"
    for text in ('{"type": "bpm", "majors": 1}', '{"type": 5}', "no JSON", '{"type": "bpm", "major": 1e30}', ""):
        lines.write_text(text)
        with pytest.raises(CommandFailed, match="it is no JSON lines that can be read") as refused:
            read_file(lines)
        assert "\n" not in str(refused.value)


def test_the_format_is_the_ending_of_the_name() -> None:
    assert checked_ending(Path("x.JSONL"), "FILE") == ".jsonl"
    with pytest.raises(CommandFailed, match=r"FILE: x.csv does not say the format; end it with `.jsonl`, `.parquet`"):
        checked_ending(Path("x.csv"), "FILE")
