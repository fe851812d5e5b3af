"""Reader workloads of a real daemon that logs into its embedded PostgreSQL: processes, API and command line."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.tools.workloads.readers import app
from tests.support.problems import line_of
from tests.support.processes import Running, running, until
from tests.support.servers import server_folder

CONFIG = """
[[groups]]
name = "bpm"
count = 12
channels = [{ name = "x", unit = "mm" }, { name = "y", unit = "mm" }]

[[sources]]
kind = "simulated"
group = "bpm"
rate = 50.0

[api]
port = 0

[dashboard]
port = 0

[[readers.workloads]]
name = "from_the_start"
kind = "newest"
clients = 2
period_s = 0.05
"""


class Logging:
    """A daemon that logs simulated readings, and what it says of its readers."""

    def __init__(self, run: Running, file: Path) -> None:
        self.run = run
        self.file = file
        self.api = run.until_said(r"taking readings at \S+; API at (\S+)")[1]
        token = (file.parent / "state" / "api-token").read_text().strip()
        self.client = httpx.Client(base_url=self.api, verify=False, trust_env=False, timeout=60)
        self.with_token = {"authorization": f"Bearer {token}"}

    def readers(self) -> dict:
        return self.client.get("/api/v1/status").raise_for_status().json()["readers"]

    def start(self, **workload: object) -> httpx.Response:
        return self.client.post("/api/v1/readers", json=workload, headers=self.with_token)

    def stop(self, name: str) -> httpx.Response:
        return self.client.delete(f"/api/v1/readers/{name}", headers=self.with_token)

    def command(self, *arguments: str) -> tuple[int, str]:
        # In this process: what it costs to start one is tested elsewhere.
        environment = {"TRIGGERLOG_TOKEN": self.with_token["authorization"][7:], "COLUMNS": "200", "TERM": "dumb"}
        done = CliRunner().invoke(app, [*arguments, "--daemon", self.api], env=environment)
        return done.exit_code, done.output

    def processes(self) -> list[psutil.Process]:
        children = psutil.Process(self.run.process.pid).children()
        return [child for child in children if "daemon.workloads.readers" in child.cmdline()]

    def until_answered(self, name: str, answers: int = 3) -> dict:
        until(lambda: self.readers()[name]["cycles"] >= answers, f"{answers} answers of {self.readers()}", 60)
        return self.readers()[name]


@pytest.fixture(scope="module")
def logging() -> Iterator[Logging]:
    with server_folder() as folder:
        file = folder / "beam.toml"
        file.write_text(CONFIG)
        with running("run", str(file)) as run:
            daemon = Logging(run, file)
            yield daemon
            daemon.client.close()
        asyncio.run(stop_database(folder / "state"))


async def stop_database(state: Path) -> None:
    """Stop the database of a daemon that was killed: its next user finds it running, and stops it as the last one."""
    server = EmbeddedPostgresql(state)
    await server.start()
    await server.stop()


def test_a_workload_of_the_configuration_runs_with_the_daemon_in_a_process_of_its_own(logging: Logging) -> None:
    status = logging.until_answered("from_the_start")
    assert (status["kind"], status["group"], status["clients"], status["admitted"]) == ("newest", "bpm", 2, 2)
    assert status["rows"] == 12 * status["cycles"]
    assert status["latency_ms"]["p50"] > 0
    (process,) = logging.processes()
    assert process.cmdline()[1:] == ["-m", "daemon.workloads.readers"]


def test_a_workload_is_started_and_stopped_over_the_api_with_the_token(logging: Logging) -> None:
    body = {"name": "w", "kind": "newest", "clients": 3, "period_s": 0.1}
    assert logging.client.post("/api/v1/readers", json=body).status_code == 401
    assert logging.client.delete("/api/v1/readers/from_the_start").status_code == 401
    assert logging.start(**body).json()["state"] == "starting"
    again = logging.start(**body)
    assert (again.status_code, "name: workload 'w' runs already" in line_of(again)) == (409, True)
    logging.until_answered("w")
    assert logging.client.get("/api/v1/readers").json().keys() == {"from_the_start", "w"}
    at_the_end = logging.stop("w").json()
    assert at_the_end["cycles"] >= 3
    assert logging.readers().keys() == {"from_the_start"}
    assert len(logging.processes()) == 1
    gone = logging.stop("w")
    assert (gone.status_code, line_of(gone)) == (404, "there is no workload 'w'; there is: from_the_start")


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"name": "w", "kind": "newst"}, "kind: 'newst' is not known here; did you mean `newest`?"),
        ({"name": "w", "kind": "scan", "clients": 0}, "clients: 0 is out of range; use 1 to 256"),
        ({"name": "w", "kind": "scan", "group": "bpx"}, "group: there is no group 'bpx'; did you mean `bpm`?"),
        (
            {"name": "w", "kind": "history", "step_s": 7200},
            "step_s: longer than the 1800 s asked for; give a shorter step",
        ),
        (
            {"name": "w", "kind": "cone", "group": "bpm"},
            "group: cone asks about visits, and of no group; take it out",
        ),
        ({"name": "w", "kind": "scan", "client": 2}, "client: unknown key; did you mean `clients`?"),
    ],
)
def test_a_wrong_workload_is_refused_in_one_line(logging: Logging, workload: dict, said: str) -> None:
    answer = logging.start(**workload)
    assert (answer.status_code, line_of(answer)) == (422, said)


def test_all_workloads_together_have_at_most_512_clients(logging: Logging) -> None:
    for name in ("many", "more"):
        answer = logging.start(name=name, kind="newest", clients=256, period_s=3600, offset_s=3600)
    assert answer.status_code == 422
    assert line_of(answer) == (
        "clients: 256 and the 258 of other workloads are more than 512 in all; give at most 254, or stop another "
        "workload first"
    )
    assert logging.stop("many").status_code == 200


def test_the_command_line_starts_lists_and_stops_a_workload(logging: Logging) -> None:
    code, said = logging.command("start", "shown", "--kind", "newest", "--clients", "2", "--period", "0.1")
    assert (code, said) == (0, "shown: 2 clients ask group bpm for newest\n")
    logging.until_answered("shown")
    listed = logging.command("list")[1]
    assert re.search(r"^shown +newest +2 of 2 ", listed, re.MULTILINE)
    code, said = logging.command("stop", "shown")
    assert code == 0
    assert said.startswith("shown: stopped after ")


def test_readers_of_visits_are_answered_with_nothing_before_there_are_any(logging: Logging) -> None:
    code, said = logging.command("start", "sky", "--kind", "cone", "--clients", "2", "--period", "0.1")
    assert (code, said) == (0, "sky: 2 clients ask visits triggerlog_visits for cone\n")
    status = logging.until_answered("sky")
    assert (status["group"], status["rows"], status["failed"], status["problem"]) == ("triggerlog_visits", 0, 0, None)
    assert logging.stop("sky").status_code == 200


def test_a_reader_that_is_killed_is_told_of_and_started_again(logging: Logging) -> None:
    before = logging.until_answered("from_the_start")
    (process,) = logging.processes()
    process.kill()
    until(lambda: logging.readers()["from_the_start"]["state"] == "failed", "told as failed")
    failed = logging.readers()["from_the_start"]
    assert failed["problem"].startswith("the process was ended by SIGKILL")
    assert failed["cycles"] >= before["cycles"]
    assert "reader workload from_the_start failed: the process was ended by SIGKILL" in logging.run.said
    until(lambda: logging.readers()["from_the_start"]["state"] == "running", "started again")
    assert logging.until_answered("from_the_start", failed["cycles"] + 1)["problem"] is None


def test_no_reader_outlives_a_daemon_that_is_killed(logging: Logging) -> None:
    (process,) = logging.processes()
    os.kill(logging.run.process.pid, signal.SIGKILL)
    psutil.wait_procs([process], timeout=60)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
