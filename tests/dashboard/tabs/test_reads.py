"""What the tab Reads says of a status."""

from typing import Any

from dashboard.tabs.reads.callbacks import ceilings, governor_words, running, workload_rows
from dashboard.tabs.reads.layout import WORKLOADS
from schemas.api.status import GovernorStatus, ReaderStatus
from tests.page.served import READER

GOVERNOR: dict[str, Any] = {
    "commit_p99_ms": 25.0,
    "backlog_triggers": 4000,
    "admitted": 7,
    "clients": 12,
    "state": "lowering",
    "reason": "7 of 12 clients may ask",
}


def reader(**changes: Any) -> ReaderStatus:
    return ReaderStatus.model_validate(READER | changes)


def texts(row: dict[str, Any]) -> dict[str, str]:
    return {name: one["text"] for name, one in row.items() if name != "key"}


def over(row: dict[str, Any]) -> set[str]:
    return {name for name, one in row.items() if name != "key" and one.get("over")}


def test_a_row_has_a_cell_for_each_column_and_no_other() -> None:
    (row,) = workload_rows({"operators": reader()}, is_dead=False)
    assert {"key", *(column.name for column in WORKLOADS)} == set(row)
    assert row["stop"]["label"] == "Stop operators"
    assert texts(row)["efficiency"] == "99.0 %"
    assert (texts(row)["clients"], texts(row)["slipped"]) == ("4 of 4", "–")
    assert over(row) == set()


def test_what_is_wrong_with_a_workload_stands_out() -> None:
    late = {"p50": 120.0, "p99": 1420.4, "max": 2033.0}
    (row,) = workload_rows({"a": reader(admitted=3, failed=2, latency_ms=late, problem="gone")}, is_dead=False)
    assert over(row) == {"state", "clients", "failed", "p99"}
    assert texts(row)["state"] == "● running: gone"


def test_no_rate_looks_as_if_it_were_of_now_without_data() -> None:
    (row,) = workload_rows({"a": reader()}, is_dead=True)
    assert {texts(row)[name] for name in ("rate", "rows", "p50", "p99", "max")} == {"–"}


def test_a_column_of_figures_is_sorted_by_them_and_not_by_their_words() -> None:
    rows = workload_rows({"a": reader(rate=1200.0), "b": reader(rate=95.0)}, is_dead=False)
    assert min(rows, key=lambda row: row["rate"]["by"])["key"] == "b"


def test_only_those_that_run_are_counted() -> None:
    assert running({}) == ""
    assert running({"a": reader(), "b": reader(state="failed")}) == "1 running"


def test_the_governor_is_said_with_its_ceilings() -> None:
    on = GovernorStatus.model_validate(GOVERNOR)
    assert governor_words(on) == (
        "● on: commit p99 below 25.0 ms, backlog below 4,000 triggers",
        "lowering: 7 of 12 clients may ask",
    )
    assert ceilings(on) == {"commit_p99_ms": 25.0, "backlog_triggers": 4000}
    for off in (None, GovernorStatus.model_validate(GOVERNOR | {"state": "off"})):
        assert governor_words(off)[0] == "○ off"
        assert ceilings(off) == {"commit_p99_ms": None, "backlog_triggers": None}
