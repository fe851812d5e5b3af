"""When a client is due, and how it slips."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from daemon.workloads.readers.clients import FAILED_PAUSE_S, Pace

TAKES = st.lists(st.floats(0, 30), min_size=1, max_size=30)


def test_a_client_in_time_asks_once_in_a_period_and_a_late_one_slips_without_catching_up() -> None:
    pace, asked, slipped = Pace(100.0, 2.0), [], []
    for takes in (0.5, 1.9, 5.0, 0.1, 0.1):
        asked.append(pace.due_s)
        slipped.append(pace.answered(pace.due_s + takes))
    assert asked == [100, 102, 104, 109, 111]
    assert slipped == [0, 0, 3, 0, 0]


@given(period_s=st.floats(0.01, 20), takes=TAKES)
def test_the_questions_of_a_client_lie_a_period_apart_and_what_is_more_is_its_slip(
    period_s: float, takes: list[float]
) -> None:
    pace, slipped_s, asked = Pace(0.0, period_s), 0.0, [0.0]
    for each in takes:
        slipped_s += pace.answered(pace.due_s + each)
        asked.append(pace.due_s)
    assert all(after - before >= period_s * (1 - 1e-9) for before, after in itertools.pairwise(asked))
    assert abs(asked[-1] - (len(takes) * period_s + slipped_s)) < 1e-6


def test_without_a_period_the_next_question_follows_the_answer_and_nothing_slips() -> None:
    pace = Pace(1.0, 0.0)
    assert pace.answered(7.5) == 0.0
    assert pace.due_s == 7.5


def test_a_client_waits_after_a_failure_and_keeps_its_step_when_it_was_held_back() -> None:
    fast, slow = Pace(0.0, 0.01), Pace(0.0, 3.0)
    fast.failed(5.0)
    slow.failed(5.0)
    assert (fast.due_s, slow.due_s) == (5.0 + FAILED_PAUSE_S, 8.0)
    slow.admitted(4.0)  # let in before it is due
    assert slow.due_s == 8.0
    slow.admitted(15.5)  # held back for two and a half periods
    assert slow.due_s == 17.0
    without = Pace(0.0, 0.0)
    without.admitted(9.0)
    assert without.due_s == 9.0


def test_held_back_to_a_share_of_its_time_it_asks_so_much_less_often_and_that_is_no_slip() -> None:
    pace, restless = Pace(100.0, 2.0), Pace(100.0, 0.0)
    assert pace.answered(100.5, share=0.25) == 0
    assert restless.answered(100.5, share=0.25) == 0
    assert (pace.due_s, restless.due_s) == (108, 102)
    pace.shared(0.5)
    restless.shared(1.0)
    assert (pace.due_s, restless.due_s) == (104, 100.5)
    assert pace.answered(107.0, share=0.5) == 1  # of its own 2 s, the answer took 3
    assert pace.due_s == 110
