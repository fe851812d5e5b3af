"""What is dealt with now and then: what is left alone for a while, and by which clock."""

from daemon.core.outside import Instant
from daemon.retention.looking import TOUCHED_FIRST_NS, TOUCHED_MOST_NS, LeftAlone
from daemon.retention.planner import DAY_NS
from schemas.retention import Period

ONE = Period(group="bpm", name="20260101", start_ns=0, end_ns=1)
NOW_NS = 20_000 * DAY_NS


class TwoClocks:
    """A time of day, and a clock that nobody sets."""

    def __init__(self) -> None:
        self.utc_ns, self.monotonic_ns = NOW_NS, 5

    def now(self) -> Instant:
        return Instant(self.utc_ns, self.monotonic_ns)


def test_a_period_is_left_alone_twice_as_long_each_time_and_a_day_at_most() -> None:
    alone = LeftAlone(clock := TwoClocks())
    for times in range(12):
        alone.add(ONE)
        pause_ns = min(TOUCHED_FIRST_NS * 2**times, TOUCHED_MOST_NS)
        clock.monotonic_ns += pause_ns - 1
        assert (alone.names("bpm"), alone.names("ict")) == (["20260101"], [])
        clock.monotonic_ns += 1
        assert alone.names("bpm") == []
    alone.forget(ONE)
    alone.add(ONE)
    clock.monotonic_ns += TOUCHED_FIRST_NS
    assert alone.names("bpm") == []


def test_a_clock_that_was_a_year_ahead_leaves_nothing_alone_for_a_year() -> None:
    alone = LeftAlone(clock := TwoClocks())
    clock.utc_ns += 365 * DAY_NS
    alone.add(ONE)
    clock.utc_ns -= 365 * DAY_NS
    assert alone.names("bpm") == ["20260101"]
    clock.monotonic_ns += TOUCHED_FIRST_NS
    assert alone.names("bpm") == []
