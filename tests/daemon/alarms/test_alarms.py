import time
from collections.abc import Callable
from typing import Any

import pytest

from daemon.alarms import CLEAR_AFTER_S, AlarmBoard, Severity, alarms
from schemas.api.status import DeadLetterCounts, DiskStatus, IntakeStatus, Shortfall, Status
from schemas.states import DaemonState
from tests.page.served import snapshot
from tests.page.visits import STATUS

NOW_NS = time.time_ns()


def status(*, at_s: float = 0.0, up_s: float | None = None, **changes: Any) -> Status:
    """A status. at_s: by the daemon's clock; up_s: by one that nobody sets."""
    made = snapshot(100, NOW_NS + int(at_s * 1e9), **changes)
    off_s = 0.0 if up_s is None else up_s - at_s
    return made.model_copy(update={"uptime_s": made.uptime_s + off_s})


def keys(**changes: Any) -> list[str]:
    return [alarm.key for alarm in alarms(status(**changes))]


def test_nothing_is_said_when_all_is_well() -> None:
    assert alarms(status()) == []


def test_what_the_database_rejected_is_no_alarm_once_it_was_retried_or_discarded() -> None:
    def told(dead: int, **letters: int) -> list[str]:
        now = status(dead=dead)
        group = now.groups["bpm"].model_copy(update={"dead_letters": DeadLetterCounts(**letters)})
        return [alarm.text for alarm in alarms(now.model_copy(update={"groups": {"bpm": group}}))]

    lying = ["12 readings lie in the dead letters: the database rejected them for good"]
    assert told(12, letters=2, triggers=2, readings=12) == lying
    assert told(12, retried=12) == []
    assert told(12, retried=5, discarded=7) == []
    # Of what is damaged in the journal there is no letter.
    assert told(14, discarded=12) == ["2 readings are in neither the database nor the dead letters"]


def test_figures_that_fail_are_one_warning_that_names_them_and_why() -> None:
    failing = {f"status of group {name}": "KeyError: 'run' (3 times)" for name in "abcde"}
    (alarm,) = alarms(status().model_copy(update={"unavailable": failing}))
    assert (alarm.key, alarm.severity, alarm.extent) == ("unavailable", Severity.WARNING, 5)
    assert alarm.text.startswith("Not available (5): status of group a: KeyError: 'run' (3 times); status of group b: ")
    assert alarm.text.endswith("; and 2 more")
    assert "Readings are logged all the same" in alarm.fix
    one = status().model_copy(update={"unavailable": {"processor": "too many open files (1 times)"}})
    assert [each.text for each in alarms(one)] == ["Not available (1): processor: too many open files (1 times)"]


GIB = 2**30


@pytest.mark.parametrize(
    ("free_gib", "days", "severity", "text"),
    [
        (100.0, None, None, ""),
        (100.0, 8.0, None, ""),
        (100.0, 6.0, Severity.WARNING, "full in 6 days, at the growth of the last day (100.0 GiB free)"),
        (100.0, 0.5, Severity.CRITICAL, "full in 12 h, at the growth of the last day (100.0 GiB free)"),
        (0.5, None, Severity.CRITICAL, "nearly full (0.5 GiB free)"),
        (0.5, 30.0, Severity.CRITICAL, "full in 30 days, at the growth of the last day (0.5 GiB free)"),
    ],
)
def test_a_disk_that_fills_is_told_before_it_is_full(
    free_gib: float, days: float | None, severity: Severity | None, text: str
) -> None:
    disk = DiskStatus(
        total_bytes=500 * GIB, used_bytes=int((500 - free_gib) * GIB), free_bytes=int(free_gib * GIB), full_in_days=days
    )
    found = alarms(status().model_copy(update={"disk": disk}))
    assert [(alarm.key, alarm.severity) for alarm in found] == ([] if severity is None else [("disk", severity)])
    assert [alarm.text for alarm in found] == ([] if severity is None else [f"The disk of the state folder is {text}"])


def test_an_alarm_of_the_disk_does_not_flicker_at_its_limit() -> None:
    disk = DiskStatus(total_bytes=500 * GIB, used_bytes=400 * GIB, free_bytes=100 * GIB, full_in_days=7.2)
    at_the_limit = status().model_copy(update={"disk": disk})
    assert alarms(at_the_limit) == []
    assert [alarm.key for alarm in alarms(at_the_limit, frozenset({"disk"}))] == ["disk"]


