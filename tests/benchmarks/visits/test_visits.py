"""The benchmark of visits: its plan, what it concludes, and its reports; one tiny run of all of it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.report.model import Verdict
from benchmarks.report.render import render
from benchmarks.visits.__main__ import main
from benchmarks.visits.baseline import FLAT, Figures, Flatness, against, best_of, flatness, upkeep
from benchmarks.visits.estimate import Interval, bend, ends, mean, ratio, slope_ratio, spread
from benchmarks.visits.findings import PAIRS, findings, warm
from benchmarks.visits.plan import (
    AS_WRITTEN,
    BASE,
    COMPETING,
    DELETE_INSERT,
    MAIN,
    OURS,
    PAPERS,
    SWEEP,
    TINY,
    Comparison,
    Measured,
    planned,
)
from benchmarks.visits.report import at_end, comparison_report, series
from benchmarks.visits.report import seconds as seconds_words
from benchmarks.visits.run import checked
from daemon.workloads.visits.figures import line
from daemon.workloads.visits.settings import time_of
from schemas.api.visits import Compaction, Line
from schemas.checking.dsn import Backend
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from tests.support.report_tables import rows_of
from tests.support.visit_records import made_comparison, made_run, visit_of

MOST_MINUTES = 37.5
"""What is not measured, such as starting servers and counting, needs some of the 40."""

# --- the plan --------------------------------------------------------------------------------------------------------


def changed(one: VisitsConfig, other: VisitsConfig) -> set[str]:
    beside = other.model_dump()
    return {name for name, value in one.model_dump().items() if value != beside[name]}


def test_each_condition_of_the_sweep_differs_from_its_base_in_one_thing() -> None:
    (sweep,) = [group for group in planned("full", list(Backend)) if group.name == SWEEP]
    for backend in (Backend.POSTGRESQL, Backend.MYSQL):
        conditions = {each.name: each.settings for each in sweep.conditions if each.backend is backend}
        base, tiled = conditions.pop(BASE), {"tiles", "workers", "processes"}
        assert len(conditions) >= 13
        for name, settings in conditions.items():
            differs = changed(settings, base)
            if name == "per_visit":
                assert changed(settings, conditions["tiles_3"]) == {"connections"}
            elif name in ("fork", "tiles_3", "tiles_5"):
                assert differs <= tiled
            else:
                assert len(differs) == 1, name


@pytest.mark.parametrize("size", ["full", "quick"])
def test_the_plan_ends_in_time_and_has_what_the_findings_need(size: str) -> None:
    groups = {group.name: group for group in planned(size, list(Backend))}
    assert list(groups) == [MAIN, SWEEP, TINY]
    assert sum(group.minutes for group in groups.values()) <= (MOST_MINUTES if size == "full" else 3)
    names = {(each.backend.value, each.name) for each in groups[SWEEP].conditions}
    assert len(names) == len(groups[SWEEP].conditions)
    assert {(pair.backend, name) for pair in PAIRS for name in (pair.of, pair.to)} <= names
    assert {each.name for each in groups[TINY].conditions} == {*PAPERS, OURS}
    for group in groups.values():
        assert group.rounds >= 2
        assert len({each.settings.visits for each in group.conditions}) == 1


def test_ours_and_the_papers_modes_have_a_server_each_and_the_sweep_shares_one() -> None:
    main, sweep, _ = planned("full", list(Backend))
    assert len(main.servers) == len(main.conditions) == 2 * len({*COMPETING, OURS, AS_WRITTEN})
    assert sweep.servers == {"postgresql": Backend.POSTGRESQL, "mysql": Backend.MYSQL}
    by_name = {each.name: each.settings for each in main.conditions if each.backend is Backend.MYSQL}
    assert changed(by_name[AS_WRITTEN], by_name[OURS]) == {"compact"}


def test_the_window_of_the_main_comparison_fills_well_before_its_end() -> None:
    main = planned("full", [Backend.POSTGRESQL])[0]
    (window,) = {each.settings.window_ns for each in main.conditions}
    (survey,) = {each.settings.survey for each in main.conditions}
    assert window is not None
    assert survey.forced_cutoff_days < main.conditions[0].settings.history_days
    stretch = time_of(survey, 3 * main.visits // 4) - time_of(survey, 0)
    assert stretch > window


# --- estimates -------------------------------------------------------------------------------------------------------


def alike(random: np.random.Generator, n: int) -> Array:
    noise = random.standard_normal(n)
    for k in range(1, n):
        noise[k] += 0.5 * noise[k - 1]
    return noise


def test_intervals_hold_what_they_estimate_though_neighbours_are_alike() -> None:
    random, visits, held = np.random.default_rng(2), np.arange(160), np.zeros(4)
    for _ in range(60):
        slow = 0.15 + 0.002 * visits + 0.02 * alike(random, 160)
        fast = 0.1 + 0.0004 * visits + 0.02 * alike(random, 160)
        curved = 0.15 + 5e-6 * visits**2 + 0.01 * alike(random, 160)
        found = (
            (mean(1 + alike(random, 160)), 1.0),
            (ratio(0.5 * slow * np.exp(0.1 * alike(random, 160)), slow), 0.5),
            (slope_ratio(visits, fast, slow), 0.2),
            (bend(visits, curved), 0.25),
        )
        held += [each is not None and each.low <= truth <= each.high for each, truth in found]
    # Of 60 the standard error of the part is 3 %.
    assert (held >= 0.85 * 60).all(), held


def test_seconds_of_a_period_are_spread_over_its_visits_and_over_those_whose_turn_is_still_to_come() -> None:
    periods = np.array([3, 3, 3, 4, 5, 5, 6, 6, 6, 7])
    assert spread(periods, {}).tolist() == [0.0] * 10
    # Nothing was to be done in period 4; those after 5 are not compacted yet.
    assert spread(periods, {3: 6.0, 5: 2.0}).tolist() == [2, 2, 2, 0, 1, 1, 1, 1, 1, 1]


# --- findings --------------------------------------------------------------------------------------------------------


def seconds(backend: str, condition: str, visit: int) -> dict[str, float]:
    """The paper's world, but for one thing: in MariaDB connections made anew each visit are the better ones."""
    parts = {
        "select_object_s": 0.02 + 2e-4 * visit,
        "select_source_s": 0.01 + 9e-4 * visit,
        "select_forced_s": 0.01 + 5e-4 * visit,
        "store_last_s": 0.02,
    }
    if condition in ("baseline", "pix_id_iov"):
        parts["select_object_s"] *= 3.0
    if condition == "pix_id_iov" and backend == "mysql":
        parts["select_object_s"] *= 0.8
    if condition == "delete_insert":
        parts["store_last_s"] = 0.03
    factor = {"tiles_3": 0.6, "tiles_5": 0.5, "per_visit": 0.9 if backend == "postgresql" else 0.4}.get(condition, 1.0)
    if condition.startswith("tiles") and backend == "mysql":
        factor *= 1.4
    if condition in (OURS, AS_WRITTEN):
        factor = (0.2 if visit < 320 else 0.0) if condition == OURS else 0.01
        parts["store_source_s"] = 0.05
    return {name: value * factor if name != "store_source_s" else value for name, value in parts.items()}


