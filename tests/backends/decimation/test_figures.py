"""Figures of buckets against their definition, whatever the parts that the readings come in."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.decimation import FIRST_NS, figures_of, together
from schemas.decimation import Bucket, Every, how_of, reduced_dtype
from schemas.queries import answer_dtype
from schemas.readings import Array
from tests.support.batches import group_of

GROUP = group_of(size=3, dtypes=("float64", "float32", "int64", "uint8"))
BUCKET_NS = 10

values = st.floats(width=32, allow_infinity=False)
one = st.tuples(
    st.integers(0, GROUP.size - 1),
    st.integers(-25, 35),
    values,
    values,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 255),
)
cuts = st.lists(st.integers(0, 60), max_size=5)


def readings_of(rows: Sequence[tuple[float, ...]]) -> Array:
    found = np.zeros(len(rows), answer_dtype(GROUP))
    for name, column in zip(
        ("instrument", "time_ns", *(channel.name for channel in GROUP.channels)), zip(*rows, strict=True), strict=False
    ):
        found[name] = column
    return found


def brute(readings: Array) -> dict[tuple[int, int], tuple[int, list[tuple[float, ...]]]]:
    """By bucket and instrument: readings, and by channel its figures, with sums that round once."""
    found = {}
    keys = {(int(time) // BUCKET_NS * BUCKET_NS, int(k)) for time, k in readings[["time_ns", "instrument"]].tolist()}
    for start, instrument in keys:
        mine = readings[
            (readings["time_ns"] >= start)
            & (readings["time_ns"] < start + BUCKET_NS)
            & (readings["instrument"] == instrument)
        ]
        figures: list[tuple[float, ...]] = []
        for channel in GROUP.channels:
            valid = [value for value in mine[channel.name].tolist() if not math.isnan(value)]
            if not valid:
                figures.append((0, math.nan, 0.0, math.nan, math.nan))
                continue
            mean = math.fsum(valid) / len(valid)
            m2 = math.fsum((value - mean) ** 2 for value in valid)
            figures.append((len(valid), mean, m2, min(valid), max(valid)))
        found[start, instrument] = len(mine), figures
    return found


def see_the_same(figures: Array, readings: Array) -> None:
    wanted = brute(readings)
    assert [(int(row["time_ns"]), int(row["instrument"])) for row in figures] == sorted(wanted)
    for row in figures:
        count, by_channel = wanted[int(row["time_ns"]), int(row["instrument"])]
        assert row["readings"] == count
        for channel, (n, mean, m2, least, greatest) in zip(GROUP.channels, by_channel, strict=True):
            of = row[channel.name]
            assert of["n"] == n
            scale = max(abs(least), abs(greatest)) if n else 0.0
            np.testing.assert_allclose(of["mean"], mean, rtol=1e-12, atol=1e-14 * scale)
            np.testing.assert_allclose(of["m2"], m2, rtol=1e-9, atol=1e-25 * scale**2)
            # Which of 0.0 and -0.0 is the least depends on their order.
            np.testing.assert_array_equal([of["least"].item(), of["greatest"].item()], [least, greatest])


@settings(deadline=None)
@given(rows=st.lists(one, max_size=60))
def test_figures_are_what_their_definition_says(rows: list[tuple[float, ...]]) -> None:
    readings = readings_of(rows) if rows else np.empty(0, answer_dtype(GROUP))
    figures = figures_of(readings, GROUP, BUCKET_NS)
    assert figures.dtype == reduced_dtype(GROUP)
    see_the_same(figures, readings)


@settings(deadline=None)
@given(rows=st.lists(one, min_size=1, max_size=60), cuts=cuts)
def test_it_makes_no_difference_in_which_parts_readings_came(rows: list[tuple[float, ...]], cuts: list[int]) -> None:
    readings = readings_of(rows)
    parts = [figures_of(part, GROUP, BUCKET_NS) for part in np.split(readings, sorted(cuts))]
    see_the_same(together(parts, GROUP), readings)
    one_by_one = parts[0][:0]
    for part in parts:
        one_by_one = together([one_by_one, part], GROUP)
    see_the_same(one_by_one, readings)


def test_small_deviations_from_a_great_mean_keep_their_digits() -> None:
    rng = np.random.default_rng(3)
    readings = np.zeros(100_000, answer_dtype(GROUP))
    readings["ch0"] = 1e9 + rng.standard_normal(len(readings))
    parts = [figures_of(part, GROUP, BUCKET_NS) for part in np.array_split(readings, 77)]
    (figures,) = together(parts, GROUP)["ch0"]
    assert figures["m2"] / len(readings) == pytest.approx(np.var(readings["ch0"] - 1e9), rel=1e-6)


def test_an_infinite_value_is_in_the_mean_as_in_a_sum() -> None:
    readings = readings_of([(0, 1, math.inf, 1.0, 0, 0), (0, 2, 5.0, 2.0, 0, 0), (1, 1, math.inf, 0.0, 0, 0)])
    more = readings_of([(0, 3, 7.0, 0.0, 0, 0), (1, 3, -math.inf, 0.0, 0, 0)])
    found = together([figures_of(readings, GROUP, BUCKET_NS), figures_of(more, GROUP, BUCKET_NS)], GROUP)["ch0"]
    assert (found["mean"][0], found["greatest"][0], found["least"][0]) == (math.inf, math.inf, 5.0)
    assert math.isnan(found["m2"][0])
    assert math.isnan(found["mean"][1])


def test_the_first_bucket_of_all_times_begins_with_them() -> None:
    readings = readings_of([(0, FIRST_NS, 1.0, 1.0, 1, 1), (0, 2**63 - 1, 1.0, 1.0, 1, 1)])
    figures = figures_of(readings, GROUP, 7)
    assert figures["time_ns"].tolist() == [FIRST_NS, (2**63 - 1) // 7 * 7]


def test_a_way_is_read_as_it_is_written() -> None:
    for how in (Bucket(60), Every(10)):
        assert how_of(str(how)) == how
    for text in ("", "age", "bucket", "every x", "every 0", "disk"):
        with pytest.raises(ValueError, match="is no way to reduce readings"):
            how_of(text)
