"""The picture of the partitions, and what is said of moves and drops."""

import itertools
import time
from typing import Any

import plotly.graph_objects as go
import pytest

from dashboard.tabs.figures import CALM, CHOSEN, FAINT, GREY, LIMIT
from dashboard.tabs.storage import picture
from dashboard.tabs.storage.rows import described, heat_words, retention_words, tiers_words
from schemas.api.retention import NextPeriod, RetentionStatus
from schemas.api.status import Status
from schemas.api.storage import PartitionStorage, Storage
from schemas.api.tiers import MovingPeriod, NextMove, TiersStatus, TierStatus
from tests.page.served import snapshot, storage

NOW_NS = time.time_ns()
DAY_NS = 86_400_000_000_000
GIB = 2**30
TIERS = [
    TierStatus(name="fast", place=None, size_bytes=3 * GIB, partitions=2, max_bytes=4 * GIB),
    TierStatus(name="slow", place="slow", size_bytes=9 * GIB, partitions=3, max_bytes=None),
]
MOVING = MovingPeriod(group="bpm", name="p1", source="fast", target="slow", size_bytes=GIB, done=0.43, left_s=125.0)


def day(number: int, tier: str | None = "slow", heat: float | None = 1.0, size: int = GIB) -> PartitionStorage:
    start_ns = NOW_NS // DAY_NS * DAY_NS - (9 - number) * DAY_NS
    return PartitionStorage(
        name=f"p{number}",
        start_ns=start_ns,
        end_ns=start_ns + DAY_NS,
        rows=9,
        size_bytes=size,
        tier=tier,
        heat_s_a_day=heat,
    )


def stored(**groups: list[PartitionStorage]) -> Storage:
    one = storage(NOW_NS)
    of = {name: one.groups["bpm"].model_copy(update={"partitions": found}) for name, found in groups.items()}
    return one.model_copy(update={"groups": of})


def status(**changes: Any) -> Status:
    return snapshot(1, NOW_NS).model_copy(update={"tiers": TiersStatus(tiers=TIERS)} | changes)


FOUND = stored(bpm=[day(1), day(2, "fast", 35.0, 2 * GIB), day(3, None, None, 5000)], ict=[day(1), day(2)])


def bars(figure: picture.Figure, axis: str) -> dict[str, Any]:
    return {trace["name"]: trace for trace in figure["data"] if trace["yaxis"] == axis}


@pytest.mark.parametrize("found", [FOUND, stored(bpm=[]), stored()], ids=["some", "no partitions", "no groups"])
def test_plotly_takes_it_whatever_there_is(found: Storage) -> None:
    for each in (status(), status(tiers=None)):
        figure = picture.picture(found, each)
        assert go.Figure(figure).layout.height == picture.height(found)


def test_a_partition_is_as_high_as_its_bytes_as_wide_as_its_time_and_has_the_colour_of_its_tier() -> None:
    figure = picture.picture(FOUND, status())
    drawn = bars(figure, "y")
    assert {name: trace["marker"]["color"] for name, trace in drawn.items()} == {
        "slow": GREY,
        "fast": CALM,
        "": FAINT,
    }
    assert (drawn["slow"]["y"], drawn["fast"]["y"]) == ([1.0], [2.0])
    first = day(1)
    assert drawn["slow"]["x"] == [pytest.approx((first.start_ns + DAY_NS / 2) / 1e6)]
    assert drawn["slow"]["width"] == [pytest.approx(0.94 * 86_400_000)]
    assert drawn["fast"]["customdata"] == [["p2 · fast", "2.00 GiB · heat 35.0 s/day"]]
    heats = bars(figure, "y2")["heat"]
    assert heats["y"] == [1.0, 35.0]
    assert {trace["yaxis"] for trace in figure["data"]} == {"y", "y2", "y3", "y4"}
    assert "<b>bpm</b> · GiB" in [each["text"] for each in figure["layout"]["annotations"]]


def test_rows_of_groups_do_not_touch() -> None:
    layout = picture.picture(FOUND, status())["layout"]
    domains = sorted(layout[f"yaxis{number}"]["domain"] for number in range(1, 5))
    assert all(0 <= low < high <= 1 for low, high in domains)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(domains))


def test_without_tiers_all_is_normal_and_what_takes_all_other_times_is_not_drawn() -> None:
    rest = day(1).model_copy(update={"start_ns": -(2**63), "end_ns": 2**63 - 1})
    figure = picture.picture(stored(bpm=[rest, day(2, None, None)]), status(tiers=None))
    (trace,) = bars(figure, "y").values()
    assert (trace["marker"]["color"], len(trace["x"])) == (CALM, 1)
    assert [each["text"] for each in figure["layout"]["annotations"]] == ["<b>bpm</b> · GiB"]
    assert "yaxis2" not in figure["layout"]  # nothing has heat: an axis of it would be empty


