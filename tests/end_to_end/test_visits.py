"""Visits of a real daemon beside its instruments: embedded PostgreSQL, a tiny sky, processes that are killed."""

import asyncio
import csv
import io
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.core.process.children import NICENESS
from tests.support.problems import line_of
from tests.support.processes import Running, here, running, until
from tests.support.servers import server_folder

CONFIG = """
[[groups]]
name = "bpm"
count = 12
channels = [{ name = "x", unit = "mm" }]

[[sources]]
kind = "simulated"
group = "bpm"
rate = 20.0

[visits]
start = true
visits = 1_000_000
cadence = "fast"
schema = "sky"
limit_s = 0.000001
survey = { scale = 0.002, interval_s = 0.2 }

[api]
port = 0

[dashboard]
port = 0
"""
TINY = {"schema": "other", "visits": 3, "index_mode": "baseline", "survey": {"variables": 1000}}


class Site:
    """A daemon with visits, and what it says of them."""

    def __init__(self, run: Running, file: Path) -> None:
        self.run = run
        self.state = file.parent / "state"
        self.api = run.until_said(r"taking readings at \S+; API at (\S+)", 90)[1]
        token = (self.state / "api-token").read_text().strip()
        self.client = httpx.Client(
            base_url=self.api, trust_env=False, timeout=60, headers={"authorization": f"Bearer {token}"}
        )

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def status(self) -> dict:
        return self.client.get("/api/v1/status").raise_for_status().json()

    def visits(self) -> dict:
        return self.status()["visits"]

    def until(self, condition: Callable[[dict], object], what: str) -> dict:
        def is_so() -> object:
            told = self.visits()
            return told is not None and condition(told)  # a daemon that has just started may not tell of a run yet

        until(is_so, f"{what}: {self.visits()}", 90, every_s=0.1)
        return self.visits()

    def until_done(self, visits: int) -> dict:
        return self.until(lambda told: told["done"] >= visits, f"{visits} visits")

    def until_state(self, state: str) -> dict:
        return self.until(lambda told: told["state"] == state, f"state {state}")

    def process(self) -> psutil.Process:
        (found,) = [
            child
            for child in psutil.Process(self.run.process.pid).children()
            if child.cmdline()[1:] == ["-m", "daemon.workloads.visits"]
        ]
        return found

    def rows(self, name: str) -> list[dict[str, str]]:
        answer = self.client.get(f"/api/v1/visits/{name}/csv").raise_for_status()
        return list(csv.DictReader(io.StringIO(answer.text)))

    def detail(self, answer: httpx.Response) -> tuple[int, str]:
        return answer.status_code, line_of(answer)


@pytest.fixture
def file() -> Iterator[Path]:
    with server_folder() as folder:
        file = folder / "beam.toml"
        file.write_text(CONFIG)
        yield file
        asyncio.run(_stop_database(folder / "state"))


async def _stop_database(state: Path) -> None:
    """Stop the database of a daemon that was killed: its next user finds it running, and stops it as the last one."""
    server = EmbeddedPostgresql(state)
    await server.start()
    await server.stop()