def test_channels_that_report_on_change_may_be_silent() -> None:
    now = status(states={"bpm": {"3": "n", "4": "n"}})
    assert [alarm.key for alarm in alarms(now)] == ["instruments"]
    still = now.groups["bpm"].model_copy(update={"folder": "/magnets/current", "quiet_s": 1e6})
    assert alarms(now.model_copy(update={"groups": {"bpm": still}})) == []


def test_reports_that_are_set_aside_are_not_called_readings_of_triggers() -> None:
    now = status()
    lying = DeadLetterCounts(letters=1, readings=2, aside=2)
    for folder, what in (
        (None, "Readings set aside, as they are for no trigger"),
        ("/a", "Reports set aside, as they"),
    ):
        group = now.groups["bpm"].model_copy(update={"folder": folder, "dead_letters": lying})
        texts = [alarm.text for alarm in alarms(now.model_copy(update={"groups": {"bpm": group}}))]
        assert any(text.startswith(what) and "bpm 2" in text for text in texts)


def test_reports_that_wait_are_a_backlog() -> None:
    now = status()
    group = now.groups["bpm"]
    readings = group.readings.model_copy(update={"waiting": 10_000_000})
    waiting = group.model_copy(update={"folder": "/magnets/current", "readings": readings, "drained_in_s": None})
    assert "backlog" in [alarm.key for alarm in alarms(now.model_copy(update={"groups": {"bpm": waiting}}))]


def test_a_late_instrument_is_no_alarm() -> None:
    assert keys(states={"bpm": {"3": "l"}}) == []


def test_the_gravest_comes_first() -> None:
    everything = {
        "available": False,
        "problem": "connection refused",
        "states": {"bpm": {"3": "s"}},
        "backpressure": True,
        "dead": 5,
        "shortfall": {"sync": Shortfall(problem="fsync is off", fix="set it on")},
    }
    found = alarms(status(**everything))
    assert [alarm.severity for alarm in found] == sorted(alarm.severity for alarm in found)
    assert {alarm.key for alarm in found} == {
        "store",
        "dead",
        "backpressure",
        "durability sync",
        "instruments",
    }
    assert found[0].key == "store"


def test_an_absent_store_says_why_what_waits_and_what_to_do() -> None:
    (alarm,) = alarms(status(available=False, problem="connection refused", waiting=40, wave=False))
    assert alarm.severity is Severity.CRITICAL
    assert "connection refused" in alarm.text
    assert "40 triggers" in alarm.fix
    assert "the daemon's log" in alarm.fix


@pytest.mark.parametrize(
    ("probe", "asked"),
    [("mariadb-admin ping", "answers (`mariadb-admin ping`, network"), ("", "answers (network")],
)
def test_an_absent_server_is_looked_for_with_the_command_that_the_daemon_names(probe: str, asked: str) -> None:
    (alarm,) = alarms(status(available=False, probe=probe, embedded=False))
    assert asked in alarm.fix


def test_a_durability_that_is_not_kept_is_a_warning_with_its_fix() -> None:
    problem = "NOT durable: fsync is off on the server; a crash can lose anything"
    short = Shortfall(problem=problem, fix="set fsync = on there")
    (alarm,) = alarms(status(shortfall={"sync": short}, groups={"bpm": 120, "toroid": 4}))
    assert alarm.severity is Severity.WARNING
    assert alarm.text.startswith(
        "Durability sync is not kept (bpm, toroid): NOT durable: fsync is off on the server; a"
    )
    assert alarm.fix.startswith("Set fsync = on there. Until then")
    (both,) = alarms(status(shortfall={"sync": short, "async": short}))
    assert both.text.startswith("Durability sync and async is not kept (bpm): ")
    other = Shortfall(problem="something else", fix="fix it")
    assert keys(shortfall={"sync": short, "async": other}) == ["durability sync", "durability async"]


def test_a_store_that_is_not_ready_at_the_start_is_a_note() -> None:
    starting = status(available=False).model_copy(update={"state": DaemonState.STARTING})
    assert [alarm.severity for alarm in alarms(starting)] == [Severity.NOTE]


