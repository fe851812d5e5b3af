"""Which parts of a question about means are answered from what."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import decimation
from backends.decimation import (
    Stretch,
    between,
    figures_of,
    in_steps,
    means_of,
    parts_of,
    stretches_of,
    without_raw,
)
from schemas.decimation import Bucket, Decimated, Every, How
from schemas.queries import Figures, Means, answer_dtype
from schemas.retention import Period
from tests.support.batches import group_of

GROUP = group_of(size=2)
DAY = 240


def reduced(day: int, how: How) -> Decimated:
    period = Period(group="bpm", name=str(day), start_ns=day * DAY, end_ns=(day + 1) * DAY)
    return Decimated(period=period, how=how, begun_ns=1)


def asked(start: int, end: int, step: int) -> Means:
    return Means(group=GROUP, start_ns=start, end_ns=end, step_ns=step)


def test_without_figures_there_are_no_stretches() -> None:
    assert stretches_of([reduced(1, Every(5))], asked(0, 900, 60)) == []
    assert stretches_of([reduced(5, Bucket(60))], asked(0, 900, 60)) == []


def test_periods_side_by_side_are_one_stretch_and_steps_become_as_long_as_buckets() -> None:
    account = [reduced(2, Bucket(60)), reduced(1, Bucket(60))]

    def one(start_ns: int, end_ns: int, step_ns: int) -> list[Stretch]:
        return [Stretch(start_ns=start_ns, end_ns=end_ns, step_ns=step_ns, bucket_ns=60, whole_ns=60)]

    assert stretches_of(account, asked(0, 900, 60)) == one(240, 720, 60)
    assert stretches_of(account, asked(300, 900, 50)) == one(300, 720, 60)
    assert stretches_of(account, asked(0, 900, 100)) == one(240, 720, 120)


def test_a_stretch_has_whole_steps_at_its_ends() -> None:
    assert stretches_of([reduced(1, Bucket(60))], asked(0, 900, 180)) == [
        Stretch(start_ns=180, end_ns=540, step_ns=180, bucket_ns=60, whole_ns=60)
    ]


def test_periods_with_other_buckets_in_one_step_have_the_next_multiple_of_both() -> None:
    """What the steps of both divide may be a thousand years."""
    account = [reduced(1, Bucket(60)), reduced(2, Bucket(80)), reduced(3, Bucket(120))]
    (found,) = stretches_of(account, asked(0, 1200, 250))
    assert (found.start_ns, found.step_ns, found.bucket_ns, found.whole_ns) == (0, 480, 60, 240)
    day, second = 86_400 * 10**9, 10**9
    periods = [Period(group="bpm", name=str(k), start_ns=k * day, end_ns=(k + 1) * day) for k in range(20_000, 20_003)]
    hows = [Bucket(second), Bucket(10 * second), Bucket(60 * second)]
    account = [Decimated(period=each, how=how, begun_ns=1) for each, how in zip(periods, hows, strict=True)]
    for step_ns in (31_535_999_999_988, 3_600 * second + 1, 366 * day - 7, 7 * second + 1):
        figures = Figures(group=GROUP, start_ns=19_000 * day, end_ns=21_000 * day, step_ns=step_ns)
        for each in stretches_of(account, figures):
            assert step_ns <= each.step_ns < step_ns + 60 * second


def test_no_step_is_longer_than_int64() -> None:
    account = [reduced(1, Bucket(60)), reduced(2, Bucket(80))]
    (found,) = stretches_of(account, asked(-(2**63), 2**63 - 1, 2**63 - 1))
    assert 2**63 - 241 < found.step_ns < 2**63
    assert (found.step_ns % 240, found.start_ns, found.end_ns) == (0, 0, 2**63 - 1)


hows = st.sampled_from([Bucket(60), Bucket(120), Bucket(80), Every(3)])


@settings(deadline=None)
@given(
    days=st.dictionaries(st.integers(-3, 6), hows, max_size=6),
    start=st.integers(-800, 1500),
    length=st.integers(1, 2500),
    step=st.integers(1, 700),
)
def test_stretches_and_what_is_between_them_are_all_that_was_asked(
    days: dict[int, How], start: int, length: int, step: int
) -> None:
    query = asked(start, start + length, step)
    account = [reduced(day, how) for day, how in days.items()]
    stretches = stretches_of(account, query)
    parts = sorted(
        [*((each.start_ns, each.end_ns) for each in stretches)]
        + [(each.start_ns, each.end_ns) for each in between(query, stretches)]
    )
    assert [begin for begin, _ in parts] == [start, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == start + length
    for each in stretches:
        assert each.step_ns >= step
        assert each.start_ns in (start, each.start_ns // each.step_ns * each.step_ns)
        assert each.end_ns in (start + length, each.end_ns // each.step_ns * each.step_ns)
    for one in account:
        if isinstance(one.how, Bucket):
            for moment in range(max(one.period.start_ns, start), min(one.period.end_ns, start + length)):
                (within,) = [each for each in stretches if each.start_ns <= moment < each.end_ns]
                assert within.step_ns % one.how.ns == 0
                assert within.step_ns < step + 240


@settings(deadline=None)
@given(times=st.lists(st.integers(-500, 900), min_size=1, max_size=40), factor=st.integers(1, 5))
def test_figures_of_longer_buckets_are_those_of_their_readings(times: Sequence[int], factor: int) -> None:
    readings = np.zeros(len(times), answer_dtype(GROUP))
    readings["time_ns"], readings["instrument"] = times, np.arange(len(times)) % GROUP.size
    readings["ch0"] = np.arange(len(times)) ** 2
    longer = in_steps(figures_of(readings, GROUP, 60), GROUP, 60 * factor)
    wanted = figures_of(readings, GROUP, 60 * factor)
    for name in ("time_ns", "instrument", "readings"):
        assert longer[name].tolist() == wanted[name].tolist()
    np.testing.assert_allclose(means_of(longer, GROUP)["ch0"], means_of(wanted, GROUP)["ch0"])


@settings(deadline=None)
@given(
    days=st.dictionaries(st.integers(-3, 6), hows, max_size=6),
    start=st.integers(-800, 1500),
    length=st.integers(1, 2500),
    step=st.integers(1, 700),
    buckets=st.integers(1, 5),
)
def test_what_was_reduced_is_asked_for_once_in_whole_buckets(
    days: dict[int, How], start: int, length: int, step: int, buckets: int
) -> None:
    query = Figures(group=GROUP, start_ns=start, end_ns=start + length, step_ns=step)
    account = [reduced(day, how) for day, how in days.items()]
    moments = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decimation, "LEAST_NS", 1)
        for stretch in stretches_of(account, query):
            for each in without_raw(stretch, account):
                for begin, end in parts_of(each, buckets):
                    assert begin == each.start_ns or begin % each.bucket_ns == 0
                    moments += range(begin, end)
    is_reduced = {
        moment
        for each in account
        if isinstance(each.how, Bucket)
        for moment in range(each.period.start_ns, each.period.end_ns)
    }
    assert moments == sorted(set(moments))
    assert set(moments) <= is_reduced
    assert is_reduced.intersection(range(start, start + length)) <= set(moments)
    # Others are of steps that are partly within.
    for moment in set(moments).difference(range(start, start + length)):
        (step_ns,) = [each.step_ns for each in stretches_of(account, query) if each.start_ns <= moment < each.end_ns]
        begin = moment // step_ns * step_ns
        assert begin < start + length
        assert begin + step_ns > start
