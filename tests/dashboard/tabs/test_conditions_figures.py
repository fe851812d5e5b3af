"""The timeline of intervals: bars in the places of their keys."""

import numpy as np
import pytest

from dashboard.tabs.conditions.figures import MOST_BORDERS, borders_of, timeline, timeline_note
from dashboard.tabs.conditions.rows import key_words
from schemas.conditions.intervals import END, Intervals, Key
from tests.support.calibrations import intervals_of

NOTHING = intervals_of([])


def spans(*given: tuple[int, int | None, str]) -> Intervals:
    """Intervals between keys (n, 0); None is open."""
    return intervals_of([(Key(a, 0), END if b is None else Key(b, 0), url, "") for a, b, url in given])


def test_bars_lie_between_the_borders_of_all_tags() -> None:
    figure = timeline({"one": spans((10, 20, "a"), (30, None, "b")), "two": spans((10, 15, "a"), (15, None, "c"))})
    first, second = figure["data"]
    # The borders are 10, 15, 20 and 30, in the places 0 to 3; what is open ends one place beyond them.
    assert (first["base"], first["x"], first["y"]) == ([0, 3], [2, 1], [0, 0])
    assert (second["base"], second["x"], second["y"]) == ([0, 1], [1, 3], [1, 1])
    assert first["marker"]["color"][0] == second["marker"]["color"][0]
    assert len({*first["marker"]["color"], *second["marker"]["color"]}) == 3
    axis = figure["layout"]["xaxis"]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True)) == {0: "10 0", 1: "15 0", 2: "20 0", 3: "30 0"}
    assert axis["range"] == [0, 4]


def test_keys_beyond_the_integers_of_a_browser_stay_apart() -> None:
    start, end = Key(2**62, 2**62), Key(2**62, 2**62 + 1)
    figure = timeline({"t": intervals_of([(start, end, "a", "c"), (end, END, "b", "c")])})
    assert (figure["data"][0]["base"], figure["data"][0]["x"]) == ([0, 1], [1, 1])
    assert f"{2**62} {2**62} to {2**62} {2**62 + 1}" in figure["data"][0]["hovertext"][0]


def test_of_many_the_newest_are_drawn_and_one_that_reaches_into_them_is_cut() -> None:
    every = MOST_BORDERS + 100
    lists = {"long": spans((0, None, "x")), "many": spans(*((n, n + 1, str(n)) for n in range(every)))}
    figure = timeline(lists)
    assert borders_of(lists)["major"].tolist() == list(range(every + 1 - MOST_BORDERS, every + 1))
    assert (figure["data"][0]["base"], figure["data"][0]["x"]) == ([0], [MOST_BORDERS])
    assert len(figure["data"][1]["base"]) == MOST_BORDERS - 1
    assert np.diff(figure["data"][1]["base"]).tolist() == [1] * (MOST_BORDERS - 2)
    assert timeline_note(lists, {}) == f"the newest {MOST_BORDERS} of {every + 1} starts and ends"


def test_names_are_no_markup_and_keep_both_ends() -> None:
    figure = timeline({"<b>": spans((1, 2, "<i>")), "physics-2026-production-v7": NOTHING})
    assert figure["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;", "physics-…ction-v7"]
    assert figure["data"][0]["hovertext"][0].startswith("&lt;i&gt;<br>")
    assert figure["data"][1]["base"] == []


def test_what_is_not_drawn_is_said() -> None:
    assert timeline_note({"a": NOTHING}, {"b": 70_000}) == "▲ b: 70,000 intervals are too many to be drawn · a has none"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (Key(12, 4000), "12 4000"),
        (END, "open"),
        (Key(0, 0), "0 0"),
        (Key(0, 1_764_000_000_000_000_000), "2025-11-24 16:00:00 UTC"),
        (Key(1, 1_764_000_000_000_000_000), "1 1764000000000000000"),
        (Key(0, 2**63 - 1), f"0 {2**63 - 1}"),
    ],
)
def test_keys_in_words(key: Key, words: str) -> None:
    assert key_words(key) == words
