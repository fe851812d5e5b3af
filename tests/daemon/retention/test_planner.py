"""What retention decides, as a pure function."""

import dataclasses
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from backends.base import Partition
from daemon.retention.planner import DAY_NS, GIB, DiskState, GroupState, Plan, TierThere, plan
from schemas.config.retention import NEWEST
from schemas.retention import Rule

NOW_NS = 20_000 * DAY_NS


def day(ago: int, readings: int | None = 10, ledger: int = 1, rows: int = 5) -> Partition:
    start_ns = NOW_NS - ago * DAY_NS
    size = (readings or 0) + ledger
    return Partition(
        name=f"{20_000 - ago}",
        start_ns=start_ns,
        end_ns=start_ns + DAY_NS,
        rows=rows,
        size_bytes=size * GIB,
        readings_bytes=None if readings is None else readings * GIB,
    )


def days(*ago: int) -> list[Partition]:
    return [day(each) for each in ago]


def dropped(found: Plan) -> list[tuple[str, Rule]]:
    return [(drop.period.name, drop.rule) for drop in found.drops]


def disk(free: int, wanted: int = 10) -> DiskState:
    return DiskState(total=100 * GIB, free=free * GIB, free_wanted=wanted * GIB)


def test_without_limits_nothing_is_dropped() -> None:
    assert plan([GroupState(name="bpm", partitions=days(900, 2, 1, 0))], None, NOW_NS) == Plan()


def test_age_drops_what_ended_long_enough_ago_and_tells_what_comes_next() -> None:
    found = plan([GroupState(name="bpm", partitions=days(5, 4, 3, 2, 1, 0), keep_ns=3 * DAY_NS)], None, NOW_NS)
    assert dropped(found) == [("19995", Rule.AGE), ("19996", Rule.AGE)]
    assert found.next is not None
    assert (found.next.period.name, found.next.at_ns) == ("19997", NOW_NS + DAY_NS)


def test_of_what_was_reduced_no_more_goes_than_its_figures_have_too_much() -> None:
    """They lie in a table of their own, which counts with what takes all times; what is reduced takes nothing else."""
    reduced = [day(each, readings=0, rows=0) for each in (9, 8, 7, 6, 5)]
    others = dataclasses.replace(day(0, readings=0, ledger=20), name="default", start_ns=-(2**63), end_ns=2**63 - 1)
    group = GroupState(
        name="bpm",
        partitions=[others, *reduced, *days(4, 3, 2, 1, 0)],
        max_bytes=75 * GIB,
        figures={each.name: 4 * GIB for each in reduced},
    )
    assert sum(each.size_bytes for each in group.partitions) == 80 * GIB
    found = plan([group], None, NOW_NS)
    assert dropped(found) == [("19991", Rule.SIZE), ("19992", Rule.SIZE)]
    assert found.short == ()
    # On the disk the room of figures stays taken.
    assert dropped(plan([dataclasses.replace(group, max_bytes=None)], disk(free=5), NOW_NS)) == [("19996", Rule.DISK)]


def test_age_is_counted_by_the_newest_reading_where_the_clock_is_ahead_of_it() -> None:
    """A clock of the node that is far ahead, or a machine at rest: neither makes readings old."""
    found = plan(
        [GroupState(name="bpm", partitions=days(5, 4, 3, 2, 1, 0), keep_ns=3 * DAY_NS, newest_ns=NOW_NS - DAY_NS)],
        None,
        NOW_NS + 4000 * DAY_NS,
    )
    assert dropped(found) == [("19995", Rule.AGE)]


def test_what_the_database_refuses_for_one_rule_may_go_by_another() -> None:
    group = GroupState(
        name="bpm", partitions=days(5, 4, 1, 0), keep_ns=DAY_NS, max_bytes=35 * GIB, refused={Rule.AGE: "it refuses"}
    )
    found = plan([group], None, NOW_NS)
    assert dropped(found) == [("19995", Rule.SIZE)]
    assert [held.reason for held in found.held] == ["it refuses"] * 2


