"""What follows from figures of conditions, on made-up ones; and what the report shows of them."""

from typing import Any

import pytest

from benchmarks.command.bench import command
from benchmarks.command.report import report
from benchmarks.conditions.measure import APPEND, CLONE, HTTP, LOAD, ORDER, READ, Contender, contenders, scenarios_for
from benchmarks.conditions.report import findings
from benchmarks.report.model import Verdict
from benchmarks.report.render import render
from benchmarks.rounds.plan import PLANS
from benchmarks.rounds.summary import Run, run_of
from schemas.checking.dsn import Backend
from tests.support.kept_run import SERVERS, kept
from tests.support.report_tables import rows_of

ONE = {"postgresql": SERVERS["postgresql"]}
DRIFT = (1.0, 2.0, 1.5, 1.25)
"""The machine is slower in some rounds: ratios do not know it."""
SCATTER = ((1.0, 1.02, 0.99, 1.0), (1.01, 0.98, 1.0, 1.02))
"""Beside that, other for each contender that follows on another."""


def figures(contender: Contender, ms: float, scatter: tuple[float, ...] = SCATTER[0], **facts: float) -> dict[str, Any]:
    seconds = [1e-3 * ms * by * drift for by, drift in zip(scatter, DRIFT, strict=True)]
    extra = {**contender.facts(), "query_plan": f"Plan of {contender.way} <1>" if contender.kind == READ else ""}
    extra |= {name.replace("_", " "): [value] * 4 for name, value in facts.items()}
    return {"group": "conditions", "extra_info": extra, "stats": {"data": seconds}}


def run_with(times: dict[tuple[str, str, str], float]) -> Run:
    """A run with ms of (scenario, kind, way)."""
    found = []
    for each in contenders([Backend.POSTGRESQL], PLANS["full"]):
        ms = times.get((each.scenario, each.kind, each.way))
        if ms is not None:
            found.append(figures(each, ms, SCATTER[len(found) % 2]))
    return run_of(kept(found, ONE))


def verdict(run: Run, start: str) -> tuple[Verdict, str]:
    (found,) = [each for each in findings(run) if each.claim.startswith(start)]
    return found.verdict, found.measured


INDEX = "An index condition"
TYPES = "The rate falls with the number of types (comb_iov"
INTERVALS = "The rate is flat in the number of intervals (comb_iov"
SIZE = "The rate is flat in the size of the database (comb_iov"


def test_what_was_not_measured_is_not_known() -> None:
    assert findings(run_of(kept([], ONE))) == []
    found = findings(run_with({("tiny", READ, "covering"): 1.0}))
    assert len(found) == 1 + 3 + 3 + 2 + 1
    assert {each.verdict for each in found} == {Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("scenario", "filtered", "wanted"),
    [
        ("worst-case", 365.0, Verdict.REPRODUCED),
        ("worst-case", 9.0, Verdict.REFUTED),
        ("worst-case", 33.0, Verdict.UNKNOWN),
        ("tiny", 9.0, Verdict.UNKNOWN),
        ("tiny", 365.0, Verdict.REPRODUCED),
    ],
)
def test_an_index_condition_has_to_be_ten_times_as_fast(scenario: str, filtered: float, wanted: Verdict) -> None:
    times = {(scenario, READ, "or_distinct"): filtered, (scenario, READ, "comb_lateral"): 3.3}
    found, measured = verdict(run_with(times), INDEX)
    assert found is wanted
    assert scenario in measured


def test_the_largest_scenario_decides() -> None:
    times = {("moderate", READ, "or_distinct"): 90.0, ("moderate", READ, "comb_lateral"): 1.0}
    times |= {("worst-case", READ, "or_distinct"): 2.0, ("worst-case", READ, "comb_lateral"): 1.0}
    assert verdict(run_with(times), INDEX)[0] is Verdict.REFUTED


@pytest.mark.parametrize(
    ("many", "types", "flat"),
    [
        (9.0, Verdict.REPRODUCED, Verdict.REFUTED),
        (1.0, Verdict.REFUTED, Verdict.REPRODUCED),
        (1.11, Verdict.UNKNOWN, Verdict.UNKNOWN),
        (0.5, Verdict.REFUTED, Verdict.REFUTED),
    ],
)
def test_falling_and_flat_are_known_only_with_the_whole_interval(many: float, types: Verdict, flat: Verdict) -> None:
    way = "comb_lateral"
    by_types = {("tiny-moderate", READ, way): 1.0, ("moderate", READ, way): many}
    assert verdict(run_with(by_types), TYPES)[0] is types
    by_intervals = {("moderate", READ, way): 1.0, ("heavy-usage", READ, way): many}
    found, measured = verdict(run_with(by_intervals), INTERVALS)
    assert found is flat
    assert "25 times the intervals" in measured
    assert verdict(run_with({("tiny", "read alone", way): 1.0, ("tiny", READ, way): many}), SIZE)[0] is flat


