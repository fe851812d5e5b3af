"""Runs: restarts of the timing system, jumps, stragglers, and instruments that only seem to say so."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Runs
from schemas.batch import ClosedBlock
from schemas.readings import Array
from schemas.states import AsideReason
from tests.support.readings import PERIOD_NS, START_NS, history_of, make_block, make_group, time_of, whole

TIMEOUT = 1000
GROUP = make_group()
HOUR_NS = 3600 * 1_000_000_000


def make(history: Array | None = None, window: int = 256) -> Assembly:
    return Assembly(GROUP, timeout_ns=TIMEOUT, window=window, max_open=64, runs=Runs(1), history=history)


def at(tick: int) -> Instant:
    return Instant(START_NS + tick, tick)


def closed(closed_blocks: list[ClosedBlock]) -> list[tuple[int, int, int]]:
    """(run, trigger, arrived) of all that closed."""
    return [
        (int(r["run"]), int(r["trigger"]), int(r["arrived"]))
        for closed_block in closed_blocks
        for r in closed_block.ledger
    ]


def told(closed_blocks: list[ClosedBlock]) -> Iterator[tuple[int, Array]]:
    """(run, reading) of all that is to be stored."""
    for closed_block in closed_blocks:
        for row, readings, present in zip(
            closed_block.ledger, closed_block.readings, closed_block.present, strict=True
        ):
            yield from ((int(row["run"]), reading) for reading in readings[present])
        for row, reading in zip(closed_block.late_of, closed_block.late, strict=True):
            yield int(closed_block.revised["run"][row]), reading


def after(trigger: int) -> int:
    """When a trigger of the second run is."""
    return time_of(trigger) + HOUR_NS


def run_of(assembly: Assembly, *triggers: int) -> list[tuple[int, int, int]]:
    return closed(assembly.receive(whole(GROUP, *triggers), None, at(0)))


def test_first_trigger_is_where_most_instruments_are() -> None:
    assembly = make()
    assert assembly.receive(make_block(GROUP, [(900_000, 0), (41, 1)]), None, at(0)) == []
    (closed_block,) = assembly.receive(make_block(GROUP, [(41, i) for i in (0, 2, 3, 4)]), None, at(1))
    assert closed([closed_block]) == [(1, 41, 5)]
    assert closed_block.aside is not None
    assert closed_block.aside.readings["trigger"].tolist() == [900_000]
    assert assembly.counts.aside == {"ahead": 1}


def test_a_lonely_instrument_begins_after_the_timeout() -> None:
    assembly = make()
    assembly.receive(make_block(GROUP, [(7, 2)]), None, at(0))
    assert assembly.held == 1
    assert assembly.deadline_ns == TIMEOUT
    closed_blocks = assembly.close_due(at(TIMEOUT)) + assembly.close_due(at(2 * TIMEOUT))
    assert closed(closed_blocks) == [(1, 7, 1)]


def test_a_burst_of_one_instrument_at_the_beginning_loses_nothing() -> None:
    assembly = make(window=8192)
    out = []
    for start in range(1, 3000, 100):
        out += assembly.receive(make_block(GROUP, [(t, 2) for t in range(start, start + 100)]), None, at(0))
    out += assembly.flush(at(1))
    assert [trigger for _, trigger, _ in closed(out)] == list(range(1, 3001))
    assert assembly.counts.refused == {}


def test_numbers_that_start_again_open_a_run_and_collide_with_nothing() -> None:
    assembly = make()
    assert run_of(assembly, *range(1, 21)) == [(1, t, 5) for t in range(1, 21)]
    closed_blocks = assembly.receive(whole(GROUP, 1, 2, 3, when=after), None, at(1))
    assert closed(closed_blocks) == [(2, 1, 5), (2, 2, 5), (2, 3, 5)]
    assert assembly.run == 2
    assert (assembly.counts.duplicate, assembly.counts.late, assembly.held) == (0, 0, 0)


def test_restart_is_seen_as_soon_as_most_instruments_agree() -> None:
    assembly = make()
    run_of(assembly, *range(1, 21))
    assert assembly.receive(make_block(GROUP, [(1, 0), (1, 1)], after), None, at(1)) == []
    assert assembly.run == 1
    assembly.receive(make_block(GROUP, [(1, 2)], after), None, at(2))
    assert assembly.run == 2
    (closed_block,) = assembly.receive(make_block(GROUP, [(1, 3), (1, 4)], after), None, at(3))
    assert closed([closed_block]) == [(2, 1, 5)]


def test_restart_far_back_is_seen_too() -> None:
    assembly = make()
    run_of(assembly, *range(100_000, 100_010))
    closed_blocks = assembly.receive(whole(GROUP, 1, when=after), None, at(1))
    assert closed(closed_blocks) == [(2, 1, 5)]


def test_what_was_open_closes_in_the_run_that_ended() -> None:
    assembly = make()
    run_of(assembly, *range(1, 21))
    assembly.receive(make_block(GROUP, [(21, 0), (21, 1)]), None, at(1))
    closed_blocks = assembly.receive(whole(GROUP, 1, when=after), None, at(2))
    assert closed(closed_blocks) == [(1, 21, 2), (2, 1, 5)]


def test_a_straggler_of_the_run_before_is_merged_there() -> None:
    assembly = make()
    run_of(assembly, *range(1, 20))
    assembly.receive(make_block(GROUP, [(20, 0), (20, 1), (20, 2), (20, 3)]), None, at(0))
    assembly.receive(whole(GROUP, 1, 2, when=after), None, at(1))
    (closed_block,) = assembly.receive(make_block(GROUP, [(20, 4)]), None, at(2))
    assert closed_block.late["instrument"].tolist() == [4]
    assert (closed_block.revised["run"].tolist(), closed_block.revised["arrived"].tolist()) == ([1], [5])
    (closed_block,) = assembly.receive(whole(GROUP, 20, when=after), None, at(3))
    assert closed([closed_block]) == [(2, 20, 5)]


def test_a_latecomer_whose_clock_is_behind_those_that_voted_is_of_the_new_run() -> None:
    """Two runs within a second: by number and time it could be a double of the run before."""
    assembly = make()
    run_of(assembly, *range(1, 21))
    again = make_block(GROUP, [(1, i) for i in range(5)], lambda trigger: time_of(trigger + 20))
    again["time_ns"][4] -= 1000
    assert assembly.receive(again[:4], None, at(1)) == []
    (closed_block,) = assembly.receive(again[4:], None, at(2))
    assert closed([closed_block]) == [(2, 1, 5)]
    assert assembly.counts.duplicate == 0


@settings(deadline=None)
@given(
    length=st.integers(5, 12),
    clocks=st.lists(st.integers(-PERIOD_NS // 4, PERIOD_NS // 4), min_size=5, max_size=5),
    delays=st.lists(st.integers(0, 2), min_size=5, max_size=5),
)
def test_runs_that_follow_each_other_at_once_have_every_reading_of_theirs(
    length: int, clocks: list[int], delays: list[int]
) -> None:
    """Whatever an instrument's clock is off by, and however many triggers it comes later than the others.

    A run has to outlast that: numbers have fallen back only where higher ones were closed.
    """
    sent = []
    for index in range(3 * length):
        run, number = divmod(index, length)
        block = make_block(GROUP, [(number + 1, i) for i in range(5)], lambda _, index=index: time_of(index))
        block["time_ns"] += clocks
        sent += [(index + delay, run + 1, reading) for delay, reading in zip(delays, np.split(block, 5), strict=True)]
    assembly, out = make(), []
    for _, _, reading in sorted(sent, key=lambda each: each[0]):
        out += assembly.receive(reading, None, at(0))
    out += assembly.flush(at(1))
    stored = {(run, int(reading["time_ns"]), int(reading["instrument"])) for run, reading in told(out)}
    assert stored == {(run, int(reading["time_ns"][0]), int(reading["instrument"][0])) for _, run, reading in sent}


def test_an_instrument_with_a_slow_clock_stays_in_the_new_run() -> None:
    assembly = make()
    run_of(assembly, *range(1, 20))
    block = whole(GROUP, 1, 2, when=after)
    block["time_ns"][block["instrument"] == 3] -= HOUR_NS // 2
    closed_blocks = assembly.receive(block, None, at(1))
    closed_blocks += assembly.close_due(at(1 + TIMEOUT))
    stored = {
        (int(r["trigger"]), int(r["instrument"])) for p in closed_blocks for r in (*p.readings[p.present], *p.late)
    }
    assert stored == {(t, i) for t in (1, 2) for i in range(5)}
    assert assembly.run == 2


def test_one_instrument_whose_counter_fell_back_opens_no_run() -> None:
    assembly = make()
    run_of(assembly, *range(1, 21))
    assembly.receive(make_block(GROUP, [(3, 1)], after), None, at(1))
    run_of(assembly, 21)
    (closed_block,) = assembly.close_due(at(1 + TIMEOUT))
    assert assembly.run == 1
    # Its time is not that of trigger 3: it is another reading, and not lost.
    assert closed_block.aside is not None
    assert closed_block.aside.reason.tolist() == [AsideReason.AMBIGUOUS]
    assert assembly.counts.aside == {"ambiguous": 1}


def test_a_stuck_instrument_opens_no_run() -> None:
    assembly = make()
    run_of(assembly, *range(1, 21))
    for k in range(50):
        stuck = make_block(GROUP, [(20, 1)], when=lambda _, k=k: time_of(21 + k))
        assembly.receive(stuck, None, at(k))
        assembly.receive(make_block(GROUP, [(21 + k, i) for i in (0, 2, 3, 4)]), None, at(k))
    assembly.close_due(at(100 + TIMEOUT))
    assert assembly.run == 1
    assert assembly.counts.aside == {"ambiguous": 50}


def test_late_and_resent_readings_open_no_run() -> None:
    assembly = make()
    run_of(assembly, *range(1, 21))
    closed_blocks = assembly.receive(whole(GROUP, *range(1, 21)), None, at(1))
    assert assembly.run == 1
    assert assembly.counts.duplicate == 100
    assert closed(closed_blocks) == []


def test_a_jump_ahead_of_most_instruments_is_followed_in_the_same_run() -> None:
    assembly = make(history_of(GROUP, 1, 2, 3))
    closed_blocks = assembly.receive(whole(GROUP, 50_000, 50_001), None, at(0))
    assert closed(closed_blocks) == [(1, 50_000, 5), (1, 50_001, 5)]


@pytest.mark.parametrize("epoch", [0, 9])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_jump_to_the_end_of_the_window_is_followed(beyond: int, epoch: int) -> None:
    """Half a window ahead of the front, which is 10."""
    assembly = make()
    block = whole(GROUP, *range(1, 11), 138 + beyond)
    block["epoch"] = epoch
    blocks = assembly.receive(block[:50], None, at(0)) + assembly.receive(block[50:], None, at(1))
    assert [trigger for _, trigger, _ in closed(blocks)] == [*range(1, 11), 138 + beyond]
    assert assembly.held == 0


def test_a_group_that_takes_part_in_each_trigger_that_half_a_window_divides_is_stored() -> None:
    assembly, blocks = make(), []
    for tick, trigger in enumerate(range(128, 1400, 128)):
        blocks += assembly.receive(whole(GROUP, trigger), None, at(2 * TIMEOUT * tick))
    assert closed(blocks) == [(1, trigger, 5) for trigger in range(128, 1400, 128)]


def test_a_jump_is_followed_after_the_timeout_when_most_instruments_are_dead() -> None:
    assembly = make(history_of(GROUP, 1, 2, 3))
    assembly.receive(make_block(GROUP, [(50_000, 0), (50_000, 3)]), None, at(0))
    assert assembly.held == 2
    closed_blocks = assembly.close_due(at(TIMEOUT)) + assembly.close_due(at(3 * TIMEOUT))
    assert closed(closed_blocks) == [(1, 50_000, 2)]
    assert assembly.counts.refused == {}


def test_announced_run_begins_where_the_instruments_are() -> None:
    assembly = make()
    run_of(assembly, *range(1, 6))
    assembly.receive(make_block(GROUP, [(6, 0)]), None, at(0))
    assert assembly.announce(41, at(1)) == (2, [])
    assert closed(assembly.receive(whole(GROUP, 6, 7, when=after), None, at(2))) == [(2, 6, 5), (2, 7, 5)]
    assert closed(assembly.close_due(at(TIMEOUT))) == [(1, 6, 1)]


def test_an_announced_restart_without_its_epoch_takes_no_trigger_apart_that_is_on_its_way() -> None:
    assembly = make()
    run_of(assembly, *range(1, 6))
    assembly.receive(make_block(GROUP, [(6, 0)]), None, at(0))
    assert assembly.announce(0, at(1)) == (None, [])
    assert run_of(assembly, 6) == [(1, 6, 5)]
    assembly.receive(make_block(GROUP, [(1, 2)], after), None, at(2))  # one is enough: the restart is known
    assert assembly.run == 2
    assert closed(assembly.receive(make_block(GROUP, [(1, i) for i in (0, 1, 3, 4)], after), None, at(3))) == [
        (2, 1, 5)
    ]


def test_a_mad_instrument_cannot_fill_the_memory() -> None:
    assembly = make()
    run_of(assembly, *range(1, 21))
    for k in range(40):
        mad = make_block(GROUP, [(1_000_000 + n, 1) for n in range(k * 100, k * 100 + 100)], when=lambda _: START_NS)
        assembly.receive(mad, None, at(k))
        run_of(assembly, 21 + k)
    assert assembly.held <= 1100
    assembly.close_due(at(100 + TIMEOUT))
    assert assembly.counts.aside == {"ahead": 1024}
    assert assembly.counts.refused == {"no_room_aside": 4000 - 1024}
    assert assembly.run == 1


def test_receipts_of_strays_wait_until_they_are_settled() -> None:
    from daemon.pipeline.assembly import Origin

    assembly = make(history_of(GROUP, 1, 2, 3))
    column = assembly.receipts.connect()
    assembly.receive(make_block(GROUP, [(90_000, 0)]), Origin.of(column, 0, 1), at(0))
    assert assembly.receipts.acknowledged()[0][column] == 0
    assembly.receive(whole(GROUP, 4), None, at(TIMEOUT))
    (closed_block,) = assembly.close_due(at(TIMEOUT))
    assert closed_block.aside is not None
    assert assembly.receipts.acknowledged()[0][column] == 0  # not before it is kept with the block
    assembly.receipts.committed(2)
    done, refused = assembly.receipts.acknowledged()
    assert (done[column], refused[column]) == (1, 0)


def test_column_of_a_connection_that_left_is_not_given_away_while_its_strays_are_held() -> None:
    from daemon.pipeline.assembly import Origin

    assembly = make(history_of(GROUP, 1, 2, 3))
    columns = [assembly.receipts.connect() for _ in range(16)]
    assembly.receive(make_block(GROUP, [(90_000, 0)]), Origin.of(columns[0], 5, 1), at(0))
    assembly.receipts.disconnect(columns[0])
    assert assembly.receipts.connect() not in columns
    assembly.receive(whole(GROUP, 4), None, at(TIMEOUT))
    assembly.close_due(at(TIMEOUT))
    again = [assembly.receipts.connect() for _ in range(16)]
    assert columns[0] in again
    done, refused = assembly.receipts.acknowledged()
    assert (done[columns[0]], refused[columns[0]]) == (0, 0)


def test_period_of_the_examples_is_shorter_than_a_moment() -> None:
    assert PERIOD_NS < 1_000_000_000
    assert np.all(np.diff([time_of(t) for t in range(3)]) == PERIOD_NS)


def test_a_crate_far_behind_that_sends_alone_opens_no_run() -> None:
    """Without an epoch, and while the others are silent: its readings were taken before theirs."""
    assembly = make()
    run_of(assembly, *range(1, 1000))
    backlog = make_block(GROUP, [(trigger, 1) for trigger in range(1, 20)])
    assembly.receive(backlog, None, at(10 * TIMEOUT))
    assembly.close_due(at(12 * TIMEOUT))
    assert (assembly.run, assembly.held) == (1, 0)


def test_a_start_remembers_when_the_run_without_an_epoch_began() -> None:
    """What is sent again of the run before is merged there, where the numbers of both meet."""
    before = history_of(GROUP, *range(1, 31))
    current = history_of(GROUP, *range(20, 41), run=2)
    for name in ("time_ns", "first_ns", "last_ns"):
        current[name] += HOUR_NS
    assembly = make(np.concatenate([before, current]))
    assembly.receive(whole(GROUP, 15, 25), None, at(0))
    assert (assembly.run, assembly.counts.opened, assembly.counts.duplicate) == (2, 0, 10)


def test_what_may_have_come_before_goes_to_the_run_that_has_it() -> None:
    """The run before got some of what was taken after the restart, since too few instruments voted for that."""
    before = history_of(GROUP, *range(1, 31))
    current = history_of(GROUP, *range(20, 30), run=2)
    for name in ("time_ns", "first_ns", "last_ns"):
        before[name][-1] += HOUR_NS
        current[name] += HOUR_NS
    assembly = make(np.concatenate([before, current]))
    blocks = assembly.receive(make_block(GROUP, [(30, i) for i in range(5)], when=after), None, at(0))
    assert (assembly.run, closed(blocks), assembly.counts.duplicate) == (2, [], 5)


def test_a_reading_that_the_newest_trigger_lacked_before_a_start_opens_no_run() -> None:
    """Its clock may be behind those of the instruments that are there."""
    history = history_of(GROUP, 1, 2, 3)
    history["arrived"][-1], history["missing"][-1] = 3, 0b11000
    assembly = make(history)
    late = make_block(GROUP, [(3, 3), (3, 4)], when=lambda trigger: time_of(trigger) + 10)
    blocks = assembly.receive(late, None, at(0)) + assembly.close_due(at(2 * TIMEOUT))
    assert assembly.run == 1
    assert len(list(told(blocks))) == assembly.counts.late == 2


def test_what_comes_for_a_forgotten_trigger_of_the_run_before_opens_none_in_the_new_one() -> None:
    """The database had lost it, and it was being placed when the process ended."""
    before, current = history_of(GROUP, *range(1, 31)), history_of(GROUP, 1, 2, run=2)
    for name in ("time_ns", "first_ns", "last_ns"):
        current[name] += HOUR_NS
    assembly = make(np.concatenate([before[:28], before[29:], current]))
    blocks = assembly.receive(whole(GROUP, 29, 31), None, at(0)) + assembly.flush(at(1))
    assert closed(blocks) == [(1, 29, 5), (1, 31, 5)]


def test_what_is_on_its_way_for_long_at_a_restart_belongs_to_the_run_before() -> None:
    """Two crates of three were cut off; what they still have of the run before comes when the third has begun anew."""
    assembly = make(history_of(GROUP, *range(1, 101)))
    backlog = make_block(GROUP, [(trigger, 1) for trigger in (90, 95)])
    ahead = whole(GROUP, 400)
    assembly.receive(ahead, None, at(0))
    assembly.receive(backlog, None, at(1))
    again = make_block(GROUP, [(trigger, i) for trigger in (5, 6) for i in (0, 2, 3, 4)], when=after)
    blocks = assembly.receive(again, None, at(2)) + assembly.close_due(at(3 * TIMEOUT))
    assert assembly.run == 2
    assert {(run, int(reading["trigger"])) for run, reading in told(blocks)} == {(2, 5), (2, 6)}
    assert (assembly.counts.duplicate, assembly.counts.aside) == (2, {})


def test_a_run_that_one_instrument_led_astray_while_all_others_were_silent_is_left_again() -> None:
    """The others come later with numbers that lie behind its own, and were taken after."""
    assembly = make(history_of(GROUP, 1, 2, 3))
    ahead = [(trigger, 1) for trigger in range(12_000, 12_100)]
    assembly.receive(make_block(GROUP, ahead, when=lambda _: time_of(4)), None, at(0))
    assembly.close_due(at(TIMEOUT))
    assembly.close_due(at(3 * TIMEOUT))
    assert assembly.newest == 12_099
    good = [(trigger, i) for trigger in range(11_000, 11_020) for i in (0, 2, 3, 4)]
    blocks = assembly.receive(make_block(GROUP, good), None, at(4 * TIMEOUT)) + assembly.flush(at(5 * TIMEOUT))
    assert sorted({trigger for _, trigger, _ in closed(blocks)}) == list(range(11_000, 11_020))
    assert assembly.counts.aside == {}


def test_one_instrument_that_runs_ahead_within_reach_does_not_take_the_run_along() -> None:
    """Its triggers close early, as there are too many; the others go on with theirs in the same run."""
    assembly = make(history_of(GROUP, *range(1, 101)))
    for step in range(20):
        ahead = [(trigger, 1) for trigger in range(110 + 60 * step, 170 + 60 * step)]
        assembly.receive(make_block(GROUP, ahead, when=lambda _: time_of(100)), None, at(step))
    good = [(trigger, i) for trigger in range(101, 111) for i in (0, 2, 3, 4)]
    blocks = assembly.receive(make_block(GROUP, good), None, at(20)) + assembly.flush(at(30))
    stored = {(run, int(each["trigger"])) for run, each in told(blocks) if each["instrument"] != 1}
    assert stored == {(1, trigger) for trigger in range(101, 111)}
    assert assembly.run == 1


@pytest.mark.parametrize("off_s", [0, -2, -37])
def test_a_node_whose_clock_is_behind_takes_no_crates_that_catch_up_for_a_restart(off_s: int) -> None:
    """The instruments' clocks are right, or in TAI."""
    assembly = make()
    blocks: list[ClosedBlock] = []

    def receive(seen: int, *readings: tuple[int, int]) -> None:
        tick = time_of(seen) - START_NS
        now = Instant(time_of(seen) + off_s * 1_000_000_000, tick)
        blocks.extend(assembly.close_due(now))
        blocks.extend(assembly.receive(make_block(GROUP, readings), None, now))

    for trigger in range(1, 101):
        receive(trigger, *((trigger, i) for i in range(5)))
    for trigger in range(101, 401):
        receive(trigger, (trigger, 0), (trigger, 1))
    for behind, trigger in zip(range(101, 401, 10), range(401, 431), strict=True):
        caught_up = [(each, i) for each in range(behind, behind + 10) for i in (2, 3, 4)]
        receive(trigger, (trigger, 0), (trigger, 1), *caught_up)
    assert assembly.run == 1
    assert set(assembly.counts.aside) == {"older"}
    # None was opened in the place of one that those two had closed, a window ahead: that would be closed again.
    triggers = [trigger for _, trigger, _ in closed(blocks)]
    assert len(triggers) == len(set(triggers))


