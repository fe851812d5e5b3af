"""A move by hand: what it is refused for, before anything is moved."""

import re
from dataclasses import replace

import pytest

from backends.base import Partition
from daemon.retention.planner import DAY_NS
from daemon.tiers.limits import MoveRefused, move_by_hand
from schemas.config import Config
from tests.daemon.tiers.test_planner import NOW_NS, day

CONFIG = Config.model_validate(
    {
        "groups": [{"name": "bpm", "count": 4, "channels": [{"name": "ch0"}]}],
        "tiers": [{"name": "fast"}, {"name": "slow", "tablespace": "slow", "after_days": 3}],
    }
)
DAYS = [day(ago) for ago in (5, 4, 3, 2, 1, 0)]
AHEAD = day(-1, readings=0, indexes=0, rows=0)


def order(partitions: list[Partition], name: str, tier: str = "slow", now_ns: int = NOW_NS) -> str | None:
    move = move_by_hand(CONFIG, {"bpm": partitions}, "bpm", name, tier, now_ns=now_ns)
    return None if move is None else f"{move.period.name} from {move.source} to {move.target.name}"


def test_what_is_old_moves_there_and_back() -> None:
    assert order([*DAYS, AHEAD], "19995") == "19995 from fast to slow"
    assert order([day(5, "slow"), *DAYS[1:]], "19995", "fast") == "19995 from slow to fast"
    assert order([day(5, "slow"), *DAYS[1:]], "19995") is None
    assert order([day(5, "elsewhere"), *DAYS[1:]], "19995") == "19995 from (no tier) to slow"


@pytest.mark.parametrize("name", ["20000", "19999"])
def test_the_newest_stay(name: str) -> None:
    with pytest.raises(MoveRefused, match=f"{name} is one of the 2 newest of bpm, which never move"):
        order([*DAYS, AHEAD], name)


def test_what_was_made_ahead_stays_where_it_will_be_written() -> None:
    with pytest.raises(
        MoveRefused, match="20001 is newer than those of bpm that may move: it will be written"
    ) as found:
        order([*DAYS, AHEAD], "20001")
    assert (found.value.part, found.value.is_there) == ("partition", True)


@pytest.mark.parametrize("back", [1, 3, 400])
@pytest.mark.parametrize("name", ["20000", "19999"])
def test_a_clock_that_goes_back_lets_nothing_move_that_is_being_written(name: str, back: int) -> None:
    with pytest.raises(MoveRefused, match=re.escape(name)):
        order([*DAYS, AHEAD], name, now_ns=NOW_NS - back * DAY_NS)


def test_a_clock_that_is_ahead_changes_nothing() -> None:
    assert order([*DAYS, AHEAD], "19995", now_ns=NOW_NS + 400 * DAY_NS) == "19995 from fast to slow"
    with pytest.raises(MoveRefused, match="newest"):
        order([*DAYS, AHEAD], "20000", now_ns=NOW_NS + 400 * DAY_NS)


@pytest.mark.parametrize(
    ("group", "name", "tier", "part"),
    [("bmp", "19995", "slow", "group"), ("bpm", "1", "slow", "partition"), ("bpm", "19995", "tape", "tier")],
)
def test_what_is_not_there_is_named(group: str, name: str, tier: str, part: str) -> None:
    with pytest.raises(MoveRefused) as found:
        move_by_hand(CONFIG, {"bpm": DAYS}, group, name, tier, now_ns=NOW_NS)
    assert (found.value.part, found.value.is_there) == (part, False)


def test_what_was_made_by_an_older_triggerlog_or_dropped_is_no_partition_to_move() -> None:
    with pytest.raises(MoveRefused, match="stays where it is: it takes what fits no other partition, or an older"):
        order([replace(DAYS[0], may_move=False), *DAYS[1:]], "19995")
    with pytest.raises(MoveRefused, match="has no partition '19995' with readings"):
        order([replace(DAYS[0], readings_bytes=None), *DAYS[1:]], "19995")
