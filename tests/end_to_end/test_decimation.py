"""Decimation in a real daemon: old hours are reduced beside the writing, and everybody who asks is told so."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.end_to_end.test_dead_letters import CONFIGURATION, Daemon, logging_daemon
from tests.end_to_end.test_retention import EACH, HOURS, INSTRUMENTS, send
from tests.support.processes import triggerlog, until
from tests.support.sending import balanced

pytestmark = pytest.mark.slow

HOUR_NS = 3_600_000_000_000

DECIMATION = """
[decimation]
after_days = 0.1
bucket_s = 1
"""


def decimation(daemon: Daemon) -> dict:
    return daemon.get("/api/v1/status").json()["decimation"]


def see_figures(daemon: Daemon, from_ns: int, to_ns: int) -> None:
    """See that figures of an instrument are of all that it sent, in steps as they are asked for where they can be."""
    asked = f"/api/v1/groups/bpm/readings?instrument=0&start_ns={from_ns}&end_ns={to_ns}"
    readings = EACH * ((to_ns - from_ns) // HOUR_NS)
    for step, steps_s, is_coarser in (
        ("&step_s=1", 1.0, False),
        ("&step_s=0.25", 1.0, True),
        ("&step_s=7", 7.0, False),
    ):
        found = daemon.get(asked + step).json()["reduced"]
        assert (found["coarser"], set(found["step_s"])) == (is_coarser, {steps_s})
        assert sum(found["readings"]) == readings
        for figures in found["channels"].values():
            assert sum(figures["n"]) == readings
            middle = zip(figures["least"], figures["mean"], figures["greatest"], strict=True)
            assert all(least <= mean <= greatest for least, mean, greatest in middle)
    raw = daemon.get(f"{asked}&raw_from_ns={to_ns - 1}&points=5").json()
    assert (raw["stored"], sum(raw["reduced"]["readings"])) == (0, readings)
    with pytest.raises(Exception, match="422"):
        daemon.get(f"{asked}&step_s=0.00001")


@pytest.mark.parametrize(("server", "layout"), [("postgresql", "rows"), ("mariadb", "arrays")])
def test_old_hours_are_reduced_and_nothing_is_called_lost(
    request: pytest.FixtureRequest, schema: str, tmp_path: Path, server: str, layout: str
) -> None:
    dsn = request.getfixturevalue(f"{server}_dsn")
    text = CONFIGURATION.format(folder=tmp_path, dsn=dsn, schema=schema, layout=layout)
    text = text.replace("[database]", '[database]\npartition = "hour"')
    file = tmp_path / "beam.toml"
    file.write_text(text)
    with logging_daemon(file) as daemon:
        for hour in range(HOURS):
            # One instrument of the first hour comes late.
            asyncio.run(send(daemon.port, EACH * hour, HOURS - hour, INSTRUMENTS - (not hour)))
        assert decimation(daemon) is None
    assert triggerlog("decimation", "plan", str(file)).stdout.startswith("Nothing is ever reduced")
    assert triggerlog("decimation", "list", str(file)).stdout == "Nothing was reduced.\n"
    file.write_text(text + DECIMATION)
    planned = json.loads(triggerlog("decimation", "plan", str(file), "--json").stdout)["reductions"]
    said = triggerlog("decimation", "plan", str(file)).stdout.splitlines()
    assert [line.split()[1] for line in said if line.startswith("bpm ")] == [each["name"] for each in planned]
    # Of eight hours the two newest stay, and those that ended less than 2.4 hours ago.
    assert HOURS - 4 <= len(planned) <= HOURS - 2
    with logging_daemon(file) as daemon:
        until(lambda: (decimation(daemon) or {}).get("periods", 0) >= len(planned), "hours to be reduced", 120)
        asyncio.run(send(daemon.port, 0, HOURS))
        assert balanced(daemon.group())
        of_instrument = "/api/v1/groups/bpm/readings?instrument=0&start_ns=0"
        found = daemon.get(of_instrument).json()
        assert found["decimated_from_ns"] == [planned[0]["start_ns"]]
        assert found["decimated_to_ns"][0] >= planned[-1]["end_ns"]
        see_figures(daemon, found["decimated_from_ns"][0], found["decimated_to_ns"][0])
        stored = daemon.get("/api/v1/storage").json()["groups"]["bpm"]["reduced"]
        assert stored["from_ns"] == found["decimated_from_ns"]
        assert stored["rows_after"] < stored["rows_before"]
        metrics = daemon.get("/metrics").text
        assert f"triggerlog_decimation_reduced_periods_total {float(stored['periods'])}" in metrics
        row = daemon.get("/api/v1/groups/bpm/ledger/0").json()
        assert (row["decimated"], row["dropped"], row["arrived"]) == (True, False, INSTRUMENTS)
        with pytest.raises(Exception, match="404"):
            daemon.get(f"/api/v1/groups/bpm/triggers/{EACH}")
        assert daemon.group()["readings"]["lost"] == {}
        assert not {"lost", "skipped", "dead", "decimation"} & set(daemon.alarms())
        done = triggerlog("reconcile", str(file), "--daemon", daemon.api)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "reduced" in done.stdout
        assert "dropped by retention" not in done.stdout
    listed = json.loads(triggerlog("decimation", "list", str(file), "--json").stdout)
    assert [each["name"] for each in listed][: len(planned)] == [each["name"] for each in planned]
    assert {each["how"] for each in listed} == {"bucket 1000000000"}
    exported = triggerlog("export", str(file), "--group", "bpm", "--output", str(tmp_path / "bpm.csv"))
    assert exported.returncode == 0, exported.stderr
    assert "; reduced: " in exported.stdout
    assert (tmp_path / "bpm.reduced.csv").exists()
