"""From a simulation in one process through the daemon in another into each database: laid beside the exact account."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import httpx
import numpy as np
import pytest

from backends import open_store
from daemon.tools.simulate import SimulateSettings, simulate
from daemon.tools.simulate.plan import Numbering
from daemon.tools.simulate.stream import ROUND_BYTES, clock_offsets, record_bank
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.ledger import unpack_missing
from schemas.queries import LedgerRow, LedgerTail, WindowReadings, answer_dtype
from schemas.readings import Array
from tests.end_to_end.test_c_sender import run, sender
from tests.support.listening import BPM
from tests.support.processes import Running, triggerlog

__all__ = ["sender"]  # the compiled C program, as a fixture

EVERY_DATABASE = pytest.mark.parametrize("database", ["postgresql", "mariadb", "mongodb"])
BOTH = pytest.mark.parametrize("layout", list(Layout))

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


@pytest.fixture
def dsn(request: pytest.FixtureRequest, database: str) -> str:
    """Where one of the databases is."""
    return request.getfixturevalue(f"{database}_dsn")


class Daemon:
    """`triggerlog run` in a process of its own."""

    def __init__(self, process: Running) -> None:
        self._process = process
        found = process.until_said(r"taking readings at \S+:(\d+), \S+:(\d+); API at (\S+)")
        self.tcp, self.udp, self.api = int(found[1]), int(found[2]), found[3]

    def ask(self, path: str, **parameters: Any) -> Any:
        """Ask the API about the group."""
        url = f"{self.api}/api/v1/groups/bpm/{path}"
        return httpx.get(url, params=parameters, verify=False, trust_env=False, timeout=60).raise_for_status().json()

    async def committed(self, triggers: int) -> None:
        """Wait until so many triggers are in the database."""
        async with (
            asyncio.timeout(60),
            httpx.AsyncClient(base_url=self.api, verify=False, trust_env=False, timeout=60) as client,
        ):
            count = 0
            while count < triggers:
                count = (await client.get("/api/v1/status")).json()["groups"]["bpm"]["triggers"]["committed"]
                await asyncio.sleep(0.02)

    async def end(self, *, kill: bool = False) -> str:
        """Stop it, or kill it, unless it has ended; what it logged."""
        if self._process.process.poll() is None:
            code = await asyncio.to_thread(self._process.end, signal.SIGKILL if kill else signal.SIGTERM)
            assert kill or code == 0, self._process.said
        return self._process.said


@asynccontextmanager
async def running(folder: Path, dsn: str, schema: str, *, layout: str = "rows", port: int = 0) -> AsyncIterator[Daemon]:
    config = folder / "triggerlog.toml"
    config.write_text(CONFIG.format(state=folder / "state", dsn=dsn, schema=schema, layout=layout, port=port))
    process = Running("run", str(config))
    try:
        daemon = await asyncio.to_thread(Daemon, process)
        yield daemon
        await daemon.end()
    finally:
        process.close()


@dataclass(kw_only=True)
class Accounted:
    """What was sent, reading by reading, as the account and the seed say. Shape (triggers, instruments) or (triggers,).

    clock: when each reading was taken, ns after the start of the simulation.
    """

    settings: SimulateSettings
    run: Array
    trigger: Array
    present: Array
    sent: Array
    values: Array
    clock: Array

    @classmethod
    def of(cls, file: Path, settings: SimulateSettings) -> "Accounted":
        with np.load(file) as kept:
            rows = {name: kept[f"bpm.{name}"] for name in ("run", "trigger", "sent", "missing")}
        together = max(1, ROUND_BYTES // (BPM.size * BPM.record.itemsize)) if settings.regular else 1
        bank = record_bank(
            SimpleNamespace(instruments=BPM.size, record=BPM.record), seed=settings.seed, multiple_of=together
        )
        index = np.arange(len(rows["run"]))
        return cls(
            settings=settings,
            run=rows["run"],
            trigger=rows["trigger"],
            present=~unpack_missing(rows["missing"], BPM.size),
            sent=rows["sent"],
            values=bank[index % len(bank)],
            clock=Numbering.of(settings).time_ns(index)[:, None] + clock_offsets(BPM.size, seed=settings.seed),
        )

    def readings(self, first_run: int) -> Array:
        """Every distinct reading as a store answers it, by run, trigger and instrument; times after the start."""
        row, instrument = np.nonzero(self.present)
        readings = np.empty(len(row), answer_dtype(BPM))
        readings["run"], readings["trigger"] = self.run[row] + first_run, self.trigger[row]
        readings["instrument"], readings["time_ns"] = instrument, self.clock[row, instrument]
        for channel in BPM.channels:
            readings[channel.name] = self.values[channel.name][row, instrument]
        return readings


async def check(
    dsn: str, schema: str, accounted: Accounted, *, layout: str = "rows", counts: bool = True, stuck: int | None = None
) -> None:
    """The database holds each distinct reading once as it was sent, and the ledger says of each trigger what is so.

    stuck: an instrument whose trigger number was; which of its readings became that trigger's is its own affair.
    """
    store = open_store(
        DatabaseConfig.model_validate({"dsn": dsn, "schema": schema}),
        logger="triggerlog",
        groups={"bpm": BPM},
        layouts={"bpm": Layout(layout)},
        state_dir=Path("/nonexistent"),
    )
    await store.open()
    try:
        found = await store.ask(WindowReadings(group=BPM, start_ns=-(2**63) + 1, end_ns=2**63 - 1))
        tail = await store.ask(LedgerTail(group=BPM, most=1_000_000))
        newest_run = int(tail["run"][-1])
        earlier = accounted.run < accounted.run.max()
        asked = [
            await store.ask(LedgerRow(group=BPM, trigger=int(trigger), run=newest_run - int(accounted.run.max() - run)))
            for run, trigger in zip(accounted.run[earlier], accounted.trigger[earlier], strict=True)
        ]
    finally:
        await store.close()
    ledger = np.concatenate([*asked, tail])
    first_run = newest_run - int(accounted.run.max())
    expected = accounted.readings(first_run)
    key = ["run", "trigger", "instrument"]
    assert np.array_equal(found[key], expected[key]), {
        "lacking": np.setdiff1d(expected[key], found[key]),
        "not sent": np.setdiff1d(found[key], expected[key]),
    }
    moved = np.isin(found["instrument"], [] if stuck is None else [stuck])
    started = found["time_ns"][~moved] - expected["time_ns"][~moved]
    assert len(set(started.tolist())) == 1, "each reading has the time at which it was taken"
    for channel in BPM.channels:
        np.testing.assert_array_equal(found[channel.name][~moved], expected[channel.name][~moved])
    np.testing.assert_array_equal(ledger["run"], accounted.run + first_run)
    np.testing.assert_array_equal(ledger["trigger"], accounted.trigger)
    np.testing.assert_array_equal(ledger["expected"], BPM.size)
    np.testing.assert_array_equal(ledger["arrived"], accounted.present.sum(axis=1))
    np.testing.assert_array_equal(~unpack_missing(ledger["missing"], BPM.size), accounted.present)
    if counts:
        np.testing.assert_array_equal(ledger["arrived"] + ledger["duplicates"], accounted.sent)


async def simulated(daemon: Daemon, account: Path, **settings: Any) -> tuple[dict[str, Any], Accounted]:
    """Run `triggerlog simulate` to its end; the report of the group, and what it sent."""
    given = {"port": daemon.tcp, "finish_timeout_s": 90.0, "account": account, **settings}
    options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    # Without sessions: in one, a reading that is sent twice has two numbers, and the second is set aside.
    done = await asyncio.to_thread(triggerlog, "simulate", "--json", "--no-sessions", *options, timeout_s=150)
    assert done.returncode == 0, done
    (group,) = json.loads(done.stdout)["groups"]
    assert group["refused"] == 0
    return group, Accounted.of(account, SimulateSettings(**given))


# FerretDB takes dozens of triggers a second where nothing else runs, and fewer beside other tests.

FAULTS = {"jitter_ms": 10.0, "missing": 0.02, "duplicated": 0.01, "late": 0.01, "out_of_order": 0.02}


@pytest.mark.slow
@EVERY_DATABASE
@BOTH
async def test_every_distinct_reading_is_there_once_and_the_ledger_knows_the_rest(
    tmp_path, dsn, schema, layout
) -> None:
    async with running(tmp_path, dsn, schema, layout=layout) as daemon:
        group, accounted = await simulated(
            daemon,
            tmp_path / "account.npz",
            rate=100.0,
            triggers=100,
            connections="each",
            stuck=17,
            stuck_from=75,
            epoch=1,
            **FAULTS,
        )
        await asyncio.to_thread(check_answers, daemon, accounted)
    assert group["connections"] == 120
    assert min(group[fault] for fault in ("missing", "duplicated", "late", "out_of_order")) > 50
    await check(dsn, schema, accounted, layout=layout, stuck=17)


def check_answers(daemon: Daemon, accounted: Accounted) -> None:
    """The API tells the newest complete trigger, an instrument's readings, thinned or not, and the ledger."""
    complete = int(np.flatnonzero(accounted.present.all(axis=1))[-1])
    newest = daemon.ask("newest")
    assert newest["trigger"] == accounted.trigger[complete]
    assert newest["instruments"] == list(BPM.instruments)
    for channel in BPM.channels:
        sent = np.delete(accounted.values[channel.name][complete], 17)
        assert np.delete(newest["channels"][channel.name], 17).tolist() == sent.tolist()

    there = np.flatnonzero(accounted.present[:, 5])
    span = {"start_ns": 0, "end_ns": 2**63 - 1}
    whole = daemon.ask("readings", instrument="bpm_005", points=1000, **span)
    assert (whole["stored"], whole["cut"], whole["time_ns"]) == (len(there), False, sorted(whole["time_ns"]))
    assert whole["trigger"] == accounted.trigger[there].tolist()
    assert whole["channels"]["bot_in"] == accounted.values["bot_in"][there, 5].tolist()
    thinned = daemon.ask("readings", instrument="5", points=40, **span)
    assert 20 < len(thinned["trigger"]) <= 40 < thinned["stored"] == len(there)
    for name, values in thinned["channels"].items():
        assert set(values) <= set(accounted.values[name][there, 5].tolist())

    lacking = int(np.flatnonzero(~accounted.present.all(axis=1))[0])
    row = daemon.ask(f"ledger/{accounted.trigger[lacking]}")
    absent = np.flatnonzero(~accounted.present[lacking])
    assert row["missing"] == [BPM.instruments[number] for number in absent]
    assert (row["expected"], row["arrived"]) == (BPM.size, BPM.size - len(absent))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "kill"),
    [("postgresql", True), ("postgresql", False), ("mariadb", True), ("mongodb", True)],
    ids=["postgresql-killed", "postgresql-stopped", "mariadb-killed", "mongodb-killed"],
)
async def test_nothing_is_lost_or_doubled_when_the_daemon_ends(tmp_path, dsn, schema, kill) -> None:
    account = tmp_path / "account.npz"
    said: list[str] = []
    async with running(tmp_path, dsn, schema, layout="arrays") as daemon:
        settings = SimulateSettings(
            port=daemon.tcp, rate=100, triggers=200, connections=5, jitter_ms=20, missing=0.02, account=account
        )
        running_on = asyncio.ensure_future(simulate(settings, say=said.append))
        await daemon.committed(30)
        await daemon.end(kill=kill)
    async with running(tmp_path, dsn, schema, layout="arrays", port=daemon.tcp):
        report = await running_on
    assert report.settled
    assert report.groups[0].reconnects == 5
    assert report.groups[0].refused == 0
    assert any("lost the connection" in line for line in said)
    # What was sent again counts as duplicated in some ledger rows: the daemon cannot know better.
    await check(dsn, schema, Accounted.of(account, settings), layout="arrays", counts=False)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql"])  # runs on every store are in test_store_contract