def test_size_drops_the_oldest_until_the_rest_fits_and_counts_the_ledgers_that_stay() -> None:
    group = GroupState(name="bpm", partitions=[day(9, None), *days(5, 4, 3, 2, 1, 0)], max_bytes=50 * GIB)
    assert dropped(plan([group], None, NOW_NS)) == [("19995", Rule.SIZE), ("19996", Rule.SIZE)]


def test_a_full_disk_drops_the_oldest_of_all_groups() -> None:
    groups = [
        GroupState(name="bpm", partitions=days(5, 3, 1, 0)),
        GroupState(name="ict", partitions=days(6, 4, 1, 0)),
    ]
    found = plan(groups, disk(free=0, wanted=25), NOW_NS)
    assert [(drop.period.group, drop.period.name) for drop in found.drops] == [
        ("ict", "19994"),
        ("bpm", "19995"),
        ("ict", "19996"),
    ]
    assert not found.short


def test_a_full_disk_drops_what_lies_there() -> None:
    """A drop of what lies in another tier would free nothing there but its indexes, which are in the first tier."""
    slow = [dataclasses.replace(each, place="slow", index_bytes=3 * GIB) for each in days(6, 5, 4)]
    group = GroupState(name="bpm", partitions=[*slow, *days(3, 2, 1, 0)])
    full = disk(free=0, wanted=14)
    of_slow = dataclasses.replace(full, tier=TierThere(place="slow", is_first=False))
    found = plan([group], of_slow, NOW_NS)
    assert [(drop.period.name, drop.nbytes) for drop in found.drops] == [("19994", 7 * GIB), ("19995", 7 * GIB)]
    of_first = dataclasses.replace(full, tier=TierThere(place=None, is_first=True))
    assert dropped(plan([group], of_first, NOW_NS)) == [("19997", Rule.DISK), ("19998", Rule.DISK)]
    old = dataclasses.replace(group, keep_ns=5 * DAY_NS)
    assert dropped(plan([old], of_first, NOW_NS)) == [
        ("19994", Rule.AGE),
        ("19997", Rule.DISK),
        ("19998", Rule.DISK),
    ], "what age drops from another tier frees nothing here"


def test_what_cannot_be_met_is_said_and_the_newest_stay() -> None:
    group = GroupState(name="bpm", partitions=days(3, 2, 1, 0), keep_ns=1, max_bytes=1)
    found = plan([group], disk(free=0, wanted=90), NOW_NS)
    assert dropped(found) == [("19997", Rule.AGE), ("19998", Rule.AGE)]
    assert [(short.group, short.rule) for short in found.short] == [("bpm", Rule.SIZE), (None, Rule.DISK)]
    assert [short.nbytes for short in found.short] == [24 * GIB - 1, 70 * GIB]


def test_partitions_made_ahead_do_not_stand_for_the_newest() -> None:
    """A machine at rest for a year: the partitions that were made ahead are empty."""
    made_ahead = [
        Partition(
            name=f"ahead{k}", start_ns=NOW_NS + k * DAY_NS, end_ns=NOW_NS + (k + 1) * DAY_NS, rows=0, size_bytes=16384,
            readings_bytes=8192,
        )
        for k in range(2)
    ]  # fmt: skip
    group = GroupState(name="bpm", partitions=[*days(400, 399, 398), *made_ahead], keep_ns=DAY_NS)
    assert dropped(plan([group], None, NOW_NS)) == [("19600", Rule.AGE)]


def test_what_a_wrong_clock_has_put_ahead_of_now_does_not_stand_for_the_newest() -> None:
    """Else the partition that is being written would be an old one, as soon as two of them have a row."""
    ahead = [day(-1, readings=0), day(-2, readings=0)]
    group = GroupState(name="bpm", partitions=[*days(3, 2, 1, 0), *ahead], keep_ns=1, max_bytes=1)
    assert dropped(plan([group], disk(free=0, wanted=90), NOW_NS)) == [("19997", Rule.AGE), ("19998", Rule.AGE)]


