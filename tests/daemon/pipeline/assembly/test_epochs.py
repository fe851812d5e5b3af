"""Epochs: with them nobody has to guess which run a reading belongs to, whatever the clocks say."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import EPOCHS_MOST, RUNS_MOST, Assembly, Origin, Runs
from daemon.pipeline.assembly.open_runs import NEW_MOST
from daemon.pipeline.assembly.progress import MOST_TRIGGER
from daemon.pipeline.assembly.strays import EPOCHS_OF_AN_INSTRUMENT, HELD_OF_AN_INSTRUMENT
from daemon.pipeline.assembly.window import Window
from daemon.pipeline.durable_state import DurableState
from schemas.batch import ClosedBlock
from schemas.readings import Array
from schemas.states import AsideReason
from tests.support.readings import START_NS, history_of, make_block, make_group, time_of, whole

TIMEOUT = 1000
GROUP = make_group()
HOUR_NS = 3_600_000_000_000


def make(**recovered: object) -> Assembly:
    options = {"runs": Runs()} | recovered
    return Assembly(GROUP, timeout_ns=TIMEOUT, window=256, max_open=64, **options)


def at(tick: int) -> Instant:
    return Instant(START_NS + tick, tick)


def of(epoch: int, block: Array) -> Array:
    block["epoch"] = epoch
    return block


def closed(blocks: list[ClosedBlock]) -> list[tuple[int, int, int, int]]:
    return [
        (int(row["epoch"]), int(row["run"]), int(row["trigger"]), int(row["arrived"]))
        for block in blocks
        for row in block.ledger
    ]


def rows_of(blocks: list[ClosedBlock]) -> Array:
    return np.concatenate([block.ledger for block in blocks])


def test_each_epoch_is_a_run_whatever_the_clocks_say() -> None:
    assembly = make()
    first = assembly.receive(of(7, whole(GROUP, 1, 2, 3)), None, at(0))
    earlier = of(8, whole(GROUP, 1, 2, when=lambda trigger: time_of(trigger) - HOUR_NS))
    second = assembly.receive(earlier, None, at(1))
    assert closed(first + second) == [(7, 1, 1, 5), (7, 1, 2, 5), (7, 1, 3, 5), (8, 2, 1, 5), (8, 2, 2, 5)]
    assert assembly.run == 2


def test_what_is_late_for_the_run_before_is_merged_into_it() -> None:
    assembly = make()
    assembly.receive(of(7, make_block(GROUP, [(3, i) for i in range(4)])), None, at(0))
    assembly.close_due(at(TIMEOUT))
    assembly.receive(of(7, whole(GROUP, 1, 2)), None, at(TIMEOUT))
    assembly.receive(of(8, whole(GROUP, 1, 2, 3, 4)), None, at(TIMEOUT + 1))
    (block,) = assembly.receive(of(7, make_block(GROUP, [(3, 4)])), None, at(TIMEOUT + 2))
    assert (block.revised["run"].tolist(), block.revised["arrived"].tolist()) == ([1], [5])
    assert assembly.run == 2


def test_readings_of_two_epochs_in_one_block_go_to_their_runs() -> None:
    assembly = make()
    assembly.receive(of(7, whole(GROUP, 10)), None, at(0))
    both = np.concatenate([of(8, whole(GROUP, 11)), of(7, whole(GROUP, 11))])
    blocks = assembly.receive(both.astype(GROUP.record), None, at(1))
    assert sorted(closed(blocks)) == [(7, 1, 11, 5), (8, 2, 11, 5)]


def test_a_lone_epoch_has_a_run_of_its_own_and_moves_nobody() -> None:
    assembly = make()
    assembly.receive(of(7, whole(GROUP, 10, 11)), None, at(0))
    assembly.receive(of(9, make_block(GROUP, [(500, 2)])), None, at(1))
    blocks = assembly.close_due(at(1 + TIMEOUT)) + assembly.close_due(at(2 + 2 * TIMEOUT))
    assert closed(blocks) == [(9, 2, 500, 1)]
    assert closed(assembly.receive(of(7, whole(GROUP, 12)), None, at(3 * TIMEOUT))) == [(7, 1, 12, 5)]
    assert assembly.run == 1


def test_an_instrument_with_garbage_for_epochs_opens_no_end_of_runs() -> None:
    assembly = make()
    assembly.receive(of(1, whole(GROUP, 1)), None, at(0))
    blocks = []
    for trigger, epoch in enumerate(range(1000, 1200), 2):
        blocks += assembly.receive(of(1, whole(GROUP, trigger)), None, at(epoch))
        blocks += assembly.receive(of(epoch, make_block(GROUP, [(5, 0)])), None, at(epoch))
    blocks += assembly.flush(at(1200))
    assert assembly.run == 1
    runs = {run for _, run, _, _ in closed(blocks)}
    assert len(runs) == 1 + NEW_MOST
    aside = [block.aside for block in blocks if block.aside is not None]
    assert sum(len(part.readings) for part in aside) == 200 - NEW_MOST
    assert {int(reason) for part in aside for reason in part.reason} == {AsideReason.EPOCH}


def test_a_reading_older_than_the_window_is_set_aside_with_its_run() -> None:
    assembly = make()
    for start in range(1, 400, 50):
        assembly.receive(of(7, whole(GROUP, *range(start, start + 50))), None, at(start))
    (block,) = assembly.receive(of(7, make_block(GROUP, [(2, 1)])), None, at(500))
    assert block.aside is not None
    assert (block.aside.readings["trigger"].tolist(), block.aside.run.tolist()) == ([2], [1])
    assert block.aside.reason.tolist() == [AsideReason.OLDER]
    assert assembly.counts.aside == {"older": 1}


def test_an_epoch_of_which_only_the_run_is_known_opens_no_trigger_twice() -> None:
    assembly = make(runs=Runs(5, {7: 4, 8: 5}), epochs={7: 4, 8: 5})
    (block,) = assembly.receive(of(7, whole(GROUP, 1)), None, at(0))
    assert not len(block.ledger)
    assert block.aside is not None
    assert set(block.aside.run.tolist()) == {4}


@pytest.mark.parametrize("ahead_ns", [0, HOUR_NS])
def test_a_restart_of_everything_is_seen_with_one_clock_an_hour_ahead(ahead_ns: int) -> None:
    def with_one_clock_ahead(*triggers: int, later: int) -> Array:
        block = whole(GROUP, *triggers, when=lambda trigger: time_of(trigger) + later)
        block["time_ns"][block["instrument"] == 2] += ahead_ns
        return block

    before = make(runs=Runs(1))
    rows = rows_of(before.receive(with_one_clock_ahead(*range(1, 101), later=0), None, at(0)))
    after = make(runs=Runs(1), history=rows)
    blocks = after.receive(with_one_clock_ahead(*range(1, 6), later=60_000_000_000), None, at(1))
    blocks += after.close_due(at(2 * TIMEOUT))
    assert closed(blocks) == [(0, 2, trigger, 5) for trigger in range(1, 6)]
    assert not after.counts.duplicate


def test_one_wrong_number_before_a_restart_is_no_false_run_after_it() -> None:
    before = make(runs=Runs(1))
    blocks = before.receive(whole(GROUP, *range(1, 51)), None, at(0))
    blocks += before.receive(make_block(GROUP, [(150, 3)]), None, at(1))
    blocks += before.close_due(at(2 + TIMEOUT))
    after = make(runs=Runs(1), history=rows_of(blocks))
    assert closed(after.receive(whole(GROUP, *range(51, 60)), None, at(0)))[0] == (0, 1, 51, 5)
    assert after.run == 1


# --- numbers that no trigger was closed for -------------------------------------------------------------------------


def skipped(blocks: list[ClosedBlock]) -> dict[int, int]:
    """By trigger, as it was said last."""
    rows = np.concatenate([part for block in blocks for part in (block.ledger, block.revised)])
    return {int(row["trigger"]): int(row["skipped"]) for row in rows if row["skipped"]}


def test_numbers_between_two_triggers_that_never_came_are_counted() -> None:
    assembly = make()
    blocks = assembly.receive(of(7, whole(GROUP, 5, 6, 9, 10)), None, at(0))
    assert skipped(blocks) == {9: 2}
    assert assembly.counts.skipped == 2


def test_numbers_are_counted_over_a_restart_of_the_daemon() -> None:
    rows = rows_of(make().receive(of(7, whole(GROUP, 1, 2, 3)), None, at(0)))
    after = make(runs=Runs(1, {7: 1}), history=rows, epochs={7: 1})
    assert skipped(after.receive(of(7, whole(GROUP, 100)), None, at(1))) == {100: 96}


def test_a_jump_beyond_the_window_is_counted() -> None:
    assembly = make()
    assembly.receive(of(7, whole(GROUP, 1)), None, at(0))
    assert skipped(assembly.receive(of(7, whole(GROUP, 9000)), None, at(1))) == {9000: 8998}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), unique_by=lambda each: each[0], min_size=1, max_size=30))
def test_what_is_skipped_is_what_no_trigger_is_there_for(numbers: list[tuple[int, bool]]) -> None:
    """Whatever order they come in, and where some are too old, and placed by way of the database.

    A row behind a gap says so when it closes; what lies below the first number is not counted.
    """
    assembly = make()
    blocks = assembly.receive(of(7, whole(GROUP, 50)), None, at(0))
    numbers = [each for each in numbers if each[0] != 50]
    for number, is_placed in numbers:
        if is_placed and number < assembly._triggers._runs.current.window.highest:
            assembly.note_placed(1, np.array([number]))
        else:
            blocks += assembly.receive(of(7, whole(GROUP, number)), None, at(0))
    blocks += assembly.flush(at(1))
    known = sorted([50, *(number for number, _ in numbers)])
    gaps = dict(zip(known, [0, *(np.diff(known) - 1).tolist()], strict=True))
    rows = np.concatenate([block.ledger for block in blocks])
    assert not [row for row in rows if row["trigger"] > 50 and gaps[int(row["trigger"])] > row["skipped"]]
    assert assembly.counts.skipped == sum(gap for number, gap in gaps.items() if number > 50)


def test_what_an_earlier_process_skipped_is_not_shown_as_less() -> None:
    rows = rows_of(make().receive(of(7, whole(GROUP, 1, 10)), None, at(0)))
    after = make(runs=Runs(1, {7: 1}), history=rows, epochs={7: 1})
    after.receive(of(7, whole(GROUP, 5)), None, at(1))
    assert after.counts.skipped == 0
    after.receive(of(7, whole(GROUP, 13)), None, at(1))
    after.receive(of(7, whole(GROUP, 12)), None, at(1))
    assert after.counts.skipped == 1


def test_a_run_without_an_epoch_tells_its_counts_before_it_is_forgotten() -> None:
    assembly = make()
    blocks = assembly.receive(whole(GROUP, 1, 2), None, at(0))
    for trigger in (1, 2):
        blocks += assembly.receive(whole(GROUP, trigger), None, at(1))
    for epoch in (7, 8):
        blocks += assembly.receive(of(epoch, whole(GROUP, 1)), None, at(epoch))
    told = {int(row["trigger"]): int(row["duplicates"]) for block in blocks for row in block.revised}
    assert told == {1: 5, 2: 5}


def test_an_epoch_that_may_have_no_run_closes_none() -> None:
    assembly = make()
    for epoch in range(1, 66):
        assembly.receive(of(epoch, make_block(GROUP, [(1, 0)])), None, at(0))
    assembly.close_due(at(TIMEOUT))
    for epoch in (62, 63, 64):
        assembly.receive(of(epoch, make_block(GROUP, [(2, 1)])), None, at(TIMEOUT))
    opened = assembly.open
    assert opened > 3
    assert assembly.receive(of(100, make_block(GROUP, [(1, 0)])), None, at(TIMEOUT + 1)) == []
    assert assembly.open == opened


def test_an_epoch_joins_the_run_that_the_group_opened_for_it_by_itself_even_if_that_is_over() -> None:
    runs = Runs()
    assembly = make(runs=runs)
    assembly.receive(whole(GROUP, 1, 2, 3), None, at(0))
    runs.begin(7)  # another group has the epoch already: run 2
    later = lambda trigger: time_of(trigger) + HOUR_NS  # noqa: E731
    blocks = assembly.receive(whole(GROUP, 1, 2, when=later), None, at(1))
    blocks += assembly.receive(whole(GROUP, 1, when=lambda trigger: time_of(trigger) + 2 * HOUR_NS), None, at(2))
    assert {int(row["run"]) for row in rows_of(blocks)} == {2, 3}
    blocks += assembly.receive(of(7, whole(GROUP, 2, when=later)), None, at(3))
    blocks += assembly.flush(at(4))
    keys = [(run, trigger) for _, run, trigger, _ in closed(blocks)]
    assert len(keys) == len(set(keys))


def test_epochs_without_end_are_remembered_in_bounded_memory() -> None:
    assembly = make()
    for hour in range(20):
        for epoch in range(1000 * hour + 1, 1000 * hour + 65):
            assembly.receive(of(epoch, whole(GROUP, 1)), None, at((hour + 1) * 3_700_000_000_000))
    assert len(assembly._runs._had) <= EPOCHS_MOST
    assembly.receive(of(1, make_block(GROUP, [(1, 0), (1, 1)])), None, at(21 * 3_700_000_000_000))
    assembly.close_due(at(22 * 3_700_000_000_000))
    assert assembly.counts.aside == {"epoch": 2}


def test_a_counter_of_epochs_that_begins_again_lower_begins_when_most_instruments_send_it() -> None:
    assembly = make()
    for hour in range(5):
        for epoch in range(1000 * hour + 500, 1000 * hour + 564):
            assembly.receive(of(epoch, whole(GROUP, 1)), None, at((hour + 1) * 3_700_000_000_000))
    assert len(assembly._runs._had) == EPOCHS_MOST
    now = 6 * 3_700_000_000_000
    blocks = []
    for instrument in range(GROUP.size):  # each over a connection of its own
        blocks += assembly.receive(of(1, make_block(GROUP, [(1, instrument)])), None, at(now + instrument))
        assert bool(assembly._runs.number_of(1)) == (instrument >= 2)
    assert closed(blocks) == [(1, 321, 1, 5)]
    assert assembly.run == 321
    assert (assembly.counts.aside, assembly.held) == ({}, 0)


# --- garbage for epochs ---------------------------------------------------------------------------------------------


def amid_garbage(instrument: int = 3) -> Assembly:
    """A group in epoch 17 of which one instrument has sent so much garbage that it may begin nothing more."""
    assembly = make()
    assembly.receive(of(17, whole(GROUP, 1, 2, 3)), None, at(0))
    for epoch in range(1000, 1100):
        assembly.receive(of(epoch, make_block(GROUP, [(4, instrument)])), None, at(1))
    assembly.flush(at(2))
    assert assembly.counts.aside == {"epoch": 100 - NEW_MOST}
    return assembly


def test_a_restart_begins_whatever_one_instrument_has_sent() -> None:
    assembly = amid_garbage()
    assert len(closed(assembly.receive(of(18, whole(GROUP, *range(100))), None, at(3)))) == 100
    assert assembly.counts.aside == {"epoch": 100 - NEW_MOST}


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 4, 0, 2, 1)])
def test_a_restart_that_one_instrument_after_the_other_sends_loses_nothing(order: tuple[int, ...]) -> None:
    assembly, blocks = amid_garbage(), []
    for tick, instrument in enumerate(order):
        # The mad one's wait for another's; the others begin at once.
        sent = make_block(GROUP, [(trigger, instrument) for trigger in range(30)])
        blocks += assembly.receive(of(18, sent), None, at(3 + tick))
        assert bool(assembly._runs.number_of(18)) == (tick > 0 or instrument != 3)
    assert [each[2:] for each in closed(blocks)] == [(trigger, 5) for trigger in range(30)]
    assert assembly.counts.aside == {"epoch": 100 - NEW_MOST}


def test_a_restart_begins_in_every_group_whatever_an_instrument_of_one_has_sent() -> None:
    runs = Runs()
    one, other = make(runs=runs), make(runs=runs)
    other.receive(of(17, whole(GROUP, 1)), None, at(0))
    for epoch in range(1000, 1200):
        one.receive(of(epoch, make_block(GROUP, [(4, 2)])), None, at(1))
    (block,) = other.receive(of(18, whole(GROUP, 1)), None, at(2))
    assert closed([block]) == [(18, runs.current, 1, 5)]


def test_what_is_held_of_garbage_is_bounded_and_set_aside_after_the_timeout() -> None:
    assembly = amid_garbage()
    for epoch in range(5000, 5100):
        assembly.receive(of(epoch, make_block(GROUP, [(4, 3), (5, 3)])), None, at(3))
    assert assembly.held == 2 * EPOCHS_OF_AN_INSTRUMENT
    assembly.receive(of(9000, make_block(GROUP, [(trigger, 3) for trigger in range(9000)])), None, at(4))
    assert assembly.held == 2 * EPOCHS_OF_AN_INSTRUMENT
    assembly.close_due(at(3 + TIMEOUT))
    assert assembly.held == 0
    assembly.receive(of(9000, make_block(GROUP, [(trigger, 3) for trigger in range(9000)])), None, at(4 + TIMEOUT))
    assert HELD_OF_AN_INSTRUMENT <= assembly.held < HELD_OF_AN_INSTRUMENT + 64


@pytest.mark.parametrize("is_split", [False, True])
def test_an_epoch_that_most_instruments_send_always_begins(is_split: bool) -> None:
    """A user takes a timestamp for the epoch; then the timing system is restarted."""
    assembly, blocks = make(), []
    for tick, epoch in enumerate([*range(1_700_000_000, 1_700_003_000), 18]):
        block = of(epoch, whole(GROUP, 1))
        for part in np.split(block, GROUP.size) if is_split else [block]:
            blocks += assembly.receive(part, None, at(tick))
        assert assembly.brief_runs == tick
    assert [each[2:] for each in closed(blocks)] == [(1, 5)] * 3001
    assert (assembly.counts.aside, assembly.held) == ({}, 0)
    assembly.receive(of(18, whole(GROUP, 2)), None, at(3001))
    assert assembly.brief_runs == 0


def test_an_epoch_that_most_living_instruments_send_begins_after_the_timeout() -> None:
    assembly = amid_garbage(0)
    for epoch in range(2000, 2200):
        assembly.receive(of(epoch, make_block(GROUP, [(4, 1)])), None, at(3))
    assembly.close_due(at(4 + TIMEOUT))
    tick = 10 * TIMEOUT
    for trigger in range(5, 10):  # two are alive
        assembly.receive(of(18, make_block(GROUP, [(trigger, 0), (trigger, 1)])), None, at(tick))
    assert not assembly._runs.number_of(18)
    blocks = [block for k in (1, 2, 3) for block in assembly.close_due(at(tick + k * TIMEOUT))]
    assert [each[2:] for each in closed(blocks) if each[0] == 18] == [(trigger, 2) for trigger in range(5, 10)]


@pytest.mark.parametrize("odd", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("is_one_write", [False, True])
def test_odd_epochs_after_a_restart_take_no_place_of_the_new_one(odd: int, is_one_write: bool) -> None:
    """While an instrument is missing, so that triggers are closed by the timeout."""
    assembly, blocks = make(), []
    for k in range(100):
        epoch, trigger = (7, k + 1) if k < 50 else (8, k - 49)
        blocks += assembly.receive(of(epoch, make_block(GROUP, [(trigger, i) for i in range(4)])), None, at(20 * k))
        if k == 52:
            garbage = make_block(GROUP, [(5, 4)] * odd)
            garbage["epoch"] = range(101, 101 + odd)
            for part in [garbage] if is_one_write else np.split(garbage, odd):
                blocks += assembly.receive(part, None, at(20 * k + 5))
        blocks += assembly.close_due(at(20 * k + 10))
    blocks += assembly.flush(at(10 * TIMEOUT))
    assert sorted(each for each in closed(blocks) if each[0] in (7, 8)) == [
        (epoch, epoch - 6, trigger, 4) for epoch in (7, 8) for trigger in range(1, 51)
    ]
    assert assembly.counts.aside == {}


def test_a_run_that_a_step_forgets_is_not_moved_to() -> None:
    """Triggers of epoch 8 close in the step in which epoch 9 begins, which takes its place."""
    assembly, blocks = make(), []

    def receive(tick: int, epoch: int, trigger: int, instruments: Iterable[int]) -> None:
        block = of(epoch, make_block(GROUP, [(trigger, i) for i in instruments]))
        blocks.extend(assembly.receive(block, None, at(tick)))

    receive(0, 7, 4, range(4))
    receive(800, 8, 7, range(4))
    for epoch in range(101, 101 + RUNS_MOST - 2):
        receive(801, epoch, 5, [4])
    receive(802, 9, 1, range(4))
    receive(803, 0, 300, [4])
    for tick in range(1000, 3000, 100):
        blocks += assembly.close_due(at(tick))
    assert sorted(each for each in closed(blocks) if each[0] in (7, 8, 9)) == [
        (epoch, assembly._runs.number_of(epoch), trigger, 4) for epoch, trigger in ((7, 4), (8, 7), (9, 1))
    ]
    assert assembly.open == 0


@pytest.mark.parametrize("before", [[], range(2, 150), [10**6, 40, 41]])
def test_a_forgotten_epoch_of_a_mad_instrument_begins_when_most_instruments_send_it(before: Sequence[int]) -> None:
    """It sent the epoch before the timing system had it, and many others since."""
    assembly, blocks = make(), []
    blocks += assembly.receive(of(17, whole(GROUP, 1)), None, at(0))
    blocks += assembly.receive(of(18, make_block(GROUP, [(trigger, 3) for trigger in before])), None, at(0))
    blocks += assembly.close_due(at(TIMEOUT))
    for epoch in (18, *range(1000, 1000 + RUNS_MOST)):
        blocks += assembly.receive(of(epoch, make_block(GROUP, [(10**9, 3)])), None, at(1))
    blocks += assembly.close_due(at(2 * TIMEOUT))
    for instrument in range(GROUP.size):
        sent = make_block(GROUP, [(trigger, instrument) for trigger in range(1, 30)])
        blocks += assembly.receive(of(18, sent), None, at(3 * TIMEOUT))
    placed = [parts for block in blocks for parts in (block.readings[block.present], block.late)]
    count = sum(np.count_nonzero((part["epoch"] == 18) & (part["instrument"] != 3)) for part in placed)
    assert count == 29 * 4
    aside = [block.aside.readings["instrument"] for block in blocks if block.aside is not None]
    assert all((instruments == 3).all() for instruments in aside)


def test_what_waits_for_its_epoch_is_acknowledged_when_its_trigger_is_closed() -> None:
    assembly = amid_garbage()
    column = assembly.sessions.connect(1, first=0, now=at(3)).column
    assembly.receive(of(18, make_block(GROUP, [(1, 3)])), Origin.of(column, 0, 1), at(3))
    assert assembly.receipts.acknowledged()[0][column] == 0
    blocks = assembly.receive(of(18, make_block(GROUP, [(1, i) for i in (0, 1, 2, 4)])), None, at(4))
    assert closed(blocks)[0][2:] == (1, 5)
    assembly.receipts.committed(assembly.receipts._blocks.blocks)
    assert assembly.receipts.acknowledged()[0][column] == 1


@pytest.mark.parametrize("first", [5, (1 << 60) + 127, MOST_TRIGGER - 200])
def test_a_run_begins_where_its_triggers_are_however_high_their_numbers(first: int) -> None:
    assembly = make()
    triggers = (first, first + 1, first + 2)
    block = whole(GROUP, *triggers, when=lambda trigger: time_of(trigger - first))
    blocks = assembly.receive(of(7, block), None, at(0)) + assembly.close_due(at(TIMEOUT))
    assert [trigger for _, _, trigger, _ in closed(blocks)] == list(triggers)
    assert assembly.counts.aside == {}


def test_two_groups_that_have_one_run_for_two_epochs_mix_neither() -> None:
    """As two daemons that did not know of each other have stored them."""
    runs = Runs(2, {6: 1, 7: 2, 8: 2})
    one, two = (make(runs=runs, epochs=epochs) for epochs in ({6: 1, 7: 2}, {6: 1, 8: 2}))
    assert closed(one.receive(of(8, whole(GROUP, 1)), None, at(0))) == [(8, 3, 1, 5)]
    (aside,) = [block.aside for block in two.receive(of(8, whole(GROUP, 1)), None, at(0))]
    assert aside is not None
    assert set(aside.run.tolist()) == {2}
    assert closed(two.receive(of(7, whole(GROUP, 1)), None, at(1))) == [(7, 4, 1, 5)]


def with_garbage(runs: Runs) -> tuple[Assembly, DurableState]:
    """A group whose machine has epoch 17 and stands still, while one instrument sends an epoch of garbage a minute."""
    assembly = make(runs=runs)
    state = DurableState().after(assembly.receive(of(17, whole(GROUP, 1, 2, 3)), None, at(0)))
    for minute in range(1, 7 * 60):
        blocks = assembly.close_due(at(minute * 60_000_000_000))
        blocks += assembly.receive(of(10**6 + minute, make_block(GROUP, [(4, 2)])), None, at(minute * 60_000_000_000))
        state = state.after(blocks)
    return assembly, state


def test_garbage_without_end_has_no_epoch_forgotten_that_a_group_is_in() -> None:
    runs = Runs()
    assembly, state = with_garbage(runs)
    other = make(runs=runs)
    for epoch, sent_ns in ((17, 8 * HOUR_NS), (18, 9 * HOUR_NS)):
        for group in (assembly, other):
            group.receive(of(epoch, whole(GROUP, 4)), None, at(sent_ns))
    assert "epoch" not in assembly.counts.aside | other.counts.aside
    assert assembly._runs.number_of(17) == other._runs.number_of(17) == 1
    assert len(state.runs) == EPOCHS_MOST


def test_a_group_is_in_its_epoch_again_after_a_start_amidst_garbage() -> None:
    _, state = with_garbage(Runs())
    assert list(state.runs.items())[-1] == (17, 1)
    runs = list(state.runs.items())[-2:]
    history = np.concatenate([history_of(GROUP, 1, 2, run=run) for _, run in sorted(runs, key=lambda each: each[1])])
    history["epoch"] = np.repeat([17, runs[0][0]], 2)
    after = make(runs=Runs(max(state.runs.values()), state.runs), history=history, epochs=state.runs)
    assert after.run == 1
    after.receive(of(18, whole(GROUP, 1)), None, at(0))
    assert after.counts.aside == {}


def test_a_restart_that_is_noticed_takes_no_run_that_an_epoch_has_in_the_group() -> None:
    assembly = make()
    blocks = assembly.receive(whole(GROUP, 1, 2, 3), None, at(0))
    blocks += assembly.receive(of(7, make_block(GROUP, [(1, 0)])), None, at(1))
    blocks += assembly.close_due(at(1 + TIMEOUT)) + assembly.close_due(at(2 + 2 * TIMEOUT))
    again = whole(GROUP, 1, 2, when=lambda trigger: time_of(trigger) + HOUR_NS)
    blocks += assembly.receive(again, None, at(3 * TIMEOUT))
    assert closed(blocks) == [
        *((0, 1, trigger, 5) for trigger in (1, 2, 3)),
        (7, 2, 1, 1),
        *((0, 3, trigger, 5) for trigger in (1, 2)),
    ]


def test_what_was_out_of_reach_once_stays_so_though_the_front_goes_back() -> None:
    """Else the database places one reading of a trigger, and the window, which does not hear of it, the next."""
    group = make_group(3)
    assembly = Assembly(group, timeout_ns=TIMEOUT, window=256, max_open=64, runs=Runs())
    assembly.receive(of(7, whole(group, *range(1, 101))), None, at(0))
    for tick, first in enumerate(range(101, 361, 20), 1):  # the third instrument is cut off
        assembly.receive(
            of(7, make_block(group, [(n, i) for n in range(first, first + 20) for i in (0, 1)])), None, at(1)
        )
        assembly.close_due(at((tick + 1) * TIMEOUT))
    front = assembly._runs.current.progress.front
    assembly.receive(of(7, make_block(group, [(100, 0)])), None, at(20 * TIMEOUT))
    assert assembly.counts.aside == {"older": 1}
    progress = assembly._runs.current.progress
    progress.front = front - 200
    assert progress.is_far(np.array([100, front - 127, front])).tolist() == [True, False, True]


def test_a_wrong_number_far_ahead_before_a_restart_breaks_nothing_after_it() -> None:
    before = make()
    blocks = before.receive(of(7, whole(GROUP, 1, 2)), None, at(0))
    blocks += before.receive(of(7, whole(GROUP, 100)), None, at(1))
    rows = rows_of(blocks)
    rows["arrived"][-1] = 1
    rows["trigger"][-1] = 400
    after = make(history=rows, runs=Runs(1, {7: 1}))
    assert closed(after.receive(of(7, whole(GROUP, 3)), None, at(2))) == [(7, 1, 3, 5)]


def test_a_block_in_which_numbers_jump_closes_no_trigger_twice() -> None:
    assembly = make()
    assembly.receive(of(7, whole(GROUP, 1, 2)), None, at(0))
    blocks = assembly.receive(of(7, make_block(GROUP, [(3, 0)])), None, at(1))
    jumped = 3 + 20 * 256
    both = np.concatenate([make_block(GROUP, [(3, 1)]), whole(GROUP, jumped)]).astype(GROUP.record)
    blocks += assembly.receive(of(7, both), None, at(2))
    blocks += assembly.receive(of(7, make_block(GROUP, [(3, 2)])), None, at(3)) + assembly.flush(at(4))
    assert [each[2:] for each in closed(blocks)] == [(3, 2), (jumped, 5)]
    assert [block.aside.reason.tolist() for block in blocks if block.aside is not None] == [[AsideReason.OLDER]]


def one_with_epochs_and_one_without(*epochs: int) -> tuple[Runs, Assembly, Array]:
    """The runs of two groups that saw the same restarts; that without epochs, and its ledger rows."""
    runs = Runs()
    one, other, blocks = make(runs=runs), make(runs=runs), list[ClosedBlock]()
    for k, epoch in enumerate(epochs):
        now = Instant(START_NS + k * HOUR_NS, k)
        again = whole(GROUP, 1, when=lambda trigger, k=k: time_of(trigger) + k * HOUR_NS)
        one.receive(of(epoch, again.copy()), None, now)
        blocks += other.receive(again, None, now)
    return runs, other, rows_of(blocks)


@pytest.mark.parametrize("starts_again", [False, True])
def test_a_run_that_the_group_had_without_knowing_its_epoch_is_left_to_the_database(starts_again: bool) -> None:
    """It may have rows of that which nobody here remembers."""
    runs, assembly, rows = one_with_epochs_and_one_without(6, 7, 8, 9)
    assert rows["run"].tolist() == [1, 2, 3, 4]
    if starts_again:
        assembly = make(runs=runs, history=rows[2:])
    assembly.receive(of(9, whole(GROUP, 2)), None, at(10))
    blocks = assembly.receive(of(7, make_block(GROUP, [(1, 4)])), None, at(11))
    (block,) = blocks + assembly.close_due(at(11 + TIMEOUT))
    assert block.aside is not None
    assert (block.aside.run.tolist(), block.aside.reason.tolist()) == ([2], [AsideReason.OLDER])
    assert not len(block.ledger)
    assert (assembly.run, assembly.counts.opened) == (4, 1 if starts_again else 5)


def test_an_epoch_before_that_of_a_group_begins_in_the_run_that_another_group_has_for_it() -> None:
    """Where the group knew all epochs that it had, it has no rows of that."""
    runs = Runs(4, {6: 1, 7: 2, 8: 3, 9: 4})
    assembly = make(runs=runs)
    blocks = assembly.receive(of(9, whole(GROUP, 1)), None, at(0))
    blocks += assembly.receive(of(7, whole(GROUP, 1)), None, at(1))
    assert closed(blocks) == [(9, 4, 1, 5), (7, 2, 1, 5)]


def test_a_group_that_begins_to_send_epochs_goes_on_though_it_counts_runs_otherwise() -> None:
    """It noticed two restarts more than the others, and may have rows of the run that those have."""
    runs, assembly, _ = one_with_epochs_and_one_without(6, 7)
    for k in (2, 3, 4):
        again = whole(GROUP, 1, when=lambda trigger, k=k: time_of(trigger) + k * HOUR_NS)
        assembly.receive(again, None, Instant(START_NS + k * HOUR_NS, k))
    assert (assembly.run, runs.known(7)) == (5, 2)
    assert closed(assembly.receive(of(7, whole(GROUP, 2)), None, at(10))) == [(7, 6, 2, 5)]


@pytest.mark.parametrize("senders", [1, 5])
def test_no_trigger_is_opened_twice_of_a_run_whose_epoch_the_group_has_forgotten(senders: int) -> None:
    """Another group has it still, so that the epoch is known to have this run."""
    runs = Runs()
    assembly = make(runs=runs)
    (first,) = closed(assembly.receive(of(2000, whole(GROUP, 1)), None, at(0)))
    for epoch in range(1, EPOCHS_MOST + 2):
        assembly.receive(of(epoch, whole(GROUP, 1)), None, at(epoch))
        runs.heard(2000)
    again = make_block(GROUP, [(1, instrument) for instrument in range(senders)])
    blocks = assembly.receive(of(2000, again), None, at(1000)) + assembly.close_due(at(1000 + TIMEOUT))
    assert runs.known(2000) == first[1] or senders > 1
    assert first[1] not in {run for _, run, _, _ in closed(blocks)}
    aside = [run for block in blocks if block.aside is not None for run in block.aside.run.tolist()]
    assert aside == ([first[1]] if senders == 1 else [])


def test_an_epoch_begins_for_most_instruments_though_another_group_has_it_in_a_run_of_a_forgotten_epoch() -> None:
    """One instrument that sends it first leaves its readings to the database, and the epoch to the others."""
    runs = Runs()
    assembly, other = make(runs=runs), make(runs=runs)
    other.receive(of(2000, whole(GROUP, 1)), None, at(0))
    for epoch in range(1, EPOCHS_MOST + 2):
        assembly.receive(of(epoch, whole(GROUP, 1)), None, at(epoch))
        runs.heard(2000)
    blocks = assembly.receive(of(2000, make_block(GROUP, [(1, 0)])), None, at(1000))
    blocks += assembly.close_due(at(1000 + TIMEOUT))
    assert [block.aside.run.tolist() for block in blocks if block.aside is not None] == [[1]]
    most = make_block(GROUP, [(trigger, instrument) for trigger in (1, 2) for instrument in (1, 2, 3, 4)])
    blocks = assembly.receive(of(2000, most), None, at(1001 + TIMEOUT))
    blocks += assembly.close_due(at(1001 + 2 * TIMEOUT))
    assert [(epoch, trigger, arrived) for epoch, _, trigger, arrived in closed(blocks)] == [(2000, 1, 4), (2000, 2, 4)]
    assert all(block.aside is None for block in blocks)


def test_instruments_that_were_silent_are_no_majority_of_those_who_were_not() -> None:
    """Three of nine send another epoch, of which nobody else knows, while four take part and two are off."""
    group = make_group(9)
    assembly = Assembly(group, timeout_ns=TIMEOUT, window=256, max_open=64, runs=Runs())
    for trigger in range(1, 30):
        now = at(trigger * TIMEOUT // 2)
        assembly.receive(of(7, make_block(group, [(trigger, i) for i in (0, 1, 2, 3)])), None, now)
        if trigger > 10:
            assembly.receive(of(8, make_block(group, [(trigger, i) for i in (6, 7, 8)])), None, now)
        assembly.close_due(now)
        assert assembly.run == 1


def test_two_numbers_of_a_block_that_lie_a_window_apart_open_no_empty_trigger() -> None:
    """They have one place in the window: the older one is the database's, and is not opened."""
    assembly = make()
    blocks = assembly.receive(of(7, whole(GROUP, 300)), None, at(0))
    blocks += assembly.receive(of(9, make_block(GROUP, [(5, 0), (5 + 256, 0)])), None, at(1))
    for tick in range(1, 5):
        blocks += assembly.close_due(at(1 + tick * TIMEOUT))
    assert closed(blocks) == [(7, 1, 300, 5), (9, 2, 261, 1)]
    aside = [block.aside for block in blocks if block.aside is not None]
    assert [(each.run.tolist(), each.readings["trigger"].tolist()) for each in aside] == [([2], [5])]


def test_a_number_below_one_that_was_forgotten_is_opened() -> None:
    """As after a start that leaves the newest triggers to the database; the number that was skipped is no news then."""
    window = Window(16, GROUP.size)
    window.recall(history_of(GROUP, 1, 2, 8))
    window.forget(np.array([8]))
    window.open(np.array([5]), np.array([0], np.int32))
    assert window.take_fewer_skipped() == 0
    window.open(np.array([9]), np.array([1], np.int32))
    hint, counted = window.skipped(np.array([9]))
    assert (hint.tolist(), counted) == ([3], 0)


def test_a_gap_below_a_number_whose_place_a_newer_one_has_is_looked_for() -> None:
    window = Window(16, GROUP.size)
    for slot, trigger in enumerate((10, 21, 25, 29, 33, 36)):
        window.open(np.array([trigger]), np.array([slot], np.int32))
    hint, counted = window.skipped(np.array([21]))
    assert (hint.tolist(), counted) == ([1], 0)