@pytest.mark.slow
def test_visits_run_beside_the_instruments_and_go_on_after_every_end(file: Path) -> None:
    with running("run", str(file)) as run, Site(run, file) as site:
        begun = site.until_done(3)
        name = begun["id"]
        assert (begun["state"], begun["index_mode"], begun["visits"]) == ("running", "partitioned", 1_000_000)
        assert (begun["over_limit"], begun["slow"]) == (1.0, begun["here"])

        # It gives way to what logs, and goes first when memory is short.
        process = site.process()
        assert process.nice() == NICENESS
        assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "500"

        # Killed, it is started again, and nothing is missing or there twice.
        process.kill()
        until(lambda: "visits failed: the process of visits was ended by SIGKILL" in site.run.said, "an event", 60)
        done = site.visits()["done"]
        site.until(lambda told: told["state"] == "running" and told["done"] > done, "new visits")
        assert "more than 1e-06 s" in run.said
        assert len(re.findall("more than 1e-06 s", run.said)) < site.visits()["done"]

        _metrics_and_figures(site, name)
        _refusals(site)

        # The daemon is killed in the middle of it all.
        done = site.visits()["done"]
        process = site.process()
        os.kill(run.process.pid, signal.SIGKILL)
        run.ended()
        until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "the process ends", 60)

    with running("run", str(file)) as run, Site(run, file) as site:
        again = site.until_done(done + 2)
        assert again["id"] == name
        assert again["here"] >= done
        numbers = [int(row["visit"]) for row in site.rows(name)]
        # A visit that was done and not yet told of when a process was killed is in the database alone.
        assert numbers == sorted(set(numbers))
        assert len(numbers) >= numbers[-1] + 1 - 2
        run_again = site.client.post("/api/v1/visits")
        assert site.detail(run_again) == (409, "visits run already; stop them first, or wait for their end")

        assert site.client.delete("/api/v1/visits").json()["state"] in ("stopping", "stopped")
        stopped = site.until_state("stopped")
        (past,) = site.client.get("/api/v1/visits").json()["past"]
        assert (past["id"], past["state"], past["problem"]) == (name, "stopped", "it was stopped on request")
        assert past["visits"] == stopped["here"]
        assert site.detail(site.client.delete("/api/v1/visits")) == (404, "no visits run")

        # Another one, in a schema of its own, with what is said and the configuration's rest.
        other = site.client.post("/api/v1/visits", json=TINY)
        assert (other.status_code, other.json()["index_mode"]) == (201, "baseline")
        ended = site.until_state("finished")
        assert (ended["done"], ended["here"], ended["problem"]) == (3, 3, None)
        assert ended["target"].endswith("schema other")
        told = site.client.get(f"/api/v1/visits/figures?id={ended['id']}").json()
        assert told["columns"]["visit"] == [0, 1, 2]
        assert told["sizes"].keys() == told["expected"].keys() == {"DIAObject", "DIASource", "DIAForcedSource"}
        parquet = site.client.get(f"/api/v1/visits/{ended['id']}/parquet").raise_for_status().content
        assert parquet[:4] == parquet[-4:] == b"PAR1"
        report = site.client.get(f"/api/v1/visits/{ended['id']}/report").raise_for_status().text
        assert "DIAForcedSource" in report
        assert "<script" not in report
        shown = here("status", "--once", "--daemon", site.api).stdout
        assert "Visits  finished, 3 of 3 done · " in shown
        told_of = here("visits", "status", "--daemon", site.api)
        assert f"run    {ended['id']} (baseline, embedded PostgreSQL under" in told_of.stdout, told_of.stderr

        readings = site.status()["groups"]["bpm"]["readings"]
        went = readings["committed"] + readings["waiting"] + readings["assembling"] + readings["duplicate"]
        assert readings["received"] == went
        assert sum(readings["refused"].values()) + readings["dead"] == 0
        assert run.end() == 0, run.said


def _metrics_and_figures(site: Site, name: str) -> None:
    metrics = site.client.get("/metrics").text
    assert "triggerlog_visits_running 1.0" in metrics
    assert re.search(r"^triggerlog_visits_done_total [1-9]", metrics, re.MULTILINE)
    assert re.search(r'^triggerlog_visits_seconds\{part="select_object"\} 0\.\d', metrics, re.MULTILINE)
    assert "triggerlog_visits_over_limit 1.0" in metrics
    told = site.client.get("/api/v1/visits/figures?points=10").raise_for_status().json()
    assert (told["id"], told["limit_s"], told["index_mode"]) == (name, 1e-6, "partitioned")
    columns = told["columns"]
    assert len(columns["visit"]) == len(columns["visit_s"]) == len(columns["ra"]) >= 3
    assert told["boxes"][0]["first"] == 0
    assert told["over"][0]["fraction"] == 1
    assert told["paper"]["slope_per_1000"] == 0.164


def _refusals(site: Site) -> None:
    """One line each that names the field and the fix; without the token nothing is started or stopped."""
    url = f"{site.api}/api/v1/visits"
    assert httpx.post(url, trust_env=False, timeout=60).status_code == 401
    assert httpx.delete(url, trust_env=False, timeout=60).status_code == 401
    for body, said in (
        ({"index_mode": "baselin"}, "index_mode: 'baselin' is not known here; did you mean `baseline`?"),
        ({"survey": {"scale": 2}}, "survey.scale: 2 is out of range; use a number above 0, at most 1"),
        ({"visit": 5}, "visit: unknown key; did you mean `visits`?"),
        ({"visits": "5"}, "visits: '5' is not a whole number; write it without quotes"),
        ({"last_update": "upsert"}, "last_update: index mode partitioned has no table to update; take it out, or set"),
    ):
        code, detail = site.detail(site.client.post("/api/v1/visits", json=body))
        assert code == 422, detail
        assert detail.startswith(said), detail
        assert "\n" not in detail
    nothing = site.client.get("/api/v1/visits/20200101T000000Z/csv")
    assert site.detail(nothing) == (404, "nothing is kept here of visits 20200101T000000Z; see GET /api/v1/visits")