def test_findings_follow_from_what_was_measured() -> None:
    comparison = made_comparison(seconds)

    verdicts = {finding.claim: finding.verdict for finding in findings(comparison)}

    assert verdicts.pop("Permanent connections help (MariaDB)") == Verdict.UNKNOWN  # so far from the paper's conditions
    assert set(verdicts.values()) == {Verdict.REPRODUCED}, verdicts
    assert len(verdicts) >= 15
    for found in against(comparison):
        assert found.best == BASE
        assert 315 <= found.window_visits <= 325
        assert found.alone.filling is not None
        assert found.alone.filling.low < 0.2 < found.alone.filling.high
        assert found.alone.full is not None
        assert found.alone.full.slope_low < 0 < found.alone.full.slope_high
        assert found.with_upkeep == found.alone


def test_compaction_is_counted_beside_the_visits_alone_though_the_last_period_is_still_to_be_compacted() -> None:
    cheap, expensive = (against(made_comparison(seconds, groups=(MAIN,), compact_s=each)) for each in (1e-9, 0.1))
    for without, found in zip(cheap, expensive, strict=True):
        assert found.alone == without.alone
        assert found.alone.at_end is not None
        assert found.with_upkeep.at_end is not None
        # Ours alone takes 0.09 s at the end.
        assert found.with_upkeep.at_end.value == pytest.approx(found.alone.at_end.value * 0.19 / 0.09, rel=0.02)
        assert found.alone.full is not None
        assert found.with_upkeep.full is not None
        assert found.with_upkeep.full.intercept == pytest.approx(found.alone.full.intercept + 0.1, rel=0.01)


