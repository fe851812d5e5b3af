"""The measure of outages, run for real and for a moment: what it keeps, and what the reports make of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.command.bench import command
from benchmarks.measures.outages import LIVE_RATE
from benchmarks.report.reading import run_of
from benchmarks.report.tables import drains, journal_cost
from benchmarks.rounds.plan import PLANS

pytestmark = pytest.mark.slow


def test_an_outage_is_measured_and_reported(tmp_path: Path) -> None:
    output, tables = tmp_path / "bench.html", tmp_path / "tables.md"
    options = ["--plan", "smoke", "--only", "outages", "--backend", "postgresql"]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.command.bench",
            *options,
            "--output",
            str(output),
            "--markdown",
            str(tables),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    run = run_of(json.loads(output.with_suffix(".json").read_text(encoding="utf-8")))
    plan = PLANS["smoke"]
    assert {cost.layout for cost in run.journals} == {drain.layout for drain in run.drains} == set(plan.layouts)
    for drain in run.drains:
        assert min(drain.waiting) >= plan.outage_s * LIVE_RATE
        assert min(drain.rates) > 0
        assert drain.first_commit_s <= drain.seconds
    assert command(run) == "triggerlog bench --plan smoke --only outages --backend postgresql"
    html = output.read_text(encoding="utf-8")
    for found in (journal_cost(run), drains(run)):
        assert found is not None
        assert found.title in tables.read_text(encoding="utf-8")
        assert found.title in html
        assert [row[-1] in ("yes", "no") for row in found.rows] == [True]
