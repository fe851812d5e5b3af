"""Dead letters of real daemons: what PostgreSQL and MariaDB reject, looked at, retried, and through kill -9."""

import asyncio
import contextlib
import csv
import json
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiomysql
import asyncpg
import httpx
import numpy as np
import psutil
import pytest

from daemon.client.sender import Sender
from daemon.core.configuration.api_token import stored_token
from schemas.wire import Ack
from tests.support.processes import Running, here, running, triggerlog, until
from tests.support.sending import balanced

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 6
channels = [{{ name = "top_in", unit = "mm" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = 0
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"

[api]
port = 0
"""
INSTRUMENTS = 6
START_NS = 1_800_000_000_000_000_000
BAD = 1000.0
SETTINGS = {"statement_cache_size": 0}


class Daemon:
    """`triggerlog run`, once it takes readings."""

    def __init__(self, run: Running, file: Path) -> None:
        self.run = run
        self.file = file
        found = run.until_said(r"taking readings at \S+:(\d+); API at (\S+)")
        self.port, self.api = int(found[1]), found[2]

    def group(self) -> dict:
        return self.get("/api/v1/status").json()["groups"]["bpm"]

    def alarms(self) -> list[str]:
        return [alarm["key"] for alarm in self.get("/api/v1/alarms").json()]

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.api}{path}", verify=False, trust_env=False, timeout=60).raise_for_status()


def configured(folder: Path, dsn: str, schema: str, layout: str = "rows") -> Path:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=folder, dsn=dsn, schema=schema, layout=layout))
    return file


@contextlib.contextmanager
def logging_daemon(file: Path) -> Iterator[Daemon]:
    with running("run", str(file)) as run:
        yield Daemon(run, file)


async def send(port: int, triggers: range, bad: set[int] = frozenset(), *, instruments: int = INSTRUMENTS) -> None:
    """Send triggers in one block, those in `bad` with a value that the database will not have."""
    sender = await Sender.connect("127.0.0.1", port, "bpm", ack=Ack.COMMITTED)
    async with sender:
        block = np.zeros((len(triggers), instruments), sender.record)
        block["instrument"] = np.arange(instruments)
        block["trigger"] = np.array(triggers)[:, None]
        block["time_ns"] = START_NS + block["trigger"] * 1_000_000
        block["top_in"] = np.where(np.isin(block["trigger"], list(bad)), BAD, 1.0)
        await sender.send(block.reshape(-1))
        await sender.drain_acknowledged(60)


class Database:
    """A schema in a PostgreSQL that other tests use, too."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn, self.schema = dsn, f"dead_{schema}"

    async def ask(self, *statements: str) -> list:
        settings = {"search_path": self.schema}
        connection = await asyncpg.connect(self.dsn, server_settings=settings, **SETTINGS)
        try:
            return [await connection.fetch(statement) for statement in statements][-1]
        finally:
            await connection.close()


@pytest.fixture
def database(postgresql_dsn: str, schema: str) -> Database:
    return Database(postgresql_dsn, schema)


async def stored(database: Database) -> list[int]:
    """The triggers of each reading, in order; a reading that is there twice fails."""
    rows = await database.ask("SELECT trigger_id, instrument FROM bpm ORDER BY 1, 2")
    pairs = [tuple(row) for row in rows]
    assert len(pairs) == len(set(pairs))
    return sorted({trigger for trigger, _ in pairs})


async def ledger_agrees(database: Database) -> bool:
    """Whether each trigger has one ledger row, which counts the readings that are there."""
    rows = await database.ask(
        "SELECT l.arrived, (SELECT count(*) FROM bpm d WHERE (d.run, d.trigger_id) = (l.run, l.trigger_id)),"
        " count(*) OVER (PARTITION BY l.run, l.trigger_id) FROM bpm_ledger l",
    )
    return all(arrived == count and rows == 1 for arrived, count, rows in rows)


NOT_BAD = f"ALTER TABLE bpm ADD CONSTRAINT not_bad CHECK (top_in < {BAD})"
ALL_GOOD = "ALTER TABLE bpm DROP CONSTRAINT not_bad"


async def test_postgresql_rejects_two_triggers_of_many_and_takes_them_when_it_is_fixed(
    tmp_path: Path, database: Database
) -> None:
    file = configured(tmp_path, database.dsn, database.schema)
    with logging_daemon(file) as daemon:
        retry = ("dead-letters", "retry", str(file), "--daemon", daemon.api)
        await send(daemon.port, range(1, 11))
        await database.ask(NOT_BAD)
        await send(daemon.port, range(11, 111), {40, 77})
        group = daemon.group()
        assert (group["readings"]["dead"], group["dead_letters"]["readings"]) == (12, 12)
        assert balanced(group)
        assert await stored(database) == [t for t in range(1, 111) if t not in {40, 77}]
        assert "triggerlog dead-letters list" in daemon.run.said

        listed = here("dead-letters", "list", str(file)).stdout
        assert "40 to 77" in listed
        assert "not_bad" in listed
        letters = json.loads(here("dead-letters", "list", str(file), "--json").stdout)
        assert [(each["group"], each["trigger"], each["readings"]) for each in letters] == [
            ("bpm", 40, 6),
            ("bpm", 77, 6),
        ]
        exported = here("dead-letters", "export", str(file), "--to", str(tmp_path / "dead.npz"))
        assert "12 readings of 2 dead letters" in exported.stdout
        with np.load(tmp_path / "dead.npz") as archive:
            assert archive["bpm/readings"]["top_in"].tolist() == 12 * [BAD]
            assert archive["bpm/readings"]["trigger"].tolist() == 6 * [40] + 6 * [77]
            assert archive["bpm/ledger"]["arrived"].tolist() == [6, 6]
            assert json.loads(str(archive["about"]))["bpm"]["units"]["top_in"] == "mm"
        here("dead-letters", "export", str(file), "--to", str(tmp_path / "dead.csv"))
        with (tmp_path / "dead.csv").open() as table:
            rows = list(csv.DictReader(table))
        assert len(rows) == 12
        assert (rows[0]["top_in [mm]"], rows[0]["name"], rows[-1]["trigger"]) == ("1000.0", "bpm_000", "77")

        # Nothing is fixed yet: they stay, and say why.
        again = here(*retry)
        assert again.returncode == 1
        assert again.stdout.startswith("bpm: 0 committed (0 readings), 2 rejected again; 2 x ")
        assert "not_bad" in again.stdout
        await database.ask(ALL_GOOD)
        done = here(*retry)
        assert (done.returncode, done.stdout) == (0, "bpm: 2 committed (12 readings), 0 rejected again\n")
        group = daemon.group()
        assert (group["dead_letters"]["letters"], group["dead_letters"]["retried"]) == (0, 12)
        assert balanced(group)
        metrics = daemon.get("/metrics").text
        assert 'triggerlog_readings_retried_total{group="bpm"} 12.0' in metrics
        assert 'triggerlog_dead_letters{group="bpm"} 0.0' in metrics
        # Nor does an alarm stay of what is discarded.
        await database.ask(f"{NOT_BAD} NOT VALID")
        await send(daemon.port, range(111, 113), {112})
        await database.ask(ALL_GOOD)
        until(lambda: "dead" in daemon.alarms(), "the alarm comes")
        done = here("dead-letters", "discard", str(file), "--yes", "--daemon", daemon.api)
        assert (done.returncode, done.stdout) == (0, "bpm: 6 readings of 1 trigger discarded\n")
        group = daemon.group()
        assert (group["dead_letters"]["letters"], group["dead_letters"]["discarded"]) == (0, 6)
        assert (group["readings"]["dead"], balanced(group)) == (18, True)
        until(lambda: "dead" not in daemon.alarms(), "the alarm goes")
        # Sent once more, they are known.
        await send(daemon.port, range(35, 45))
        assert daemon.run.end() == 0
    assert await stored(database) == list(range(1, 112))
    assert await ledger_agrees(database)
    with logging_daemon(file) as daemon:
        assert daemon.group()["dead_letters"]["letters"] == 0
        await send(daemon.port, range(111, 121))
        assert daemon.run.end() == 0
    assert await stored(database) == list(range(1, 121))


@pytest.mark.parametrize("layout", ["rows", "arrays"])
async def test_what_comes_for_a_dead_letter_after_a_restart_waits_with_it(
    tmp_path: Path, database: Database, layout: str
) -> None:
    file = configured(tmp_path, database.dsn, database.schema, layout)
    bad = NOT_BAD if layout == "rows" else NOT_BAD.replace(f"top_in < {BAD}", f"{BAD} <> ALL (top_in)")
    with logging_daemon(file) as daemon:
        await database.ask(bad)
        await send(daemon.port, range(1, 21), {20}, instruments=4)
        assert daemon.group()["dead_letters"]["readings"] == 4
        daemon.run.end(signal.SIGKILL)
    with logging_daemon(file) as daemon:
        assert "are in the dead letters" in daemon.run.said
        assert daemon.group()["dead_letters"]["readings"] == 4
        # The two that were missing, and four that are known.
        await send(daemon.port, range(19, 21))
        until(lambda: daemon.group()["dead_letters"]["readings"] == 6, "what came late waits with it")
        group = daemon.group()
        assert (group["readings"]["late"], group["readings"]["duplicate"]) == (4, 8)
        assert balanced(group)
        await database.ask(ALL_GOOD)
        assert here("dead-letters", "retry", str(file), "--daemon", daemon.api).returncode == 0
        assert daemon.run.end() == 0
    ledger = await database.ask("SELECT trigger_id, arrived FROM bpm_ledger ORDER BY 1")
    assert [tuple(row) for row in ledger] == [(t, 4 if t < 19 else 6) for t in range(1, 21)]
    readings = await database.ask("SELECT trigger_id, count(*) FROM bpm_readings GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in readings] == [(t, 4 if t < 19 else 6) for t in range(1, 21)]


async def test_a_retry_is_followed_and_goes_on_when_its_command_is_interrupted(
    tmp_path: Path, database: Database
) -> None:
    file = configured(tmp_path, database.dsn, database.schema)
    with logging_daemon(file) as daemon:
        await send(daemon.port, range(1, 3))
        await database.ask(NOT_BAD)
        await send(daemon.port, range(3, 503), set(range(3, 503)))
        assert daemon.group()["dead_letters"]["letters"] == 500
        listed = here("dead-letters", "list", str(file)).stdout
        assert "bpm: 500 letters, 500 triggers, 3,000 readings; triggers 3 to 502 of run 1;" in listed
        assert len(listed.splitlines()) == 5
        await database.ask(ALL_GOOD)
        connection = await asyncpg.connect(database.dsn, **SETTINGS)
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE {database.schema}.bpm IN ACCESS EXCLUSIVE MODE")
            said = ""
            for patience_s in (0, 1, 4, 16):  # for the daemon's first answer
                with running("dead-letters", "retry", str(file), "--daemon", daemon.api) as command:
                    until(lambda: retried(daemon)["running"], "it has begun")
                    await asyncio.sleep(patience_s)
                    assert command.end(signal.SIGINT) == 130
                said = command.said
                assert "the daemon goes on" in said
                if "bpm: " in said:
                    break
            assert "bpm: 0 committed (0 readings), 0 rejected again, 500 not tried yet" in said
            assert retried(daemon)["letters"] == 500
        await connection.close()
        # It follows what is under way, or finds it done.
        assert here("dead-letters", "retry", str(file), "--daemon", daemon.api).returncode == 0
        until(lambda: not retried(daemon)["running"], "it has ended")
        assert retried(daemon)["committed"] in (0, 500)
        group = daemon.group()
        assert (group["dead_letters"]["letters"], group["dead_letters"]["retried"]) == (0, 3000)
        assert balanced(group)
        assert "Refused" not in here("status", str(file), "--once", "--daemon", daemon.api).stdout
        assert daemon.run.end() == 0
    assert await stored(database) == list(range(1, 503))
    assert await ledger_agrees(database)


def retried(daemon: Daemon) -> dict:
    token = stored_token(daemon.file.parent / "state")
    answer = httpx.get(
        f"{daemon.api}/api/v1/dead-letters/retry",
        verify=False,
        trust_env=False,
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )
    return answer.raise_for_status().json()["bpm"]


async def test_mariadb_refuses_rows_for_a_while(tmp_path: Path, mariadb_dsn: str, schema: str) -> None:
    file = configured(tmp_path, mariadb_dsn, schema)
    with logging_daemon(file) as daemon:
        await send(daemon.port, range(1, 11))
        await on_mariadb(mariadb_dsn, f"ALTER TABLE {schema}.bpm ADD CONSTRAINT few CHECK (trigger_id <= 10)")
        await send(daemon.port, range(11, 31))
        group = daemon.group()
        assert (group["readings"]["dead"], group["dead_letters"]["triggers"]) == (120, 20)
        assert balanced(group)
        assert daemon.run.end() == 0
    refused = here("dead-letters", "retry", str(file))
    assert refused.returncode == 1
    assert "20 rejected again; 20 x" in refused.stdout
    assert "few" in refused.stdout
    await on_mariadb(mariadb_dsn, f"ALTER TABLE {schema}.bpm DROP CONSTRAINT few")
    discard = here("dead-letters", "discard", str(file))
    assert (discard.returncode, "120 readings" in discard.stderr) == (1, True)
    # No daemon runs now: the command asks the database itself.
    done = triggerlog("dead-letters", "retry", str(file))
    assert (done.returncode, done.stdout) == (0, "bpm: 20 committed (120 readings), 0 rejected again\n")
    assert here("dead-letters", "list", str(file)).stdout == "There are no dead letters.\n"
    (found,) = await on_mariadb(
        mariadb_dsn, f"SELECT count(*), count(DISTINCT run, trigger_id, instrument) FROM {schema}.bpm"
    )
    assert found == (180, 180)
    nothing = here("dead-letters", "export", str(file), "--to", str(tmp_path / "dead.npz"))
    assert (nothing.returncode, nothing.stderr) == (1, "triggerlog: there are no dead letters to export\n")


async def on_mariadb(dsn: str, statement: str) -> list[tuple]:
    parts = httpx.URL(dsn)
    socket = parts.params.get("unix_socket")
    where = {"unix_socket": socket} if socket else {"host": parts.host, "port": parts.port}
    connection = await aiomysql.connect(
        user=parts.username or "root", password=parts.password or "", autocommit=True, **where
    )
    try:
        async with connection.cursor() as cursor:
            await cursor.execute(statement)
            return list(await cursor.fetchall())
    finally:
        await connection.ensure_closed()


async def test_kill_9_at_any_moment_loses_no_dead_letter_and_doubles_none(tmp_path: Path, database: Database) -> None:
    """Every third trigger is rejected while the daemon is killed again and again; then the retrying is killed, too."""
    chance = random.Random(4)
    file = configured(tmp_path, database.dsn, database.schema)
    bad = {t for t in range(1, 201) if t % 3 == 0}
    for first in range(1, 201, 100):
        with logging_daemon(file) as daemon:
            if first == 1:
                await database.ask(NOT_BAD)
            sending = asyncio.create_task(send(daemon.port, range(first, first + 100), bad))
            await asyncio.sleep(chance.uniform(0.05, 0.6))
            daemon.run.end(signal.SIGKILL)
            await asyncio.gather(sending, return_exceptions=True)
        with logging_daemon(file) as daemon:
            # What was not acknowledged comes again.
            await send(daemon.port, range(first, first + 100), bad)
            assert balanced(daemon.group())
            daemon.run.end(signal.SIGKILL)
    letters = json.loads(here("dead-letters", "list", str(file), "--json").stdout)
    assert sorted(each["trigger"] for each in letters if not each["late"]) == sorted(bad)
    assert await stored(database) == [t for t in range(1, 201) if t not in bad]
    await database.ask(ALL_GOOD)
    rounds = 0
    while json.loads(here("dead-letters", "list", str(file), "--json").stdout):
        rounds += 1
        with running("dead-letters", "retry", str(file)) as retrying:
            until(lambda run=retrying: has(run, tmp_path / "state" / "lock"), "it has begun")
            # Later with each round, so that one gets to the end.
            await asyncio.to_thread(ended_or_killed, retrying, chance.uniform(0.02, 0.05) * 2**rounds)
    assert await stored(database) == list(range(1, 201))
    assert await ledger_agrees(database)
    account = await database.ask("SELECT sum(triggers), sum(readings) FROM positions")
    assert tuple(account[0]) == (200, 1200)


def has(run: Running, file: Path) -> bool:
    """Whether a process has a file open, or has ended."""
    with contextlib.suppress(psutil.Error):
        if any(each.path == str(file) for each in psutil.Process(run.process.pid).open_files()):
            return True
    return run.process.poll() is not None


def ended_or_killed(process: Running, patience_s: float) -> None:
    try:
        process.ended(patience_s)
    except subprocess.TimeoutExpired:
        process.end(signal.SIGKILL)