def test_an_instrument_whose_clock_is_ahead_hides_no_restart_from_a_node_whose_clock_is_behind() -> None:
    """That one alone says nothing of when the front was."""
    assembly = make()
    block = whole(GROUP, *range(1001, 1021))
    block["time_ns"][block["instrument"] == 3] += 2 * HOUR_NS
    late = Instant(START_NS - 37_000_000_000, 0)
    assembly.receive(block[block["instrument"] != 0], None, late)
    assembly.close_due(Instant(late.utc_ns, TIMEOUT))
    assembly.receive(make_block(GROUP, [(5, i) for i in (0, 1, 2)], when=after), None, late)
    assert assembly.run == 2


@pytest.mark.parametrize(("first", "run", "is_announced"), [(1, 2, False), (1, 2, True), (5000, 1, False)])
def test_a_clock_of_the_node_that_is_set_back_hides_no_move_of_instruments_without_clocks(
    first: int, run: int, is_announced: bool
) -> None:
    """The run seems to have begun hours from now."""

    def untimed(*triggers: int) -> Array:
        return whole(GROUP, *triggers, when=lambda _: 0)

    assembly = make()
    assembly.receive(untimed(*range(1, 21)), None, Instant(START_NS + 2 * HOUR_NS, 0))
    assembly.receive(untimed(21), None, Instant(time_of(21), 1))
    if is_announced:
        assembly.announce(0, Instant(time_of(22), 2))
    blocks = assembly.receive(untimed(first, first + 1), None, Instant(time_of(23), 3))
    blocks += assembly.close_due(Instant(time_of(24), 4 + TIMEOUT))
    assert closed(blocks) == [(run, first, 5), (run, first + 1, 5)]
    assert assembly.counts.aside == {}