def test_making_and_dropping_partitions_counts_for_who_does_it_spread_over_the_visits_of_a_period() -> None:
    comparison = made_comparison(seconds, groups=(MAIN,))
    measured = []
    for run in comparison.measured:
        periods = [visit.time_ns // run.run.settings.period_ns for visit in run.run.visits]
        first = [periods[k] != periods[k - 1] for k in range(len(periods))]
        changes = [{"upkeep_s": 3.5 * (run.condition == OURS and begins)} for begins in first]
        visits = [visit.model_copy(update=each) for visit, each in zip(run.run.visits, changes, strict=True)]
        measured.append(run.model_copy(update={"run": run.run.model_copy(update={"visits": tuple(visits)})}))
        if run.condition == OURS:
            parts = upkeep(measured[-1])
            assert parts.sum() == pytest.approx(3.5 * sum(first))
            assert parts.max() < 0.1
    for found in against(comparison.model_copy(update={"measured": tuple(measured)})):
        assert found.alone.at_end is not None
        assert found.with_upkeep.at_end is not None
        assert found.with_upkeep.at_end.value > 1.2 * found.alone.at_end.value


def test_that_ours_reads_fewer_rows_than_the_papers_best_is_said() -> None:
    comparison = made_comparison(seconds, groups=(MAIN,))

    def fewer(run: Measured) -> Measured:
        visits = [
            each.model_copy(update={"objects_read": 25, "forced_read": 9 * each.visit // 10}) for each in run.run.visits
        ]
        return run.model_copy(update={"run": run.run.model_copy(update={"visits": tuple(visits)})})

    measured = [fewer(run) if run.condition == OURS else run for run in comparison.measured]
    comparison = comparison.model_copy(update={"measured": tuple(measured)})
    for found in against(comparison):
        assert found.read == pytest.approx({"objects_read": 0.25, "sources_read": 1.0, "forced_read": 0.9}, abs=0.01)
    assert (
        render(comparison_report(comparison)).count(
            "25 % as many last versions of objects, 100 % as many sources and 90 % as many"
        )
        == 2
    )


def test_a_visit_that_was_resumed_is_in_no_comparison_and_no_line() -> None:
    comparison = made_comparison(seconds, groups=(SWEEP,))
    first, *others = comparison.measured
    visits = list(first.run.visits)
    for k in range(80, 100):
        visits[k] = visits[k].model_copy(update={"visit_s": 1000.0, "resumed": True})
    run = first.run.model_copy(update={"visits": tuple(visits)})
    numbers, one, other = warm(first.model_copy(update={"run": run}), others[0])
    assert not set(numbers.tolist()) & set(range(80, 100))
    assert len(numbers) == len(one) == len(other) > 100
    found = series(run, "visit_s")
    assert found.seconds.max() < 100
    assert len(found.visits) == len(visits) - 20


def test_a_visit_that_was_resumed_makes_no_mode_the_best_and_is_in_no_end() -> None:
    comparison = made_comparison(seconds, groups=(MAIN,))

    def resumed(run: Measured) -> Measured:
        visits = list(run.run.visits)
        for k in range(len(visits) - 40, len(visits)):
            visits[k] = visits[k].model_copy(update={"visit_s": 0.0, "select_s": 0.0, "resumed": True})
        return run.model_copy(update={"run": run.run.model_copy(update={"visits": tuple(visits)})})

    measured = [resumed(run) if run.condition == "baseline" else run for run in comparison.measured]
    kept = comparison.model_copy(update={"measured": tuple(measured)})
    best = best_of(kept, MAIN, "postgresql")
    assert best is not None
    assert best.condition == BASE
    slow = next(run for run in kept.of(MAIN, "postgresql") if run.condition == "baseline")
    title = f"PostgreSQL {slow.run.version}"
    (row,) = [row for row in rows_of(comparison_report(kept), title) if row[0].startswith("baseline ")]
    for column in ("select_s", "store_s"):
        assert seconds_words(ends(series(slow.run, column).seconds)[1]) in row


def test_what_was_not_measured_or_scatters_cannot_be_told() -> None:
    nothing = made_comparison(seconds, groups=())
    assert {finding.verdict for finding in findings(nothing)} == {Verdict.UNKNOWN}
    assert against(nothing) == []
    alike_in_all = made_comparison(lambda *_: {"select_object_s": 0.05}, groups=(SWEEP,), scale=0.5, cores=8)
    verdicts = {finding.claim: finding.verdict for finding in findings(alike_in_all)}
    linear = [verdict for claim, verdict in verdicts.items() if claim.startswith("Time grows linearly")]
    # Of noise one interval in 40 lies below 0.
    assert linear.count(Verdict.UNKNOWN) >= len(linear) - 2 > 0
    assert Verdict.REPRODUCED not in linear
    assert verdicts["DIAObjectLast halves the select of objects (PostgreSQL)"] == Verdict.REFUTED
    assert verdicts["The key that begins with the pixel does nothing for PostgreSQL"] == Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("scale", "cores", "why"),
    [
        (0.5, 8, None),
        (0.5, 2, "; it is the other way here, with 2 cores for 2 workers and a server"),
        (
            0.01,
            2,
            "; it is the other way here, with 100 variables a field, where the paper has 10,000 and 2 cores for 2"
            " workers and a server",
        ),
        (0.01, 8, "; it is the other way here, with 100 variables a field, where the paper has 10,000"),
    ],
)
def test_a_finding_is_refuted_only_near_the_conditions_of_the_paper(scale: float, cores: int, why: str | None) -> None:
    comparison = made_comparison(seconds, groups=(SWEEP,), scale=scale, cores=cores)
    (found,) = [each for each in findings(comparison) if each.claim == "Permanent connections help (MariaDB)"]
    assert found.verdict == (Verdict.REFUTED if why is None else Verdict.UNKNOWN)
    assert why is None or found.measured.endswith(why)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "reproduced"), (5.0, "refuted"), (0.5, "refuted"), (1.1, None)])
