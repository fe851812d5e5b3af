"""What the tab Conditions says of folders of channels."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.tabs.conditions.folders import LETTERS, MOST, VALUES, folder_words, tree_words, value_rows
from schemas.api.folders import FolderDetails, FolderTree, IntervalColumns
from schemas.conditions.intervals import LARGEST

NOW_NS = 1_800_000_000 * 10**9
FOLDER: dict[str, Any] = {
    "path": "/magnets/quads/current",
    "kind": "single",
    "layout": "window",
    "columns": [{"name": "ampere", "dtype": "float64"}],
    "description": "",
    "version": 3,
    "created_ns": 1,
}
DETAILS = FolderDetails.model_validate({"folder": FOLDER, "channels": {1: "Q1", 2: "Q2"}, "tags": []})


def values(*since: int, until: int | None = None, **columns: list[float | str]) -> IntervalColumns:
    given = {"channel": list(range(1, len(since) + 1)), "since": list(since), "until": [until] * len(since)}
    return IntervalColumns.model_validate(given | {"values": columns})


def texts(row: dict[str, Any]) -> dict[str, str]:
    return {name: one["text"] for name, one in row.items() if name != "key"}


def test_a_value_has_its_channel_its_digits_and_its_age() -> None:
    first, second = value_rows((DETAILS, values(NOW_NS - 90 * 10**9, NOW_NS, ampere=[118.2375, -4.5])), NOW_NS)
    assert {"key", *(column.name for column in VALUES)} == set(first)
    assert texts(first) == {
        "channel": "Q1",
        "value": "118.2375",
        "since": "2027-01-15 07:58:30",
        "until": "open",
        "age": "1 min 30 s",
    }
    assert (texts(second)["value"], texts(second)["age"], second["value"]["by"]) == ("−4.5", "0 s", -4.5)


def test_several_columns_are_named_and_a_long_text_is_cut() -> None:
    (row,) = value_rows((DETAILS, values(NOW_NS, until=NOW_NS + 10**9, ampere=[1.0], note=["x" * 100])), NOW_NS)
    assert texts(row)["value"] == f"ampere 1 · note {'x' * (LETTERS - 16)}…"
    assert row["value"]["title"].endswith("x" * 100)
    assert texts(row)["until"] == "2027-01-15 08:00:01"


def test_no_more_channels_are_shown_than_can_be_read() -> None:
    known = DETAILS, values(*[NOW_NS] * 600, ampere=[1.0] * 600)
    assert len(value_rows(known, NOW_NS)) == MOST
    assert folder_words(known) == (
        "single-version, layout window, 3 insertions, 600 of 2 channels with a value, the first 500 shown"
    )
    tree = FolderTree.model_validate(
        {"sets": [{"path": "/magnets", "description": "", "created_ns": 1}], "folders": [FOLDER, FOLDER]}
    )
    assert tree_words(tree) == "2 folders in 1 set"


@given(st.integers(0, LARGEST), st.one_of(st.none(), st.integers(0, LARGEST)))
@pytest.mark.filterwarnings("error")
def test_times_that_are_no_times_of_day_are_shown_all_the_same(since: int, until: int | None) -> None:
    (row,) = value_rows((DETAILS, values(since, until=until, ampere=[1.0])), NOW_NS)
    assert row["since"]["by"] == since
    assert texts(row)["age"] == "–" if since > NOW_NS else texts(row)["age"]