def test_many_instruments_are_one_alarm() -> None:
    states = {"bpm": {str(i): "s" for i in range(40)} | {"50": "m"}, "toroid": {"1": "n"}}
    (alarm,) = alarms(status(groups={"bpm": 120, "toroid": 4}, states=states))
    assert alarm.text == (
        "Instruments: 40 silent for more than 2 s (bpm), 1 never heard (toroid), "
        "1 missing from some of the last triggers (bpm)"
    )
    assert alarm.severity is Severity.WARNING


def test_of_several_groups_an_alarm_of_instruments_names_those_that_have_them() -> None:
    groups = {"bpm": 5, "toroid": 3}
    states = {"bpm": {"1": "n"}, "toroid": {"0": "n", "1": "n", "2": "s"}}
    (alarm,) = alarms(status(groups=groups, states=states))
    assert alarm.text == "Instruments: 1 silent for more than 2 s (toroid), 3 never heard (bpm 1, toroid 2)"


def test_an_instrument_out_of_step_is_a_warning_with_its_size() -> None:
    (alarm,) = alarms(status(states={"bpm": {"7": "d"}}))
    assert alarm.severity is Severity.WARNING
    assert alarm.text == (
        "1 instrument out of step: bpm_007 is 1 trigger behind its timestamps (+100.2 ms) since trigger 1234"
    )
    assert "trigger counter" in alarm.fix


def test_a_clock_that_is_off_asks_for_another_mend_than_a_slip() -> None:
    slips = {"bpm": {"7": {"kind": "clock", "triggers": 0, "offset_ms": -37.04, "since_trigger": 5}}}
    (alarm,) = alarms(status(states={"bpm": {"7": "d"}}, slips=slips))
    assert alarm.text.endswith("bpm_007 is by its clock 37.0 ms behind the others since trigger 5")
    assert alarm.fix.startswith("Set its clock right")
    slips = {"bpm": {"7": {"kind": "stuck", "triggers": -900, "since_trigger": 5}}}
    (alarm,) = alarms(status(states={"bpm": {"7": "d"}}, slips=slips))
    assert alarm.text.endswith("bpm_007 is stuck at trigger 5: its number stands still")
    assert alarm.fix.startswith("See why it counts no triggers")


def test_many_out_of_step_are_one_alarm_that_names_some() -> None:
    (alarm,) = alarms(status(states={"bpm": {str(i): "d" for i in range(12)}}))
    assert alarm.text.startswith("12 instruments out of step: bpm_000 is 1 trigger behind")
    assert alarm.text.endswith("; and 9 more")


def test_instruments_that_only_miss_triggers_are_a_note() -> None:
    assert [alarm.severity for alarm in alarms(status(states={"bpm": {"6": "m"}}))] == [Severity.NOTE]


@pytest.mark.parametrize(("p99", "expected"), [(19.9, []), (20.0, []), (20.1, ["latency"])])
def test_latency_is_measured_against_the_budget_in_the_status(p99: float, expected: list[str]) -> None:
    assert keys(p99=p99, wave=False) == expected


@pytest.mark.parametrize(("tail", "expected"), [(19.0, []), (21.0, ["latency"])])
def test_of_few_commits_the_slowest_alone_is_no_alarm(tail: float, expected: list[str]) -> None:
    assert keys(p99=99.0, tail=tail, wave=False) == expected


@pytest.mark.parametrize("why", [{"available": False}, {"drained_in_s": 40.0}])
def test_commits_that_an_outage_made_slow_are_no_alarm_of_their_own(why: dict[str, Any]) -> None:
    assert "latency" not in keys(p99=99.0, wave=False, **why)


def test_an_alarm_keeps_its_beginning_and_goes_only_after_a_while_of_quiet() -> None:
    board = AlarmBoard()
    (first,) = board.update(status(p99=50.0))
    (second,) = board.update(status(p99=60.0, at_s=5.0))
    assert second.since_ns / 1e6 == first.since_ns / 1e6
    assert len(board.update(status(at_s=5.0 + CLEAR_AFTER_S - 0.1))) == 1
    assert board.update(status(at_s=5.0 + CLEAR_AFTER_S)) == []
    (again,) = board.update(status(p99=50.0, at_s=20.0))
    assert again.since_ns / 1e6 == first.since_ns / 1e6 + 20_000


