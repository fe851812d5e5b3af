"""A daemon in a process of its own under attack: what good senders send at 100 triggers a second stays complete."""

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import httpx
import numpy as np
import psutil
import pytest

from daemon.tools.simulate.stream import clock_offsets, record_bank
from schemas.config import parse_config
from schemas.wire import Answer
from tests.support.attacks import ATTACKS, Attack, Target
from tests.support.processes import Running, running, until

GROUP = """
[[groups]]
name = "bpm"
count = 120
channels = [{ name = "top_in" }, { name = "bot_in" }, { name = "bot_out" }, { name = "top_out" }]
"""
REST = """
[[sources]]
kind = "tcp"
port = 0
handshake_timeout_s = 2.0
max_ungreeted = 256

[[sources]]
kind = "udp"
port = 0

[assembly]
timeout_ms = 5000.0

[database]
dsn = "{dsn}"
schema = "hostile"

[api]
port = 0
"""
CHANNELS = ("top_in", "bot_in", "bot_out", "top_out")
INSTRUMENTS = 120
TRIGGERS = 200
PERIOD_NS = 10_000_000
SEED = 7
_starts = itertools.count(1, 1000)
"""First triggers: no two tests send the same, and together they stay within the window."""

pytestmark = pytest.mark.slow


class Attacked:
    """The daemon, and its addresses."""

    def __init__(self, run: Running) -> None:
        self.run = run
        found = run.until_said(r"taking readings at \S+:(\d+), \S+:(\d+); API at (\S+)")
        self.tcp, self.udp, self.api = int(found[1]), int(found[2]), found[3]
        self.group = parse_config(GROUP).groups[0].group()
        self.process = psutil.Process(run.process.pid)

    def status(self) -> dict:
        return (
            httpx.get(f"{self.api}/api/v1/status", verify=False, trust_env=False, timeout=60).raise_for_status().json()
        )

    def connections(self) -> int:
        return self.status()["sources"][0]["connections"]


@pytest.fixture(scope="module")
def daemon(postgresql_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    file = tmp_path_factory.mktemp("hostile") / "beam.toml"
    file.write_text(GROUP + REST.format(dsn=postgresql_dsn))
    with running("run", str(file)) as run:
        attacked = Attacked(run)
        # The run has begun: before, whoever comes first says where it is.
        assert _good_senders(attacked.tcp, next(_starts))["settled"]
        yield attacked
        assert run.end() == 0, run.said
        assert "Traceback" not in run.said, run.said


@contextmanager
def under(attack: Attack, target: Target) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=attack, args=(target, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_good_senders_lose_nothing(attack: Attack, daemon: Attacked, postgresql_dsn: str) -> None:
    first = next(_starts)
    lines, memory = daemon.run.said.count("\n"), daemon.process.memory_info().rss
    with under(attack, Target(tcp=daemon.tcp, udp=daemon.udp, group=daemon.group, trigger=first)):
        report = _good_senders(daemon.tcp, first)
        status = daemon.status()  # the API answers meanwhile
    [group] = report["groups"]
    assert (group["sent"], group["acknowledged"], group["refused"]) == (
        TRIGGERS * INSTRUMENTS,
        TRIGGERS * INSTRUMENTS,
        0,
    ), report
    asyncio.run(_see_that_all_is_stored(postgresql_dsn, daemon, first))
    assert status["state"] == "running"
    until(lambda: daemon.connections() == 0, "the attackers are gone", 60)
    # Held for the store: 256 MiB at most; kernel and allocator add some. What grows without bound is far beyond it.
    assert daemon.process.memory_info().rss - memory < 400 * 2**20
    assert daemon.run.said.count("\n") - lines < 50, "the attack can fill the log"


def _good_senders(port: int, first: int) -> dict:
    with running(
        "simulate",
        *("--port", str(port), "--rate", "100", "--triggers", str(TRIGGERS), "--first-trigger", str(first)),
        *("--seed", str(SEED), "--connections", "8", "--finish-timeout-s", "400", "--json"),
    ) as good:
        assert good.ended(500) == 0, good.said
        return json.loads(good.said[good.said.index("{\n") :])


async def _see_that_all_is_stored(dsn: str, daemon: Attacked, first: int) -> None:
    """Compare every reading of the good senders with what is stored, and the ledger."""
    connection = await asyncpg.connect(dsn)
    try:
        of = f"WHERE trigger_id >= {first} AND trigger_id < {first + TRIGGERS}"
        columns = ", ".join(["run", "trigger_id", "instrument", "time_ns", *CHANNELS])
        rows = await connection.fetch(f"SELECT {columns} FROM hostile.bpm {of} ORDER BY trigger_id, instrument")
        ledger = await connection.fetch(
            f"SELECT trigger_id, expected, arrived FROM hostile.bpm_ledger {of} ORDER BY trigger_id"
        )
    finally:
        await connection.close()
    run, trigger, instrument, time_ns = (np.array([row[k] for row in rows]) for k in range(4))
    assert trigger.tolist() == np.repeat(np.arange(first, first + TRIGGERS), INSTRUMENTS).tolist()
    assert instrument.tolist() == np.tile(np.arange(INSTRUMENTS), TRIGGERS).tolist()
    assert len(set(run.tolist())) == 1
    # The simulation's readings are those of its seed; when it began it alone knows, and that was once.
    bank = record_bank(Answer(group="bpm", record=daemon.group.record, instruments=INSTRUMENTS), seed=SEED)
    sent = bank[(trigger - first) % len(bank), instrument]
    for number, name in enumerate(CHANNELS):
        assert np.array_equal([row[4 + number] for row in rows], sent[name]), name
    began_ns = time_ns - (trigger - first) * PERIOD_NS - clock_offsets(INSTRUMENTS, seed=SEED)[instrument]
    assert len(set(began_ns.tolist())) == 1
    assert [tuple(row) for row in ledger] == [(first + k, INSTRUMENTS, INSTRUMENTS) for k in range(TRIGGERS)]
