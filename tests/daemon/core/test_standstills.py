import threading

import pytest

from daemon.core.outside import clock
from daemon.core.outside.clock import Standstills

S = 1_000_000_000


class Machine:
    def __init__(self) -> None:
        self.ns = 100 * S

    def monotonic_ns(self) -> int:
        return self.ns


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(clock, "time", found)
    return found


def test_a_standstill_is_left_out_and_told_once(machine: Machine) -> None:
    standstills = Standstills()
    with standstills.noticed():
        machine.ns += S // 4
        before = standstills.monotonic_ns()
        machine.ns += 600 * S
        assert 0 <= standstills.monotonic_ns() - before <= S
        assert standstills.take_s() == pytest.approx(600, abs=1)
        machine.ns += S
        assert standstills.take_s() == 0
        assert standstills.monotonic_ns() - before <= 2 * S


def test_it_never_goes_back(machine: Machine) -> None:
    """Also where it is asked between ticks, just before and after."""
    standstills, last = Standstills(), 0
    with standstills.noticed():
        for step in [0.1, 4.9, 5.1, 0.0, 4.99, 700, 0.2, 5.0, 5.001, 60] * 3:
            machine.ns += int(step * S)
            now = standstills.monotonic_ns()
            assert now >= last
            last = now


def test_who_asks_seldom_stands_not_still_where_nobody_looks(machine: Machine) -> None:
    standstills = Standstills()
    before = standstills.monotonic_ns()
    machine.ns += 60 * S
    assert standstills.monotonic_ns() - before == 60 * S
    with standstills.noticed():
        assert standstills.take_s() == 0


def test_of_several_threads_one_leaves_it_out(machine: Machine) -> None:
    standstills, found = Standstills(), []
    with standstills.noticed():
        before = standstills.monotonic_ns()
        machine.ns += 600 * S
        threads = [threading.Thread(target=lambda: found.append(standstills.monotonic_ns())) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 16
    assert all(0 <= each - before <= S for each in found)
