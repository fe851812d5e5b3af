"""What a spreadsheet would take for a formula is text in every CSV, and comes back as it was."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from daemon.core.words import cell, text_of
from daemon.tools.export.arrow import CsvWriter
from schemas.readings import Array

NAMES = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'=x", "''@", "plain", "a=b", "'quoted'", "", "ümlaut"]
WRITTEN = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", "''=x", "'''@", "plain", "a=b", "'quoted'", "", "ümlaut"]


class Columns:
    schema = pa.schema(
        [
            pa.field("name", pa.dictionary(pa.int16(), pa.string())),
            pa.field("note", pa.string()),
            pa.field("value", pa.float64()),
        ]
    )

    def of(self, block: Array) -> pa.RecordBatch:
        names = pa.DictionaryArray.from_arrays(pa.array(np.arange(len(NAMES), dtype=np.int16)), pa.array(NAMES))
        return pa.RecordBatch.from_arrays([names, pa.array(NAMES), pa.array(block)], schema=self.schema)

    def known_at_end(self) -> dict[str, str]:
        return {}


def test_names_and_texts_are_no_formulas_and_numbers_stay_numbers(tmp_path: Path) -> None:
    writer = CsvWriter(tmp_path / "a.csv", Columns())
    writer.write(-np.arange(1.0, len(NAMES) + 1))
    writer.close()
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [row["note"] for row in rows] == WRITTEN
    assert [float(row["value"]) for row in rows[:2]] == [-1.0, -2.0]


@pytest.mark.parametrize(("text", "written"), list(zip(NAMES, WRITTEN, strict=True)))
def test_a_text_comes_back_as_it_was(text: str, written: str) -> None:
    assert cell(text) == written
    assert text_of(written) == text
    assert cell(-1.5) == -1.5
