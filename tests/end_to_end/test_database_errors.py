"""What an operator does to the database under a daemon: readings wait until it is undone, and all are stored."""

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import httpx
import numpy as np
import pytest

from daemon.client.sender import Sender
from schemas.readings import Array
from schemas.wire import Ack, ProtocolError
from tests.support.processes import free_port, running, triggerlog, until

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 6
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[groups]]
name = "ict"
count = 2
channels = [{{ name = "charge" }}]

[[sources]]
kind = "tcp"
port = {tcp}
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
schema = "{schema}"
command_timeout_s = 5

[api]
port = {api}
"""
Execute = Callable[[str], Awaitable[list[tuple[object, ...]]]]


def in_postgresql(dsn: str, schema: str) -> Execute:
    async def run(statement: str) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(dsn, server_settings={"search_path": schema}, statement_cache_size=0)
        try:
            if statement.startswith("SELECT"):
                return [tuple(row) for row in await connection.fetch(statement)]
            await connection.execute(statement)
            return []
        finally:
            await connection.close()

    return run


def in_mariadb(dsn: str, schema: str) -> Execute:
    async def run(statement: str) -> list[tuple[object, ...]]:
        port = dsn.rpartition(":")[2]
        command = ["mariadb", "-N", "-h", "127.0.0.1", "-P", port, "-u", "root", "-D", schema, "-e", statement]
        done = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, text=True)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    return run


def block_of(sender: Sender, first: int) -> Array:
    """Ten triggers of all instruments."""
    block: Array = np.zeros((10, sender.instruments), sender.record)
    block["trigger"], block["instrument"] = np.arange(first, first + 10)[:, None], np.arange(sender.instruments)
    block["time_ns"], block["epoch"] = 1_800_000_000_000_000_000 + block["trigger"] * 1_000_000, 9
    return block.reshape(-1)


class Instruments:
    """One sender a group, which outlive the daemon."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.senders: dict[str, Sender] = {}

    async def connect(self) -> None:
        for name in ("bpm", "ict"):
            self.senders[name] = await Sender.connect("127.0.0.1", self.port, name, ack=Ack.COMMITTED, reconnect=True)

    async def send(self, name: str, first: int, *, drain: bool = True) -> None:
        sender = self.senders[name]
        await sender.send(block_of(sender, first))
        if drain:
            await sender.drain_acknowledged(120)


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str:
    """Started outside of the loop of a test."""
    return str(request.getfixturevalue(f"{server}_dsn"))


