"""Counters that are wrong in many ways, and honest instruments, against the alarm with the real assembly."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.pipeline.instruments.desync import Kind
from tests.support.machine import MS, Machine, beat
from tests.support.readings import START_NS

SECOND = 1_000 * MS
BAD = 7
FIRST = 4096
Counter = Callable[[int], int]
"""The number that the instrument sends with the trigger of the given number."""


def walk(step: float) -> Counter:
    """At each trigger the counter may gain or lose one more."""
    steps = np.random.default_rng(11).choice([-1, 0, 1], 1 << 14, p=[step / 2, 1 - step, step / 2]).cumsum()
    return lambda n: n + int(steps[n - FIRST])


def sometimes(share: float, off: int) -> Counter:
    """So many of the numbers, at random, are off by so much."""
    which = np.random.default_rng(12).random(1 << 14) < share
    return lambda n: n + off * int(which[n - FIRST])


COUNTERS: dict[str, Counter] = {
    "one behind": lambda n: n - 1,
    "one ahead": lambda n: n + 1,
    "far ahead": lambda n: n + 300,
    "each number twice": lambda n: FIRST + (n - FIRST) // 2,
    "each number three times": lambda n: FIRST + (n - FIRST) // 3,
    "double": lambda n: 2 * n - FIRST,
    "lowest bit lost": lambda n: n & ~1,
    "lowest bit set": lambda n: n | 1,
    "second bit lost": lambda n: n & ~2,
    "fourth bit lost": lambda n: n & ~8,
    "lowest bit turned": lambda n: n ^ 1,
    "eight bits": lambda n: n & 0xFF,
    "one in ten not counted": lambda n: n - (n - FIRST) // 10,
    "one in ten counted twice": lambda n: n + (n - FIRST) // 10,
    "one in ten repeats": lambda n: n - (n % 10 == 0),
    "one in seven skips": lambda n: n + (n % 7 == 0),
    "one in twelve far off": lambda n: n + 40 * (n % 12 == 0),
    "at random one in ten": sometimes(0.1, -1),
    "at random one in three": sometimes(0.3, 1),
    "walk": walk(0.2),
    "fast walk": walk(0.9),
    "stands still": lambda n: FIRST + 5,
    "stands still now and then": lambda n: n - max(0, n % 20 - 14),
    "steps of four": lambda n: n - n % 4,
    "backwards": lambda n: 2 * FIRST - n,
    "blocks in another order": lambda n: n ^ 5,
    "in turn one ahead and one behind": lambda n: n + (1 if n % 2 else -1),
    "resets each hundred": lambda n: FIRST + (n - FIRST) % 100,
}


@pytest.mark.parametrize("rate", [7, 44])
@pytest.mark.parametrize("counter", COUNTERS.values(), ids=COUNTERS)
def test_a_counter_that_is_wrong_is_found_whatever_its_pattern(counter: Counter, rate: int) -> None:
    machine = Machine()
    rng = np.random.default_rng(rate)
    times = beat(rate, max(150, 12 * rate))
    for k, at_ns in enumerate(times.tolist()):
        machine.run(at_ns)
        numbers = np.full(12, FIRST + k)
        numbers[BAD] = counter(FIRST + k)
        machine.send(numbers, at_ns + rng.integers(-20_000, 20_000, 12))
    assert machine.ever == {BAD}
    assert BAD in machine.findings


@pytest.mark.parametrize("rate", [5, 44])
@pytest.mark.parametrize(
    "counter", [sometimes(0.02, -1), sometimes(0.01, 7), lambda n: n + (n % 60 == 0)], ids=["2 %", "1 %", "1 in 60"]
)
def test_few_wrong_numbers_are_no_alarm(counter: Counter, rate: int) -> None:
    machine = Machine()
    for k, at_ns in enumerate(beat(rate, max(100, 8 * rate)).tolist()):
        machine.run(at_ns)
        numbers = np.full(12, FIRST + k)
        numbers[BAD] = counter(FIRST + k)
        machine.send(numbers, np.full(12, at_ns))
    assert machine.ever == set()


def unsteady(machine: Machine, rate: int, offset_ns: Callable[[np.random.Generator], int]) -> Machine:
    """Let one instrument have a clock that is off differently at each trigger."""
    rng = np.random.default_rng(rate)
    for k, at_ns in enumerate(beat(rate, max(100, 8 * rate)).tolist()):
        machine.run(at_ns)
        stamps = at_ns + rng.integers(-20_000, 20_000, 12)
        stamps[BAD] += offset_ns(rng)
        machine.send(np.full(12, FIRST + k), stamps)
    return machine


@pytest.mark.parametrize("rate", [5, 10, 44, 100])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.98])
def test_a_clock_that_is_unsteady_within_the_limit_is_no_alarm(rate: int, share: float) -> None:
    most = int(20 * MS * share)
    assert unsteady(Machine(), rate, lambda rng: int(rng.integers(-most, most))).ever == set()


@pytest.mark.parametrize("rate", [5, 10, 44])
@pytest.mark.parametrize("most", [1.02, 1.5])
def test_a_clock_that_is_unsteady_beyond_the_limit_is_found(rate: int, most: float) -> None:
    machine = unsteady(Machine(), rate, lambda rng: int(rng.choice([-1, 1]) * rng.uniform(1.01, most) * 20 * MS))
    assert machine.ever == {BAD}
    assert machine.findings[BAD].kind is Kind.IRREGULAR


@pytest.mark.parametrize("rate", [5, 44])
def test_a_clock_that_stands_still_is_found(rate: int) -> None:
    machine = Machine()
    for k, at_ns in enumerate(beat(rate, max(100, 8 * rate)).tolist()):
        machine.run(at_ns)
        stamps = np.full(12, at_ns)
        stamps[BAD] = min(at_ns, START_NS + 2 * SECOND)
        machine.send(np.full(12, FIRST + k), stamps)
    assert machine.ever == {BAD}


@pytest.mark.parametrize("name", ["one behind", "lowest bit lost", "at random one in ten", "stands still now and then"])
def test_it_is_in_step_again_soon_after_whatever_was_wrong_with_it(name: str) -> None:
    machine, rate = Machine(), 20
    times = beat(rate, 25 * rate)
    for k, at_ns in enumerate(times.tolist()):
        machine.run(at_ns)
        numbers = np.full(12, FIRST + k)
        if k < 15 * rate:
            numbers[BAD] = COUNTERS[name](FIRST + k)
        machine.send(numbers, np.full(12, at_ns))
    assert machine.ever == {BAD}
    assert machine.findings == {}


@given(
    rate=st.sampled_from([3, 10, 50]),
    most_ms=st.floats(0.0, 19.5),
    absent=st.floats(0, 0.3),
    twice=st.floats(0, 0.2),
    late=st.floats(0, 0.1),
    restart=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=20, deadline=None)
def test_honest_instruments_are_never_named(rate, most_ms, absent, twice, late, restart, seed) -> None:
    """Some are absent, send twice, or late; their clocks are right within the limit, and the numbers begin again."""
    rng = np.random.default_rng(seed)
    machine = Machine()
    steadiness = rng.uniform(0, most_ms * MS, 12)
    times = beat(rate, max(60, 4 * rate)).tolist()
    held: list[tuple[int, int, np.ndarray, np.ndarray]] = []
    for k, due in enumerate(times):
        if restart and k == len(times) // 2:
            machine.run(times[k - 1] + SECOND)
            held.clear()
        again = restart and k >= len(times) // 2
        at_ns = due + (2 * SECOND if again else 0)
        while held and held[0][0] <= at_ns:
            due_ns, number, stamps, which = held.pop(0)
            machine.run(due_ns)
            machine.send(np.full(12, number), stamps, which)
        machine.run(at_ns)
        number = k - len(times) // 2 + 1 if again else FIRST + k
        stamps = at_ns + (rng.uniform(-1, 1, 12) * steadiness).astype(np.int64)
        is_there, is_late = rng.random(12) >= absent, rng.random(12) < late
        machine.send(np.full(12, number), stamps, is_there & ~is_late)
        if (is_there & is_late).any():
            held.append((at_ns + 300 * MS, number, stamps, is_there & is_late))
        if rng.random() < twice:
            machine.send(np.full(12, number), stamps, is_there & ~is_late)
    machine.run(times[-1] + 6 * SECOND)
    assert machine.ever == set()


@given(seed=st.integers(0, 2**32), rate=st.sampled_from([10, 30, 100]), shortest_ms=st.sampled_from([20, 100]))
@settings(max_examples=15, deadline=None)
def test_a_network_that_holds_readings_up_is_no_alarm(seed, rate, shortest_ms) -> None:
    """The time of receipt stands in for one that is not sent; readings that were held up come together."""
    rng = np.random.default_rng(seed)
    machine = Machine()
    held_until = 0
    for k, at_ns in enumerate(beat(rate, 10 * rate).tolist()):
        machine.run(at_ns)
        stamps = np.full(12, at_ns)
        if rng.random() < 0.3 / rate:
            held_until = max(held_until, at_ns + int(rng.integers(shortest_ms, 400)) * MS)
        stamps[4] = max(at_ns, held_until) + int(rng.integers(0, 3 * MS))
        machine.send(np.full(12, FIRST + k), stamps)
    assert machine.ever == set()
