"""Means and aggregates made of chunks, against a model that goes from reading to reading."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.columns import reductions
from backends.columns.reductions import AggregateReducer, MeansReducer, newest_of_each
from schemas.queries import Aggregate, Means, aggregate_dtype, answer_dtype, means_dtype
from schemas.readings import Array
from tests.support.batches import group_of

GROUP = group_of(size=3, dtypes=("float64", "float32", "int64"))
EARLIEST, LATEST = -(2**63), 2**63 - 1

times = st.integers(-50, 50) | st.sampled_from([EARLIEST, EARLIEST + 1, LATEST, 1_700_000_000_000_000_000])
floats = st.floats(-1e6, 1e6, width=32) | st.sampled_from([math.nan, math.inf, -math.inf])
readings = st.lists(st.tuples(st.integers(0, 2), times, floats, floats, st.integers(-(2**40), 2**40)), max_size=40)


def block(rows: list[tuple[Any, ...]]) -> Array:
    return np.array([(1, k, *row) for k, row in enumerate(rows)], answer_dtype(GROUP))


def chunks(rows: Array, size: int) -> list[Array]:
    return [rows[k : k + size] for k in range(0, len(rows) + 1, size)]


def figures(values: list[float]) -> tuple[float, float, float]:
    valid = [value for value in values if not math.isnan(value)]
    if not valid:
        return (math.nan,) * 3
    return sum(valid) / len(valid), min(valid), max(valid)


@settings(deadline=None, max_examples=100)
@given(
    readings, st.integers(1, 41), times, times, st.integers(1, 30) | st.just(60_000_000_000), st.sampled_from([0, 9999])
)
def test_means_are_those_of_a_model(
    rows: list[tuple[Any, ...]], size: int, start_ns: int, end_ns: int, step_ns: int, merge: int
) -> None:
    cells = defaultdict(list)
    for row in rows:
        if start_ns <= row[1] < end_ns:
            cells[row[0], max(EARLIEST, row[1] // step_ns * step_ns)].append(row[2:])
    model = [
        (*key, len(values), *(figures(list(channel))[0] for channel in zip(*values, strict=True)))
        for key, values in sorted(cells.items())
    ]
    expected = np.array(model, means_dtype(GROUP))

    kept, reductions.MERGE_ROWS = reductions.MERGE_ROWS, merge
    try:
        reducer = MeansReducer(Means(group=GROUP, start_ns=start_ns, end_ns=end_ns, step_ns=step_ns))
        for chunk in chunks(block(rows), size):
            reducer.add(chunk)
        found = reducer.answer()
    finally:
        reductions.MERGE_ROWS = kept
    assert found.dtype == expected.dtype
    for name in ("instrument", "time_ns", "count"):
        np.testing.assert_array_equal(found[name], expected[name])
    for channel in GROUP.channels:
        np.testing.assert_allclose(found[channel.name], expected[channel.name], rtol=1e-9, atol=1e-6)


@settings(deadline=None, max_examples=100)
@given(readings, st.integers(1, 41))
def test_aggregates_are_those_of_a_model(rows: list[tuple[Any, ...]], size: int) -> None:
    by_instrument = defaultdict(list)
    for row in rows:
        by_instrument[row[0]].append(row[2:])
    reducer = AggregateReducer(Aggregate(group=GROUP))
    for chunk in chunks(block(rows), size):
        reducer.add(chunk)
    found = reducer.answer()
    assert found.dtype == aggregate_dtype(GROUP)
    assert found["instrument"].tolist() == sorted(by_instrument)
    for row in found:
        values = by_instrument[int(row["instrument"])]
        assert row["count"] == len(values)
        for channel, mine in zip(GROUP.channels, zip(*values, strict=True), strict=True):
            np.testing.assert_allclose(row[channel.name].item(), figures(list(mine)), rtol=1e-9, atol=1e-6)


@given(readings)
def test_the_newest_of_each_instrument(rows: list[tuple[Any, ...]]) -> None:
    every = block(rows)
    expected: dict[int, Any] = {}
    for row in every:
        if int(row["instrument"]) not in expected or row["time_ns"] >= expected[int(row["instrument"])]["time_ns"]:
            expected[int(row["instrument"])] = row
    rng = np.random.default_rng(1)
    found = newest_of_each(rng.permutation(every))
    assert found["trigger"].tolist() == [expected[key]["trigger"] for key in sorted(expected)]


def test_sums_of_many_steps_stay_together_in_bounded_memory() -> None:
    reducer = MeansReducer(Means(group=GROUP, start_ns=0, end_ns=1000, step_ns=1))
    rows = np.zeros(30_000, answer_dtype(GROUP))
    rows["instrument"], rows["time_ns"] = np.arange(30_000) % 3, np.arange(30_000) % 1000
    for _ in range(50):
        reducer.add(rows)
    assert sum(map(len, reducer._parts)) <= reductions.MERGE_ROWS + 3000
    assert reducer.answer()["count"].tolist() == [500] * 3000
