from hypothesis import given
from hypothesis import strategies as st

from daemon.core.monitoring.metrics import Rates
from daemon.telemetry.status.reporter import MINUTE_NS
from daemon.telemetry.store import AT_ONCE_S, drained_in_s, full_in_days, full_in_s

rates = st.just(0.0) | st.floats(min_value=1e-6, max_value=1e7)


def test_room_lasts_as_long_as_what_comes_in_leaves_of_it() -> None:
    assert full_in_s(4096 * 2**20, 64_000.0) == 4096 * 2**20 / 64_000
    assert full_in_s(0, 64_000.0) == 0
    assert full_in_s(-1, 64_000.0) == 0


def test_one_odd_second_counts_as_one_of_sixty() -> None:
    """A second in which a hundred times as much came: by that alone the room would be for 10 s, and not for 1,000."""
    growth, put, told = Rates(over_ns=MINUTE_NS, most_ns=MINUTE_NS, enough=0), 0, []
    for second in range(120):
        put += 100_000 if second == 100 else 1_000
        told.append(full_in_s(1_000_000, growth.sample(second * 1_000_000_000, put)[0]))
    assert told[99] == 1_000
    assert 350 < told[101] < 400


def test_nothing_is_said_of_room_while_nothing_comes_in() -> None:
    assert full_in_s(1000, 0.0) is None


def test_a_disk_is_full_when_its_free_space_has_grown_over() -> None:
    assert full_in_days(700, 100.0) == 7
    assert full_in_days(0, 100.0) == 0


def test_a_disk_on_which_nothing_grows_is_never_full() -> None:
    assert full_in_days(700, None) is None
    assert full_in_days(700, 0.0) is None
    assert full_in_days(700, -5.0) is None


def test_a_backlog_is_drained_by_what_is_committed_beyond_what_comes_in() -> None:
    assert drained_in_s(120_000, 12_000.0, 60_000.0) == 2.5


def test_what_one_second_brings_is_no_backlog() -> None:
    assert drained_in_s(0, 0.0, 0.0) == 0
    assert drained_in_s(11_999, 12_000.0, 12_000.0) == 0


def test_a_backlog_that_does_not_shrink_has_no_end() -> None:
    assert drained_in_s(120_000, 12_000.0, 0.0) is None
    assert drained_in_s(5, 0.0, 0.0) is None


@given(waiting=st.integers(0, 10**12), received=rates, committed=rates)
def test_draining_for_as_long_as_said_leaves_nothing_behind(waiting: int, received: float, committed: float) -> None:
    seconds = drained_in_s(waiting, received, committed)
    if seconds is None:
        assert committed <= received
    elif seconds:
        left = waiting + (received - committed) * seconds
        assert abs(left) <= 1e-6 * waiting + 1
    else:
        assert waiting <= AT_ONCE_S * received
