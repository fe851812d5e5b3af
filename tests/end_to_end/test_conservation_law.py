"""What came in is somewhere, in every status that a daemon gives: under load, through an outage, and read back."""

import asyncio
from pathlib import Path

import httpx
import numpy as np
import pytest

from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.client.sender import Sender
from schemas.api.status import Status
from schemas.wire import Ack
from tests.end_to_end.test_journal import INSTRUMENTS, logging_daemon

SAMPLES = 150


async def load(port: int, stop: asyncio.Event) -> None:
    """Send triggers without an end: incomplete ones, readings behind the others, twice, or of a wrong instrument."""
    sender = await Sender.connect("127.0.0.1", port, "bpm", ack=Ack.SPOOLED)
    async with sender:
        rng, first = np.random.default_rng(5), 1
        while not stop.is_set():
            block = np.zeros((20, INSTRUMENTS), sender.record)
            block["instrument"], block["trigger"] = np.arange(INSTRUMENTS), (first + np.arange(20))[:, None]
            block["time_ns"] = 1_800_000_000_000_000_000 + block["trigger"] * 1_000_000
            block["instrument"][3, 4] = 500
            readings = block.reshape(-1)
            behind = rng.random(len(readings)) < 0.05
            await sender.send(readings[~behind])
            await sender.send(readings[:3])
            await asyncio.sleep(0.01)  # the rhythm of the machine
            await sender.send(readings[behind])
            first += 20
        await sender.drain_acknowledged(30)


async def sampled(client: httpx.AsyncClient, count: int) -> list[Status]:
    statuses = []
    while len(statuses) < count:
        answer = await client.get("/api/v1/status")
        statuses.append(Status.model_validate_json(answer.raise_for_status().content))
        await asyncio.sleep(0.02)  # the rhythm of one who looks; faster ones are held back
    return statuses


@pytest.mark.slow
async def test_every_status_adds_up(tmp_path: Path, state_dir: Path) -> None:
    server = ThrowawayPostgresql(state_dir)
    dsn = await asyncio.to_thread(server.start)
    try:
        with logging_daemon(tmp_path, dsn, memory=0.1) as daemon:
            stop = asyncio.Event()
            sending = asyncio.create_task(load(daemon.port, stop))
            async with httpx.AsyncClient(base_url=daemon.api, verify=False, trust_env=False, timeout=60) as client:
                statuses = await sampled(client, SAMPLES // 3)
                await asyncio.to_thread(server.stop)
                statuses += await sampled(client, SAMPLES // 3)
                await asyncio.to_thread(server.start)
                statuses += await sampled(client, SAMPLES // 3)
                stop.set()
                await sending
                while (await sampled(client, 1))[0].groups["bpm"].readings.waiting:
                    pass
                statuses += await sampled(client, 1)
            assert await asyncio.to_thread(daemon.run.end) == 0
    finally:
        await asyncio.to_thread(server.stop)
    readings = [status.groups["bpm"].readings for status in statuses]
    assert [each.unaccounted for each in readings] == [0] * len(statuses)
    # It was what it was meant to be: things waited, were put together, came twice and wrong, and went on.
    assert max(each.waiting for each in readings) > 0
    assert max(each.assembling for each in readings) > 0
    last = readings[-1]
    assert min(last.duplicate, sum(last.refused.values()), last.committed) > 0
    assert len({each.received for each in readings}) > SAMPLES // 10
