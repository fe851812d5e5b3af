"""What tiers decide, as a pure function."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from backends.base import Partition
from daemon.retention.planner import GroupState, Held
from daemon.tiers.heat import DAY_S, SCANNED_S, PeriodHeat
from daemon.tiers.planner import DAY_NS, GIB, HOLD, PAGE, PAYS, Access, Plan, Short, Tier, plan, sizes_of, tier_of
from schemas.config.retention import NEWEST
from schemas.retention import Period

NOW_NS = 20_000 * DAY_NS


def day(
    ago: int,
    place: str | None = None,
    *,
    readings: int = 10,
    indexes: int = 1,
    rows: int = 5,
    may_move: bool = True,
) -> Partition:
    """A day with a ledger of one GiB; sizes in GiB."""
    start_ns = NOW_NS - ago * DAY_NS
    return Partition(
        name=f"{20_000 - ago}",
        start_ns=start_ns,
        end_ns=start_ns + DAY_NS,
        rows=rows,
        size_bytes=(readings + 1) * GIB,
        readings_bytes=readings * GIB,
        index_bytes=indexes * GIB,
        place=place,
        may_move=may_move,
    )


def fast(max_gib: int | None = None) -> Tier:
    return Tier(name="fast", place=None, max_bytes=None if max_gib is None else max_gib * GIB)


def slow(name: str = "slow", days: int | None = None, max_gib: int | None = None) -> Tier:
    return Tier(
        name=name,
        place=name,
        after_ns=None if days is None else days * DAY_NS,
        max_bytes=None if max_gib is None else max_gib * GIB,
    )


def moved(found: Plan) -> list[tuple[str, str, str]]:
    return [(move.period.name, move.source, move.target.name) for move in found.moves]


def group(*partitions: Partition, **state: object) -> GroupState:
    return GroupState(name="bpm", partitions=partitions, **state)  # type: ignore[arg-type]


def test_without_limits_nothing_moves() -> None:
    assert plan([fast(), slow()], [group(*(day(ago) for ago in (900, 2, 1, 0)))], NOW_NS) == Plan()


def test_age_moves_what_ended_long_enough_ago_and_tells_what_comes_next() -> None:
    tiers = [fast(), slow(days=3)]
    found = plan(tiers, [group(day(6, "slow"), *(day(ago) for ago in (5, 4, 3, 2, 1, 0)))], NOW_NS)
    assert moved(found) == [("19995", "fast", "slow"), ("19996", "fast", "slow")]
    assert found.moves[0].nbytes == 9 * GIB
    assert found.moves[0].reason == "it ended 4.0 days ago, and moves to slow after 3"
    assert found.next is not None
    assert (found.next.period.name, found.next.tier, found.next.at_ns) == ("19997", "slow", NOW_NS + DAY_NS)


def test_age_skips_a_tier_that_a_partition_is_too_old_for() -> None:
    tiers = [fast(), slow("slow", 3), slow("tape", 30)]
    found = plan(tiers, [group(day(60), day(50, "slow"), day(9, "slow"), day(8), day(1), day(0))], NOW_NS)
    assert moved(found) == [("19940", "fast", "tape"), ("19950", "slow", "tape"), ("19992", "fast", "slow")]


def test_a_budget_moves_the_oldest_until_the_rest_fits_and_counts_what_stays() -> None:
    partitions = [day(ago) for ago in (5, 4, 3, 2, 1, 0)]
    # 66 GiB; a move takes 9 away: the ledger and the index stay.
    found = plan([fast(50), slow()], [group(*partitions)], NOW_NS)
    assert moved(found) == [("19995", "fast", "slow"), ("19996", "fast", "slow")]
    assert found.moves[0].reason == "fast takes 66 GiB, and may take 50"
    assert plan([fast(66), slow()], [group(*partitions)], NOW_NS).moves == ()


def test_a_budget_goes_through_all_tiers() -> None:
    tiers = [fast(30), slow("slow", max_gib=18), slow("tape")]
    found = plan(tiers, [group(*(day(ago) for ago in (6, 5, 4, 3, 2, 1, 0)))], NOW_NS)
    assert moved(found) == [
        ("19994", "fast", "tape"),
        ("19995", "fast", "tape"),
        ("19996", "fast", "tape"),
        ("19997", "fast", "slow"),
        ("19998", "fast", "slow"),
    ]
    assert found.short == (Short(tier="fast", nbytes=2 * GIB),)


def test_the_budget_is_of_all_groups_and_the_oldest_of_them_goes_first() -> None:
    groups = [
        GroupState(name="bpm", partitions=[day(ago) for ago in (5, 3, 1, 0)]),
        GroupState(name="ict", partitions=[day(ago) for ago in (6, 4, 1, 0)]),
    ]
    found = plan([fast(61), slow()], groups, NOW_NS)
    assert [(move.period.group, move.period.name) for move in found.moves] == [
        ("ict", "19994"),
        ("bpm", "19995"),
        ("ict", "19996"),
    ]


def test_what_something_waits_for_stays_and_is_named() -> None:
    found = plan([fast(), slow(days=3)], [group(*map(day, (6, 5, 1, 0)), waited_for={"19994": "it waits"})], NOW_NS)
    assert moved(found) == [("19995", "fast", "slow")]
    period = Period(group="bpm", name="19994", start_ns=NOW_NS - 6 * DAY_NS, end_ns=NOW_NS - 5 * DAY_NS)
    assert found.held == (Held(period=period, reason="it waits"),)


def test_what_lies_in_no_tier_stays_there() -> None:
    assert plan([fast(5), slow(days=3)], [group(day(9, "elsewhere"), day(1), day(0))], NOW_NS).moves == ()


def test_what_cannot_be_moved_is_passed_over() -> None:
    found = plan([fast(5), slow(days=3)], [group(day(9, may_move=False), day(8), day(1), day(0))], NOW_NS)
    assert moved(found) == [("19992", "fast", "slow")]


def test_the_newest_never_move_even_if_the_budget_cannot_be_met() -> None:
    found = plan([fast(5), slow(days=1)], [group(day(300), day(299))], NOW_NS)
    assert found.moves == ()
    assert found.short == (Short(tier="fast", nbytes=17 * GIB),)


places = st.sampled_from([None, "slow", "tape", "elsewhere"])


@given(
    partitions=st.lists(
        st.tuples(st.integers(0, 60), places, st.integers(0, 9)), unique_by=lambda each: each[0], max_size=20
    ),
    budgets=st.tuples(st.none() | st.integers(1, 100), st.none() | st.integers(1, 100)),
    ages=st.tuples(st.none() | st.integers(1, 20), st.none() | st.integers(21, 50)),
)
def test_any_plan_only_moves_on_keeps_the_order_of_age_and_ends(
    partitions: Sequence[tuple[int, str | None, int]],
    budgets: tuple[int | None, int | None],
    ages: tuple[int | None, int | None],
) -> None:
    tiers = [fast(budgets[0]), slow("slow", ages[0], budgets[1]), slow("tape", ages[1])]
    state = group(*(day(ago, place, readings=size + 1) for ago, place, size in partitions))
    found = plan(tiers, [state], NOW_NS)
    names = [tier.name for tier in tiers]
    by_name = {each.name: each for each in state.partitions}
    newest = sorted(state.partitions, key=lambda each: each.start_ns)[-NEWEST:]
    for move in found.moves:
        assert names.index(move.source) < names.index(move.target.name)
        assert by_name[move.period.name] not in newest
    assert [move.period.end_ns for move in found.moves] == sorted(move.period.end_ns for move in found.moves)
    # Done, nothing more moves, and what is left over a budget is what may not move.
    targets = {move.period.name: move.target.place for move in found.moves}
    after = [
        day(20_000 - int(each.name), targets.get(each.name, each.place), readings=(each.readings_bytes or 0) // GIB)
        for each in state.partitions
    ]
    again = plan(tiers, [group(*after)], NOW_NS)
    assert again.moves == ()
    assert again.short == found.short
    sizes = sizes_of(tiers, [group(*after)])
    for number, tier in enumerate(tiers[:-1]):
        if tier.max_bytes is not None and sizes[number] > tier.max_bytes:
            assert tier.name in [short.tier for short in found.short]
            there = [each for each in after if tier_of(each.place, tiers) == number]
            newest_names = {each.name for each in newest}
            assert all(each.name in newest_names for each in there)


# --- by access --------------------------------------------------------------------------------------------------------

COPY_S = 9 * GIB / PAGE * SCANNED_S
"""What the copy of a day is worth."""


def access(heats: dict[int, float], *, wanted_s: float = DAY_S, with_age: bool = False) -> Access:
    """Heats of days, by how long ago they are, in copies a day."""
    found = {
        ("bpm", f"{20_000 - ago}"): PeriodHeat(s_a_day=copies * COPY_S, wanted_s=wanted_s)
        for ago, copies in heats.items()
    }
    return Access(heats=found, half_life_s=DAY_S, with_age=with_age)


def test_what_is_read_most_moves_back_after_what_makes_room_for_it() -> None:
    state = group(day(6, "slow"), day(5, "slow"), *(day(ago) for ago in (4, 3, 2, 1, 0)))
    # Two ledgers and indexes in the slow tier, five days in the fast one: 59 GiB.
    found = plan([fast(59), slow()], [state], NOW_NS, access({6: 40, 5: 5, 4: 30, 3: 8, 2: 20}))
    assert moved(found) == [("19997", "fast", "slow"), ("19994", "slow", "fast")]
    assert "s a day, less for its size than what stays in fast, which may take 59 GiB" in found.moves[0].reason
    assert "s a day, more for its size than what lies there" in found.moves[1].reason
    assert found.short == ()


def test_what_moves_back_leaves_room_for_what_moves_back_to_its_tier() -> None:
    # The hotter one is too large for the fast tier, and takes the place of the other.
    state = group(day(6, "tape"), day(5, "slow", readings=5), day(1), day(0))
    tiers = [fast(31), slow("slow", max_gib=10), slow("tape")]
    found = plan(tiers, [state], NOW_NS, access({6: 40, 5: 10}))
    assert moved(found) == [("19995", "slow", "fast"), ("19994", "tape", "slow")]


def test_it_has_to_be_hot_for_a_while_and_the_plan_says_until_when() -> None:
    state = group(day(6, "slow"), *(day(ago) for ago in (4, 1, 0)))
    tiers = [fast(100), slow()]
    found = plan(tiers, [state], NOW_NS, access({6: 40}, wanted_s=0.0))
    assert found.moves == ()
    assert found.wanted == {("bpm", "19994")}
    assert found.next is not None
    assert (found.next.period.name, found.next.tier) == ("19994", "fast")
    assert found.next.at_ns == NOW_NS + int(HOLD * DAY_NS)
    assert moved(plan(tiers, [state], NOW_NS, access({6: 40}, wanted_s=HOLD * DAY_S))) == [("19994", "slow", "fast")]


def test_with_room_to_spare_it_has_to_be_worth_the_copies() -> None:
    state = group(day(6, "slow"), *(day(ago) for ago in (4, 1, 0)))
    tiers = [fast(100), slow()]
    found = plan(tiers, [state], NOW_NS, access({6: 0.9 * PAYS}))
    assert (found.moves, found.wanted) == ((), frozenset())
    assert moved(plan(tiers, [state], NOW_NS, access({6: 1.1 * PAYS}))) == [("19994", "slow", "fast")]


def test_by_access_alone_no_age_moves_and_by_both_nothing_moves_back_that_is_too_old() -> None:
    state = group(day(60), day(50, "slow"), day(9, "slow"), day(8), day(1), day(0))
    tiers = [fast(100), slow("slow", 30)]
    heats = {60: 40.0, 50: 40.0, 9: 40.0, 8: 0.0}
    assert moved(plan(tiers, [state], NOW_NS, access(heats))) == [
        ("19950", "slow", "fast"),
        ("19991", "slow", "fast"),
    ]
    both = plan(tiers, [state], NOW_NS, access(heats, with_age=True))
    assert moved(both) == [("19940", "fast", "slow"), ("19991", "slow", "fast")]
    assert both.next is not None
    assert both.next.period.name == "19992"


def test_what_something_waits_for_keeps_its_place_in_a_budget_and_is_named_where_that_is_not_met() -> None:
    days = [day(ago) for ago in (6, 5, 1, 0)]
    waits = group(*days, waited_for={"19994": "it waits"})
    found = plan([fast(35), slow()], [waits], NOW_NS, access({6: 0, 5: 40}))
    assert moved(found) == [("19995", "fast", "slow")]
    assert found.short == ()
    tight = plan([fast(30), slow()], [waits], NOW_NS, access({6: 0, 5: 40}))
    assert [each.reason for each in tight.held] == ["it waits"]
    assert tight.short == (Short(tier="fast", nbytes=5 * GIB),)


def test_when_all_is_read_alike_nothing_moves_back() -> None:
    state = group(*(day(ago, "slow") for ago in range(40, 20, -1)), *(day(ago) for ago in range(20, -1, -1)))
    assert sizes_of([fast(), slow()], [state])[0] == 20 * 2 * GIB + 21 * 11 * GIB
    alike = access(dict.fromkeys(range(41), 50.0))
    assert plan([fast(271), slow()], [state], NOW_NS, alike).moves == ()
    one_too_much = plan([fast(270), slow()], [state], NOW_NS, alike)
    assert moved(one_too_much) == [("19980", "fast", "slow")]


heats = st.dictionaries(st.integers(0, 60), st.sampled_from([0.0, 1.0, 4.0, 5.0, 6.0, 9.0, 30.0]))


@given(
    partitions=st.lists(
        st.tuples(st.integers(0, 60), places, st.integers(0, 9)), unique_by=lambda each: each[0], max_size=20
    ),
    budgets=st.tuples(st.integers(1, 100), st.none() | st.integers(1, 100)),
    ages=st.tuples(st.none() | st.integers(1, 20), st.none() | st.integers(21, 50)),
    heats=heats,
    with_age=st.booleans(),
    waits=st.sets(st.integers(0, 60), max_size=3),
)
def test_any_plan_by_access_meets_its_budgets_and_is_not_undone_by_the_next(
    partitions: Sequence[tuple[int, str | None, int]],
    budgets: tuple[int, int | None],
    ages: tuple[int | None, int | None],
    heats: dict[int, float],
    with_age: bool,
    waits: set[int],
) -> None:
    tiers = [fast(budgets[0]), slow("slow", ages[0], budgets[1]), slow("tape", ages[1])]
    waited_for = {f"{20_000 - ago}": "it waits" for ago in waits}

    def state(places: dict[str, str | None]) -> GroupState:
        days = [day(ago, places.get(f"{20_000 - ago}", place), readings=size + 1) for ago, place, size in partitions]
        return group(*days, waited_for=waited_for)

    by = access(heats, with_age=with_age)
    before = state({})
    found = plan(tiers, [before], NOW_NS, by)
    newest = {each.name for each in sorted(before.partitions, key=lambda each: each.start_ns)[-NEWEST:]}
    assert not {move.period.name for move in found.moves} & (newest | waited_for.keys())
    # At no moment more lies in a tier than may, or than lay there before.
    places: dict[str, str | None] = {}
    sizes = sizes_of(tiers, [before])
    for move in found.moves:
        places[move.period.name] = move.target.place
        after = sizes_of(tiers, [state(places)])
        number = tier_of(move.target.place, tiers)
        assert number is not None
        limit = tiers[number].max_bytes
        is_back = number < [tier.name for tier in tiers].index(move.source)
        if limit is not None and is_back:
            assert after[number] <= limit
        sizes = after
    for number, tier in enumerate(tiers[:-1]):
        if tier.max_bytes is not None and sizes[number] > tier.max_bytes:
            assert tier.name in [short.tier for short in found.short]
            lie = [each for each in state(places).partitions if tier_of(each.place, tiers) == number]
            assert all(each.name in newest or each.name in waited_for for each in lie)
    again = plan(tiers, [state(places)], NOW_NS, by)
    assert again.moves == ()
    assert again.short == found.short
