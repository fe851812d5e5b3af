"""Which parts of a question about means are answered from what."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.decimation import across
from backends.decimation.across import (
    Stretch,
    between,
    in_steps,
    means_of,
    parts_of,
    stretches_of,
    without_raw,
)
from backends.decimation.figures import figures_of
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
    assert stretches_of(account, asked(0, 900, 60)) == [Stretch(start_ns=240, end_ns=720, step_ns=60, bucket_ns=60)]
    assert stretches_of(account, asked(300, 900, 50)) == [Stretch(start_ns=300, end_ns=720, step_ns=60, bucket_ns=60)]
    assert stretches_of(account, asked(0, 900, 100)) == [Stretch(start_ns=240, end_ns=720, step_ns=120, bucket_ns=60)]


def test_a_stretch_has_whole_steps_at_its_ends() -> None:
    assert stretches_of([reduced(1, Bucket(60))], asked(0, 900, 180)) == [
        Stretch(start_ns=180, end_ns=540, step_ns=180, bucket_ns=60)
    ]


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
        patched.setattr(across, "LEAST_NS", 1)
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
