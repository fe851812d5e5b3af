"""What is wrong with the server of conditions, from its status."""

import pytest

from daemon.alarms import Severity
from daemon.alarms.services import SERVED_AFTER_S, not_served
from schemas.api.conditions import ConditionsClients, ConditionsStatus, ConditionsUse
from schemas.api.status import Status
from schemas.states import ConditionsState
from tests.page.served import snapshot


def status_with(state: ConditionsState, problem: str | None, running: int = 1) -> Status:
    server = ConditionsStatus(
        state=state,
        address="http://127.0.0.1:8123",
        problem=problem,
        since_ns=5_000_000_000,
        processes=2,
        running=running,
        requests={},
        rate=0.0,
        p50_ms=None,
        p99_ms=None,
        memory_hits=0,
        database_reads=0,
        not_modified=0,
        tags_in_memory=0,
        intervals_in_memory=0,
        memory_mib=0.0,
        memory_limit_mib=512.0,
        clients=ConditionsClients(over_s=60.0, clients=[], others=ConditionsUse(requests=0, bytes=0)),
    )
    return snapshot(100, 10_000_000_000).model_copy(update={"conditions": server})


@pytest.mark.parametrize("state", [ConditionsState.STARTING, ConditionsState.RUNNING])
def test_a_server_that_runs_or_starts_is_no_alarm(state: ConditionsState) -> None:
    assert list(not_served(status_with(state, None), frozenset())) == []
    assert list(not_served(status_with(state, None).model_copy(update={"conditions": None}), frozenset())) == []


def test_a_process_that_does_not_run_is_a_warning_with_the_reason() -> None:
    (alarm,) = not_served(status_with(ConditionsState.FAILED, "it was ended by SIGKILL"), frozenset())
    assert (alarm.severity, alarm.key, alarm.after_s, alarm.began_s) == (
        Severity.WARNING,
        "conditions",
        SERVED_AFTER_S,
        5.0,
    )
    assert alarm.text == "1 of 2 servers of conditions do not run: it was ended by SIGKILL"


def test_a_database_that_is_away_is_a_warning_that_says_what_is_still_answered() -> None:
    (alarm,) = not_served(status_with(ConditionsState.DATABASE_AWAY, "no route to host", 2), frozenset())
    assert alarm.text == "Conditions are answered from memory alone, their database is away: no route to host"
    assert "503" in alarm.fix
