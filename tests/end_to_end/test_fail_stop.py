"""A real daemon whose data path fails in the middle of a step ends at once, and loses nothing that it acknowledged."""

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends.ending import end_tasks
from daemon.client.sender import Sender
from daemon.core.monitoring.event_log import read_events
from schemas.wire import Ack
from tests.support.half_step import PLACES
from tests.support.processes import free_port, here, running, until
from tests.support.sending import triggers_of

ROOT = Path(__file__).parents[2]
ACKS = {"journal": Ack.SPOOLED, "intake": Ack.RECEIVED}
CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = {port}

[database]
dsn = "{dsn}"
schema = "{schema}"

[assembly]
timeout_ms = 100.0

[api]
port = {api}
"""


@contextmanager
def failing(place: str, when: Path, file: Path, log: Path) -> Iterator[subprocess.Popen]:
    """A daemon that fails once `when` is there."""
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.half_step", place, str(when), "run", str(file)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=said,
            stderr=said,
        )
    try:
        until(lambda: "taking readings at" in log.read_text() or process.poll() is not None, "it takes readings")
        yield process
    finally:
        process.kill()
        process.wait()


async def send_on(sender: Sender) -> None:
    """Send triggers, of which every other one lacks an instrument."""
    for trigger in itertools.count(1):
        await sender.send(np.ascontiguousarray(triggers_of(sender.record, trigger, 1)[0, trigger % 2 :]))
        await asyncio.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
async def test_a_defect_ends_the_process_and_the_next_one_recovers(
    place: str, tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    file, log, when = tmp_path / "beam.toml", tmp_path / "log", tmp_path / "when"
    port = free_port()
    file.write_text(
        CONFIGURATION.format(folder=tmp_path, port=port, api=free_port(), dsn=postgresql_dsn, schema=schema)
    )
    with failing(place, when, file, log) as process:
        ack = ACKS.get(place, Ack.COMMITTED)
        sender = await Sender.connect("127.0.0.1", port, "bpm", sender="crate", ack=ack, reconnect=True)
        sending = asyncio.create_task(send_on(sender))
        await asyncio.to_thread(until, lambda: sender.acknowledged > 200, "acknowledgements")
        when.touch()
        code = await asyncio.to_thread(process.wait, 60)
        await end_tasks(sending)
        assert code == 1, log.read_text()
    said = log.read_text()
    assert said.count("the daemon ends at once: AssertionError: half a step") == 1
    assert "Traceback (most recent call last)" in said
    assert "the daemon ends at once" in read_events(tmp_path / "state")[-1].text
    with running("run", str(file)) as run:
        run.until_said("taking readings at")
        await sender.drain_acknowledged(60)
        assert (sender.acknowledged, sender.refused) == (sender.sent, 0)
        await sender.close()
        assert await asyncio.to_thread(run.end) == 0, run.said
    reconciled = here("reconcile", str(file))
    assert reconciled.returncode == 0, reconciled.stdout + reconciled.stderr
    connection = await asyncpg.connect(postgresql_dsn)
    try:
        stored = await connection.fetchrow(
            f"SELECT count(*), count(DISTINCT (trigger_id, instrument)) FROM {schema}.bpm"
        )
    finally:
        await connection.close()
    assert tuple(stored) == (sender.sent, sender.sent)