def test_the_store_is_away_since_the_daemon_lost_it_not_since_the_page_was_opened() -> None:
    (alarm,) = AlarmBoard().update(status(available=False, away_s=90.0))
    assert alarm.since_ns / 1e6 == pytest.approx(NOW_NS / 1e6 - 90_000, abs=1.0)
    assert alarm.severity == "critical"


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_group_that_nothing_comes_from_is_stale_though_no_instrument_is_silent() -> None:
    (alarm,) = alarms(status(quiet_s=31.0))
    assert (alarm.key, alarm.severity, alarm.text) == ("stale", Severity.WARNING, "No readings come: bpm for 31 s")
    assert keys(quiet_s=29.0) == []
    never = status(at_s=100.0, quiet_s=None)
    assert [alarm.text for alarm in alarms(never)] == ["No readings come: bpm since the daemon started"]


def test_times_of_a_whole_group_that_differ_from_the_clock_of_the_node() -> None:
    (alarm,) = alarms(status(ahead_s=86_400.0, clock_is_synchronised=True))
    assert alarm.text == "Times differ from the clock of this node: bpm 24 h ahead"
    assert alarm.fix.startswith("The node's own clock follows a time server. Set the clocks right: readings")
    (alarm,) = alarms(status(ahead_s=-11.0, clock_is_synchronised=False))
    assert alarm.text == "Times differ from the clock of this node: bpm 11 s behind"
    assert "follows no time server (`timedatectl`)" in alarm.fix
    assert "see why readings come so late" in alarm.fix
    assert keys(ahead_s=9.6) == keys(ahead_s=-9.6) == keys(ahead_s=None) == []
    # One that drifts around its limit is one alarm.
    in_force = frozenset({"clock"})
    assert [alarm.key for alarm in alarms(status(ahead_s=9.6), in_force)] == ["clock"]
    assert alarms(status(ahead_s=8.9), in_force) == []


def test_fewer_missing_instruments_than_the_limit_are_no_alarm() -> None:
    limits = status().limits | {"missing_instruments": 3}
    assert keys(limits=limits, states={"bpm": {"1": "s", "2": "n"}}) == []
    assert keys(limits=limits, states={"bpm": {"1": "s", "2": "n", "3": "m"}}) == ["instruments"]


def test_a_backlog_is_an_alarm_once_it_lasts_and_goes_well_within_its_limit() -> None:
    board = AlarmBoard()
    assert board.update(status(waiting=1500, wave=False, drained_in_s=None)) == []
    (told,) = board.update(status(at_s=3.0, waiting=1500, wave=False, drained_in_s=None))
    assert told.text == "Backlog over its limit of 1,000 triggers: bpm 1,500 (not becoming less)"
    (still,) = board.update(status(at_s=9.0, waiting=950, wave=False))
    assert still.text.startswith("Backlog just within its limit of 1,000 triggers: bpm 950")
    assert len(board.update(status(at_s=12.0, waiting=890, wave=False))) == 0
    assert board.update(status(at_s=16.0, waiting=950, wave=False)) == []
    assert keys(waiting=1500, wave=False, available=False) == ["store"]


def test_a_journal_that_cannot_be_written_is_said_though_the_database_is_well() -> None:
    def with_problem(*, available: bool) -> Status:
        known = status(available=available)
        group = known.groups["bpm"].model_copy(update={"journal_problem": "the disk of /state is full"})
        intakes = {"bpm": IntakeStatus(waiting=0, log_mib=1.0, problem="the journal cannot be written: EIO")}
        return known.model_copy(update={"groups": {"bpm": group}, "intakes": intakes})

    (alarm,) = alarms(with_problem(available=True))
    assert (alarm.key, alarm.severity) == ("journal", Severity.WARNING)
    assert "(bpm): the disk of /state is full; the journal cannot be written: EIO" in alarm.text
    away = {alarm.key: alarm for alarm in alarms(with_problem(available=False))}
    assert away["journal"].severity is Severity.CRITICAL


