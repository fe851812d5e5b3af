"""What is wrong with tiers, from their status."""

from daemon.alarms import Severity
from daemon.alarms.services import tiers_not_met
from schemas.api.status import Status
from schemas.api.tiers import TiersStatus
from tests.page.served import snapshot


def status_with(**tiers: object) -> Status:
    found = TiersStatus(tiers=[], **tiers)
    return snapshot(100, 10_000_000_000).model_copy(update={"tiers": found})


def test_tiers_that_have_room_are_no_alarm() -> None:
    assert list(tiers_not_met(status_with(moved=3), frozenset())) == []
    assert list(tiers_not_met(status_with().model_copy(update={"tiers": None}), frozenset())) == []


def test_a_tier_without_room_says_by_how_much_and_what_is_held() -> None:
    (alarm,) = tiers_not_met(
        status_with(short=["tier fast takes 3 GiB more than it may"], held=["20261121 of bpm: it waits"]), frozenset()
    )
    assert (alarm.severity, alarm.key) == (Severity.WARNING, "tiers")
    assert alarm.text.startswith("tier fast takes 3 GiB more than it may: only the newest")
    assert "(20261121 of bpm: it waits)" in alarm.text


def test_what_keeps_a_move_is_said_unless_the_database_is_away_anyway() -> None:
    status = status_with(problem="no space left on device")
    (alarm,) = tiers_not_met(status, frozenset())
    assert alarm.text == "No partition can be moved to another tier: no space left on device"
    away = status.model_copy(update={"store": status.store.model_copy(update={"available": False})})
    assert list(tiers_not_met(away, frozenset())) == []
