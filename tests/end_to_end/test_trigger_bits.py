"""A group whose counters have 8 bits: over TCP and UDP, late, and over kill -9 of the daemon, in one run."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from backends import open_store
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import WindowReadings
from schemas.readings import Array
from tests.daemon.sources.tcp.test_tcp import Client
from tests.daemon.sources.udp.test_udp import Client as Datagrams
from tests.end_to_end.test_simulate_to_database import Daemon
from tests.support.processes import Running
from tests.support.readings import make_group

GROUP = make_group(4)
MS = 1_000_000
CONFIG = """
state_dir = "{state}"
[[groups]]
name = "bpm"
count = 4
trigger_bits = 8
channels = [{channels}]
[[sources]]
kind = "tcp"
port = 0
[[sources]]
kind = "udp"
port = 0
[assembly]
timeout_ms = 2000
[database]
dsn = "{dsn}"
schema = "{schema}"
[api]
port = 0
"""


def block_of(times: Array, begin: int, upto: int, instruments: range) -> Array:
    """Readings of these triggers, of which the counter tells the lowest 8 bits."""
    triggers = np.repeat(np.arange(begin, upto), len(instruments))
    block = np.zeros(len(triggers), GROUP.record)
    block["trigger"], block["time_ns"] = triggers % 256, times[triggers]
    block["instrument"] = np.tile(np.array(instruments), upto - begin)
    return block


@pytest.mark.slow
async def test_eight_bits_in_bursts_without_an_epoch(tmp_path: Path, postgresql_dsn, schema) -> None:
    channels = ", ".join(f'{{name = "{c.name}", dtype = "{c.dtype}"}}' for c in GROUP.channels)
    config = tmp_path / "triggerlog.toml"
    config.write_text(CONFIG.format(state=tmp_path / "state", channels=channels, dsn=postgresql_dsn, schema=schema))
    # Bursts of 400 triggers at 500 a second, every 4 s, up to now.
    times = np.cumsum(np.resize([2 * MS] * 399 + [3_202 * MS], 2400))
    times += time.time_ns() - times[-1]
    begin = 0
    for life, upto in enumerate((1000, 2400)):
        process = Running("run", str(config))
        try:
            daemon = await asyncio.to_thread(Daemon, process)
            client = Client(*await asyncio.open_connection("127.0.0.1", daemon.tcp))
            numbers = f"first={3 * begin} next={3 * begin}"
            await client.greet(f"TRIGGERLOG/1 group=bpm sender=a session=77 {numbers} ack=committed")
            datagrams = Datagrams(daemon.udp)
            for number, first in enumerate(range(begin, upto, 100)):
                client.send(block_of(times, first, first + 100, range(3)))
                if first >= 150 + begin:  # one instrument is late by more than half a round
                    datagrams.send(block_of(times, first - 150, first - 50, range(3, 4)), number)
                await asyncio.sleep(0.02)
            datagrams.send(block_of(times, upto - 200, upto, range(3, 4)), 100)
            datagrams.socket.close()
            await client.acknowledged(3 * upto)
            await daemon.committed(upto - begin)
            await client.close()
            await daemon.end(kill=not life)
        finally:
            process.close()
        begin = upto
    store = open_store(
        DatabaseConfig.model_validate({"dsn": postgresql_dsn, "schema": schema}),
        logger="triggerlog",
        groups={"bpm": GROUP},
        layouts={"bpm": Layout.ROWS},
        state_dir=Path("/nonexistent"),
    )
    await store.open()
    try:
        found = await store.ask(WindowReadings(group=GROUP, start_ns=-(2**63) + 1, end_ns=2**63 - 1))
    finally:
        await store.close()
    assert set(found["run"].tolist()) == {1}
    assert found["time_ns"].tolist() == times[found["trigger"]].tolist()
    assert found["trigger"][found["instrument"] < 3].tolist() == np.repeat(np.arange(2400), 3).tolist()
    assert len(found[found["instrument"] == 3]) > 2000
