"""Datagram numbers: what is counted is what was lost, in whatever order the rest came."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.sources.udp.datagram_numbers import (
    AGAIN,
    GAP_MOST,
    GAPS_MOST,
    LATE_MOST,
    SENDERS_MOST,
    SILENT_S,
    DatagramNumbers,
)

SENDER = ("10.0.0.1", 5)


class Heard:
    """The numbers of one sender, and the readings that are lost by group, of which there are never less than none."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.numbers = DatagramNumbers(lambda: self.now_s)
        self.lost: Counter[str | None] = Counter()

    def hear(self, sequences: Iterable[int], *, readings: int = 1, group: str = "bpm") -> int:
        """Returns how many datagrams are lost by now."""
        for sequence in sequences:
            self.lost.update(self.numbers.heard(SENDER, sequence, group, readings))
            assert min(self.lost.values(), default=0) >= 0
        assert self.lost[None] == self.numbers.lost
        return self.numbers.lost

    @property
    def readings(self) -> int:
        return sum(count for group, count in self.lost.items() if group is not None)


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, LATE_MOST - 1), st.sampled_from(["bpm", "blm"])),
        min_size=1,
        max_size=300,
    ),
    st.integers(0, 2**40),
)
def test_in_whatever_order_they_come_what_did_not_come_is_lost(
    sent: list[tuple[bool, int, str]], beginning: int
) -> None:
    heard = Heard()
    came = sorted((number + late, number, group) for number, (comes, late, group) in enumerate(sent) if comes)
    order = [beginning + number for _, number, _ in came]
    for sequence, (_, _, group) in zip(order, came, strict=True):
        heard.hear([sequence], group=group)
    assert heard.numbers.lost == heard.readings == _missing(order)


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, AGAIN - 2), min_size=1, max_size=3)), max_size=200))
def test_copies_that_come_late_neither_hide_losses_nor_are_any(sent: list[tuple[bool, list[int]]]) -> None:
    came = sorted((number + late, number) for number, (comes, copies) in enumerate(sent) if comes for late in copies)
    order = [number for _, number in came]
    assert Heard().hear(order) == _missing(order)


@given(
    st.lists(st.integers(1200, 3000), min_size=2, max_size=4),
    st.floats(0, 0.3),
    st.integers(1, LATE_MOST),
    st.integers(0, 2**32),
)
def test_of_each_life_of_a_sender_what_did_not_come_is_lost(
    lives: list[int], share: float, window: int, seed: int
) -> None:
    rng = random.Random(seed)
    heard = Heard()
    lost = 0
    for sent in lives:
        came = [number for number in range(sent) if rng.random() >= share]
        order = sorted(came, key=lambda number: number + rng.randrange(window))
        lost += _missing(order)
        heard.hear(order)
    assert heard.numbers.lost == heard.readings == lost


def _missing(order: list[int]) -> int:
    """How many did not come of those behind the first that came."""
    return len(set(range(order[0], max(order))) - set(order)) if order else 0


def test_a_sender_begins_anew_though_its_number_0_is_lost() -> None:
    heard = Heard()
    assert heard.hear(number for number in range(10_000) if not 1000 <= number < 1500) == 500
    assert heard.hear(range(1, 3000)) == 500
    assert heard.hear([3010]) == 510


def test_a_sender_begins_anew_that_was_heard_in_the_middle_at_first() -> None:
    heard = Heard()
    heard.hear(range(5000, 6000))
    assert heard.hear([*range(1, 100), 110]) == 10


def test_what_a_new_beginning_filled_of_the_gaps_before_it_is_lost_again() -> None:
    heard = Heard()
    heard.hear([0, *range(501, 1000)], readings=7)
    assert heard.hear(range(1, 501), readings=7) == 0  # as if they were late
    assert heard.hear(range(501, 501 + AGAIN), readings=7) == 500
    assert heard.readings == 3500


def test_losses_within_the_first_numbers_of_a_new_beginning_are_counted() -> None:
    heard = Heard()
    heard.hear(range(1000))
    assert heard.hear(range(1, 2 * AGAIN - 2, 2)) == 0
    assert heard.hear([2 * AGAIN - 1]) == AGAIN - 1


@pytest.mark.parametrize(
    "order",
    [
        (*range(1000), 0, 1000),
        (*range(1000), 0, 1, 2, 1000),
        (1, 0, 2, 3),
        (3, 0, 1, 2, 4),
        (*range(10), *range(18, 40), *range(10, 18), 40),
        (20, *range(2 * AGAIN), 21),
        (*range(100), *range(92, 92 + AGAIN - 1), 100),
        (*range(100), *range(50, 50 - 2 * AGAIN, -1), 100),
        tuple(number for last in range(1, 100) for number in (last, last - 1)),
    ],
    ids=[
        "late copy of 0",
        "late copies",
        "1 first",
        "3 first",
        "many late in a row",
        "many late at the start",
        "copies in a row",
        "copies from the last on",
        "a copy of each",
    ],
)
def test_where_all_come_nothing_is_lost(order: tuple[int, ...]) -> None:
    assert Heard().hear(order) == 0


