"""Differences of two lists, against a comparison key by key."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from schemas.conditions.intervals import END, Intervals, Key, Payload, differences
from tests.support.calibrations import intervals_of

CELLS = 12
lists = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=CELLS, max_size=CELLS)


def intervals_from(cells: list[str | None]) -> Intervals:
    """An interval a cell; the last cell goes on for ever."""
    keys = [*(Key(*divmod(cell, 4)) for cell in range(CELLS)), END]
    return intervals_of([(keys[k], keys[k + 1], url, url * 3) for k, url in enumerate(cells) if url is not None])


@given(lists, lists)
def test_differences_are_those_of_each_key(left: list[str | None], right: list[str | None]) -> None:
    found = list(differences(intervals_from(left), intervals_from(right)))
    told: list[tuple[str | None, str | None] | None] = [None] * CELLS
    for each in found:
        assert each.start < each.end
        for cell in range(CELLS):
            if each.start <= Key(*divmod(cell, 4)) < each.end:
                assert told[cell] is None
                told[cell] = (each.left and each.left.url, each.right and each.right.url)
    assert told == [None if a == b else (a, b) for a, b in zip(left, right, strict=True)]
    for one, other in pairwise(found):
        assert one.end < other.start or (one.left, one.right) != (other.left, other.right), "as long as it can be"


def test_the_same_url_with_another_checksum_is_a_difference() -> None:
    one, other = (intervals_of([(Key(1, 0), END, "a", checksum)]) for checksum in ("00", "11"))
    (found,) = differences(one, other)
    assert (found.left, found.right) == (Payload(url="a", checksum="00"), Payload(url="a", checksum="11"))
    assert (found.start, found.end) == (Key(1, 0), END)
    assert not list(differences(one, one))
