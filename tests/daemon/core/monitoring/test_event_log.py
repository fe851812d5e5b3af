"""Events that outlive the daemon."""

import os
import resource
import signal
import time
from pathlib import Path

import pytest

from daemon.core.monitoring.event_log import MOST_BYTES, NAME, TAKEN, TAKING, EventLog, read_events
from daemon.core.monitoring.events import KEPT, Events
from tests.support.processes import until


def lines(folder: Path) -> int:
    path = folder / NAME
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def started(folder: Path) -> tuple[EventLog, Events, str]:
    """A daemon that takes readings, and what it says of the one before."""
    kept = EventLog(folder, KEPT)
    events = Events(kept)
    before = events.newest(1)
    events.taking_readings()
    until((folder / TAKING).exists, "it is noted that readings are taken")
    said = events.newest(1)
    return kept, events, said[0].text if said != before else ""


def ended(kept: EventLog) -> None:
    kept.end()
    until(lambda: not kept.is_busy, "all is kept")


def set_back(path: Path, seconds: float) -> None:
    os.utime(path, ns=(0, time.time_ns() - round(seconds * 1e9)))


def test_a_start_says_how_the_one_before_ended(tmp_path: Path) -> None:
    first, events, said = started(tmp_path)
    assert said == ""
    events.info("something happened")
    ended(first)

    _, events, said = started(tmp_path)
    assert said.startswith("the daemon before took readings until 20")
    assert said.endswith(", and ended by itself: nothing was taken for 0 s")
    assert events.newest()[1].text == "something happened"
    until(lambda: lines(tmp_path) == 2, "what is said is kept")

    # The second one is killed, and was at work a minute ago.
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"time_ns": 17')
    set_back(tmp_path / TAKING, 60)
    _, events, said = started(tmp_path)
    assert "did not end by itself" in said
    assert said.endswith(": nothing was taken for 1 min 00 s")
    (event,) = events.newest(1)
    assert event.severity == "warning"
    until(lambda: read_events(tmp_path)[-1:] == [event], "what a crash left of a line costs no other")


@pytest.mark.parametrize("is_killed", [False, True])
def test_starts_that_took_nothing_hide_neither_a_crash_nor_how_long_it_lasted(tmp_path: Path, is_killed: bool) -> None:
    first, *_ = started(tmp_path)
    if not is_killed:
        ended(first)
    set_back(tmp_path / (TAKING if is_killed else TAKEN), 3700)
    for _ in range(3):
        failing = EventLog(tmp_path, KEPT)
        Events(failing).error("the daemon ends: the port is taken")
        ended(failing)
    _, _, said = started(tmp_path)
    assert said.endswith(": nothing was taken for 1 h 01 min")
    assert ("did not end by itself" in said) is is_killed


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_takes_long_at_the_end_is_time_without_readings(tmp_path: Path, is_killed: bool) -> None:
    first, events, _ = started(tmp_path)
    set_back(tmp_path / TAKING, 3700)
    events.taking_no_more()
    until(lambda: time.time() - (tmp_path / TAKING).stat().st_mtime < 60, "that is noted")
    set_back(tmp_path / TAKING, 25)
    events.error("readings could not be committed within 20 s")
    if not is_killed:
        ended(first)
    until(lambda: lines(tmp_path) == 1, "it is kept")
    _, _, said = started(tmp_path)
    assert said.endswith(": nothing was taken for 25 s")
    assert ("did not end by itself" in said) is is_killed


def test_a_clock_that_was_set_back_says_nothing_of_how_long(tmp_path: Path) -> None:
    started(tmp_path)
    set_back(tmp_path / TAKING, -7200)
    _, _, said = started(tmp_path)
    assert said.endswith(": for how long nothing was taken is not known, the clock was set back since")


def test_a_line_that_a_full_disk_cut_costs_no_other_event(tmp_path: Path) -> None:
    """A file system writes what still fits."""
    kept = EventLog(tmp_path, KEPT)
    events = Events(kept)
    events.info("the disk is filling")
    until(lambda: lines(tmp_path) == 1, "it is kept")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / NAME).stat().st_size + 20, limits[1]))
        events.info("this is cut")
        until(lambda: kept.problem is not None and lines(tmp_path) == 2, "a part of it is written")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    events.info("there is room again")
    ended(kept)
    assert [event.text for event in read_events(tmp_path)] == ["the disk is filling", "there is room again"]


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
