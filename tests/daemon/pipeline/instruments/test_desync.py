"""The desynchronisation alarm, on a machine in virtual time with the real assembly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.pipeline.instruments.desync import Announcer, Finding, Kind
from tests.support.machine import MS, Machine, beat
from tests.support.readings import START_NS

SECOND = 1_000 * MS


def jitter(seed: int, instruments: int, most_ns: float):
    """Timestamps that are off by up to so much either way, differently at each trigger."""
    rng = np.random.default_rng(seed)
    return lambda _: rng.integers(-int(most_ns), int(most_ns) + 1, instruments)


@pytest.mark.parametrize("rate", [5, 10, 44, 100, 500])
@pytest.mark.parametrize("slip", [1, -1, 3, -5, 50, -50])
def test_a_slip_is_flagged_within_a_second_with_its_size(rate: int, slip: int) -> None:
    machine = Machine()
    well = beat(rate, 60 + rate)
    machine.play(well)
    assert machine.ever == set()
    after = beat(rate, rate + 10, int(well[-1]))
    machine.play(after, first=1000 + len(well), slips={7: slip})
    machine.run(int(after[-1]) + SECOND)
    assert machine.ever == {7}
    found = machine.findings[7]
    assert (found.kind, found.triggers) == (Kind.SLIPPED, slip)
    assert found.offset_ms == pytest.approx(-slip * 1e3 / rate, rel=0.01)
    assert machine.flagged_after_ms(7, int(after[0])) <= 1000
    if rate <= 100:  # beyond, a look sees the newest triggers only
        assert found.since_trigger == 1000 + len(well) + slip


@pytest.mark.parametrize("timeout_ms", [20, 5000])
@pytest.mark.parametrize("slip", [7, -7])
def test_neither_a_short_nor_a_long_timeout_hides_a_slip(timeout_ms: int, slip: int) -> None:
    machine = Machine(timeout_ms=timeout_ms)
    well, after = beat(10, 30), beat(10, 30, int(beat(10, 30)[-1]))
    machine.play(well)
    machine.play(after, first=1030, slips={3: slip})
    assert machine.ever == {3}
    assert machine.findings[3].triggers == slip
    assert machine.flagged_after_ms(3, int(after[0])) <= 1000


@given(
    slips=st.dictionaries(st.integers(0, 11), st.integers(-50, 50).filter(bool), max_size=4),
    gaps_ms=st.lists(st.sampled_from([8.0, 10.0, 22.7, 100.0, 400.0, 900.0]), min_size=8, max_size=40),
    rate=st.sampled_from([None, 5.0, 10.0, 44.0, 100.0]),
    share=st.floats(0, 0.1),
    offsets_us=st.lists(st.integers(-500, 500), min_size=12, max_size=12),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25, deadline=None)
def test_slips_of_any_size_are_found_and_nobody_else_is(slips, gaps_ms, rate, share, offsets_us, seed) -> None:
    rng = np.random.default_rng(seed)
    gaps = (
        rng.permutation(np.tile(gaps_ms, 160 // len(gaps_ms) + 1))[:160] if rate is None else np.full(160, 1e3 / rate)
    )
    times = START_NS + np.cumsum(gaps * MS).astype(np.int64)
    fixed, shake = np.array(offsets_us) * 1000, share * gaps.min() * MS / 2
    machine = Machine()
    noise = jitter(seed, 12, shake)
    machine.play(times[:60], noise=lambda k: noise(k) + fixed)
    machine.play(times[60:], first=1060, slips=slips, noise=lambda k: noise(k) + fixed)
    machine.run(int(times[-1]) + 4 * SECOND)
    assert {i: found.triggers for i, found in machine.findings.items()} == slips
    assert machine.ever == set(slips)


@given(
    clocks=st.dictionaries(
        st.integers(0, 11), st.sampled_from([-4e6, -900.0, -37.0, 31.0, 45.0, 777.7, 3.6e6]), max_size=4
    ),
    rate=st.sampled_from([7.0, 10.0, 3.3]),
)
@settings(max_examples=15, deadline=None)
def test_a_clock_that_is_off_is_no_slip(clocks, rate) -> None:
    period_ms = 1e3 / rate
    clocks = {i: ms for i, ms in clocks.items() if abs(ms - round(ms / period_ms) * period_ms) > 22}
    machine = Machine()
    well = beat(rate, 40)
    machine.play(well, noise=jitter(1, 12, MS))
    after = beat(rate, 40, int(well[-1]))
    machine.play(after, first=1040, clocks_ms=clocks, noise=jitter(2, 12, MS))
    machine.run(int(after[-1]) + SECOND)
    assert machine.ever == set(clocks)
    for i, ms in clocks.items():
        assert machine.findings[i].kind is Kind.CLOCK_OFF
        assert machine.findings[i].offset_ms == pytest.approx(ms, abs=3)
        assert machine.flagged_after_ms(i, int(after[0])) <= (1000 if rate >= 5 else 1500)


@pytest.mark.parametrize("rate", [5, 10, 100, 1000])
@pytest.mark.parametrize("most_ms", [0.002, 1.0, 8.0, 19.0])
def test_jitter_of_all_is_no_alarm(rate: int, most_ms: float) -> None:
    machine = Machine(instruments=40)
    machine.play(beat(rate, 200), noise=jitter(3, 40, most_ms * MS))
    assert machine.ever == set()


@pytest.mark.parametrize("rate", [10, 100])
def test_one_that_is_received_late_now_and_then_is_no_alarm(rate: int) -> None:
    """Where a sender gives no time, the time of receipt stands in, and a sender that is held up then catches up."""
    machine = Machine()
    times = beat(rate, 60 * rate // 10)
    rng = np.random.default_rng(5)
    held_until = 0
    for k, at_ns in enumerate(times):
        machine.run(int(at_ns))
        stamps = np.full(12, at_ns)
        if rng.random() < 0.5 / rate:
            held_until = max(held_until, int(at_ns) + int(rng.integers(20, 400)) * MS)
        stamps[4] = max(int(at_ns), held_until) + int(rng.integers(0, 3 * MS))
        machine.send(np.full(12, 1000 + k), stamps)
    assert machine.ever == set()


def test_a_single_odd_stamp_or_number_is_no_alarm() -> None:
    machine = Machine()
    times = beat(10, 100)
    for k, at_ns in enumerate(times):
        machine.run(int(at_ns))
        stamps, numbers = np.full(12, at_ns), np.full(12, 1000 + k)
        if k % 10 == 5:
            stamps[k // 10] += (-1) ** (k // 10) * (k + 1) * 100 * MS
        if k % 10 == 8:
            numbers[k // 10] += 3
        machine.send(numbers, stamps)
    machine.run(int(times[-1]) + SECOND)
    assert machine.ever == set()


def test_absences_gaps_and_single_shots_are_no_alarm() -> None:
    rng = np.random.default_rng(7)
    gaps = rng.choice([10, 10, 10, 50, 700, 60_000], 300) * MS
    machine = Machine()
    times = START_NS + np.cumsum(gaps)
    machine.play(times, present=lambda _: rng.random(12) > 0.2, noise=jitter(8, 12, 0.1 * MS))
    assert machine.ever == set()


def test_garbage_neither_stops_the_alarm_nor_is_it_a_slip_of_the_others() -> None:
    machine = Machine()
    rng = np.random.default_rng(9)
    worst = np.array([2**63 - 1, -(2**63), 2**62, -1, 1], np.int64)
    for k, at_ns in enumerate(beat(20, 120)):
        machine.run(int(at_ns))
        stamps, numbers = np.full(12, at_ns), np.full(12, 1000 + k)
        stamps[2], numbers[9] = rng.choice(worst), rng.choice(worst)
        machine.send(numbers, stamps)
    assert machine.ever <= {2, 9}


def test_a_restart_of_the_numbers_is_no_alarm_and_a_slip_after_it_is() -> None:
    machine = Machine()
    before = beat(10, 50)
    machine.play(before, first=5000)
    again = beat(10, 50, int(before[-1]) + SECOND)
    machine.play(again, first=1)
    assert machine.assembly.run == 2
    assert machine.ever == set()
    after = beat(10, 30, int(again[-1]))
    machine.play(after, first=51, slips={1: -2})
    assert machine.findings[1].triggers == -2
    assert machine.ever == {1}


def test_a_slip_that_is_there_when_the_daemon_starts_is_found() -> None:
    machine = Machine()
    machine.play(beat(10, 40), slips={3: -2, 5: 4})
    assert {i: found.triggers for i, found in machine.findings.items()} == {3: -2, 5: 4}
    assert machine.ever == {3, 5}


def test_it_is_cleared_when_in_step_again() -> None:
    machine = Machine()
    first = beat(10, 40)
    machine.play(first, slips={3: 2}, clocks_ms={4: 47})
    assert set(machine.findings) == {3, 4}
    second = beat(10, 15, int(first[-1]))
    machine.play(second, first=1040)
    assert machine.findings == {}


def test_a_number_that_is_stuck_falls_further_and_further_behind() -> None:
    machine = Machine()
    for k, at_ns in enumerate(beat(10, 60)):
        machine.run(int(at_ns))
        numbers = np.full(12, 1000 + k)
        numbers[6] = min(1000 + k, 1030)
        machine.send(numbers, np.full(12, at_ns))
    assert machine.ever == {6}
    found = machine.findings[6]
    assert (found.kind, found.since_trigger) == (Kind.STUCK, 1030)
    assert -29 <= found.triggers < -20


@pytest.mark.parametrize("off_ms", [37.0, -33.0, 86.5])
def test_a_clock_that_is_nearly_off_by_whole_triggers_is_no_slip(off_ms: float) -> None:
    """At 50 a second, with a jitter that does not hide it."""
    machine = Machine()
    well = beat(50, 100)
    machine.play(well, noise=jitter(1, 12, 0.2 * MS))
    after = beat(50, 100, int(well[-1]))
    machine.play(after, first=1100, clocks_ms={4: off_ms}, noise=jitter(2, 12, 0.2 * MS))
    machine.run(int(after[-1]) + SECOND)
    assert machine.findings[4].kind is Kind.CLOCK_OFF
    assert machine.findings[4].offset_ms == pytest.approx(off_ms, abs=1)


def test_what_is_shown_has_begun_where_what_was_said_did() -> None:
    machine = Machine()
    machine.play(beat(10, 40), slips={3: -2})
    since = machine.findings[3].since_trigger
    times = beat(10, 40, int(beat(10, 40)[-1]))
    machine.play(times[:20], first=1040, slips={3: -2})
    machine.play(times[20:], first=1060, slips={3: -3})
    found = machine.findings[3]
    assert (found.triggers, found.since_trigger) == (-3, since)


def test_a_majority_that_slips_is_the_reference() -> None:
    machine = Machine()
    machine.play(beat(10, 40), slips=dict.fromkeys(range(8), -1))
    assert {i: found.triggers for i, found in machine.findings.items()} == dict.fromkeys(range(8, 12), 1)


def test_of_two_instruments_neither_can_be_blamed() -> None:
    machine = Machine(instruments=2)
    machine.play(beat(10, 60), slips={1: -1})
    assert machine.ever == set()


def finding(i: int, triggers: int, offset_ms: float = 100.2) -> Finding:
    kind = Kind.SLIPPED if triggers else Kind.CLOCK_OFF
    return Finding(instrument=i, kind=kind, triggers=triggers, offset_ms=offset_ms, since_trigger=1234)


def test_it_is_said_once_when_it_begins_changes_and_ends() -> None:
    announcer = Announcer("bpm", [f"bpm_{i:03d}" for i in range(12)])
    assert announcer.lines({}) == []
    assert announcer.lines({7: finding(7, -1)}) == [
        (
            "warning",
            "group bpm: bpm_007 is 1 trigger behind its timestamps (+100.2 ms) since trigger 1234: its numbers "
            "slipped, or its clock is off by just so much",
        )
    ]
    assert announcer.lines({7: finding(7, -1)}) == []
    assert announcer.lines({7: finding(7, -2)}) == []
    ((_, text),) = announcer.lines({7: finding(7, -2)})
    assert "2 triggers behind" in text
    assert announcer.lines({}) == [("info", "group bpm: bpm_007 is in step again")]
    assert announcer.lines({}) == []


def test_one_that_falls_further_and_further_behind_is_said_once() -> None:
    announcer = Announcer("bpm", ["bpm_000"])
    said = [announcer.lines({0: finding(0, -n)}) for n in range(1, 20)]
    assert [len(lines) for lines in said] == [1] + [0] * 18
    announcer = Announcer("bpm", ["bpm_000"])
    stuck = [replace(finding(0, -n), kind=Kind.STUCK) for n in range(1, 20)]
    said = [line for found in stuck for line in announcer.lines({0: found})]
    assert said == [("warning", "group bpm: the trigger number of bpm_000 stands still at 1234")]


def test_a_clock_that_is_off_is_said_with_its_side() -> None:
    announcer = Announcer("bpm", ["bpm_000"])
    ((_, text),) = announcer.lines({0: finding(0, 0, -37.04)})
    assert text == "group bpm: the clock of bpm_000 is 37.0 ms behind the others since trigger 1234"


def test_many_at_once_are_one_line() -> None:
    names = [f"bpm_{i:03d}" for i in range(12)]
    announcer = Announcer("bpm", names)
    ((_, text),) = announcer.lines({i: finding(i, -1 if i % 2 else 0) for i in range(8)})
    assert text.startswith(
        "group bpm: 8 instruments are out of step with the others: bpm_000 (clock +100.2 ms), bpm_001 (-1 "
    )
    assert text.endswith(" and 3 more")
    ((_, text),) = announcer.lines({})
    assert text == "group bpm: bpm_000, bpm_001, bpm_002, bpm_003, bpm_004 and 3 more are in step again"
