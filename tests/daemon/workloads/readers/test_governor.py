import itertools
import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.workloads.readers.governor import LEAST_DOSE, Governor, Seen, shared_out
from daemon.workloads.readers.messages import Admission
from schemas.config.workloads import GovernorConfig

CEILING_MS = 50.0
BOTH = {"scan": 4, "history": 4}
FINE = Seen(p99_ms=5.0, lasting_ms=5.0, backlog=0)
BROKEN = Seen(p99_ms=100.0, lasting_ms=100.0, backlog=0)


class Writing:
    """A server that commits beside readers: a queue (M/M/1) of whose time each client that asks takes a part.

    p99 is that of the last second, with noise; lasting that of ten seconds.
    """

    def __init__(self, *, alone_ms: float = 10.0, part_a_client: float) -> None:
        self.alone_ms, self.part_a_client = alone_ms, part_a_client
        self._noise = random.Random(1)
        self._recent: deque[float] = deque(maxlen=10)

    def second(self, dose: float) -> Seen:
        p99 = self.alone_ms / max(1 - self.part_a_client * dose, 0.02) * self._noise.uniform(0.9, 1.05)
        self._recent.append(p99)
        return Seen(p99_ms=p99, lasting_ms=max(self._recent), backlog=0)

    @property
    def right_dose(self) -> float:
        """With this one p99 is at its ceiling, but for the noise."""
        return (1 - self.alone_ms / CEILING_MS) / self.part_a_client


def governor(**ceilings: float) -> Governor:
    return Governor(GovernorConfig.model_validate(ceilings or {"commit_p99_ms": CEILING_MS}))


def doses(found: Governor, writing: Writing, seconds: int) -> tuple[list[float], list[float]]:
    """What is admitted, and the p99 that comes of it, second by second."""
    admitted, measured = [], []
    for _ in range(seconds):
        seen = writing.second(found.dose)
        assert seen.p99_ms is not None
        found.step(seen, BOTH)
        admitted.append(found.dose)
        measured.append(seen.p99_ms)
    return admitted, measured


@pytest.mark.parametrize("part_a_client", [0.15, 0.5, 2.0, 12.0])
def test_the_dose_comes_near_to_what_the_writing_bears_and_stays_there(part_a_client: float) -> None:
    writing, found = Writing(part_a_client=part_a_client), governor()
    doses(found, writing, 120)
    admitted, measured = doses(found, writing, 600)
    within = sum(p99 <= CEILING_MS for p99 in measured) / len(measured)
    changes = sum(before != after for before, after in itertools.pairwise(admitted))
    assert within > 0.95
    assert changes < 60
    assert 0.4 * writing.right_dose < sorted(admitted)[30]
    assert max(admitted) < 1.3 * writing.right_dose
    assert sum(admitted) / len(admitted) > 0.6 * writing.right_dose


def test_all_may_ask_again_when_the_load_is_gone() -> None:
    found = governor()
    doses(found, Writing(part_a_client=12.0), 120)
    assert found.dose < 0.2
    doses(found, Writing(part_a_client=0.001), 90)
    assert (found.state, found.dose, found.admitted, found.share) == ("open", 8.0, 8, 1.0)


def test_a_ceiling_that_is_broken_whatever_is_held_back_leaves_the_least() -> None:
    found = governor()
    for _ in range(100):
        found.step(BROKEN, {"scan": 2})
    assert (found.dose, found.state, found.admitted) == (LEAST_DOSE, "holding", 1)
    assert found.reason == (
        "commit p99 100 ms is over its ceiling of 50 ms, and not for the readers: "
        "1 of 2 clients may ask, 1.6 % of the time"
    )


def test_a_moment_over_the_ceiling_holds_nobody_back() -> None:
    found = governor()
    for _ in range(40):
        found.step(FINE, BOTH)
    found.step(Seen(p99_ms=400.0, lasting_ms=20.0, backlog=0), BOTH)
    assert found.state == "open"


def test_one_order_is_given_its_time_before_the_next() -> None:
    found = governor()
    for _ in range(40):
        found.step(FINE, BOTH)
    assert [found.step(BROKEN, BOTH) and found.dose for _ in range(4)] == [4.0, 4.0, 2.0, 2.0]


