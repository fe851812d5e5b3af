"""Pauses between attempts: they double up to a limit, are spread, and begin anew after a success."""

import pytest

from daemon.web import rates
from daemon.web.rates import SPREAD, Backoff


def test_pauses_double_up_to_the_longest_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates.random, "uniform", lambda least, most: most)
    pauses = Backoff(0.05, 0.3)
    assert [pauses.next_s() for _ in range(5)] == [0.05, 0.1, 0.2, 0.3, 0.3]
    pauses.reset()
    assert pauses.next_s() == 0.05


def test_pauses_are_spread_so_that_several_do_not_come_back_together() -> None:
    found = [Backoff(1.0, 1.0).next_s() for _ in range(200)]
    assert SPREAD <= min(found) < SPREAD + 0.1
    assert 0.9 < max(found) <= 1.0
