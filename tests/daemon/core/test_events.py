"""Events: what a sender can provoke does not fill the log."""

import pytest

from daemon.core import events
from daemon.core.events import Events


def test_what_can_be_provoked_is_said_seldom_with_how_often_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 102.0, 103.0, 110.5])
    monkeypatch.setattr(events.time, "monotonic", lambda: next(clock))
    said = Events()
    said.say_seldom("runs of bpm", "warning", "run 2 began")
    said.say_seldom("runs of bpm", "warning", "run 3 began")
    said.say_seldom("runs of blm", "warning", "blm: run 2 began")
    said.say_seldom("runs of bpm", "warning", "run 4 began")
    said.say_seldom("runs of bpm", "warning", "run 5 began")
    assert [event.text for event in said.newest()] == [
        "run 5 began (and 2 more times before)",
        "blm: run 2 began",
        "run 2 began",
    ]
