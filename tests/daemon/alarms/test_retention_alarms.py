"""What is wrong with retention, from its status."""

from daemon.alarms import Severity
from daemon.alarms.services import retention_not_met
from schemas.api.retention import RetentionStatus
from schemas.api.status import Status
from tests.page.served import snapshot


def status_with(**retention: object) -> Status:
    found = RetentionStatus(is_limited=True, **retention)
    return snapshot(100, 10_000_000_000).model_copy(update={"retention": found})


def test_limits_that_are_met_are_no_alarm() -> None:
    assert list(retention_not_met(status_with(periods=3), frozenset())) == []
    assert list(retention_not_met(status_with().model_copy(update={"retention": None}), frozenset())) == []


def test_a_limit_that_cannot_be_met_says_by_how_much_and_what_is_held() -> None:
    (alarm,) = retention_not_met(
        status_with(short=["group bpm takes 3 GiB more than it may"], held=["20261121 of bpm: dead letters are of it"]),
        frozenset(),
    )
    assert (alarm.severity, alarm.key) == (Severity.WARNING, "retention")
    assert "group bpm takes 3 GiB more than it may" in alarm.text
    assert "(20261121 of bpm: dead letters are of it)" in alarm.text


def test_what_keeps_it_from_dropping_is_said_unless_the_database_is_away_anyway() -> None:
    status = status_with(problem="table 'bpm' is in use")
    (alarm,) = retention_not_met(status, frozenset())
    assert alarm.text == "Retention cannot drop all that its limits ask for: table 'bpm' is in use"
    away = status.model_copy(update={"store": status.store.model_copy(update={"available": False})})
    assert list(retention_not_met(away, frozenset())) == []
