"""daemon.client.terminal.overview: what the live view says, laid out for a terminal of 80 columns."""

import io
import re
import time
from typing import Any

import pytest
from rich.console import Console, RenderableType
from rich.live import Live

from daemon.alarms import AlarmBoard
from daemon.client.terminal.overview import absence, overview
from daemon.core.words import duration
from schemas.api.status import DeadLetterCounts, GovernorStatus, IntakeStatus, ReaderStatus, Shortfall, Status
from tests.page.served import snapshot


def shown(view: RenderableType) -> str:
    console = Console(width=80, no_color=True)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def status_of(**changes: Any) -> Status:
    return snapshot(4, time.time_ns(), wave=False, **changes)


def figure(text: str, label: str) -> str:
    """What stands beside a label of the table of groups."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(f"{label}  ")]
    return line.strip().removeprefix(label).strip()


def test_the_figures_of_every_group_are_there() -> None:
    status = status_of(groups={"bpm": 120, "blm": 8}, waiting=3)
    text = shown(overview(status, "http://127.0.0.1:8120"))
    assert figure(text, "instruments").startswith("120")
    assert figure(text, "commit p50, p99 (ms)").split() == ["1.6,", "4.2", "1.6,", "4.2"]
    assert figure(text, "triggers open, waiting").split() == ["2,", "3", "2,", "3"]
    assert max(map(len, text.splitlines())) <= 80


def test_what_waits_for_the_first_answer_of_the_database_is_said() -> None:
    intake = IntakeStatus(
        waiting=2400,
        unsynced=30,
        refused={"backlog": 7995},
        lost={"datagrams": 40},
        log_mib=0.5,
        problem="the journal cannot be written: the disk is full",
    )
    status = status_of().model_copy(update={"groups": {}, "intakes": {"bpm": intake}})
    text = " ".join(shown(overview(status, "here")).split())
    assert "bpm 2,400 readings wait for the database to answer, 0.5 MiB in the journal" in text
    assert "30 not on the disk yet · the journal cannot be written: the disk is full" in text
    assert "bpm: backlog 7,995" in text
    assert "bpm: lost, datagrams 40" in text
    quiet = status.model_copy(update={"intakes": {"bpm": IntakeStatus(waiting=0, log_mib=0.1)}})
    assert "intake" not in shown(overview(quiet, "here"))


def test_readers_are_a_line_each_with_what_is_wrong() -> None:
    reader = {"kind": "newest", "group": "bpm", "clients": 10, "admitted": 4, "since_ns": 1, "cycles": 8, "in_time": 6}
    reader |= {"failed": 0, "slipped_s": 1.5, "rows": 960, "rate": 19.5, "row_rate": 2340.0, "efficiency": 0.75}
    reader |= {"latency_ms": {"p50": 4.25, "p99": 61.5, "max": 70.0}, "deadline_ms": 50.0, "problem": None}
    running = ReaderStatus.model_validate({**reader, "state": "running"})
    failed = ReaderStatus.model_validate({**reader, "state": "failed", "problem": "its process was ended"})
    why = "commit p99 62 ms is over its ceiling of 50 ms: 8 of 20 clients may ask"
    governor = {"commit_p99_ms": 50.0, "backlog_triggers": None, "admitted": 8, "clients": 20, "reason": why}
    holding = GovernorStatus.model_validate({**governor, "state": "lowering"})
    both = {"displays": running, "from_the_start": failed}
    status = status_of().model_copy(update={"readers": both, "governor": holding})
    lines = [line.split() for line in shown(overview(status, "here")).splitlines()]
    assert ["displays", "newest", "4", "of", "10", "19.5", "2,340", "4.2,", "61.5", "75.0%", "0"] in lines
    assert ["✗", "from_the_start:", "its", "process", "was", "ended"] in lines
    assert f"governor: {why}" in shown(overview(status, "here"))
    assert max(map(len, shown(overview(status, "here")).splitlines())) <= 80
    off = status.model_copy(update={"governor": holding.model_copy(update={"state": "off"})})
    assert "governor" not in shown(overview(off, "here"))


LONG_EVENT = "group bpm: " + ", ".join(f"bpm_{n:03d}" for n in range(30)) + " are silent"
ILL = {"available": False, "problem": "connection refused", "away_s": 75.0, "quiet_s": 50.0, "aside": {"ahead": 4}}


def ill(**changes: Any) -> Status:
    """Two groups, four alarms, and events that are longer than a line."""
    events = [{"time_ns": n * 10**9, "severity": "warning", "text": f"number {n}: {LONG_EVENT}"} for n in (3, 2, 1)]
    given = ILL | {"groups": {"bpm": 120, "toroid": 8}, "states": {"bpm": {"3": "s"}}, "events": events} | changes
    status = status_of(**given)
    return status.model_copy(update={"alarms": AlarmBoard().update(status)})


def lines_on(view: RenderableType, width: int, height: int) -> list[str]:
    """What a terminal of this size shows of a live view: what goes beyond it would be cut off."""
    console = Console(
        width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False, file=io.StringIO()
    )
    with console.capture() as captured, Live(view, console=console, screen=True, auto_refresh=False):
        pass
    frame = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", captured.get().split("\x1b[H")[-1])
    return [line.rstrip() for line in frame.splitlines()]


@pytest.mark.parametrize("height", [24, 30, 60])
def test_a_terminal_of_80_columns_shows_state_database_alarms_figures_and_the_newest_events(height: int) -> None:
    lines = lines_on(overview(ill(), "http://127.0.0.1:8120", is_live=True), 80, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "database away, readings wait" in text
    assert "postgresql 18.1 · sync: survives a crash of the server" in text
    for alarm in (
        "■ critical Database away: connection refused",
        "▲ warning Instruments: 1 silent",
        "▲ warning No readings come",
    ):
        assert alarm in text
    assert figure(text, "instruments missing now").split() == ["▲", "1", "0"]
    shown = [line for line in lines if line.startswith("00:00:0")]
    assert shown[0].startswith("00:00:03Z warning number 3: group bpm: bpm_000")
    assert shown[1].startswith("00:00:02Z warning number 2: group bpm: bpm_000")
    assert lines[lines.index(shown[0]) + 1].endswith(" …")


def test_more_alarms_than_a_terminal_has_lines_are_counted_and_the_most_severe_is_there() -> None:
    lines = lines_on(overview(ill(), "here", is_live=True), 80, 12)
    assert any(line.startswith("■ critical Database away") and line.endswith(" …") for line in lines)
    assert "… 3 more alarms: `triggerlog alarms`" in lines
    assert any(line.startswith("00:00:03Z warning number 3") for line in lines)


def test_without_a_height_nothing_is_left_out_and_what_was_dealt_with_is_a_line() -> None:
    status = ill()
    board = AlarmBoard()
    board.update(status)
    board.acknowledge("store")
    board.shelve("instruments", 3600)
    text = shown(overview(status.model_copy(update={"alarms": board.shown()}), "here"))
    whole = " ".join(text.split())
    assert "bpm_029 are silent" in whole
    assert re.search(
        r"■ critical Database away: connection refused \(since \S+, 1 min 1\d s\); acknowledged at \S+Z ", whole
    )
    assert re.search(
        r"▲ warning Instruments: 1 silent for more than 2 s \(bpm\) \(since \S+, 0 s\); shelved until", whole
    )
    assert "Acknowledge it if the machine is at rest" in whole  # of the one that nobody has dealt with
    assert "journalctl" not in whole
    assert text.index("No readings") < text.index("Database away")


def test_a_daemon_that_is_gone_leaves_no_line_beyond_the_terminal() -> None:
    lines = lines_on(absence(ill(), "no daemon at here", 7.4), 80, 24)
    assert "NO DATA for 7 s" in lines[1]
    assert any(line.startswith("■ critical Database away") for line in lines)
    assert any(line.startswith("00:00:03Z warning number 3") for line in lines)


def test_a_database_that_is_away_is_told_with_its_reason() -> None:
    status = status_of(available=False, problem="connection refused", away_s=12.0, backpressure=True)
    text = shown(overview(status, "here"))
    assert "away for 12 s: connection refused" in text
    assert "senders held back" in figure(text, "backlog")


def test_what_is_at_risk_is_told_and_that_a_durability_is_not_kept() -> None:
    assert figure(shown(overview(status_of(), "here")), "at risk") == "0"
    text = shown(overview(status_of(at_risk=1200, at_risk_ms=600.0), "here"))
    assert figure(text, "at risk") == "1,200 readings, 600 ms"
    short = Shortfall(problem="no fsync", fix="set it on")
    text = shown(overview(status_of(at_risk=5000, at_risk_ms=None, shortfall={"sync": short}), "here"))
    assert figure(text, "at risk") == "all 5,000 readings"
    assert "▲ durability sync is not kept: no fsync; set it on" in text


def test_refusals_are_told_by_reason() -> None:
    text = shown(overview(status_of(refused={"unknown-instrument": 1234, "trigger-far-away": 0}, dead=7), "here"))
    assert "unknown-instrument 1,234" in text
    assert "trigger-far-away" not in text
    assert "7 readings in neither the database nor the dead letters" in " ".join(text.split())
    assert "bpm: dead letters" not in text
    assert "Refused" not in shown(overview(status_of(), "here"))


def test_what_was_dead_is_no_refusal_once_it_is_stored_or_discarded() -> None:
    status = status_of(dead=11_379)
    (group,) = status.groups.values()

    def told(**letters: int) -> str:
        changed = group.model_copy(update={"dead_letters": DeadLetterCounts(**letters)})
        return " ".join(shown(overview(status.model_copy(update={"groups": {"bpm": changed}}), "here")).split())

    assert "dead letters 11,379" in told(letters=2, triggers=2, readings=11_379)
    assert "dead letters 379" in told(letters=1, triggers=1, readings=379, retried=11_000)
    assert "Refused" not in told(retried=11_379)
    assert "Refused" not in told(retried=11_000, discarded=379)


def test_gaps_are_told_by_group_and_reason() -> None:
    text = shown(overview(status_of(skipped=1244, aside={"ahead": 524}, lost={"sender": 7, "datagrams": 0}), "here"))
    assert figure(text, "trigger numbers skipped") == "1,244"
    assert "bpm: set aside, ahead 524" in text
    assert "bpm: lost, sender 7" in text
    assert "datagrams" not in text
    assert "bpm: dead letters 524" in " ".join(text.split())


def test_missing_instruments_and_events_are_told() -> None:
    events = [{"time_ns": 1_000_000_000, "severity": "warning", "text": "bpm_007 is silent"}]
    text = shown(overview(status_of(states={"bpm": {"7": "s"}}, events=events), "here"))
    assert figure(text, "instruments missing now") == "▲ 1"
    assert "00:00:01Z warning bpm_007 is silent" in text


def test_a_daemon_that_is_gone_leaves_no_number_that_looks_live() -> None:
    text = shown(absence(status_of(), "no daemon at here", 7.4))
    assert "NO DATA for 7 s" in text
    assert "no daemon at here" in text
    assert "last known" in text
    assert text.index("NO DATA") < text.index("last known")
    assert "last known" not in shown(absence(None, "no daemon at here", 0))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (200, "3 min 20 s"), (18_420, "5 h 07 min"), (190_800, "2 d 05 h")],
)
def test_durations_are_said_as_a_person_does(seconds: float, words: str) -> None:
    assert duration(seconds) == words