@pytest.mark.parametrize(
    ("server", "wrong", "undone", "says", "both"),
    [
        (
            "postgresql",
            "ALTER TABLE positions RENAME COLUMN state TO other",
            "ALTER TABLE positions RENAME COLUMN other TO state",
            "42703",
            True,
        ),
        (
            "postgresql",
            "DROP VIEW bpm_readings CASCADE; ALTER TABLE bpm ALTER COLUMN top_in TYPE real",
            "ALTER TABLE bpm ALTER COLUMN top_in TYPE double precision",
            "22P03",
            False,
        ),
        (
            "postgresql",
            "ALTER TABLE bpm_ledger RENAME TO other",
            "ALTER TABLE other RENAME TO bpm_ledger",
            "42P01",
            False,
        ),
        (
            "postgresql",
            "ALTER TABLE positions RENAME TO other",
            "ALTER TABLE other RENAME TO positions",
            "42P01",
            True,
        ),
        (
            "postgresql",
            "ALTER TABLE bpm ADD added int NOT NULL DEFAULT 1; ALTER TABLE bpm ALTER added DROP DEFAULT",
            "ALTER TABLE bpm DROP COLUMN added",
            "22P04|23502",
            False,
        ),
        ("mariadb", "RENAME TABLE bpm TO other", "RENAME TABLE other TO bpm", "1146", False),
        ("mariadb", "RENAME TABLE positions TO other", "RENAME TABLE other TO positions", "1146", True),
        (
            "mariadb",
            "ALTER TABLE bpm CHANGE top_in other DOUBLE",
            "ALTER TABLE bpm CHANGE other top_in DOUBLE",
            "1054",
            False,
        ),
    ],
    ids=[
        *("column", "type", "table", "positions", "added"),
        *("mariadb-table", "mariadb-positions", "mariadb-column"),
    ],
)
async def test_readings_wait_for_what_an_operator_has_taken_away(
    tmp_path: Path,
    dsn: str,
    schema: str,
    server: str,
    wrong: str,
    undone: str,
    says: str,
    both: bool,
) -> None:
    schema = f"away_{schema}"
    execute = (in_postgresql if server == "postgresql" else in_mariadb)(dsn, schema)
    tcp, api, file = free_port(), free_port(), tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(folder=tmp_path, dsn=dsn, schema=schema, tcp=tcp, api=api))
    instruments = Instruments(tcp)

    def status() -> dict:
        return httpx.get(f"http://127.0.0.1:{api}/api/v1/status", trust_env=False, timeout=60).json()

    def alarms() -> str:
        return httpx.get(f"http://127.0.0.1:{api}/api/v1/alarms", trust_env=False, timeout=60).text

    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "taking readings at")
        await instruments.connect()
        for name in ("bpm", "ict"):
            await instruments.send(name, 1)
        await execute(wrong)
        await instruments.send("bpm", 11, drain=False)
        await instruments.send("ict", 11, drain=not both)
        await asyncio.to_thread(
            until, lambda: re.search(says, status()["store"]["problem"] or ""), "the status names the error"
        )
        await asyncio.to_thread(until, lambda: re.search(says, alarms()), "an alarm names the error")
        await asyncio.to_thread(run.end)
    assert "dead letter" not in run.said
    # It starts, listens and waits, and what comes meanwhile is kept.
    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "taking readings")
        await instruments.send("bpm", 21, drain=False)
        await instruments.send("ict", 21, drain=False)
        await asyncio.to_thread(
            until,
            lambda: (status()["store"]["problem"] or "") not in ("", "not opened yet"),
            "it says what it waits for",
        )
        await execute(undone)
        for name in ("bpm", "ict"):
            await instruments.senders[name].drain_acknowledged(120)
        groups = status()["groups"]
        assert [groups[name]["dead_letters"]["readings"] for name in ("bpm", "ict")] == [0, 0]
        for sender in instruments.senders.values():
            await sender.close()
        await asyncio.to_thread(run.end)
    for name, size in (("bpm", 6), ("ict", 2)):
        query = f"SELECT count(*), count(DISTINCT trigger_id), max(trigger_id) FROM {name}"
        assert await count(execute, query) == [30 * size, 30, 30]


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
async def test_a_configuration_that_the_database_refuses_has_a_way_out(
    tmp_path: Path, server: str, dsn: str, schema: str
) -> None:
    schema = f"refused_{schema}"
    execute = (in_postgresql if server == "postgresql" else in_mariadb)(dsn, schema)
    away, back = {
        "postgresql": ("ALTER TABLE positions RENAME TO other", "ALTER TABLE other RENAME TO positions"),
        "mariadb": ("RENAME TABLE positions TO other", "RENAME TABLE other TO positions"),
    }[server]
    tcp, api, file = free_port(), free_port(), tmp_path / "beam.toml"

    def configure(schema: str, dtype: str) -> None:
        text = CONFIGURATION.format(folder=tmp_path, dsn=dsn, schema=schema, tcp=tcp, api=api)
        file.write_text(text.replace("int16", dtype))

    async def send(ack: Ack, first: int, told: list[str] | None = None) -> Sender:
        on_problem = None if told is None else told.append
        sender = await Sender.connect("127.0.0.1", tcp, "bpm", ack=ack, reconnect=True, on_problem=on_problem)
        await sender.send(block_of(sender, first))
        await sender.drain_acknowledged(120)
        return sender

    configure(schema, "int16")
    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "taking readings at")
        await (await send(Ack.COMMITTED, 1)).finish()
        await asyncio.to_thread(run.end)
    await execute(away)
    configure(schema, "int32")
    told: list[str] = []
    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "taking readings into the journal")
        sender = await send(Ack.RECEIVED, 11, told)
        await execute(back)
        # The one message says what is wrong, how many readings it concerns, and how they are stored.
        reason = "'gain' is int16, the configuration says int32; .* 60 readings of group bpm .* another `schema`"
        await asyncio.to_thread(run.until_said, reason)
        with pytest.raises(ProtocolError, match=f"^configuration: .*{reason}"):
            await Sender.connect("127.0.0.1", tcp, "bpm", ack=Ack.RECEIVED)
        sender.put(block_of(sender, 21))
        await asyncio.to_thread(until, lambda: any(re.search(reason, text) for text in told), "the sender is told why")
        assert sender.acknowledged == 60
        other = await Sender.connect("127.0.0.1", tcp, "ict", ack=Ack.RECEIVED)
        await other.send(block_of(other, 11))
        await other.drain_acknowledged(120)
        await other.close()
        await asyncio.to_thread(run.end)
    refused = await asyncio.to_thread(triggerlog, "run", str(file))
    assert refused.returncode == 1
    assert re.search(reason, refused.stderr)
    configure(f"{schema}_b", "int32")
    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "taking readings at")
        await sender.drain_acknowledged(120)
        await sender.finish()
        await asyncio.to_thread(until, lambda: not any(waiting(api)), "all is committed")
        await asyncio.to_thread(run.end)
    in_b = (in_postgresql if server == "postgresql" else in_mariadb)(dsn, f"{schema}_b")
    counted = [await count(in_b, "SELECT count(DISTINCT trigger_id), count(*) FROM " + name) for name in ("bpm", "ict")]
    assert counted == [[20, 120], [10, 20]]
    configure(schema, "int16")
    with running("run", str(file)) as run:
        await asyncio.to_thread(run.until_said, "taking readings at")
        await (await send(Ack.COMMITTED, 31)).finish()
        groups = (await asyncio.to_thread(status_of, api))["groups"]
        assert groups["bpm"]["dead_letters"]["readings"] == 0
        # As the message says: this schema does not have what the other one acknowledged.
        assert groups["bpm"]["readings"]["lost"] == {"database": 60}
        await asyncio.to_thread(run.end)
    assert await count(execute, "SELECT count(DISTINCT trigger_id), count(*) FROM bpm") == [20, 120]


def status_of(api: int) -> dict:
    return httpx.get(f"http://127.0.0.1:{api}/api/v1/status", trust_env=False, timeout=60).json()


def waiting(api: int) -> list[int]:
    status = status_of(api)
    intakes = [each["waiting"] for each in status["intakes"].values()]
    return [
        *intakes,
        *(group["triggers"]["waiting"] + group["triggers"]["open"] for group in status["groups"].values()),
    ]


async def count(execute: Execute, statement: str) -> list[int]:
    return [int(str(each)) for each in (await execute(statement))[0]]
