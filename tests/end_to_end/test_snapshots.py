"""Snapshot readers of a real daemon beside its instruments: started, watched, stopped and kept over the API."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from backends.postgresql.server.embedded import EmbeddedPostgresql
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

[api]
port = 0

[dashboard]
port = 0
"""
SMALL = {"folders": 2, "channels": 20, "intervals": 4, "payload_bytes": 50, "clients": 3, "cycles": 2, "scale": 0.05}
PATH = "/api/v1/snapshots"


@pytest.fixture
def file() -> Iterator[Path]:
    with server_folder() as folder:
        file = folder / "beam.toml"
        file.write_text(CONFIG)
        yield file
        asyncio.run(_stop_database(folder / "state"))


async def _stop_database(state: Path) -> None:
    server = EmbeddedPostgresql(state)
    await server.start()
    await server.stop()


class Site:
    """A daemon, and what it says of its snapshot readers."""

    def __init__(self, run: Running, file: Path) -> None:
        api = run.until_said(r"taking readings at \S+; API at (\S+)", 90)[1]
        token = (file.parent / "state" / "api-token").read_text().strip()
        self.client = httpx.Client(
            base_url=api, trust_env=False, timeout=60, headers={"authorization": f"Bearer {token}"}
        )

    def status(self) -> dict:
        return self.whole()["snapshots"]

    def whole(self) -> dict:
        return self.client.get("/api/v1/status").raise_for_status().json()

    def until(self, holds: Callable[[dict], object], what: str) -> dict:
        until(lambda: holds(self.status()), what, 120, every_s=0.1)
        return self.status()

    def refused(self, answer: httpx.Response) -> tuple[int, str]:
        return answer.status_code, line_of(answer)


@pytest.mark.slow
def test_snapshot_readers_run_beside_the_instruments(file: Path) -> None:
    with running("run", str(file)) as run:
        site = Site(run, file)
        assert site.status() is None
        assert site.refused(site.client.delete(PATH)) == (404, "no snapshot readers run")
        assert site.client.get(f"{PATH}/live").status_code == 404
        _refuses_what_does_not_fit(site)

        begun = site.client.post(PATH, json=SMALL)
        assert begun.status_code == 201, begun.text
        name = begun.json()["id"]
        done = site.until(lambda told: told["state"] == "finished", "the readers end")
        assert (done["cycles"], done["figures"]["cycles"], done["states"]) == (6, 6, "")
        assert done["loading"]["rows"] == done["loading"]["rows_in_all"] == 160

        # The first of what comes next is asked for by number.
        live = site.client.get(f"{PATH}/live", params={"cycles": 4}).raise_for_status().json()
        assert (len(live["cycles"]["client"]), live["next_cycle"]) == (2, 6)
        assert [point["folders"] for point in live["cliff"]] == [1, 2]
        record = site.client.get(f"{PATH}/{name}").raise_for_status().json()
        assert set(record["cycles"]["rows"]) == {40}
        assert record["command"].startswith(f"triggerlog snapshots run {file} --folders 2")
        assert record["product"] == "postgresql"

        # One that would go on for hours shows each client, is alone, and is stopped.
        long = {**SMALL, "clients": 5, "cycles": 10_000}
        assert site.client.post(PATH, json=long).status_code == 201
        shown = site.until(lambda told: told["figures"]["cycles"] > 5, "clients read")
        assert (len(shown["states"]), len(shown["progress"]), len(shown["read"])) == (5, 5, 5)
        again = site.client.post(PATH, json=SMALL)
        assert site.refused(again) == (409, "snapshot readers run already; stop them first, or wait for their end")
        assert site.client.delete(PATH).json()["state"] == "stopping"
        site.until(lambda told: told["state"] == "stopped", "they stop")
        assert site.whole()["groups"]["bpm"]["triggers"]["committed"] > 0

        # A daemon that ends leaves what was measured.
        assert site.client.post(PATH, json=long).status_code == 201
        site.until(lambda told: told["figures"]["cycles"] > 0, "clients read again")
        assert run.end() == 0

    listed = here("snapshots", "list", "--config", str(file))
    assert listed.stdout.count("window") == 3
    assert "interrupted" in listed.stdout


def _refuses_what_does_not_fit(site: Site) -> None:
    for body, said in {
        ("clients", "many"): "clients: ",
        ("colour", 3): "colour: ",
        ("processing_s", 501): "processing_s: not less than the cycle",
        ("schema", "triggerlog"): "schema: database.schema is 'triggerlog', too",
        ("cycles", 100_000): "cycles: 10,000,000 cycles in all are too many",
    }.items():
        status, line = site.refused(site.client.post(PATH, json=dict([body])))
        assert (status, said in line) == (422, True), line
