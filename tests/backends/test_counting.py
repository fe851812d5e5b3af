"""What was read by the hour: put together, and taken once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from backends.counting import HourRead, HourReads

READ = st.builds(
    HourRead,
    st.sampled_from(["bpm", "blm"]),
    st.none() | st.integers(-2, 2),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(0, 99),
)


def sums(reads: list[HourRead]) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for each in reads:
        for name in ("answers", "starts", "rows"):
            found[each.group, each.hour, name] += getattr(each, name)
    return found


@given(st.lists(st.lists(READ, max_size=5) | st.none(), max_size=20))
def test_each_read_is_taken_once_whenever_it_is_asked_for(steps: list[list[HourRead] | None]) -> None:
    reads, taken = HourReads(), []
    for step in steps:
        if step is None:
            taken += reads.take()
        else:
            reads.add(step)
    last = reads.take()
    assert len({each[:2] for each in last}) == len(last)
    assert sums([*taken, *last]) == sums([each for step in steps for each in step or ()])
    assert reads.take() == ()