def test_no_effect_is_one_that_is_small_either_way(factor: float, verdict: str | None) -> None:
    def world(backend: str, condition: str, visit: int) -> dict[str, float]:
        return {"select_object_s": (0.05 + 2e-4 * visit) * (factor if condition == "pix_id_iov" else 1.0)}

    comparison = made_comparison(world, groups=(SWEEP,), scale=0.5, cores=8)
    claim = "The key that begins with the pixel does nothing for PostgreSQL"
    (found,) = [each for each in findings(comparison) if each.claim == claim]
    assert verdict is None or found.verdict == verdict


@given(
    low=st.floats(-10, 10),
    width=st.floats(0, 20),
    mean_s=st.floats(0.01, 10),
    window=st.integers(1, 1000),
)
def test_flat_is_what_surely_changes_little_over_a_window(low: float, width: float, mean_s: float, window: int) -> None:
    fit = Line(intercept=mean_s, slope_per_1000=low + width / 2, slope_low=low, slope_high=low + width, visits=50)
    found = flatness(fit, np.full(50, mean_s), window)
    most = max(abs(low), abs(low + width)) * window / 1000
    least = 0.0 if low <= 0 <= low + width else min(abs(low), abs(low + width)) * window / 1000
    assert (found == Flatness.FLAT) <= (most <= FLAT * mean_s * (1 + 1e-9))
    assert (found == Flatness.NOT_FLAT) <= (least >= FLAT * mean_s * (1 - 1e-9))
    assert found != Flatness.UNKNOWN or most >= FLAT * mean_s * (1 - 1e-9)


def test_noise_is_not_called_flat() -> None:
    random, visits = np.random.default_rng(3), np.arange(240)
    seconds_of = 0.1 * np.exp(0.5 * random.standard_normal(240))
    assert flatness(line(visits, seconds_of), seconds_of, 320) == Flatness.UNKNOWN
    quiet = 0.1 * np.exp(0.01 * random.standard_normal(240))
    assert flatness(line(visits, quiet), quiet, 320) == Flatness.FLAT
    assert flatness(line(visits, quiet + 0.001 * visits), quiet + 0.001 * visits, 320) == Flatness.NOT_FLAT


def test_a_condition_that_wrote_other_rows_is_found() -> None:
    comparison = made_comparison(seconds, groups=(MAIN,))
    assert all(check.passed for check in checked(comparison.measured))
    first, *others = comparison.measured
    visits = list(first.run.visits)
    visits[7] = visits[7].model_copy(update={"objects": visits[7].objects + 1})
    wrong = first.model_copy(update={"run": first.run.model_copy(update={"visits": tuple(visits)})})

    problems = [check.result for check in checked([*others, wrong]) if not check.passed]

    assert len(problems) == 2
    assert problems[0].endswith("in postgresql last_object_table at visit 7.")
    assert "DIAObject has" in problems[1]


# --- reports ---------------------------------------------------------------------------------------------------------


def reported(kept: Path, text: str) -> str:
    kept.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["visits", str(kept)])
        assert main() == 0
    html = kept.with_suffix(".html").read_text(encoding="utf-8")
    for never in ("<script", "http:", "https:", "<made>"):
        assert never not in html
    return html


