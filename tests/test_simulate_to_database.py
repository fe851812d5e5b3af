"""From a simulation in one process through the daemon in another into PostgreSQL: laid beside the exact account."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from daemon.simulate import SimulateReport, SimulateSettings, simulate
from schemas.ledger import unpack_missing
from tests.listening import BPM
from tests.test_c_sender import run, sender

__all__ = ["sender"]  # the compiled C program, as a fixture

CONFIG = """
state_dir = "{state}"
[[groups]]
name = "bpm"
count = 120
channels = [{{name = "top_in"}}, {{name = "bot_in"}}, {{name = "bot_out"}}, {{name = "top_out"}}]
[[sources]]
kind = "tcp"
port = {port}
[[sources]]
kind = "udp"
port = 0
[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"
[api]
port = 0
"""


class Daemon:
    """`triggerlog run` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, tcp: int, udp: int) -> None:
        self.process, self.tcp, self.udp = process, tcp, udp
        self._rest = asyncio.ensure_future(process.stdout.read())

    async def end(self, *, kill: bool = False) -> str:
        """Stop it, or kill it; what it logged."""
        if self.process.returncode is None:
            self.process.kill() if kill else self.process.terminate()
        async with asyncio.timeout(30):
            await self.process.wait()
            return (await self._rest).decode()


@asynccontextmanager
async def running(folder: Path, dsn: str, schema: str, *, layout: str = "rows", port: int = 0) -> AsyncIterator[Daemon]:
    config = folder / "triggerlog.toml"
    config.write_text(CONFIG.format(state=folder / "state", dsn=dsn, schema=schema, layout=layout, port=port))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "daemon", "run", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=Path(__file__).parent.parent,
    )
    said = ""
    async with asyncio.timeout(30):
        while not (ports := re.search(r"taking readings at \S+:(\d+), \S+:(\d+);", said)):
            line = (await process.stdout.readline()).decode()
            assert line, f"the daemon ended: {said}"
            said += line
    daemon = Daemon(process, int(ports[1]), int(ports[2]))
    try:
        yield daemon
    finally:
        await daemon.end()


async def check(dsn: str, schema: str, account: Path, *, counts: bool = True) -> None:
    """The database holds each distinct reading once, and the ledger says of each trigger what the account says."""
    with np.load(account) as file:
        rows = {name: file[f"bpm.{name}"] for name in ("run", "trigger", "sent", "distinct", "missing")}
    connection = await asyncpg.connect(dsn)
    try:
        stored = await connection.fetch(f"SELECT run, trigger_id, instrument FROM {schema}.bpm_readings")
        ledger = await connection.fetch(f"SELECT * FROM {schema}.bpm_ledger ORDER BY run, trigger_id")
    finally:
        await connection.close()
    run_of = rows["run"] + ledger[0]["run"]
    there, instrument = np.nonzero(~unpack_missing(rows["missing"], BPM.size))
    accounted = set(zip(run_of[there].tolist(), rows["trigger"][there].tolist(), instrument.tolist(), strict=True))
    assert len(stored) == len({tuple(row) for row in stored}), "each reading is there once"
    assert {tuple(row) for row in stored} == accounted
    assert [(row["run"], row["trigger_id"]) for row in ledger] == list(
        zip(run_of.tolist(), rows["trigger"].tolist(), strict=True)
    )
    assert [row["arrived"] for row in ledger] == rows["distinct"].tolist()
    assert [bytes(row["missing"]) for row in ledger] == [bitmap.tobytes() for bitmap in rows["missing"]]
    if counts:
        assert [row["arrived"] + row["duplicates"] for row in ledger] == rows["sent"].tolist()


async def committed(dsn: str, schema: str, triggers: int) -> None:
    """Wait until so many triggers are in the database."""
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(20):
            count = f"SELECT count(*) FROM {schema}.bpm_ledger"
            while await connection.fetchval(count) < triggers:  # noqa: ASYNC110 - only the database knows
                await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def simulated(daemon: Daemon, **settings) -> SimulateReport:
    return await simulate(SimulateSettings(port=daemon.tcp, finish_timeout_s=20, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "arrays"])