def test_what_something_waits_for_is_passed_over_and_named() -> None:
    group = GroupState(
        name="bpm", partitions=days(5, 4, 1, 0), max_bytes=35 * GIB, waited_for={"19995": "dead letters are of it"}
    )
    found = plan([group], None, NOW_NS)
    assert dropped(found) == [("19996", Rule.SIZE)]
    assert [(held.period.name, held.reason) for held in found.held] == [("19995", "dead letters are of it")]


def test_what_takes_all_other_times_is_never_dropped() -> None:
    rest = Partition(name="default", start_ns=-(2**63), end_ns=2**63 - 1, rows=9, size_bytes=GIB, readings_bytes=GIB)
    group = GroupState(name="bpm", partitions=[rest, *days(1, 0)], keep_ns=1, max_bytes=1)
    assert dropped(plan([group], disk(0, 90), NOW_NS)) == []


partitions = st.lists(
    st.builds(
        day,
        st.integers(-2, 60),
        st.one_of(st.none(), st.integers(0, 20)),
        st.integers(0, 3),
        st.sampled_from([0, 5]),
    ),
    max_size=12,
    unique_by=lambda each: each.name,
)
groups = st.lists(
    st.builds(
        lambda found, keep, most, held, gone: {
            "partitions": found,
            "keep_ns": keep and keep * DAY_NS,
            "max_bytes": most and most * GIB,
            "waited_for": {found[k].name: "it waits" for k in held if k < len(found)},
            "gone": {found[k].name for k in gone if k < len(found)},
        },
        partitions,
        st.one_of(st.none(), st.integers(1, 50)),
        st.one_of(st.none(), st.integers(1, 100)),
        st.sets(st.integers(0, 11), max_size=3),
        st.sets(st.integers(0, 11), max_size=2),
    ),
    min_size=1,
    max_size=3,
)


@given(groups, st.one_of(st.none(), st.builds(disk, st.integers(0, 100), st.integers(1, 90))))
def test_whatever_there_is_the_plan_keeps_its_promises(found: Sequence[dict], at: DiskState | None) -> None:
    states = [GroupState(name=f"g{k}", **each) for k, each in enumerate(found)]
    made = plan(states, at, NOW_NS)
    assert len({(drop.period.group, drop.period.name) for drop in made.drops}) == len(made.drops)
    for state in states:
        mine = [drop for drop in made.drops if drop.period.group == state.name]
        by_name = {each.name: each for each in state.partitions}
        with_rows = [
            each
            for each in state.partitions
            if each.readings_bytes is not None and each.name not in state.gone and each.rows and each.start_ns <= NOW_NS
        ]
        newest = sorted(each.start_ns for each in with_rows)[-NEWEST:]
        for drop in mine:
            partition = by_name[drop.period.name]
            assert partition.readings_bytes is not None
            assert partition.name not in {*state.waited_for, *state.gone}
            assert len(newest) == NEWEST
            assert partition.end_ns <= newest[0]
        for rule in Rule:
            ends = [drop.period.end_ns for drop in mine if drop.rule is rule]
            assert ends == sorted(ends), "the oldest first"
        left = sum(each.size_bytes for each in state.partitions) - sum(drop.nbytes for drop in mine)
        is_short = any(short.group == state.name for short in made.short)
        assert is_short == (state.max_bytes is not None and left > state.max_bytes)
    if at is not None:
        free = at.free + sum(drop.nbytes for drop in made.drops)
        assert any(short.group is None for short in made.short) == (free < at.free_wanted)
        by_disk = [drop for drop in made.drops if drop.rule is Rule.DISK]
        assert all(free - drop.nbytes < at.free_wanted for drop in by_disk[-1:]), "no more than is needed"
