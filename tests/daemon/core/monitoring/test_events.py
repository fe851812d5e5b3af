"""Events: what a sender can provoke does not fill the log."""

import pytest

from daemon.core.monitoring.events import Events
from daemon.web import seldom


def test_what_can_be_provoked_is_recorded_seldom_with_how_often_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 102.0, 103.0, 110.5])
    monkeypatch.setattr(seldom.time, "monotonic", lambda: next(clock))
    recorded = Events()
    recorded.warning_seldom("runs of bpm", "run 2 began")
    recorded.warning_seldom("runs of bpm", "run 3 began")
    recorded.warning_seldom("runs of blm", "blm: run 2 began")
    recorded.warning_seldom("runs of bpm", "run 4 began")
    recorded.warning_seldom("runs of bpm", "run 5 began")
    assert [event.text for event in recorded.newest()] == [
        "run 5 began (and 2 more times before)",
        "blm: run 2 began",
        "run 2 began",
    ]
