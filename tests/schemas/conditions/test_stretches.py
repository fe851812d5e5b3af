"""Which interval is valid, against a search through all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemas.conditions.intervals import END, Key, stretches, valid_at
from tests.support.calibrations import intervals_of

keys = st.builds(Key, st.integers(0, 4), st.integers(0, 6))


@given(st.sets(keys, max_size=12).map(sorted), st.booleans(), st.lists(keys, max_size=30), st.data())
def test_an_interval_is_valid_at_the_keys_that_it_holds(
    borders: list[Key], is_open: bool, asked: list[Key], data: st.DataObject
) -> None:
    spans = list(zip(borders, [*borders, END][1:], strict=True))[: None if is_open else -1]
    spans = [span for span in spans if data.draw(st.booleans())]  # with gaps between them
    intervals = intervals_of([(start, end, f"{k}", "") for k, (start, end) in enumerate(spans)])
    found = valid_at(intervals, *np.array(asked, np.int64).reshape(-1, 2).T)
    slow = [next((k for k, (start, end) in enumerate(spans) if start <= key < end), -1) for key in asked]
    assert found.tolist() == slow
    parts = list(stretches(found))
    assert {position: where.tolist() for position, where in parts} == {
        position: [k for k, each in enumerate(slow) if each == position] for position in set(slow)
    }
    assert len(parts) == len(set(slow))


def test_times_and_nanoseconds_near_each_other_are_told_apart() -> None:
    at = 1_732_275_000_123_456_789
    intervals = intervals_of([(Key(0, 0), Key(0, at), "a", ""), (Key(0, at), END, "b", "")])
    assert valid_at(intervals, np.zeros(4, np.int64), np.array([-1, 0, at - 1, at])).tolist() == [-1, 0, 0, 1]
