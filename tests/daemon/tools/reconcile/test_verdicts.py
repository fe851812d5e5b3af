"""What is judged of numbers that agree and of numbers that do not."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from daemon.pipeline.files import Amount
from daemon.tools.reconcile.command import _rows
from daemon.tools.reconcile.verdicts import Findings, Verdict, judge
from schemas.api.status import GroupStatus
from schemas.batch import Layout
from schemas.queries import TOTALS
from tests.page.served import FIGURES, group_status

RUN = {"run": 1, "stored": 1200, "triggers": 100, "expected": 1200, "arrived": 1200}
ACCOUNT = {"sequence": 9, "account_triggers": 100, "account_readings": 1200, "journal_readings": 1200}


def totals(*runs: dict[str, int], **account: int) -> Any:
    answer = np.zeros(max(1, len(runs)), TOTALS)
    for row, run in zip(answer, runs or [RUN], strict=True):
        for name, value in {**run, **ACCOUNT, **account}.items():
            row[name] = value
    return answer


def found(*runs: dict[str, int], account: dict[str, int] | None = None, **fields: Any) -> Findings:
    settings: dict[str, Any] = {"group": "bpm", "layout": Layout.ROWS, "dead": Amount(), **fields}
    return Findings(totals=totals(*runs, **(account or {})), **settings)


def differing(findings: Findings) -> Verdict:
    (verdict,) = [verdict for verdict in judge(findings) if not verdict.agrees]
    return verdict


def status(committed: int, *, at_start: int = 0, off_by: int = 0) -> GroupStatus:
    """A group that has committed so many readings."""
    group = group_status("bpm", 12, {**FIGURES, "off_by": off_by, "wave": False}, 1, 0)
    change = committed - group.readings.committed
    readings = group.readings.model_copy(
        update={"committed": committed, "received": group.readings.received + change, "account_at_start": at_start}
    )
    return group.model_copy(update={"readings": readings})


def test_what_agrees() -> None:
    for findings in (found(), found(layout=Layout.ARRAYS, account={}), found(RUN | {"run": 3})):
        rows = 1200 if findings.layout is Layout.ROWS else 100
        findings.totals["stored"] = rows
        verdicts = judge(findings)
        assert [verdict.what for verdict in verdicts] == ["ledger and account", "data table and ledger"]
        assert all(verdict.agrees for verdict in verdicts)
        assert verdicts[1].result.startswith(f"{rows:,} ")


@pytest.mark.parametrize(
    ("findings", "what", "says"),
    [
        (found(RUN | {"stored": 1199}), "data table and ledger", "lacks 1 readings that the ledger has:"),
        (found(RUN | {"stored": 1205}), "data table and ledger", "has 5 readings more than the ledger:"),
        (found(RUN | {"stored": 99}, layout=Layout.ARRAYS), "data table and ledger", "lacks 1 triggers that"),
        (found(account={"account_readings": 1300, "account_triggers": 105}), "ledger and account", "--removed 100,"),
        (found(account={"account_readings": 0, "account_triggers": 0}), "ledger and account", "more than were ever"),
        (found(account={"account_triggers": 101}), "ledger and account", "0 readings (1 triggers) were committed"),
        (found(removed=5), "ledger and account", "5 readings (0 triggers) more than"),
        (found(lost=40), "database and state folder", "40 readings were acknowledged and are in the database no more"),
    ],
    ids=["lost", "doubled", "lost arrays", "account ahead", "account behind", "a trigger", "not removed", "put back"],
)
def test_what_differs(findings: Findings, what: str, says: str) -> None:
    verdict = differing(findings)
    assert verdict.what == what
    assert says in verdict.result


def test_the_runs_that_differ_are_named() -> None:
    runs = [RUN | {"run": run, "stored": 1200 - run % 2} for run in range(1, 11)]
    account = {"account_triggers": 1000, "account_readings": 12_000}
    says = differing(found(*runs, account=account)).result
    assert "lacks 5 readings that the ledger has (-1 in run 1, -1 in run 3, -1 in run 5 and 2 more)" in says


def test_what_was_removed_on_purpose_is_no_difference() -> None:
    findings = found(account={"account_readings": 1320, "account_triggers": 110})
    assert not all(verdict.agrees for verdict in judge(findings))
    assert all(verdict.agrees for verdict in judge(dataclasses.replace(findings, removed=120)))


def test_what_moved_while_it_was_counted_is_no_difference() -> None:
    moving = {"moved_readings": 24, "moved_triggers": 2, "account_readings": 1220, "account_triggers": 101}
    verdicts = judge(found(RUN | {"stored": 1190}, account=moving))
    assert all(verdict.agrees for verdict in verdicts)
    assert verdicts[0].result.endswith("while 24 readings came (-20); for an exact count stop the daemon")
    assert not all(verdict.agrees for verdict in judge(found(RUN | {"stored": 1175}, account=moving)))


def test_a_daemon_that_commits_while_it_is_counted() -> None:
    findings = found(before=status(188, at_start=1000), after=status(212, at_start=1000))
    verdicts = judge(findings)
    assert [verdict.what for verdict in verdicts[:2]] == ["what came and where it went", "account and daemon"]
    assert all(verdict.agrees for verdict in verdicts)
    assert verdicts[1].result == "1,000 readings at the daemon's start, 200 committed since"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (status(1201), status(1250), "the account is 1 readings behind what this daemon committed"),
        (status(1100), status(1199), "the account is 1 readings ahead of what this daemon committed"),
        (status(1200), status(1200, off_by=3), "3 readings came in and are missing: a defect"),
        (status(1200, off_by=-3), status(1200), "-3 readings came in and are missing: a defect"),
    ],
    ids=["behind", "ahead", "law broken after", "law broken before"],
)
def test_a_daemon_that_says_otherwise(before: GroupStatus, after: GroupStatus, says: str) -> None:
    assert says in differing(found(before=before, after=after)).result


def test_trigger_numbers_that_never_came_are_shown_and_no_difference() -> None:
    findings = found(RUN | {"skipped": 3}, RUN | {"run": 2, "skipped": 1241}, account={"account_triggers": 200})
    findings.totals["account_readings"] = 2400
    assert all(verdict.agrees for verdict in judge(findings))
    assert ("never came, by the ledger", 1244, None) in list(_rows(findings))