def test_a_new_workload_begins_with_one_client() -> None:
    found = governor()
    assert found.step(FINE, {"scan": 8}) == {"scan": Admission(clients=1, share=1.0)}
    assert found.reason == "commit p99 5 ms is within its ceiling of 50 ms: 1 of 8 clients may ask"


def test_a_backlog_has_a_ceiling_of_its_own() -> None:
    found = governor(commit_p99_ms=50, backlog_triggers=100)
    seen = Seen(p99_ms=5.0, lasting_ms=5.0, backlog=400)
    found.step(FINE, {"scan": 4})
    assert found.step(seen, {"scan": 4}) == {"scan": Admission(clients=1, share=0.25)}
    assert (found.state, found.reason) == (
        "lowering",
        "the backlog of 400 triggers is over its ceiling of 100 triggers: 1 of 4 clients may ask, 25 % of the time",
    )


def test_turned_off_it_lets_everybody_ask() -> None:
    found = governor()
    for _ in range(10):
        found.step(BROKEN, BOTH)
    found.change(GovernorConfig())
    assert found.step(BROKEN, BOTH) == {
        "scan": Admission(clients=4, share=1.0),
        "history": Admission(clients=4, share=1.0),
    }
    assert (found.state, found.reason) == ("off", "no ceiling is set: every client may ask")
    assert found.step(BROKEN, {}) == {}


def test_what_it_says_fits_the_ceilings_as_soon_as_they_are_set() -> None:
    found = Governor(GovernorConfig())
    assert (found.state, found.reason) == ("off", "no ceiling is set: every client may ask")
    found.change(GovernorConfig(commit_p99_ms=CEILING_MS))
    assert (found.state, found.reason) == ("idle", "no reader workload runs")
    found.change(GovernorConfig())
    found.step(FINE, BOTH)
    found.change(GovernorConfig(commit_p99_ms=CEILING_MS))
    assert (found.state, found.reason) == (
        "open",
        "commit p99 5 ms is within its ceiling of 50 ms: all 8 clients may ask",
    )


def test_turned_on_it_begins_with_all_that_ask() -> None:
    found = Governor(GovernorConfig())
    found.step(FINE, BOTH)
    found.change(GovernorConfig(commit_p99_ms=CEILING_MS))
    assert found.step(FINE, BOTH) == {
        "scan": Admission(clients=4, share=1.0),
        "history": Admission(clients=4, share=1.0),
    }
    assert found.step(Seen(p99_ms=60.0, lasting_ms=60.0, backlog=0), {"scan": 4, "history": 4})["scan"].clients == 3


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1),
    st.floats(LEAST_DOSE, 240),
)
def test_a_dose_is_shared_out_whole_and_fairly(clients: dict[str, int], dose: float) -> None:
    dose = min(dose, sum(clients.values()))
    shares = shared_out(dose, clients)
    parts = {name: found.clients * found.share for name, found in shares.items()}
    assert sum(parts.values()) == pytest.approx(dose)
    assert all(1 <= shares[name].clients <= clients[name] and 0 < shares[name].share <= 1 for name in clients)
    most = max(parts.values())
    assert all(part == pytest.approx(clients[name]) or part == pytest.approx(most) for name, part in parts.items())


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.floats(0, 500) | st.none(), st.floats(0, 500) | st.none(), st.integers(0, 50), st.integers(0, 9)),
        max_size=60,
    )
)
def test_some_client_may_always_ask_and_never_more_than_there_are(
    steps: list[tuple[float | None, float | None, int, int]],
) -> None:
    found = governor(commit_p99_ms=CEILING_MS, backlog_triggers=20)
    for p99, lasting, backlog, clients in steps:
        admitted = found.step(Seen(p99_ms=p99, lasting_ms=lasting, backlog=backlog), {"a": clients} if clients else {})
        assert (found.clients, found.admitted) == (clients, sum(a.clients for a in admitted.values()))
        if clients:
            assert 1 <= found.admitted <= clients
            assert LEAST_DOSE <= found.dose <= clients
            assert found.state in {"open", "raising", "holding", "lowering"}
        else:
            assert (found.state, found.admitted) == ("idle", 0)
