"""Filling budgets by heat, as a pure function."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from daemon.tiers.heat import SCANNED_S
from daemon.tiers.planner import FACTOR, PAGE, PAYS, Candidate, filled, pays

TIERS = 3


def candidate(key: int, s_a_day: float, *, lies: int = 1, nbytes: int = 10, least: int = 0) -> Candidate[int]:
    return Candidate(key=key, nbytes=nbytes, lies=lies, least=least, s_a_day=s_a_day, end_ns=key)


def fill(candidates: Sequence[Candidate[int]], room: Sequence[int | None], rising: set[int] | None = None) -> list[int]:
    found = filled(candidates, room, {each.key for each in candidates} if rising is None else rising)
    return [found[each.key] for each in candidates]


def test_the_hottest_for_their_bytes_get_what_room_there_is() -> None:
    large, small = candidate(1, 9.0, nbytes=30), candidate(2, 5.0, nbytes=10)
    assert fill([large, small], [30, None]) == [1, 0]
    assert fill([large, small], [40, None]) == [0, 0]
    assert fill([large, small], [0, None]) == [1, 1]


def test_what_lies_there_stays_unless_something_is_hotter_by_the_factor() -> None:
    lies = candidate(1, 1.0, lies=0)
    assert fill([lies, candidate(2, FACTOR)], [10, None]) == [0, 1]
    assert fill([lies, candidate(2, FACTOR * 1.01)], [10, None]) == [1, 0]
    assert fill([lies, candidate(2, FACTOR * 1.01)], [10, None], set()) == [0, 1]


def test_of_what_is_as_hot_the_oldest_makes_room() -> None:
    assert fill([candidate(key, 1.0, lies=0) for key in (1, 2, 3)], [20, None]) == [1, 0, 0]
    assert fill([candidate(key, 0.0, lies=0) for key in (1, 2, 3)], [20, None]) == [1, 0, 0]


def test_what_is_too_old_for_a_tier_does_not_lie_there_however_hot() -> None:
    assert fill([candidate(1, 9.0, lies=0, least=1), candidate(2, 1.0, lies=0)], [10, 10, None]) == [1, 0]


def test_it_has_to_save_what_copies_cost() -> None:
    copies = 1000 * SCANNED_S
    nbytes = 1000 * PAGE
    assert pays(candidate(1, 1.01 * PAYS * copies, nbytes=nbytes), 1.0)
    assert not pays(candidate(1, 0.99 * PAYS * copies, nbytes=nbytes), 1.0)
    assert pays(candidate(1, 0.51 * PAYS * copies, nbytes=nbytes), 2.0)
    assert not pays(candidate(1, 0.0, nbytes=0), 1.0), "what is empty is as cheap to leave where it is"


candidates = st.lists(
    st.tuples(
        st.integers(1, 20), st.sampled_from([0.0, 1.0, 1.2, 1.5, 2.0, 9.0]), st.integers(0, 2), st.integers(0, 2)
    ),
    max_size=15,
)


@given(
    given_=candidates,
    room=st.tuples(st.none() | st.integers(-5, 60), st.none() | st.integers(-5, 60)),
    rises=st.sets(st.integers(0, 14)),
)
def test_any_filling_keeps_its_budgets_and_does_not_undo_itself(
    given_: list[tuple[int, float, int, int]], room: tuple[int | None, int | None], rises: set[int]
) -> None:
    every = [
        candidate(key, heat, nbytes=nbytes, lies=lies, least=least)
        for key, (nbytes, heat, lies, least) in enumerate(given_)
    ]
    found = filled(every, [*room, None], rises)
    assert found.keys() == {each.key for each in every}
    for number, most in enumerate(room):
        lie = sum(each.nbytes for each in every if found[each.key] == number)
        assert most is None or lie <= max(0, most)
    for each in every:
        assert found[each.key] >= each.least
        assert found[each.key] >= each.lies or each.key in rises
    after = [
        candidate(each.key, each.s_a_day, nbytes=each.nbytes, lies=found[each.key], least=each.least) for each in every
    ]
    assert filled(after, [*room, None], rises) == found
    # Nothing was left out that is hotter by the factor than what lies there, and as large at most.
    for number, most in enumerate(room):
        for out in every:
            may = out.least <= number and (out.key in rises or out.lies <= number)
            if may and found[out.key] > number:
                colder = [
                    each
                    for each in every
                    if found[each.key] == number and each.heat * FACTOR < out.heat and each.nbytes >= out.nbytes
                ]
                assert not colder, (number, out)
                assert most is not None
