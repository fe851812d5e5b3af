"""Events that outlive the daemon."""

import os
import time
from pathlib import Path

from daemon.core.monitoring.event_log import MOST_BYTES, NAME, EventLog, read_events
from daemon.core.monitoring.events import KEPT, Events
from tests.support.processes import until


def lines(folder: Path) -> int:
    path = folder / NAME
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def test_a_start_says_how_the_one_before_ended(tmp_path: Path) -> None:
    first = EventLog(tmp_path, 50)
    events = Events(first)
    events.say_how_it_was_before()
    assert events.newest() == []
    events.info("taking readings")
    first.end()

    second = EventLog(tmp_path, 50)
    events = Events(second)
    events.say_how_it_was_before()
    said, before = events.newest()
    assert said.text.startswith("the daemon before ended at 20")
    assert said.text.endswith(": nothing was taken for 0 s")
    assert before.text == "taking readings"
    until(lambda: lines(tmp_path) == 3, "what is said is kept")

    # The second one is killed, and was at work a minute ago.
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"time_ns": 17')
    os.utime(tmp_path / NAME, ns=(0, time.time_ns() - 60_000_000_000))
    events = Events(EventLog(tmp_path, 50))
    events.say_how_it_was_before()
    said = events.newest()[0]
    assert "did not end by itself" in said.text
    assert said.text.endswith(": nothing was taken for 60 s")
    assert said.severity == "warning"
    until(lambda: read_events(tmp_path)[-1:] == [said], "what a crash left of a line costs no other")


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    kept = EventLog(tmp_path, 3)
    events = Events(kept)
    for n in range(3 * MOST_BYTES // 2**16):
        events.info(f"{n} " + "x" * 2**16)
    kept.end()
    until(lambda: not kept.is_busy, "all is kept")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * MOST_BYTES + 2**18
    assert len(EventLog(tmp_path, 3).earlier) == 3
    numbers = [int(event.text.split()[0]) for event in read_events(tmp_path)]
    assert numbers == list(range(numbers[0], 3 * MOST_BYTES // 2**16))  # of both files, oldest first


async def test_events_are_asked_for_from_a_time_on_those_of_the_daemon_before_among_them(tmp_path: Path) -> None:
    first = EventLog(tmp_path, KEPT)
    events = Events(first)
    for n in range(3 * KEPT):
        events.info(f"number {n}")
    first.end()
    until(lambda: not first.is_busy, "all is kept")
    events = Events(EventLog(tmp_path, KEPT))
    events.info("here again")
    every = await events.since(0)
    assert [event.text for event in every] == [*(f"number {n}" for n in range(3 * KEPT)), "here again"]
    assert await events.since(every[7].time_ns) == every[7:]
    assert await events.since(every[-1].time_ns) == every[-1:]
    assert await events.since(every[-1].time_ns + 1) == []
    assert [event.text for event in await Events().since(0)] == []


def test_a_folder_that_cannot_be_written_costs_events_alone(tmp_path: Path) -> None:
    kept = EventLog(tmp_path / "none", 50)
    events = Events(kept)
    events.info("taking readings")
    kept.end()
    assert [event.text for event in events.newest()] == ["taking readings"]
