"""daemon.pipeline.announcements: what is reported of trigger numbers that never came."""

import numpy as np
import pytest

from daemon.core.monitoring import events as monitored
from daemon.core.monitoring.events import Events
from daemon.core.words import utc
from daemon.pipeline import announcements as announced
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.dead_letters import Letter
from daemon.pipeline.losses import MOST_LOST
from schemas.readings import Array
from tests.support.pipelines import logging_to_memory
from tests.support.readings import history_of, make_group, time_of, whole

GROUP = make_group()


def rows(*triggers: int, run: int = 1, before: int | None = None) -> Array:
    """Ledger rows with the numbers skipped between them, and since the one before."""
    found = history_of(GROUP, *triggers, run=run)
    found["skipped"] = np.diff(triggers, prepend=triggers[0] - 1 if before is None else before) - 1
    return found


def rejected_at(*triggers: int) -> list[Letter]:
    return [
        Letter(
            serial=0,
            number=1,
            key=(2, trigger),
            triggers=1,
            readings=5,
            kept_ns=0,
            reason='the check "top" (23514)',
            detail="",
        )
        for trigger in triggers
    ]


def test_what_is_rejected_is_told_in_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced, "QUIET_NS", 0)
    events = Events()
    announcements = Announcements("bpm", events)
    announcements.rejected(rejected_at(7))
    announcements.rejected(rejected_at(*range(8, 1509)))
    kept = (
        "What it rejects is kept in the dead letters, see `triggerlog dead-letters list FILE`. The reason: the check"
        ' "top" (23514)'
    )
    assert [event.text for event in events.newest()] == [
        f"group bpm: the database rejected 1,501 triggers, one of them trigger 8 of run 2. {kept}",
        f"group bpm: the database rejected trigger 7 of run 2. {kept}",
    ]


def told(*blocks: Array, remembered: Array | None = None) -> list[str]:
    events = Events()
    announcements = Announcements("bpm", events)
    if remembered is not None:
        announcements.remember(remembered)
    for block in blocks:
        announcements.closed(block)
    return [event.text for event in reversed(events.newest())]


def test_a_gap_is_told_with_its_numbers_and_the_times_around_it() -> None:
    between = f"between {utc(time_of(4))} and {utc(time_of(15))}"
    expected = [f"group bpm: trigger numbers 5 to 14 of run 1 never came: 10 {between}"]
    assert told(rows(3, 4), rows(15, 16, before=4)) == expected
    assert told(rows(3, 4, 15)) == expected
    assert told(rows(15, before=4), remembered=rows(2, 3, 4)) == expected


def test_without_the_trigger_before_it_a_gap_is_told_by_the_one_behind_it() -> None:
    assert told(rows(15, before=4)) == [
        f"group bpm: trigger numbers 5 to 14 of run 1 never came: 10 before {utc(time_of(15))}"
    ]
    other_run = rows(4, run=2)
    assert told(rows(15, before=4), remembered=other_run)[0].endswith(f"10 before {utc(time_of(15))}")
    assert told(rows(3), rows(6, before=4)) == [
        f"group bpm: trigger number 5 of run 1 never came: 1 before {utc(time_of(6))}"
    ]


def test_several_gaps_of_a_block_are_one_event_and_those_soon_after_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (first,) = told(rows(1, 4, 6, 10), rows(20, before=10), rows(30, before=20))
    assert first == (
        f"group bpm: trigger numbers 2 to 3 of run 1 never came: 2 between {utc(time_of(1))} and {utc(time_of(4))};"
        " 4 more in 2 gaps behind"
    )
    monkeypatch.setattr(monitored, "OFTEN_S", 0.0)
    assert len(told(rows(1, 4, 6, 10), rows(20, before=10), rows(30, before=20))) == 3


def test_numbers_without_a_gap_say_nothing() -> None:
    assert told(rows(1, 2, 3), rows(4, before=3), rows(5)[:0], rows(1, run=2)) == []


async def test_a_gap_over_a_restart_of_the_daemon_is_told_with_the_time_before_it() -> None:
    async with logging_to_memory(GROUP, history=rows(2, 3, 4)) as logger:
        logger.pipelines["bpm"].receive(whole(GROUP, 15))
        assert [event.text for event in logger.events.newest()] == [
            "group bpm: trigger numbers 5 to 14 of run 1 never came: 10"
            f" between {utc(time_of(4))} and {utc(time_of(15))}"
        ]


async def test_a_pipeline_tells_a_gap_once_and_counts_it() -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(whole(GROUP, 1, 2))
        pipeline.receive(whole(GROUP, 12, 13))
        pipeline.note_lost(7, "datagrams")
        pipeline.look()
        between = f"between {utc(time_of(2))} and {utc(time_of(12))}"
        assert [event.text for event in logger.events.newest()] == [
            f"group bpm: trigger numbers 3 to 11 of run 1 never came: 9 {between}"
        ]
        figures = pipeline.figures()
        assert (figures.assembled.skipped, figures.skipped_lately.count) == (9, 9)
        assert figures.lost_lately["datagrams"].count == figures.lost_before["datagrams"] == 7


async def test_forged_numbers_do_not_make_a_count_longer_than_64_bits() -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        for session in range(1, 6):
            pipeline.connect(session=session)
            pipeline.connect(session=session, first=2**62 - 1)
        figures = pipeline.figures()
        assert figures.lost_before["sender"] == figures.lost_lately["sender"].count == MOST_LOST < 2**63


def test_readings_that_do_not_fit_aside_are_told_once_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    events, moment = Events(), [0]
    announcements = Announcements("bpm", events)
    monkeypatch.setattr(announced, "monotonic_ns", lambda: moment[0])
    for second, count in ((0, 0), (1, 30), (2, 40), (50, 90), (62, 100), (200, 100), (300, 107)):
        moment[0] = second * 1_000_000_000
        announcements.no_room_aside(count, is_full=second >= 300)
    few, more, full = (event.text for event in reversed(events.newest()))
    assert few.startswith("group bpm: 30 readings that belong to no known trigger were refused: one instrument had")
    assert more.startswith("group bpm: 70 readings that belong")
    assert full.startswith("group bpm: 7 readings that belong")
    assert "export them, and discard them then: `triggerlog dead-letters" in full