@pytest.mark.parametrize(("full_in_s", "severity"), [(1700, Severity.WARNING), (500, Severity.CRITICAL), (1900, None)])
def test_a_journal_that_fills_tells_how_soon_it_is_full(full_in_s: float, severity: Severity | None) -> None:
    away = {"available": False, "full_in_s": float(full_in_s), "journal_mib": 40.0}
    found = {alarm.key: alarm for alarm in alarms(status(**away))}
    assert (found["filling"].severity if "filling" in found else None) is severity
    assert "filling" not in keys(full_in_s=float(full_in_s), drained_in_s=0.0)


def test_what_came_before_the_database_answered_is_in_the_alarm() -> None:
    intakes = {"bpm": IntakeStatus(waiting=2400, log_mib=12.0), "blm": IntakeStatus(waiting=80, log_mib=1.0)}
    before = status(available=False).model_copy(
        update={"groups": {}, "intakes": intakes, "state": DaemonState.STORE_AWAY}
    )
    (alarm,) = [alarm for alarm in alarms(before) if alarm.key == "store"]
    assert alarm.severity is Severity.CRITICAL
    assert alarm.fix.startswith("Readings wait in the journal (2,480 readings, 13 MiB);")


# --- gaps ---------------------------------------------------------------------------------------------------------


def test_trigger_numbers_that_never_came_are_a_warning_since_they_were_found_and_until_it_is_long_ago() -> None:
    board = AlarmBoard()
    (told,) = board.update(status(skipped=1244))
    assert (told.key, told.severity) == ("skipped", "warning")
    assert told.text == "Trigger numbers that never came, in the last 10 min: bpm 1,244"
    assert "/gaps" in told.fix
    assert told.since_ns / 1e6 == pytest.approx(NOW_NS / 1e6 - 60_000, abs=1)
    assert board.update(status(at_s=5.0, skipped=1244, lately_s=None)) == []


def test_readings_that_senders_lost_are_critical_and_lost_datagrams_a_warning() -> None:
    (both,) = alarms(status(lost={"sender": 1200, "datagrams": 35}))
    assert (both.key, both.severity, both.extent) == ("lost", Severity.CRITICAL, 1235)
    assert both.text == (
        "Readings lost in the last 10 min: bpm 1,235 (senders no longer had 1,200, about 35 in datagrams)"
    )
    assert "hold more" in both.fix
    (datagrams,) = alarms(status(lost={"datagrams": 35}))
    assert datagrams.severity is Severity.WARNING
    assert datagrams.text.endswith("(about 35 in datagrams)")
    assert "receive_buffer_kib" in datagrams.fix
    (database,) = alarms(status(lost={"datagrams": 35, "database": 40}))
    assert database.severity is Severity.CRITICAL
    assert database.text.endswith("(about 35 in datagrams, the database lacks 40)")
    assert "triggerlog reconcile" in database.fix
    assert alarms(status(lost={"sender": 1200}, lately_s=None)) == []
    (unknown,) = alarms(status(lost={"relay": 5, "datagrams": 2}))
    assert unknown.severity is Severity.CRITICAL
    assert unknown.text.endswith("(about 2 in datagrams, 5 by way of 'relay')")
    (unknown,) = alarms(status(lost={"relay": 5}))
    assert "See the log of the daemon" in unknown.fix


def test_readings_set_aside_are_a_warning_of_their_own_and_not_rejected_by_the_database() -> None:
    (told,) = alarms(status(aside={"ahead": 524, "conflict": 2}))
    assert (told.key, told.severity) == ("aside", Severity.WARNING)
    assert told.text == (
        "Readings set aside, as they are for no trigger that is known: bpm 526 (ahead 524, conflict 2 since the start)"
    )
    assert "dead-letters list FILE" in told.fix
    assert told.began_s == pytest.approx(NOW_NS / 1e9 - 60)
    assert keys(aside={"ahead": 524}, dead=3) == ["dead", "aside"]
    before = status(aside={"ahead": 524})
    before.groups["bpm"].readings.aside.clear()
    assert alarms(before)[0].text.endswith("that is known: bpm 524")
    assert alarms(status(aside={"ahead": 524}, lately_s=None)) == []


