"""What decimation decides, as a pure function."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from backends.base import Partition
from daemon.decimation.planner import GroupToReduce, Plan, plan
from daemon.retention.planner import DAY_NS, GroupState, Held
from schemas.config.retention import NEWEST
from schemas.decimation import Bucket, Decimated, Every, Reduction
from schemas.retention import Period
from tests.daemon.tiers.test_planner import NOW_NS, day

ASKED = Reduction(after_ns=3 * DAY_NS, how=Bucket(60_000_000_000), window_ns=7)


def days(*ago: int) -> list[Partition]:
    return [replace(day(each), may_reduce=True) for each in ago]


def group(
    *partitions: Partition,
    asked: Reduction = ASKED,
    account: Mapping[str, Decimated] | None = None,
    late: Collection[str] = (),
    name: str = "bpm",
    **state: Any,
) -> GroupToReduce:
    made = GroupState(name=name, partitions=partitions, **state)
    return GroupToReduce(state=made, asked=asked, account=account or {}, late=late)


def period(ago: int) -> Period:
    return Period(
        group="bpm", name=f"{20_000 - ago}", start_ns=NOW_NS - ago * DAY_NS, end_ns=NOW_NS - (ago - 1) * DAY_NS
    )


def account(*reduced: tuple[int, int | None]) -> dict[str, Decimated]:
    made = [Decimated(period=period(ago), how=Every(2), begun_ns=1, ended_ns=ended) for ago, ended in reduced]
    return {each.period.name: each for each in made}


def names(found: Plan) -> list[str]:
    return [each.period.name for each in found.reductions]


def test_nothing_is_reduced_unless_it_is_asked_for() -> None:
    of = GroupToReduce(state=GroupState(name="bpm", partitions=days(900, 2, 1, 0)), account=account((900, None)))
    assert plan([of], NOW_NS) == Plan()


def test_age_reduces_what_ended_long_enough_ago_and_tells_what_comes_next() -> None:
    found = plan([group(*days(6, 5, 4, 3, 2, 1, 0))], NOW_NS)
    assert names(found) == ["19994", "19995", "19996"]
    first = found.reductions[0]
    assert (first.how, first.window_ns, first.nbytes) == (ASKED.how, 7, 10 * 2**30)
    assert first.reason == "it ended 5.0 days ago, and readings are reduced after 3, to figures of every 60 s"
    assert found.next is not None
    assert (found.next.period.name, found.next.at_ns) == ("19997", NOW_NS + DAY_NS)


def test_a_partition_that_no_bucket_begins_or_ends_with_stays_and_is_named() -> None:
    """Of another `database.partition` than the one that was checked: an hour has no whole buckets of 1,350 s."""
    hour_ns = DAY_NS // 24
    hours = [
        replace(each, name=f"{each.name}{number:02}", start_ns=start_ns, end_ns=start_ns + hour_ns)
        for each in days(6)
        for number in (0, 3, 4)
        for start_ns in (each.start_ns + number * hour_ns,)
    ]
    asked = replace(ASKED, how=Bucket(1_350_000_000_000))
    found = plan([group(*hours, *days(5, 1, 0), asked=asked)], NOW_NS)
    assert names(found) == ["19995"]
    why = "buckets of 1350 s do not divide it: it was made with another `database.partition`"
    assert [(each.period.name, each.reason) for each in found.held] == [(each.name, why) for each in hours]
    known = {hours[0].name: Decimated(period=period(6), how=asked.how, begun_ns=1)}
    assert names(plan([group(*hours, *days(1, 0), asked=asked, account=known)], NOW_NS)) == [hours[0].name]
    whole = replace(asked, how=Every(1_350_000_000_000))
    assert names(plan([group(*hours, *days(5, 1, 0), asked=whole)], NOW_NS)) == [
        *(each.name for each in hours),
        "19995",
    ]


def test_the_readings_tell_the_time_where_the_clock_is_ahead() -> None:
    assert names(plan([group(*days(6, 5, 4, 1, 0), newest_ns=NOW_NS - DAY_NS)], NOW_NS)) == ["19994", "19995"]


def test_what_was_begun_comes_first_and_then_what_readings_came_for_each_as_it_was_reduced() -> None:
    known = account((9, 5), (8, 5), (6, None))
    found = plan([group(*days(9, 8, 7, 6, 1, 0), account=known, late={"19992"})], NOW_NS)
    assert [(each.period.name, each.how, each.reason) for each in found.reductions[:2]] == [
        ("19994", Every(2), "it was begun"),
        ("19992", Every(2), "readings came for it since"),
    ]
    assert names(found)[2:] == ["19993"]
    assert found.reductions[2].how == ASKED.how


def test_the_oldest_of_all_groups_is_reduced_first() -> None:
    other = group(*days(7, 5, 1, 0), name="ict")
    assert [each.period.group for each in plan([group(*days(6, 1, 0)), other], NOW_NS).reductions] == [
        "ict",
        "bpm",
        "ict",
    ]


def test_what_something_waits_for_stays_and_is_named() -> None:
    found = plan([group(*days(6, 5, 1, 0), waited_for={"19994": "it waits"})], NOW_NS)
    assert names(found) == ["19995"]
    assert found.held == (Held(period=period(6), reason="it waits"),)


def test_what_an_older_triggerlog_made_or_retention_dropped_stays_as_it_is() -> None:
    assert names(plan([group(day(6), *days(5, 4, 1, 0), gone={"19995"})], NOW_NS)) == ["19996"]


@settings(deadline=None)
@given(
    ago=st.lists(st.integers(0, 30), unique=True, max_size=12),
    ended=st.lists(st.integers(0, 30), unique=True),
    begun=st.lists(st.integers(0, 30), unique=True),
    late=st.sets(st.integers(0, 30)),
    after=st.integers(0, 20),
)
def test_any_plan_spares_the_newest_and_does_each_period_once(
    ago: Sequence[int], ended: Sequence[int], begun: Sequence[int], late: set[int], after: int
) -> None:
    known = account(*((each, 5) for each in ended), *((each, None) for each in begun))
    asked = replace(ASKED, after_ns=after * DAY_NS)
    of = group(*days(*ago), account=known, late={f"{20_000 - each}" for each in late}, asked=asked)
    found = names(plan([of], NOW_NS))
    assert len(set(found)) == len(found)
    newest = {f"{20_000 - each}" for each in sorted(ago)[:NEWEST]}
    assert not newest & set(found)
    for each in set(ago) - {20_000 - int(name) for name in newest}:
        name = f"{20_000 - each}"
        is_old = each - 1 >= after and name not in known
        is_open = name in known and (known[name].ended_ns is None or each in late)
        assert (name in found) == (is_old or is_open)
