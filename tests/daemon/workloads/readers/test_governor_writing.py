import pytest

from daemon.core.monitoring.metrics import Latencies
from daemon.workloads.readers.governor import NOTHING_SEEN, Counted, Seen, Writing

SECOND_NS = 1_000_000_000


class Scene:
    """Groups that commit, and looks at them a second apart."""

    def __init__(self) -> None:
        self.second = 0
        self._writing = Writing()
        self._groups: dict[str, Latencies] = {}
        self.waiting: dict[str, int] = {}

    def commits(self, latency_ms: float, count: int = 100, group: str = "bpm") -> None:
        latencies = self._groups.setdefault(group, Latencies())
        latencies.add(latency_ms, count, self.second * SECOND_NS)

    def look(self) -> Seen:
        self.second += 1
        groups = {name: Counted(found.fine, self.waiting.get(name, 0)) for name, found in self._groups.items()}
        return self._writing.look(self.second * SECOND_NS, groups)


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.commits(1.0)
    found.look()
    return found


def about(latency_ms: float) -> object:
    """The width of a bucket, and one more for its edge."""
    return pytest.approx(latency_ms, rel=0.025)


def test_nothing_is_seen_of_no_groups_and_of_none_that_commit(scene: Scene) -> None:
    assert Writing().look(SECOND_NS, {}) == NOTHING_SEEN
    assert scene.look() == NOTHING_SEEN


def test_a_period_is_seen_by_itself_and_among_the_last_ten_seconds(scene: Scene) -> None:
    scene.commits(80.0, 1000)
    assert scene.look() == Seen(p99_ms=about(80), lasting_ms=about(80), backlog=0)
    scene.commits(5.0)
    assert scene.look() == Seen(p99_ms=about(5), lasting_ms=about(80), backlog=0)
    for _ in range(10):
        scene.commits(5.0)
        seen = scene.look()
    assert seen == Seen(p99_ms=about(5), lasting_ms=about(5), backlog=0)


def test_a_slow_rate_is_gathered_until_there_is_enough(scene: Scene) -> None:
    for latency_ms in (60.0, 5.0, 5.0, 5.0):
        scene.commits(latency_ms, 6)
        seen = scene.look()
    assert seen.p99_ms == about(60)
    scene.commits(5.0, 6)
    assert scene.look().p99_ms == about(5)


def test_the_group_that_is_worst_off_counts(scene: Scene) -> None:
    scene.commits(1.0, group="adc")
    scene.look()
    scene.commits(3.0, group="bpm")
    scene.commits(30.0, group="adc")
    scene.waiting = {"bpm": 7, "adc": 2}
    assert scene.look() == Seen(p99_ms=about(30), lasting_ms=about(30), backlog=7)


def test_what_waits_while_nothing_is_committed_has_waited_for_so_long(scene: Scene) -> None:
    scene.waiting = {"bpm": 50}
    for seconds in (1, 2, 3):
        assert scene.look() == Seen(p99_ms=1000.0 * seconds, lasting_ms=1000.0 * seconds, backlog=50)
    scene.commits(3000.0)
    assert scene.look().p99_ms == about(3000)
