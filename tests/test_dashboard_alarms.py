import time
from typing import Any

import pytest

from dashboard.alarms import CLEAR_AFTER_S, AlarmBoard, Severity, alarms
from schemas.status import State, Status
from tests.page.served import snapshot

NOW_NS = time.time_ns()


def status(*, at_s: float = 0.0, **changes: Any) -> Status:
    return snapshot(100, NOW_NS + int(at_s * 1e9), **changes)


def keys(**changes: Any) -> list[str]:
    return [alarm.key for alarm in alarms(status(**changes))]


def test_nothing_is_said_when_all_is_well() -> None:
    assert alarms(status()) == []


def test_a_late_instrument_is_no_alarm() -> None:
    assert keys(states={"bpm": {"3": "l"}}) == []


def test_the_gravest_comes_first() -> None:
    everything = {
        "available": False,
        "problem": "connection refused",
        "p99": 99.0,
        "states": {"bpm": {"3": "s"}},
        "backpressure": True,
        "dead": 5,
        "shortfall": {"sync": "fsync is off; set it on"},
    }
    found = alarms(status(**everything))
    assert [alarm.severity for alarm in found] == sorted(alarm.severity for alarm in found)
    assert {alarm.key for alarm in found} == {
        "store",
        "dead",
        "backpressure",
        "durability sync",
        "instruments",
        "latency",
    }
    assert found[0].key == "store"


def test_an_absent_store_says_why_what_waits_and_what_to_do() -> None:
    (alarm,) = alarms(status(available=False, problem="connection refused", waiting=40, wave=False))
    assert alarm.severity is Severity.CRITICAL
    assert "connection refused" in alarm.text
    assert "40 triggers" in alarm.action
    assert "journalctl" in alarm.action


@pytest.mark.parametrize(
    ("backend", "probe"),
    [
        ("postgresql", "(`pg_isready`, network"),
        ("mariadb", "(`mariadb-admin ping`, network"),
        ("mongodb", "(`mongosh --eval 'db.hello()'`, network"),
        ("unknown", "answers (network"),
    ],
)
def test_an_absent_server_is_looked_for_with_its_own_tool(backend: str, probe: str) -> None:
    (alarm,) = alarms(status(available=False, backend=backend, embedded=False))
    assert probe in alarm.action
    assert ("pg_isready" in alarm.action) == (backend == "postgresql")


def test_a_durability_that_is_not_kept_is_a_warning_with_its_mend() -> None:
    line = "NOT durable: fsync is off on the server; a crash can lose anything; set fsync = on there"
    (alarm,) = alarms(status(shortfall={"sync": line}, groups={"bpm": 120, "toroid": 4}))
    assert alarm.severity is Severity.WARNING
    assert alarm.text.startswith(
        "Durability sync is not kept (bpm, toroid): NOT durable: fsync is off on the server; a"
    )
    assert alarm.action.startswith("Set fsync = on there. Until then")
    (both,) = alarms(status(shortfall={"sync": line, "async": line}))
    assert both.text.startswith("Durability sync and async is not kept (bpm): ")
    assert keys(shortfall={"sync": line, "async": "something else; mend it"}) == ["durability sync", "durability async"]


def test_a_store_that_is_not_ready_at_the_start_is_a_note() -> None:
    starting = status(available=False).model_copy(update={"state": State.STARTING})
    assert [alarm.severity for alarm in alarms(starting)] == [Severity.NOTE]


def test_many_instruments_are_one_alarm() -> None:
    states = {"bpm": {str(i): "s" for i in range(40)} | {"50": "m"}, "toroid": {"1": "n"}}
    (alarm,) = alarms(status(groups={"bpm": 120, "toroid": 4}, states=states))
    assert alarm.text == (
        "Instruments: 40 silent for more than 2 s, 1 never heard, 1 missing from some of the last triggers"
    )
    assert alarm.severity is Severity.WARNING


def test_an_instrument_out_of_step_is_a_warning_with_its_size() -> None:
    (alarm,) = alarms(status(states={"bpm": {"7": "d"}}))
    assert alarm.severity is Severity.WARNING
    assert alarm.text == (
        "1 instrument out of step: bpm_007 is 1 trigger behind its timestamps (+100.2 ms) since trigger 1234"
    )
    assert "trigger counter" in alarm.action


def test_a_clock_that_is_off_asks_for_another_mend_than_a_slip() -> None:
    slips = {"bpm": {"7": {"triggers": 0, "offset_ms": -37.04, "since_trigger": 5}}}
    (alarm,) = alarms(status(states={"bpm": {"7": "d"}}, slips=slips))
    assert alarm.text.endswith("bpm_007 is by its clock 37.0 ms behind the others since trigger 5")
    assert alarm.action.startswith("Set its clock right")


def test_many_out_of_step_are_one_alarm_that_names_some() -> None:
    (alarm,) = alarms(status(states={"bpm": {str(i): "d" for i in range(12)}}))
    assert alarm.text.startswith("12 instruments out of step: bpm_000 is 1 trigger behind")
    assert alarm.text.endswith("; and 9 more")


def test_instruments_that_only_miss_triggers_are_a_note() -> None:
    assert [alarm.severity for alarm in alarms(status(states={"bpm": {"6": "m"}}))] == [Severity.NOTE]


@pytest.mark.parametrize(("p99", "expected"), [(19.9, []), (20.0, []), (20.1, ["latency"])])
def test_latency_is_measured_against_the_budget_in_the_status(p99: float, expected: list[str]) -> None:
    assert keys(p99=p99, wave=False) == expected


def test_an_alarm_keeps_its_beginning_and_goes_only_after_a_while_of_quiet() -> None:
    board = AlarmBoard()
    (first,) = board.update(status(p99=50.0))
    (second,) = board.update(status(p99=60.0, at_s=5.0))
    assert second["since_ms"] == first["since_ms"]
    assert len(board.update(status(at_s=5.0 + CLEAR_AFTER_S - 0.1))) == 1
    assert board.update(status(at_s=5.0 + CLEAR_AFTER_S)) == []
    (again,) = board.update(status(p99=50.0, at_s=20.0))
    assert again["since_ms"] == first["since_ms"] + 20_000


def test_the_store_is_away_since_the_daemon_lost_it_not_since_the_page_was_opened() -> None:
    (alarm,) = AlarmBoard().update(status(available=False, away_s=90.0))
    assert alarm["since_ms"] == pytest.approx(NOW_NS / 1e6 - 90_000, abs=1.0)
    assert alarm["severity"] == "critical"