async def test_every_distinct_reading_is_there_once_and_the_ledger_knows_the_rest(
    tmp_path, postgresql_dsn, schema, layout
) -> None:
    account = tmp_path / "account.npz"
    async with running(tmp_path, postgresql_dsn, schema, layout=layout) as daemon:
        report = await simulated(
            daemon,
            rate=100,
            triggers=200,
            connections="each",
            jitter_ms=10,
            missing=0.02,
            duplicated=0.01,
            late=0.01,
            out_of_order=0.02,
            stuck=17,
            stuck_from=150,
            account=account,
        )
    assert report.settled
    (group,) = report.groups
    assert group.refused == 0
    assert group.connections == 120
    assert min(group.missing, group.duplicated, group.late, group.out_of_order) > 50
    await check(postgresql_dsn, schema, account)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
async def test_nothing_is_lost_or_doubled_when_the_daemon_ends(tmp_path, postgresql_dsn, schema, kill) -> None:
    account = tmp_path / "account.npz"
    said: list[str] = []
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        settings = SimulateSettings(
            port=daemon.tcp, rate=200, triggers=600, connections=5, jitter_ms=20, missing=0.02, account=account
        )
        running_on = asyncio.ensure_future(simulate(settings, say=said.append))
        await committed(postgresql_dsn, schema, 100)
        await daemon.end(kill=kill)
    async with running(tmp_path, postgresql_dsn, schema, port=daemon.tcp):
        report = await running_on
    assert report.settled
    assert report.groups[0].reconnects == 5
    assert report.groups[0].refused == 0
    assert any("lost the connection" in line for line in said)
    # What was sent again counts as duplicated in some ledger rows: the daemon cannot know better.
    await check(postgresql_dsn, schema, account, counts=False)


@pytest.mark.slow
async def test_numbers_that_start_again_open_a_run_and_collide_with_nothing(tmp_path, postgresql_dsn, schema) -> None:
    account = tmp_path / "account.npz"
    faults = {"jitter_ms": 10, "missing": 0.02, "duplicated": 0.02, "out_of_order": 0.02}
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        report = await simulated(
            daemon,
            rate=200,
            triggers=300,
            connections=10,
            first_trigger=900,
            restart_after=100,
            restart_pause_ms=100,
            account=account,
            **faults,
        )
    assert report.settled
    assert report.groups[0].refused == 0
    await check(postgresql_dsn, schema, account)


@pytest.mark.slow
async def test_as_fast_as_possible_loses_nothing(tmp_path, postgresql_dsn, schema) -> None:
    account = tmp_path / "account.npz"
    async with running(tmp_path, postgresql_dsn, schema, layout="arrays") as daemon:
        report = await simulated(daemon, rate=0, triggers=3000, account=account)
    assert report.settled
    await check(postgresql_dsn, schema, account)


@pytest.mark.slow
async def test_the_c_sender_logs_into_the_database(tmp_path, postgresql_dsn, schema, sender) -> None:
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        assert await run(sender, "127.0.0.1", daemon.tcp, "bpm", 100) == (
            0,
            "sent 12000 acknowledged 12000 refused 0\n",
            "",
        )
    connection = await asyncpg.connect(postgresql_dsn)
    try:
        rows = await connection.fetch(
            f"SELECT trigger_id, count(*), sum(top_in) FROM {schema}.bpm GROUP BY 1 ORDER BY 1"
        )
    finally:
        await connection.close()
    assert [tuple(row) for row in rows] == [(n, 120, pytest.approx(0.1 * 119 * 60)) for n in range(1, 101)]


@pytest.mark.slow
async def test_datagrams_arrive_too(tmp_path, postgresql_dsn, schema) -> None:
    account = tmp_path / "account.npz"
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        settings = SimulateSettings(
            port=daemon.udp, protocol="udp", layouts=(BPM,), rate=100, triggers=50, missing=0.05, account=account
        )
        assert (await simulate(settings)).settled
        # The last incomplete trigger closes by its timeout; stopping the daemon commits what it has.
    await check(postgresql_dsn, schema, account)