@pytest.mark.parametrize(
    ("figure", "limit", "cause"),
    [
        (lambda count: {"skipped": count}, "skipped_triggers", "skipped"),
        (lambda count: {"lost": {"datagrams": count}}, "lost_readings", "lost"),
        (lambda count: {"aside": {"older": count}}, "aside_readings", "aside"),
    ],
)
def test_gaps_come_at_their_limit_and_go_well_within_it(
    figure: Callable[[int], dict[str, Any]], limit: str, cause: str
) -> None:
    limits = status().limits | {limit: 100}
    assert keys(limits=limits, **figure(99)) == []
    assert keys(limits=limits, **figure(100)) == [cause]
    known = frozenset([cause])
    assert [alarm.key for alarm in alarms(status(limits=limits, **figure(90)), known)] == [cause]
    assert alarms(status(limits=limits, **figure(89)), known) == []


# --- what people say of them ------------------------------------------------------------------------------------------


def test_an_acknowledged_alarm_stands_below_new_ones_until_it_is_worse() -> None:
    board = AlarmBoard()
    board.update(status(states={"bpm": {"3": "s", "4": "s"}}, p99=50.0, wave=False))
    board.acknowledge("instruments")
    assert [(told.key, told.attention) for told in board.shown()] == [
        ("latency", "new"),
        ("instruments", "acknowledged"),
    ]
    three = board.update(status(at_s=1.0, states={"bpm": {"3": "s", "4": "s", "5": "s"}}))
    assert {told.key: told.attention for told in three}["instruments"] == "acknowledged"
    four = board.update(status(at_s=2.0, states={"bpm": {str(i): "s" for i in range(4)}}))
    assert {told.key: told.attention for told in four}["instruments"] == "new"


def test_a_shelf_outlasts_an_alarm_that_comes_and_goes_and_has_an_end() -> None:
    board = AlarmBoard()
    board.update(status(p99=50.0))
    board.shelve("latency", 60.0)
    assert board.shown()[0].shelved_until_ns / 1e6 == pytest.approx(NOW_NS / 1e6 + 60_000, abs=1)
    assert board.update(status(at_s=10.0)) == []
    assert board.update(status(at_s=20.0, p99=50.0))[0].attention == "shelved"
    assert board.update(status(at_s=61.0, p99=50.0))[0].attention == "new"


def test_a_shelved_alarm_that_becomes_graver_is_new_again() -> None:
    board = AlarmBoard()
    board.update(status(states={"bpm": {"6": "m"}}))
    board.shelve("instruments", 3600.0)
    assert board.update(status(at_s=1.0, states={"bpm": {"6": "s"}}))[0].attention == "new"


def test_what_was_said_can_be_taken_back_and_says_nothing_of_what_is_gone() -> None:
    board = AlarmBoard()
    board.update(status(p99=50.0))
    board.acknowledge("latency")
    board.reactivate("latency")
    assert board.shown()[0].attention == "new"
    for say in (board.acknowledge, board.reactivate):
        with pytest.raises(KeyError):
            say("store")


# --- a clock that is set back -----------------------------------------------------------------------------------------


def test_alarms_stay_where_the_daemon_s_clock_is_set_back_and_go_as_they_would_have() -> None:
    board = AlarmBoard()
    high = {"waiting": 1500, "wave": False}
    for at_s in (0.0, 5.0):
        board.update(status(at_s=at_s, p99=50.0, skipped=5, **high))
    board.acknowledge("latency")
    told = board.update(status(at_s=-3599.0, up_s=6.0, p99=50.0, skipped=5, **high))
    assert {alarm.key: alarm.attention for alarm in told} == {
        "backlog": "new",
        "latency": "acknowledged",
        "skipped": "new",
    }
    assert all(alarm.since_ns / 1e6 <= NOW_NS / 1e6 - 3_599_000 for alarm in told)
    assert board.update(status(at_s=-3599.0 + CLEAR_AFTER_S, up_s=6.0 + CLEAR_AFTER_S)) == []


