"""What a spreadsheet would take for a formula is text in every CSV, and comes back as it was."""

import csv
from pathlib import Path

import numpy as np
import pytest

from daemon.core.words import cell, text_of
from daemon.tools.export.about import FolderAbout
from daemon.tools.export.csv_file import CsvWriter, columns_of, numbers
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Column, Folder, FolderKind, NewFolder

NAMES = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'=x", "''@", "plain", "a=b", "'quoted'", "", "ümlaut"]
WRITTEN = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", "''=x", "'''@", "plain", "a=b", "'quoted'", "", "ümlaut"]


def test_names_and_texts_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    columns = (Column(name="note", dtype="text", width=20), Column(name="value", dtype="float32"))
    new = NewFolder(path="/x", kind=FolderKind.SINGLE, columns=columns)
    folder = Folder(
        path=new.path, columns=columns, kind=new.kind, layout=new.layout, description="", version=0, created_ns=0
    )
    about = FolderAbout(logger="x", folder=folder, channels=dict(enumerate(NAMES)), since=0, until=OPEN)
    block = np.zeros(len(NAMES), folder.dtype)
    block["channel"], block["note"] = np.arange(len(NAMES)), [name.encode() for name in NAMES]
    block["until"], block["value"] = OPEN, -np.arange(len(NAMES)) / 10
    writer = CsvWriter(tmp_path / "a.csv", columns_of(about))
    writer.write(block)
    writer.close()
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [row["note"] for row in rows] == WRITTEN
    assert [row["value"] for row in rows[1:4]] == ["-0.1", "-0.2", "-0.3"]
    assert {row["until"] for row in rows} == {""}


def test_numbers_come_back_as_they_were() -> None:
    for dtype in ("f4", "f8", "i8", "u8", "i1"):
        values = np.array([0, 1, 100], dtype)
        if dtype[0] == "f":
            limits = np.finfo(dtype)
            values = np.array([0.1, 1 / 3, -0.0, np.nan, np.inf, limits.tiny, limits.max, 5.0], dtype)
        read = np.array([float(str(each)) if dtype[0] == "f" else int(str(each)) for each in numbers(values)], dtype)
        np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(("text", "written"), list(zip(NAMES, WRITTEN, strict=True)))
def test_a_text_comes_back_as_it_was(text: str, written: str) -> None:
    assert cell(text) == written
    assert text_of(written) == text
    assert cell(-1.5) == -1.5