async def test_numbers_that_start_again_open_a_run_and_collide_with_nothing(tmp_path, dsn, schema) -> None:
    faults = {"jitter_ms": 10.0, "missing": 0.02, "duplicated": 0.02, "out_of_order": 0.02}
    async with running(tmp_path, dsn, schema) as daemon:
        _, accounted = await simulated(
            daemon,
            tmp_path / "account.npz",
            rate=200.0,
            triggers=150,
            connections=10,
            first_trigger=900,
            restart_after=50,
            restart_pause_ms=100.0,
            **faults,
        )
    await check(dsn, schema, accounted)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql", "mariadb"])  # FerretDB takes dozens a second at any rate
async def test_as_fast_as_possible_loses_nothing(tmp_path, dsn, schema) -> None:
    async with running(tmp_path, dsn, schema, layout="arrays") as daemon:
        _, accounted = await simulated(daemon, tmp_path / "account.npz", rate=0.0, triggers=1500)
    await check(dsn, schema, accounted, layout="arrays")


@pytest.mark.slow
async def test_the_c_sender_logs_into_the_database(tmp_path, postgresql_dsn, schema, sender) -> None:
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        assert await run(sender, "127.0.0.1", daemon.tcp, "bpm", 100, 1) == (
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
    await check(postgresql_dsn, schema, Accounted.of(account, settings))
