"""How fast a period is moved."""

import numpy as np
import pytest

from daemon.tiers.pace import MIB, Allowance, Paced
from daemon.workloads.readers.governor import LEAST_DOSE, NOTHING_SEEN, Seen
from schemas.config.workloads import GovernorConfig


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each pause was; time itself goes on by these alone."""
    pauses: list[float] = []
    now = [100.0]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("daemon.tiers.pace.sleep", sleep)
    monkeypatch.setattr("daemon.tiers.pace.monotonic", lambda: now[0])
    return pauses


async def test_a_tier_takes_no_more_than_its_rate(slept: list[float]) -> None:
    paced = Paced(64 * MIB, 16.0)
    for done in np.linspace(0, 1, 9).tolist():
        await paced(done)
    assert slept == pytest.approx([0.5] * 8)
    assert paced.left_s() == pytest.approx(0.0)


async def test_what_is_left_is_told_from_the_pace_so_far(slept: list[float]) -> None:
    paced = Paced(64 * MIB, 16.0)
    assert paced.left_s() is None
    await paced(0.5)
    assert paced.left_s() is None
    await paced(0.75)
    assert paced.left_s() == pytest.approx(1.0)


async def test_a_move_that_goes_on_does_not_pay_for_what_was_copied_before(slept: list[float]) -> None:
    await Paced(1000 * MIB, 1.0)(0.9)
    assert slept == []


def allowance(monkeypatch: pytest.MonkeyPatch, ceilings: GovernorConfig, seen: list[Seen]) -> Allowance:
    made = Allowance(ceilings, {})
    clock = iter(range(0, 10**15, 10**9))
    monkeypatch.setattr("daemon.tiers.pace.monotonic_ns", lambda: next(clock))
    looks = iter(seen)
    monkeypatch.setattr(made._writing, "look", lambda *_: next(looks))
    return made


def test_without_ceilings_it_may_always_work(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Seen(p99_ms=900.0, lasting_ms=900.0, backlog=10**6)
    made = allowance(monkeypatch, GovernorConfig(), [NOTHING_SEEN, slow, slow])
    assert [made.share() for _ in range(3)] == [1.0, 1.0, 1.0]


def test_while_the_writing_breaks_its_promise_it_gives_way_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, slow = Seen(p99_ms=2.0, lasting_ms=2.0, backlog=0), Seen(p99_ms=80.0, lasting_ms=80.0, backlog=0)
    made = allowance(monkeypatch, GovernorConfig(commit_p99_ms=20.0), [fine] + [slow] * 20 + [fine] * 400)
    assert made.share() == 1.0
    shares = [made.share() for _ in range(20)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == LEAST_DOSE
    assert max(made.share() for _ in range(400)) == 1.0


async def test_a_share_of_the_time_is_a_pause_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [0.0], []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("daemon.tiers.pace.sleep", sleep)
    monkeypatch.setattr("daemon.tiers.pace.monotonic", lambda: now[0])
    paced = Paced(MIB, 1000.0, lambda: 0.25)
    await paced(0.0)
    now[0] = 2.0
    await paced(0.5)
    assert pauses == pytest.approx([6.0])
