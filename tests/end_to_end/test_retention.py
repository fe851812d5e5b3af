"""Retention in a real daemon: old hours go beside the writing, and everybody who asks is told so."""

import asyncio
import json
import time
from pathlib import Path

import numpy as np
import pytest

from daemon.client.sender import Sender
from schemas.wire import Ack
from tests.end_to_end.test_dead_letters import CONFIGURATION, Daemon, logging_daemon
from tests.support.processes import triggerlog, until
from tests.support.sending import balanced

pytestmark = pytest.mark.slow

RETENTION = """
[retention]
keep_days = 0.1
check_every_s = 1
"""
HOUR_NS = 3_600_000_000_000
HOURS = 8
EACH = 50
INSTRUMENTS = 6


async def send(port: int, first: int, hours_ago: int, instruments: int = INSTRUMENTS) -> None:
    """Send the triggers of an hour, of epoch 7."""
    sender = await Sender.connect("127.0.0.1", port, "bpm", ack=Ack.COMMITTED)
    async with sender:
        block = np.zeros((EACH, instruments), sender.record)
        block["epoch"] = 7
        block["instrument"] = np.arange(instruments)
        block["trigger"] = first + np.arange(EACH)[:, None]
        now_ns = time.time_ns() // HOUR_NS * HOUR_NS
        block["time_ns"] = now_ns - hours_ago * HOUR_NS + HOUR_NS // 2 + block["trigger"] * 1_000_000
        await sender.send(block.reshape(-1))
        await sender.drain_acknowledged(60)


def retention(daemon: Daemon) -> dict:
    return daemon.get("/api/v1/status").json()["retention"]


@pytest.mark.parametrize(("server", "layout"), [("postgresql", "rows"), ("mariadb", "arrays"), ("mongodb", "rows")])
def test_old_hours_go_and_nothing_is_called_lost(
    request: pytest.FixtureRequest, schema: str, tmp_path: Path, server: str, layout: str
) -> None:
    dsn = request.getfixturevalue(f"{server}_dsn")
    text = CONFIGURATION.format(folder=tmp_path, dsn=dsn, schema=schema, layout=layout)
    text = text.replace("[database]", '[database]\npartition = "hour"')
    file = tmp_path / "beam.toml"
    file.write_text(text)
    with logging_daemon(file) as daemon:
        for hour in range(HOURS):
            asyncio.run(send(daemon.port, EACH * hour, HOURS - hour))
        assert retention(daemon)["is_limited"] is False
    assert triggerlog("retention", "plan", str(file)).stdout.startswith("Nothing is ever dropped")
    assert triggerlog("retention", "list", str(file)).stdout == "Nothing was dropped.\n"
    file.write_text(text + RETENTION)
    said = triggerlog("retention", "plan", str(file)).stdout.splitlines()
    refused = triggerlog("retention", "list", str(file), "--group", "bmp")
    assert (refused.returncode, "has no group 'bmp'; did you mean `bpm`?" in refused.stderr) == (1, True)
    planned = json.loads(triggerlog("retention", "plan", str(file), "--json").stdout)
    assert [drop["rule"] for drop in planned["drops"]] == ["age"] * len(planned["drops"])
    # Of eight hours the two newest stay, and those that ended less than 2.4 hours ago.
    assert HOURS - 4 <= len(planned["drops"]) <= HOURS - 2
    assert [line.split()[1] for line in said if line.startswith("bpm ")] == [each["name"] for each in planned["drops"]]
    assert said[-1].startswith("Next by age: bpm ")
    with logging_daemon(file) as daemon:
        until(lambda: retention(daemon)["periods"] == len(planned["drops"]), "hours to be dropped", 120)
        # In the newest hour: nothing more gets old by it.
        asyncio.run(send(daemon.port, EACH * HOURS, 1))
        assert balanced(daemon.group())
        account = daemon.get("/api/v1/retention").json()
        assert [each["name"] for each in account] == [drop["name"] for drop in planned["drops"]]
        assert [each["readings"] for each in account] == [EACH * INSTRUMENTS] * len(account)
        of_instrument = "/api/v1/groups/bpm/readings?instrument=0&start_ns=0"
        found = daemon.get(of_instrument).json()
        assert found["dropped_from_ns"] == [account[0]["start_ns"]]
        assert found["dropped_to_ns"] == [account[-1]["end_ns"]]
        assert daemon.get("/api/v1/groups/bpm/ledger/0").json()["dropped"] is True
        with pytest.raises(Exception, match="404"):
            daemon.get("/api/v1/groups/bpm/triggers/0")
        assert daemon.group()["readings"]["lost"] == {}
        assert not {"lost", "skipped", "dead"} & set(daemon.alarms())
        done = triggerlog("reconcile", str(file), "--daemon", daemon.api)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "dropped by retention" in done.stdout
    listed = triggerlog("retention", "list", str(file)).stdout.splitlines()
    assert len(listed) == len(planned["drops"])
    exported = triggerlog("export", str(file), "--group", "bpm", "--output", str(tmp_path / "bpm.csv"))
    assert exported.returncode == 0, exported.stderr