def test_after_a_silence_a_lower_number_is_a_new_beginning() -> None:
    heard = Heard()
    heard.hear(range(5))
    heard.now_s = SILENT_S
    assert heard.hear([0, 2, 3]) == 1
    heard.now_s = 2 * SILENT_S
    assert heard.hear([10]) == 7  # a higher one is not: what was sent meanwhile did not come


def test_a_restart_behind_a_late_copy_is_seen() -> None:
    heard = Heard()
    heard.hear([*range(1000), 900])
    assert heard.hear([*range(1, 20), 25]) == 5


def test_datagram_numbers_tell_what_was_lost() -> None:
    numbers = DatagramNumbers()
    a, b = ("10.0.0.1", 5), ("10.0.0.2", 5)
    for sequence in (7, 8, 12):
        numbers.heard(a, sequence, "bpm", 1)
    assert numbers.lost == 3
    numbers.heard(a, 10, "bpm", 1)
    assert numbers.lost == 2
    numbers.heard(b, 0, "bpm", 1)
    numbers.heard(a, 0, "bpm", 1)
    numbers.heard(a, 1, "bpm", 1)
    assert (numbers.lost, len(numbers)) == (2, 2)


def test_lost_datagrams_count_as_many_readings_of_its_group_as_the_one_behind_them() -> None:
    numbers = DatagramNumbers()
    came = (0, "bpm", 3), (2, "blm", 1), (3, "bpm", 7), (6, "bpm", 26)
    heard = [numbers.heard(SENDER, *datagram) for datagram in came]
    assert heard == [{}, {None: 1, "blm": 1}, {}, {None: 2, "bpm": 52}]
    found = [numbers.heard(SENDER, sequence, "bpm", 26) for sequence in (4, 1, 5)]
    assert found == [{None: -1, "bpm": -26}, {None: -1, "blm": -1}, {None: -1, "bpm": -26}]
    assert numbers.heard(SENDER, 1, "bpm", 26) == {}
    assert numbers.lost == 0


def test_a_datagram_that_comes_twice_hides_no_loss() -> None:
    heard = Heard()
    assert [heard.hear([sequence]) for sequence in (0, 1, 3, 4, 3, 3, 1, 4)] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert [heard.hear([2]) for _ in range(2)] == [0, 0]


def test_the_gaps_of_a_sender_do_not_fill_the_memory() -> None:
    heard = Heard()
    every_other = range(0, 20 * GAPS_MOST, 2)
    lost = len(every_other) - 1
    assert heard.hear(every_other) == lost
    assert heard.hear(range(every_other[-1] - 1, 0, -2)) == lost - GAPS_MOST


def test_senders_without_end_do_not_fill_the_memory_or_displace_those_at_work() -> None:
    numbers = DatagramNumbers()
    for sequence in range(10):
        numbers.heard(("10.0.0.2", 5), sequence, "bpm", 1)
    for port in range(SENDERS_MOST + 100):
        numbers.heard(("10.0.0.1", port), 0, "bpm", 1)
    assert len(numbers) == SENDERS_MOST + 1
    numbers.heard(("10.0.0.2", 5), 12, "bpm", 1)
    assert numbers.lost == 2


def test_who_was_heard_within_a_minute_is_known() -> None:
    now_s = 0.0
    numbers = DatagramNumbers(lambda: now_s)
    for port in range(1000):
        numbers.heard(("10.0.0.1", port), 0, "bpm", 1)
    for sequence in range(100):
        numbers.heard(SENDER, sequence, "bpm", 1)
    assert numbers.heard_lately() == 1000
    now_s = SILENT_S / 2
    numbers.heard(SENDER, 100, "bpm", 1)
    numbers.heard(("10.0.0.2", 5), 0, "bpm", 1)
    now_s = SILENT_S
    assert numbers.heard_lately() == 2
    now_s = 2 * SILENT_S
    assert numbers.heard_lately() == 0


def test_forged_numbers_neither_hide_the_gaps_of_others_nor_grow_the_count_without_bound() -> None:
    numbers = DatagramNumbers()
    good, bad = ("10.0.0.2", 5), ("10.0.0.1", 5)
    for sequence in (0, 5):
        numbers.heard(good, sequence, "bpm", 1)
    for sequence in (100, *range(99)):
        numbers.heard(bad, sequence, "bpm", 1)
    assert numbers.lost == 4
    for sequence in (2**64 - 1, 0, 2**64 - 1, 0, 2**63, GAP_MOST + 2**63 + 1):
        numbers.heard(bad, sequence, "bpm", 1)
    assert numbers.lost == 4
    for sequence in (5, 2**63, 2**63 + 1 + GAP_MOST, 2**64 - 1):
        numbers.heard(("10.0.0.3", 5), sequence, "bpm", 1)
    assert numbers.lost == 4 + GAP_MOST