def test_what_is_moved_has_a_frame_and_what_comes_next_a_dotted_one() -> None:
    tiers = TiersStatus(tiers=TIERS, moving=MOVING, next=NextMove(group="ict", name="p2", tier="slow", at_ns=NOW_NS))
    retention = RetentionStatus(is_limited=True, next=NextPeriod(group="bpm", name="p3", at_ns=NOW_NS))
    figure = picture.picture(FOUND, status(tiers=tiers, retention=retention))
    frames = [(each["yref"], each["line"]["color"], each["line"].get("dash")) for each in figure["layout"]["shapes"]]
    assert frames == [("y", CHOSEN, None), ("y", LIMIT, "dot"), ("y3", CHOSEN, "dot")]
    moving = figure["layout"]["shapes"][0]
    assert (moving["x0"], moving["x1"], moving["y1"]) == (day(1).start_ns / 1e6, day(1).end_ns / 1e6, 1.0)


def test_names_of_groups_are_no_markup() -> None:
    figure = picture.picture(stored(**{"<b>": [day(1)]}), status())
    assert figure["layout"]["annotations"][0]["text"].startswith("<b>&lt;b&gt;</b>")


def test_it_is_drawn_anew_only_where_it_is_another_one() -> None:
    before = picture.stamp(FOUND, status())
    assert picture.stamp(FOUND.model_copy(update={"time_ns": NOW_NS + 1}), status()) == before
    further = MOVING.model_copy(update={"done": 0.5})
    moving = status(tiers=TiersStatus(tiers=TIERS, moving=MOVING))
    assert picture.stamp(FOUND, moving) != before
    assert picture.stamp(FOUND, status(tiers=TiersStatus(tiers=TIERS, moving=further))) == picture.stamp(FOUND, moving)
    for other in ([day(1, "fast")], [day(1, heat=2.0)], [day(1, size=2 * GIB)]):
        assert picture.stamp(stored(bpm=other), status()) != picture.stamp(stored(bpm=[day(1)]), status())


def test_of_very_many_the_newest_are_drawn() -> None:
    many = [day(number) for number in range(picture.MOST_DRAWN + 5)]
    (trace,) = [trace for trace in picture.picture(stored(bpm=many), status())["data"] if trace["name"] == "slow"]
    assert len(trace["x"]) == picture.MOST_DRAWN
    assert trace["x"][-1] == pytest.approx((many[-1].start_ns + DAY_NS / 2) / 1e6)


# --- words ------------------------------------------------------------------------------------------------------------


def test_a_screen_reader_is_told_what_lies_where_and_what_is_hottest() -> None:
    assert described(FOUND) == (
        "bpm: 3 partitions, 1 in slow, 1 in fast, the hottest p2, 35.0 s/day;"
        " ict: 2 partitions, 2 in slow, the hottest p1, 1.00 s/day"
    )
    assert heat_words(None) == "–"


def test_a_move_says_how_far_it_is_and_what_comes_after_it() -> None:
    moving = TiersStatus(tiers=TIERS, moving=MOVING, waiting=2)
    assert tiers_words(status(tiers=moving)) == (
        "tiers: fast 3.00 GiB, slow 9.00 GiB; moving p1 of bpm to slow: 43 %, 2 min left, then 2 partitions more"
    )
    following = NextMove(group="bpm", name="p2", tier="slow", at_ns=NOW_NS + 7_200_000_000_000)
    found = TiersStatus(tiers=TIERS, next=following, problem="no room")
    assert tiers_words(status(tiers=found)).endswith("; next: p2 of bpm to slow, in 2 h; no room")
    assert tiers_words(status(tiers=None)) == ""


def test_retention_says_what_it_does_next_and_when() -> None:
    following = NextPeriod(group="bpm", name="20261121", at_ns=NOW_NS + 7_200_000_000_000)
    found = RetentionStatus(is_limited=True, periods=3, next=following)
    words = retention_words(status(retention=found))
    assert words == "retention: next: 20261121 of bpm, in 2 h; 3 partitions dropped"
    short = found.model_copy(update={"short": ["group bpm takes 3 GiB more than it may"], "problem": "in use"})
    words = retention_words(status(retention=short))
    assert words.endswith("not met: group bpm takes 3 GiB more than it may; 3 partitions dropped; in use")
    nothing = RetentionStatus(is_limited=False)
    assert retention_words(status(retention=nothing)) == "retention: nothing is ever dropped: no limit is set"
    assert retention_words(status(retention=None)) == ""
