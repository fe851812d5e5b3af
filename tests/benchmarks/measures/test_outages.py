"""The measure of outages, run for real and for a moment: what it keeps, and what the reports make of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.command.bench import command
from benchmarks.command.report import report
from benchmarks.measures.outages import LIVE_RATE
from benchmarks.report.model import Cell
from benchmarks.rounds.plan import PLANS
from benchmarks.rounds.summary import run_of

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
    journals, drains = (run.groups[name] for name in ("journal", "drain"))
    assert {each.facts["layout"] for each in journals} == {each.facts["layout"] for each in drains} == set(plan.layouts)
    for drain in drains:
        assert min(drain["triggers waiting"]) >= plan.outage_s * LIVE_RATE
        assert min(drain.rates) > 0
        assert drain["seconds to first commit"] <= drain["seconds of drain"]
    assert command(run) == "triggerlog bench --plan smoke --only outages --backend postgresql"
    html = output.read_text(encoding="utf-8")
    found_tables = report(run, "").tables()
    assert len(found_tables) == 2
    for found in found_tables:
        assert found.title in tables.read_text(encoding="utf-8")
        assert found.title in html
        assert [isinstance(row[-1], Cell) and row[-1].text in ("yes", "no") for row in found.rows] == [True]
