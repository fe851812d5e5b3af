"""`triggerlog reconcile` over real daemons and real databases, in which someone meddles."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import pymongo
import pytest
from bson import Binary, Int64
from bson.binary import USER_DEFINED_SUBTYPE

from backends.mongodb.protocol.triggers import id_bytes
from backends.mysql.server.address import address_of, connect
from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.client.sender import Sender
from daemon.tools.reconcile.command import THEY_DIFFER
from schemas.batch import Layout
from schemas.wire import Ack
from tests.support.processes import Running, free_port, here, running, triggerlog, until
from tests.support.sending import triggers_of

CONFIGURATION = """
logger = "hall"
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = 0

[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"
command_timeout_s = 5

[assembly]
timeout_ms = 100.0

[api]
port = {api}
"""


@dataclass(frozen=True)
class Database:
    """A real database, and how someone meddles with what is in it."""

    dsn: str
    schema: str
    layout: Layout
    run: Callable[["Database", str], None]

    def delete(self) -> None:
        """Delete what there is of one row of readings of trigger 5, or of all of them in the arrays layout."""
        self.run(self, "delete" if self.layout is Layout.ROWS else "delete arrays")

    def double(self) -> None:
        """Insert one row of readings of trigger 5 a second time."""
        self.run(self, "double" if self.layout is Layout.ROWS else "double arrays")

    def lower(self) -> None:
        """Take a trigger off the account."""
        self.run(self, "lower")


_SQL = {
    "delete": "DELETE FROM {schema}.bpm WHERE trigger_id = 5 AND instrument = 3",
    "delete arrays": "DELETE FROM {schema}.bpm WHERE trigger_id = 5",
    "lower": "UPDATE {schema}.positions SET triggers = triggers - 1, readings = readings - 12",
}
_COPY = "INSERT INTO {schema}.bpm (run, trigger_id, {instrument}time_ns, {rest}) SELECT run, trigger_id,"
_COPIES = {
    "double": f"{_COPY} instrument, time_ns + 1, top_in, gain FROM {{schema}}.bpm WHERE trigger_id=5 AND instrument=3",
    "double arrays": f"{_COPY} time_ns + 1, time_offset_ns, top_in, gain FROM {{schema}}.bpm WHERE trigger_id=5",
}


def _statement(database: Database, what: str) -> str:
    rows = database.layout is Layout.ROWS
    rest = "top_in, gain" if rows else "time_offset_ns, top_in, gain"
    text = {**_SQL, **_COPIES}[what]
    return text.format(schema=database.schema, instrument="instrument, " if rows else "", rest=rest)


def in_postgresql(database: Database, what: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(database.dsn)
        assert not (await connection.execute(_statement(database, what))).endswith(" 0")
        await connection.close()

    asyncio.run(run())


def in_mysql(database: Database, what: str) -> None:
    async def run() -> None:
        connection = await connect(address_of(database.dsn), program="test", timeout_s=10)
        assert await connection.run(_statement(database, what))
        await connection.ensure_closed()

    asyncio.run(run())


def in_mongodb(database: Database, what: str) -> None:
    with pymongo.MongoClient(database.dsn) as client:
        there = client[database.schema]
        # A trigger is one document with its ledger row, which is there twice under another number.
        if what == "delete":
            assert there["bpm"].delete_many({"trigger_id": {"$in": [5, 41_000]}}).deleted_count == 2
        elif what == "double":
            other = {"_id": Binary(id_bytes(1, 41_000), USER_DEFINED_SUBTYPE), "trigger_id": Int64(41_000)}
            there["bpm"].insert_one({**there["bpm"].find_one({"trigger_id": 5}), **other})
        else:
            newest = there["positions"].find_one(sort=[("_id", -1)])
            changed = there["positions"].update_one({"_id": newest["_id"]}, {"$inc": {"triggers": -1, "readings": -12}})
            assert changed.modified_count == 1


KINDS = {
    "postgresql": ("postgresql_dsn", in_postgresql),
    "mariadb": ("mariadb_dsn", in_mysql),
    "mongodb": ("mongodb_dsn", in_mongodb),
}


@pytest.fixture(params=[*(f"{kind}-rows" for kind in KINDS), "postgresql-arrays"])
def database(request: pytest.FixtureRequest, schema: str) -> Database:
    kind, layout = request.param.split("-")
    fixture, run = KINDS[kind]
    # A name of its own: some servers outlive the run.
    return Database(request.getfixturevalue(fixture), f"reconcile_{schema}", Layout(layout), run)


class Daemon:
    """`triggerlog run`, once it takes readings."""

    def __init__(self, run: Running) -> None:
        self.run = run
        found = run.until_said(r"taking readings(?: into .*,)? at \S+:(\d+); API at (\S+)")
        self.port, self.api = int(found[1]), found[2]


@pytest.fixture
def file(tmp_path: Path, database: Database) -> Path:
    return configured(tmp_path, database.dsn, database.schema, database.layout)


def configured(folder: Path, dsn: str, schema: str = "triggerlog", layout: str = "rows") -> Path:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=folder, dsn=dsn, schema=schema, layout=layout, api=free_port()))
    return file


@pytest.fixture
def logged(file: Path) -> Iterator[Daemon]:
    """A daemon that has committed triggers 1 to 40, one reading of them missing at first and late."""
    with running("run", str(file)) as run:
        daemon = Daemon(run)
        asyncio.run(send(daemon.port, 1, 40))
        yield daemon


async def send(port: int, first: int, triggers: int, ack: Ack = Ack.COMMITTED) -> None:
    async with await Sender.connect("127.0.0.1", port, "bpm", ack=ack) as sender:
        readings = triggers_of(sender.record, first, triggers).reshape(-1)
        if triggers > 1:
            # Instrument 3 is late for the first trigger: it comes when that has closed by its timeout.
            await sender.send(np.delete(readings, 3))
            await sender.drain_acknowledged(30)
            readings = readings[3:4]
        await sender.send(readings)
        await sender.drain_acknowledged(30)


def reconciled(file: Path, *options: str) -> tuple[bool, dict[str, Any]]:
    """Whether it agrees, and what it says as JSON."""
    ended = here("reconcile", str(file), "--json", *options)
    assert ended.returncode in (0, THEY_DIFFER), ended.stderr
    assert "Traceback" not in ended.stderr
    said = json.loads(ended.stdout)
    assert said["agrees"] == (ended.returncode == 0)
    return said["agrees"], said


def says(file: Path, *options: str) -> list[str]:
    """What differs."""
    agrees, said = reconciled(file, *options)
    assert not agrees
    verdicts = said["groups"]["bpm"]["verdicts"]
    return [verdict["result"] for verdict in verdicts if not verdict["agrees"]]


@pytest.mark.slow
def test_a_logger_and_someone_who_meddles(file: Path, database: Database, logged: Daemon) -> None:
    ended = here("reconcile", str(file))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    command = [sys.executable, "-m", "daemon", "reconcile", str(file)]
    for encoding in (b"latin-1", b"ascii"):
        done = subprocess.run(
            command, check=False, env={**os.environb, b"PYTHONIOENCODING": encoding}, capture_output=True
        )
        assert (done.returncode, done.stderr.count(b"Traceback")) == (0, 0), done
        assert b"? agrees" in done.stdout
    assert ended.stdout.count("✓ agrees") == 4
    assert "✓ agrees   what came and where it went: 480 readings, each committed or accounted for" in ended.stdout
    assert "✓ agrees   ledger and account: 480 readings were committed, and are there" in ended.stdout
    assert "counting group bpm in " in ended.stderr

    database.lower()
    daemon, account = says(file)
    assert "the account is 12 readings behind what this daemon committed" in daemon
    assert "the ledger has 12 readings (1 triggers) more than were ever committed" in account
    # The account is a total: the next commit sets it right.
    asyncio.run(send(logged.port, 41, 1))
    assert reconciled(file)[0]

    assert logged.run.end() == 0, logged.run.said
    agrees, said = reconciled(file)
    bpm = said["groups"]["bpm"]
    assert agrees
    assert "start it with `triggerlog run FILE`" in said["no_daemon"]
    assert (bpm["daemon"], bpm["journal"]) == (None, 0)
    (run,) = bpm["runs"]
    assert (run["triggers"], run["arrived"], run["account_triggers"], run["account_readings"]) == (41, 492, 41, 492)

    unit = "readings" if database.layout is Layout.ROWS else "triggers"
    more, fewer = (
        f"the data table has 1 {unit} more than the ledger",
        f"the data table lacks 1 {unit} that the ledger has: its rows were deleted",
    )
    if database.run is in_mongodb:
        more = "the ledger has 12 readings (1 triggers) more than were ever committed"
        fewer = "12 readings (1 triggers) were committed and are not in the ledger"
    database.double()
    (doubled,) = says(file)
    assert more in doubled
    database.delete()
    (lost,) = says(file)
    assert fewer in lost


def test_the_next_daemon_counts_on(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    file = configured(tmp_path, postgresql_dsn, f"reconcile_{schema}")
    for first, at_start in ((1, 0), (41, 12)):
        with running("run", str(file)) as run:
            daemon = Daemon(run)
            asyncio.run(send(daemon.port, first, 1))
            agrees, said = reconciled(file)
            readings = said["groups"]["bpm"]["daemon"]["readings"]
            assert agrees
            assert (readings["account_at_start"], readings["committed"]) == (at_start, 12)
            assert run.end() == 0, run.said


@pytest.mark.slow
def test_what_waits_in_the_journal_is_told(tmp_path: Path, state_dir: Path) -> None:
    server = ThrowawayPostgresql(state_dir)
    file = configured(tmp_path, server.start())
    try:
        with running("run", str(file)) as run:
            daemon = Daemon(run)
            asyncio.run(send(daemon.port, 1, 40))
            server.stop()
            asyncio.run(send(daemon.port, 41, 1, Ack.RECEIVED))
            line = here("reconcile", str(file))
            assert (line.returncode, line.stdout) == (1, "")
            assert line.stderr.startswith("triggerlog: ")
            assert line.stderr.count("\n") == 1
            run.end(signal.SIGKILL)
        server.start()
        ended = triggerlog("reconcile", str(file))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "at most 12 readings wait in the journal; the next start of the daemon commits them" in ended.stdout
        assert "No daemon was asked: no daemon at " in ended.stdout
        with running("run", str(file)) as run:
            daemon = Daemon(run)
            until(lambda: reconciled(file)[1]["groups"]["bpm"]["runs"][0]["arrived"] == 492, "")
            agrees, said = reconciled(file)
            assert agrees
            assert said["groups"]["bpm"]["daemon"]["readings"]["committed"] == 12
    finally:
        server.stop()


@pytest.mark.slow
def test_what_came_before_the_database_answered_is_told(tmp_path: Path, state_dir: Path) -> None:
    server = ThrowawayPostgresql(state_dir)
    file = configured(tmp_path, server.start())
    try:
        with running("run", str(file)) as run:
            asyncio.run(send(Daemon(run).port, 1, 40))
            assert run.end() == 0, run.said
        said = reconciled(file)[1]["groups"]["bpm"]
        assert said["journal"] == 0
        server.stop()
        with running("run", str(file)) as run:
            asyncio.run(send(Daemon(run).port, 41, 1, Ack.RECEIVED))
            status = json.loads(here("status", str(file), "--json").stdout)
            run.end(signal.SIGKILL)
        server.start()
        ended = triggerlog("reconcile", str(file))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert status["intakes"]["bpm"]["waiting"] == 12
        assert "at most 12 readings wait in the journal; the next start of the daemon commits them" in ended.stdout
        with running("run", str(file)) as run:
            Daemon(run)
            until(lambda: reconciled(file)[1]["groups"]["bpm"]["runs"][0]["arrived"] == 492, "")
            assert reconciled(file)[1]["groups"]["bpm"]["journal"] == 0
            assert run.end() == 0, run.said
        assert reconciled(file)[1]["groups"]["bpm"]["journal"] == 0
    finally:
        server.stop()


def test_dropped_partitions_are_named_on_purpose(postgresql_dsn: str, tmp_path: Path, schema: str) -> None:
    database = Database(postgresql_dsn, f"reconcile_{schema}", Layout.ROWS, in_postgresql)
    file = configured(tmp_path, database.dsn, database.schema)
    with running("run", str(file)) as run:
        asyncio.run(send(Daemon(run).port, 1, 40))
        assert run.end() == 0, run.said

    async def drop() -> None:
        connection = await asyncpg.connect(postgresql_dsn)
        for table in ("bpm", "bpm_ledger"):
            await connection.execute(f"DELETE FROM {database.schema}.{table} WHERE trigger_id <= 10")
        await connection.close()

    asyncio.run(drop())
    (lost,) = says(file)
    assert "120 readings (10 triggers) were committed and are not in the ledger" in lost
    assert "give --group bpm --removed 120, else" in lost
    assert reconciled(file, "--removed", "120")[0]
    assert not reconciled(file, "--removed", "119")[0]


def test_wrong_questions_get_one_line(postgresql_dsn: str, tmp_path: Path, schema: str) -> None:
    file = configured(tmp_path, postgresql_dsn, f"reconcile_{schema}")
    for options, expected in (
        (("--group", "ict"), "--group: "),
        ((), "the database has nothing to count yet: it lacks schema"),
    ):
        ended = here("reconcile", str(file), *options)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert expected in ended.stderr
        assert ended.stderr.count("\n") == 1