def test_one_round_decides_nothing() -> None:
    scenarios = ("moderate", "heavy-usage")
    both = [Contender(backend=Backend.POSTGRESQL, scenario=name, kind=READ, way="comb_lateral") for name in scenarios]
    rows = [figures(each, 1.0) for each in both]
    for row in rows:
        row["stats"]["data"] = row["stats"]["data"][:1]
    found, measured = verdict(run_of(kept(rows, ONE)), INTERVALS)
    assert found is Verdict.UNKNOWN
    assert "one round" in measured


def everything() -> list[dict[str, Any]]:
    rows = []
    for each in contenders([Backend.POSTGRESQL], PLANS["short"], ["moderate", "worst-case"]):
        facts = {"p50_ms": 1.0, "p99_ms": 2.0, "least_ms": 0.5}
        if each.kind == HTTP:
            facts |= {"server_CPU_ms": 0.3 if each.way == "memory" else 0.8, "database_CPU_ms": 0.05}
        if each.way == LOAD:
            facts = {"memory_MiB": 1041.0, "wrong_in_floating_point": 0.0125, "intervals_a_second": 40_000.0}
            if each.scenario == "worst-case":
                facts |= {"reference_table_MiB": 900.0, "reference_indexes_MiB": 500.0}
        rows.append(figures(each, {APPEND: 2.0, CLONE: 60.0}.get(each.way, 1.0), **facts))
    return rows


def test_the_tables_hold_the_figures_against_the_aims() -> None:
    made = report(run_of(kept(everything(), ONE)), "")
    requests = {row[0:2]: row for row in rows_of(made, "Requests of what is valid at a random key")}
    assert requests["PostgreSQL, worst-case, from memory (locked)", "8"][5:] == ("0.30", "0.05", "0.4", "yes")
    assert requests["PostgreSQL, worst-case, from the database (unlocked)", "8"][5:] == ("0.80", "0.05", "", "")
    orders = {row[0]: row for row in rows_of(made, "Orders")}
    assert orders["PostgreSQL, worst-case: append an interval to a list"][1] == "26,000"
    assert orders["PostgreSQL, worst-case: append an interval to a list"][-2:] == ("3", "yes")
    assert orders["PostgreSQL, worst-case: clone the tag"][-2:] == ("50", "no")
    loads = {row[0]: row for row in rows_of(made, "Loading, and memory")}
    assert loads["PostgreSQL, worst-case"][-3:] == ("40,000", "1,041.00", "1.25 %")
    assert rows_of(made, "Size in PostgreSQL")[1] == ("reference", "900.0", "500.0")
    assert {row[-1] for row in rows_of(made, "One read of all types of a tag")} == {"1.00 (1.00 to 1.00)"}


def test_the_page_has_findings_and_plans_and_what_repeats_it() -> None:
    run = run_of(kept(everything(), ONE))
    said = command(run)
    assert said == "triggerlog bench --only conditions --scenario moderate --scenario worst-case --backend postgresql"
    made = report(run, said)
    html = render(made)
    for text in (
        "The paper found",
        "Plan of or_distinct &lt;1&gt;",
        "SELECT DISTINCT ON",
        *(table.title for table in made.tables()),
    ):
        assert text in html
    assert html.count("Plan of ") == 9
    assert "Conditions" not in render(report(run_of(kept([], ONE)), ""))


def test_every_scenario_is_asked_for_by_its_name_or_by_the_plan() -> None:
    plan = PLANS["short"]
    assert scenarios_for(Backend.MYSQL, plan, []) == plan.further_scenarios
    assert scenarios_for(Backend.MYSQL, plan, ["worst-case", "tiny"]) == ("tiny", "worst-case")
    found = list(contenders(list(Backend), plan))
    assert len({each.name for each in found}) == len(found)
    assert {each.way for each in found if each.kind == ORDER} == {APPEND, CLONE, LOAD}
    assert {each.backend for each in found if each.kind == READ} == {Backend.POSTGRESQL}
