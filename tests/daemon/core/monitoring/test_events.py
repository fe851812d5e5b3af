"""Events: what a sender can provoke does not fill the log."""

import re

import pytest

from daemon.core.monitoring.events import Events
from daemon.web import rates


def test_what_can_be_provoked_is_recorded_seldom_with_how_often_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 102.0, 103.0, 110.5])
    monkeypatch.setattr(rates.time, "monotonic", lambda: next(clock))
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


def test_what_was_left_out_is_recorded_at_the_end() -> None:
    recorded = Events()
    for run in range(2, 6):
        recorded.warning_seldom("runs of bpm", f"run {run} began")
    recorded.warning_seldom("runs of blm", "once")
    for _ in range(2):
        recorded.warning_seldom("figure", "it fails")
    recorded.forget("figure")
    recorded.end()
    recorded.end()
    newest, *others = recorded.newest()
    assert re.fullmatch(r"run 5 began, at 20\S+ \S+Z \(and 2 more times before\)", newest.text)
    assert [event.text for event in others] == ["it fails", "once", "run 2 began"]
