import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from schemas.api.interference import Record
from tests.support.problems import line_of
from tests.support.processes import GROUP, Running, running, triggerlog, until

pytestmark = pytest.mark.slow

CONFIGURATION = """
[[sources]]
kind = "simulated"
group = "bpm"
rate = 25

[api]
port = 0

[dashboard]
port = 0
"""
NEWEST = {"name": "newest", "kind": "newest", "clients": 2, "period_s": 0.02}
PATH = "/api/v1/interference"


class Daemon:
    """A daemon that simulates readings, and what is asked of its experiments."""

    def __init__(self, run: Running, file: Path) -> None:
        self.run, self.file = run, file
        self.api = run.until_said(r"taking readings at .*; API at (\S+)")[1]
        token = (file.parent / "state" / "api-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=self.api, headers=headers, verify=False, trust_env=False, timeout=60)

    def status(self) -> dict[str, Any]:
        return self.client.get("/api/v1/status").raise_for_status().json()

    def told(self, **query: Any) -> dict[str, Any]:
        return self.client.get(PATH, params=query).raise_for_status().json()

    def start(self, **settings: Any) -> httpx.Response:
        return self.client.post(PATH, json={"workloads": [NEWEST], **settings})

    def until(self, condition: Any, what: str) -> None:
        # All it tells, fifty times a second, would be most of what the daemon does.
        until(lambda: condition(self.told()), what, 60, every_s=0.1)

    def record(self, name: str) -> Record:
        return Record.model_validate_json(self.client.get(f"{PATH}/{name}").raise_for_status().content)


@contextmanager
def logging_daemon(folder: Path) -> Iterator[Daemon]:
    file = folder / "beam.toml"
    file.write_text(GROUP + CONFIGURATION)
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        yield daemon
        daemon.client.close()
        if run.process.poll() is None:
            assert run.end() == 0, run.said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interference")


def test_an_experiment_from_its_start_to_its_report(folder: Path) -> None:
    with logging_daemon(folder) as daemon:
        assert daemon.told() == {"running": None, "live": None, "past": []}
        assert httpx.post(f"{daemon.api}{PATH}", json={}, trust_env=False, timeout=60).status_code == 401

        began = time.time_ns()
        answer = daemon.start(pairs=2, block_s=1.2, warm_up_s=0.2)
        assert answer.status_code == 201, answer.text
        name = answer.json()["id"]
        again = daemon.start(pairs=2)
        assert again.status_code == 409
        assert line_of(again) == f"experiment {name} runs already; wait for its end, or stop it first"

        daemon.until(lambda told: told["live"] and len(told["live"]["blocks"]) >= 2, "two blocks were measured")
        told = daemon.told()
        assert told["running"]["id"] == name
        assert told["running"]["blocks"] == 5
        assert daemon.status()["experiment"]["id"] == name
        live = told["live"]
        assert [block["kind"] for block in live["blocks"][:2]] == ["A", "B"]
        assert live["next"] == len(live["samples"]) > 2
        later = daemon.told(after=live["next"], blocks=2, past=False)["live"]
        assert len(later["samples"]) <= later["next"] - live["next"]
        assert all(block["number"] > 2 for block in later["blocks"])

        daemon.until(lambda told: told["running"] is None, "it is over")
        (summary,) = daemon.told()["past"]
        assert (summary["id"], summary["state"], summary["blocks"]) == (name, "finished", 5)
        assert summary["report"]
        assert summary["p99"]["pairs"] == 2

        record = daemon.record(name)
        assert began <= record.began_ns
        assert [(block.kind, block.readers) for block in record.blocks] == [("A", 0), ("B", 2)] * 2 + [("A", 0)]
        assert all(block.whole and block.triggers and block.p99_ms for block in record.blocks)
        for block in record.blocks:
            # Nobody reads in A, and somebody does in B.
            assert (block.workloads["newest"].cycles > 0) == (block.kind == "B")
            assert block.from_s - block.begin_s > 0.19  # a timer may be a little early
            assert block.end_s - block.from_s == pytest.approx(1.0, abs=2)
        assert any("wal_bytes" in block.server for block in record.blocks)
        assert {sample.readers for sample in record.timeline} == {0, 2}
        assert record.result is not None
        assert record.result.readers[0].efficiency is not None
        assert record.conditions.server.startswith("PostgreSQL 18")
        assert record.command.startswith(f"triggerlog interference {daemon.file} --workload newest:2:0.02:1 --pairs 2")

        report = daemon.client.get(f"{PATH}/{name}/report")
        assert report.headers["content-type"].startswith("text/html")
        assert record.result.headline in report.text
        assert daemon.status()["readers"] == {}
        assert daemon.client.get(f"{PATH}/20200101T000000Z").status_code == 404
        assert daemon.client.get(f"{PATH}/..%2Fapi-token").status_code in (404, 422)

        # Stopped amid a block: what was measured stays, and the block that was cut short does not count.
        assert daemon.client.delete(PATH).status_code == 404
        name = daemon.start(pairs=3, block_s=1.0, warm_up_s=0.1, doses=[1, 2]).json()["id"]
        daemon.until(lambda told: told["live"] and len(told["live"]["blocks"]) >= 3, "three blocks were measured")
        assert daemon.client.delete(PATH).json() == {"id": name}
        newest = daemon.told()["past"][0]
        assert (newest["id"], newest["state"], newest["problem"]) == (name, "stopped", "it was stopped on request")
        assert newest["report"]
        assert [block.number for block in daemon.record(name).blocks if block.whole][:3] == [1, 2, 3]
        assert daemon.status()["readers"] == {}

        unknown = daemon.client.post(PATH, json={"workloads": [{**NEWEST, "group": "bmp"}]})
        assert unknown.status_code == 422
        assert line_of(unknown) == "workloads[0].group: there is no group 'bmp'; did you mean `bpm`?"
        assert daemon.told()["running"] is None

        name = daemon.start(pairs=3, block_s=1.0, warm_up_s=0.1).json()["id"]
        until(lambda: daemon.record(name).blocks, "a block is kept", 60)
        daemon.run.process.send_signal(signal.SIGKILL)
        daemon.run.ended()

    with logging_daemon(folder) as daemon:
        newest = daemon.told()["past"][0]
        assert (newest["state"], newest["problem"]) == ("interrupted", "the daemon ended without being asked to")
        assert newest["blocks"] >= 1
        assert len(daemon.told()["past"]) == 3
        daemon.until(lambda told: told["past"][0]["report"], "what was broken off is reported")

        reached = ("--daemon", daemon.api, "--token-file", str(folder / "state" / "api-token"))
        small = ("--workload", "newest:1:0.1", "--pairs", "1", "--block", "0.8", "--warm-up", "0.1")
        done = triggerlog("interference", *reached, *small, "-o", str(folder / "here.html"), timeout_s=120)
        assert done.returncode == 0, done.stderr
        newest = daemon.told()["past"][0]
        assert (folder / "here.json").read_text().count(newest["id"])
        assert (folder / "here.html").read_text() == daemon.client.get(f"{PATH}/{newest['id']}/report").text

        name = daemon.start(pairs=3, block_s=1.0, warm_up_s=0.1).json()["id"]
        daemon.until(lambda told: told["live"] and len(told["live"]["blocks"]) >= 1, "a block was measured")
        # The daemon ends in order in the middle of it.
    kept = Record.model_validate_json((folder / "state" / "interference" / f"{name}.json").read_bytes())
    assert (kept.state, kept.problem) == ("stopped", "the daemon was stopped")
    assert kept.blocks


def test_an_experiment_whose_reader_dies_ends_although_another_one_is_started_within_the_block(folder: Path) -> None:
    with logging_daemon(folder) as daemon:
        name = daemon.start(pairs=1, block_s=15.0, warm_up_s=0.1).json()["id"]
        daemon.until(lambda told: told["live"] and told["live"]["samples"], "a block is measured")
        (reader,) = (
            child
            for child in psutil.Process(daemon.run.process.pid).children(recursive=True)
            if "daemon.workloads.readers" in child.cmdline()
        )
        reader.kill()
        daemon.until(lambda told: told["running"] is None, "it is over")
        record = daemon.record(name)
        assert record.state == "failed"
        assert record.problem is not None
        assert record.problem.startswith("workload newest failed: ")
        assert [block.whole for block in record.blocks] == [False]
