"""What own readers have read, as reads of partitions."""

from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.base import Partition
from backends.counting import HOUR_NS, HourRead
from daemon.tiers.heat import FIRST, Reads, reads_of
from daemon.tiers.planner import PAGE

ROWS, PAGES = 20_000, 100


def partition(name: str, start: int, end: int, rows: int = ROWS, pages: int | None = PAGES) -> Partition:
    """One of some hours."""
    size = None if pages is None else pages * PAGE
    return Partition(
        name=name,
        start_ns=start * HOUR_NS,
        end_ns=end * HOUR_NS,
        rows=rows,
        size_bytes=size or 0,
        readings_bytes=size,
    )


def read(hour: int | None, answers: int = 1, starts: int = 0, rows: int = 0, group: str = "bpm") -> HourRead:
    return HourRead(group, hour, answers, starts, rows)


TWO = {"bpm": [partition("a", 0, 24), partition("b", 24, 48)]}


def test_rows_of_hours_are_pages_of_the_partition_that_has_the_hour() -> None:
    found = reads_of([read(0, starts=1, rows=200), read(23, rows=400), read(24, rows=ROWS)], TWO)
    assert found == {("bpm", "a"): Reads(scanned=3, random=1), ("bpm", "b"): Reads(scanned=PAGES)}


def test_what_no_partition_has_and_what_has_no_readings_was_not_read() -> None:
    gone = [partition("a", 0, 24, pages=None), partition("b", 24, 48, pages=0), partition("c", 48, 72)]
    asked = [read(hour, starts=1, rows=5) for hour in (-1, 3, 30, 72)]
    assert reads_of([*asked, read(50, group="other")], {"bpm": gone}) == {}
    assert reads_of([read(None)], {"bpm": gone}) == {("bpm", "c"): Reads(scanned=PAGES)}


def test_who_goes_through_everything_reads_each_partition_whole() -> None:
    found = reads_of([read(None, answers=3)], TWO)
    assert set(found) == {("bpm", "a"), ("bpm", "b")}
    assert {(each.scanned, each.random, each.missed) for each in found.values()} == {(3 * PAGES, 0, 1 / 3)}


def test_what_is_read_beyond_the_whole_partition_was_cached() -> None:
    (once,) = reads_of([read(1, answers=1, rows=ROWS)], TWO).values()
    (often,) = reads_of([read(1, answers=100, rows=100 * ROWS)], TWO).values()
    assert (once.missed, often.missed) == (1, pytest.approx(0.01))
    assert once.gain_s < often.gain_s < 12 * once.gain_s
    (starts,) = reads_of([read(1, answers=100, starts=PAGES)], TWO).values()
    assert starts.missed == 1 / FIRST


def test_rows_that_were_reduced_are_no_pages_that_are_there() -> None:
    """Means are made of their figures: there are fewer rows than the answer counts."""
    reduced = {"bpm": [partition("a", 0, 24, rows=20, pages=2)]}
    hours = [read(hour, answers=3, rows=3 * ROWS) for hour in range(24)]
    (found,) = reads_of(hours, reduced).values()
    assert found.scanned == 3 * 2


def test_before_the_server_has_counted_rows_starts_alone_are_known() -> None:
    (found,) = reads_of([read(1, starts=2, rows=0)], {"bpm": [partition("a", 0, 24, rows=0)]}).values()
    assert (found.scanned, found.random) == (0, 2)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=7),
    asked=st.lists(
        st.builds(read, st.integers(-60, 60), st.integers(1, 9), st.integers(0, 9), st.integers(0, 10**6)), max_size=20
    ),
    order=st.randoms(use_true_random=False),
)
def test_each_hour_counts_for_the_one_partition_that_has_it(
    lengths: list[int], asked: list[HourRead], order: Random
) -> None:
    there = [partition(str(start), start, end) for start, end in pairwise(accumulate(lengths, initial=-50))]
    order.shuffle(there)
    found = reads_of(asked, {"bpm": there})
    for one in there:
        mine = [each for each in asked if one.start_ns <= (each.hour or 0) * HOUR_NS < one.end_ns]
        reads = found.get(("bpm", one.name), Reads())
        assert reads.random == sum(each.starts for each in mine)
        assert 0 <= reads.scanned <= sum(each.rows for each in mine) * PAGES / ROWS + 1e-6
        assert reads.scanned <= PAGES * max((each.answers for each in mine), default=0)
        assert 0 <= reads.missed <= 1