def test_an_alarm_lasts_no_longer_for_a_clock_that_is_set_ahead() -> None:
    board = AlarmBoard()
    for at_s in (0.0, 5.0):
        board.update(status(at_s=at_s, p99=50.0, wave=False))
    board.shelve("latency", 900)
    ahead_s = 400 * 86_400.0
    (told,) = board.update(status(at_s=ahead_s, up_s=6.0, p99=50.0, wave=False))
    assert (told.attention, round(told.since_ns / 1e9 - NOW_NS / 1e9 - ahead_s)) == ("shelved", -6)
    assert board.update(status(at_s=ahead_s + CLEAR_AFTER_S, up_s=6.0 + CLEAR_AFTER_S)) == []
    assert [round(alarm.lasted_s) for alarm in board.take_cleared()] == [6]


def test_an_alarm_that_the_daemon_dates_after_its_clock_was_set_back_is_told_at_once() -> None:
    (told,) = AlarmBoard().update(status(lost={"sender": 5}, lately_s=-3600.0))
    assert told.since_ns / 1e6 == pytest.approx(NOW_NS / 1e6, abs=1)


def test_a_shelf_lasts_as_long_as_it_should_where_the_clock_was_ahead() -> None:
    board = AlarmBoard()
    board.update(status(at_s=365 * 86400.0, p99=50.0))
    board.shelve("latency", 900)
    year_s = 365 * 86_400.0
    assert board.update(status(up_s=year_s, p99=50.0))[0].attention == "shelved"
    assert board.update(status(at_s=899.0, up_s=year_s + 899, p99=50.0))[0].attention == "shelved"
    assert board.update(status(at_s=901.0, up_s=year_s + 901, p99=50.0))[0].attention == "new"


# --- visits -----------------------------------------------------------------------------------------------------------


def test_visits_that_fail_stand_still_or_are_slow_are_told_and_as_gravely_as_configured() -> None:
    now_ns = NOW_NS + 1000 * 10**9

    def told(*, grave: bool = False, at_s: float = 1000.0, **changes: Any) -> list[Any]:
        run = STATUS | {"since_ns": NOW_NS - 10**12, "last_ns": now_ns - 10**9} | changes
        return alarms(status(at_s=at_s, visits=run, limits=status().limits | {"visits_are_critical": float(grave)}))

    assert told(slow=9) == []
    assert told(last_ns=NOW_NS, phase="waiting") == []
    assert told(last_ns=None, state="starting", at_s=20.0) == []
    (failed,) = told(state="failed", slow=50, problem="the schema is of another survey")
    assert failed.text == "Visits failed after 1,200 of 2,400: the schema is of another survey"
    assert failed.severity is Severity.WARNING
    (still,) = told(last_ns=now_ns - 400 * 10**9, grave=True)
    assert (still.key, still.severity) == ("visits", Severity.CRITICAL)
    assert still.text == "Visits stand still after 1,200: none was done for 7 min"
    (slow,) = told(slow=12)
    assert slow.text == "The last 12 visits took longer than the limit of 10 s"
    assert told(slow=12, interval_s=4.5)[0].text == "The last 12 visits took longer than the interval of 4.5 s"


def test_a_latency_of_minutes_is_told_in_seconds() -> None:
    (alarm,) = alarms(status(p99=86_700.0))
    assert alarm.text.endswith("its budget of 20 ms: bpm 86.7 s")


def test_of_many_groups_an_alarm_tells_their_number_the_range_and_the_worst() -> None:
    groups = {f"sector{n:02d}": 24 for n in range(40)}
    now = status(groups=groups)
    slow = {
        name: group.model_copy(update={"commit_ms": group.commit_ms.model_copy(update={"p99": 600.0 + 10 * place})})
        for place, (name, group) in enumerate(now.groups.items())
    }
    (alarm,) = alarms(now.model_copy(update={"groups": slow}))
    assert alarm.text == "Commit p99 over its budget of 20 ms: 40 groups: 600 ms to 990 ms, worst sector39"
    (alarm,) = alarms(status(groups=groups, quiet_s=31.0))
    assert alarm.text == "No readings come: 40 groups for 31 s or longer"
    (alarm,) = alarms(status(groups=groups, states={name: {"1": "s"} for name in groups}))
    assert alarm.text == "Instruments: 40 silent for more than 2 s (40 groups: 1 each)"
    (alarm,) = alarms(status(groups=groups, backpressure=True))
    assert alarm.text.startswith("Senders are held back (40 groups, sector00 the first)")