def test_an_instrument_with_a_slow_clock_does_not_decide_when_the_run_began() -> None:
    """What comes late of the run before goes there."""
    assembly = make()
    run_of(assembly, *range(1, 31))
    assembly.receive(whole(GROUP, *range(1, 11), when=after), None, at(1))
    lone = make_block(GROUP, [(11, 1)], when=lambda trigger: time_of(trigger) - HOUR_NS)
    assembly.receive(lone, None, at(2))
    assembly.close_due(at(2 + TIMEOUT))
    assert closed(assembly.receive(whole(GROUP, 31), None, at(3 + TIMEOUT))) == [(1, 31, 5)]


def test_a_clock_that_is_ahead_opens_no_run_at_the_first_trigger() -> None:
    """It comes last, and the others sit in a trigger that is still open."""
    assembly, blocks = make(), []
    for trigger in range(1, 5):
        blocks += assembly.receive(make_block(GROUP, [(trigger, i) for i in range(4)]), None, at(2 * trigger * TIMEOUT))
        ahead = make_block(GROUP, [(trigger, 4)], lambda t: time_of(t) + HOUR_NS)
        blocks += assembly.receive(ahead, None, at(2 * trigger * TIMEOUT + 1))
        blocks += assembly.close_due(at((2 * trigger + 1) * TIMEOUT + 1))
    assert closed(blocks) == [(1, trigger, 5) for trigger in range(1, 5)]