def test_the_report_of_a_run_has_ours_beside_the_papers(tmp_path: Path) -> None:
    settings = VisitsConfig.model_validate({"survey": {"scale": 0.02}, "visits": 200, "limit_s": 0.15})
    random = np.random.default_rng(1)
    parts = [{"select_source_s": 0.02 + 0.001 * visit + 0.001 * random.random()} for visit in range(200)]
    run = made_run(settings, [visit_of(settings, visit, each) for visit, each in enumerate(parts)])

    html = reported(tmp_path / "run.json", run.model_dump_json(by_alias=True))

    assert "18.4 &lt;made&gt;" in html
    assert "<b>1.00 s</b>" in html  # the slope: a thousandth of a second each visit
    assert "416 / 100" in html  # bytes a row here
    assert "745 / 99" in html  # and in the paper
    assert "-1.0 %" in html  # off from the formula
    assert "double precision" in html
    assert "PostgreSQL, NVMe, 15 x 15 tiles [F]" in html
    assert html.count(": median ") == 3 * 20
    assert re.search(r"<b>\d+\.\d %</b> *</p><p class=\"soft\">of 200 visits", html)
    assert "survey.forced_cutoff_days" in html

    assert "Compaction" not in html
    sizes = {"packs_before": 900, "packs": 300, "records_before": 5_000, "records": 5_000}
    done = [
        Compaction(table="DIASource", period=period, after_visit=16 * period, compact_s=0.5, **sizes)
        for period in range(4)
    ]
    compacted = made_run(settings, list(run.visits)).model_copy(update={"compactions": tuple(done)})
    html = reported(tmp_path / "compacted.json", compacted.model_dump_json(by_alias=True))
    row = html[html.index("Seconds, in all") :]
    assert all(cell in row for cell in ("2.00 s", "10.0 ms", "3,600 → 1,200", "20,000 → 20,000")), row[:2000]

    none = reported(tmp_path / "none.json", made_run(settings, []).model_dump_json(by_alias=True))
    assert "Not a single visit was done." in none


def test_the_report_of_a_comparison_tells_each_finding(tmp_path: Path) -> None:
    comparison = made_comparison(seconds, compact_s=0.02)

    html = reported(tmp_path / "comparison.json", comparison.model_dump_json(by_alias=True))

    for finding in findings(comparison):
        assert finding.claim.replace("&", "&amp;") in html
    assert html.count(">reproduced</span>") == sum(each.verdict == Verdict.REPRODUCED for each in findings(comparison))
    assert html.count('class="card chart small"') == len(comparison.measured)
    assert html.count("With the seconds of upkeep spread over the visits:") == 2 * 3
    assert re.search(r"<b>[\d.]+ times faster</b>.*?spread over the visits: [\d.]+ times faster", html)
    assert html.count(" with upkeep</small>") == len(comparison.measured)


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (0.4, 0.3, 0.5, "2.50 times faster"),
        (0.9, 0.7, 1.2, "no difference known"),
        (2.0, 1.5, 3.0, "2.00 times slower"),
    ],
)
def test_faster_and_slower_are_said_where_the_interval_holds_them(
    value: float, low: float, high: float, said: str
) -> None:
    found = at_end(Figures(filling=None, at_end=Interval(value=value, low=low, high=high), full=None))
    assert found is not None
    assert found[0] == said


def test_what_is_no_record_is_told_in_one_line(tmp_path: Path) -> None:
    kept = tmp_path / "record.json"
    kept.write_text("{}")
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.visits", str(kept)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "cannot be reported" in result.stderr


# --- all of it -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tiny_comparison_runs_to_its_report_and_leaves_nothing(tmp_path: Path) -> None:
    output = tmp_path / "tiny.json"
    size = ["--quick", "--only", "main", "--backend", "postgresql", "--scale", "0.002", "--visits", "3"]
    command = [sys.executable, "-m", "benchmarks.visits.run", *size, "--output", str(output)]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    comparison = Comparison.model_validate(json.loads(output.read_text()))
    assert [run.condition for run in comparison.measured] == [
        BASE,
        DELETE_INSERT,
        "pix_id_iov",
        "baseline",
        OURS,
        AS_WRITTEN,
    ]
    assert all([visit.visit for visit in run.run.visits] == [0, 1, 2] for run in comparison.measured)
    assert any("all 6 conditions wrote the same" in check.result for check in comparison.checks)
    assert all(run.settle_s > 0 for run in comparison.measured)
    # Whether a server settles within a minute is up to the machine, and what else it does; no other notes.
    assert not [words for words in comparison.notes if "had not settled after" not in words]
    assert all(run.run.server["shared_buffers"] == "24MB" for run in comparison.measured)
    assert output.with_suffix(".html").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.html", "tiny.json"]
