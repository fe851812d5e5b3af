"""Backups of real daemons: everything is destroyed, restored on an empty server, compared, and goes on."""

import asyncio
import gzip
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiomysql
import asyncpg
import httpx
import numpy as np
import pytest

from backends import open_conditions_store, open_visit_store
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.throwaway.mariadb import ThrowawayMariadb
from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.client.sender import Sender
from daemon.tools.backup.archive import BackupWriter, Manifest
from schemas.conditions.intervals import END, Key, NewInterval, TagStatus
from schemas.config import DatabaseConfig
from schemas.wire import Ack
from tests.support.processes import Running, running, triggerlog, until
from tests.support.reports import PATH, readings_of
from tests.support.servers import installed, needs, server_folder
from tests.support.visits import run_visits, visits_config

pytestmark = pytest.mark.slow

CONFIGURATION = """
logger = "beam"
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 6
channels = [{{ name = "x", unit = "mm" }}, {{ name = "gain", dtype = "float32" }}, {{ name = "n", dtype = "int16" }}]

[[groups]]
name = "blm"
count = 3
layout = "arrays"
channels = [{{ name = "dose", dtype = "float32" }}]

[[groups]]
name = "current"
instruments = ["Q1", "Q2", "Q3"]
channels = [{{ name = "ampere", unit = "A" }}, {{ name = "volt", dtype = "float32" }}]
folder = "{path}"

[[sources]]
kind = "tcp"
port = 0
acknowledge_every_ms = 5

[database]
{dsn}
schema = "readings"
partition = "hour"

[conditions]
schema = "settings"

[folders]
serve = true
schema = "channels"

[visits]
schema = "sky"

[api]
port = 0

[dashboard]
port = 0
"""
OLD = """
[decimation]
after_days = 0.1
bucket_s = 1

[retention]
keep_days = 0.3
check_every_s = 1
"""
INSTRUMENTS = {"bpm": 6, "blm": 3}
HOUR_NS = 3_600_000_000_000
HOURS_AGO = (10, 5, 1)
EACH = 20
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
SERVERS = ("embedded", "postgresql", "older postgresql", "mariadb")
LIMIT_S = 300
Fingerprint = dict[str, Any]


class Daemon:
    """`triggerlog run`, once it takes readings."""

    def __init__(self, run: Running, file: Path) -> None:
        self.run = run
        found = run.until_said(r"taking readings at \S+:(\d+); API at (\S+)")
        self.port, self.api = int(found[1]), found[2]
        token = (file.parent / "state" / "api-token").read_text().strip()
        self.client = httpx.Client(
            base_url=f"{self.api}/api/v1", trust_env=False, timeout=60, headers={"authorization": f"Bearer {token}"}
        )

    def get(self, path: str) -> Any:
        return self.client.get(path).raise_for_status().json()


@contextmanager
def logging_daemon(file: Path) -> Iterator[Daemon]:
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        with daemon.client:
            yield daemon
        if run.process.poll() is None:
            assert run.end() == 0, run.said


@contextmanager
def debian_postgresql(folder: Path) -> Iterator[str]:
    """A server of the system, which is older than the tools of the wheel; it listens on a socket alone."""
    if not DEBIAN:
        pytest.skip("no PostgreSQL of the system on this machine: install postgresql-15")
    account = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    folder.mkdir()
    os.chown(folder, account.pw_uid, account.pw_gid)

    def run(program: str, *arguments: str) -> None:
        with (folder / "said.log").open("ab") as said:
            command = [str(DEBIAN[0].parent / program), *arguments, "-D", str(folder / "data")]
            subprocess.run(command, check=True, stdout=said, stderr=said, user=account.pw_uid, cwd="/")

    run("initdb", "--auth=trust", "--username=postgres", "--locale=C", "--encoding=UTF8")
    with (folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nmax_connections = 50\n")
    run("pg_ctl", "start", "-w", "-t", "60", "-l", str(folder / "server.log"))
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run("pg_ctl", "stop", "-m", "immediate")


@contextmanager
def empty_server(kind: str) -> Iterator[str | None]:
    """A server without anything, gone afterwards; None is an embedded one."""
    with server_folder() as folder:
        if kind == "embedded":
            yield None
        elif kind == "older postgresql":
            with debian_postgresql(folder / "old") as dsn:
                yield dsn
        else:
            with installed():
                if kind == "mariadb":
                    needs("mariadb-dump", "mariadb-client")
                server = (ThrowawayPostgresql if kind == "postgresql" else ThrowawayMariadb)(folder / "s")
                dsn = server.start()
            try:
                yield dsn
            finally:
                server.stop()


def configured(folder: Path, dsn: str | None, more: str = "") -> Path:
    file = folder / "beam.toml"
    text = CONFIGURATION.format(folder=folder, path=PATH, dsn="" if dsn is None else f'dsn = "{dsn}"')
    file.write_text(text + more)
    return file


async def send(port: int, group: str, first: int, hours_ago: int, *, instruments: int = 0) -> None:
    """Send the triggers of an hour, with values that have no short decimal fraction."""
    async with await Sender.connect("127.0.0.1", port, group, ack=Ack.COMMITTED) as sender:
        block = np.zeros((EACH, instruments or INSTRUMENTS[group]), sender.record)
        block["epoch"] = 7
        block["instrument"] = np.arange(block.shape[1])
        block["trigger"] = first + np.arange(EACH)[:, None]
        block["time_ns"] = (
            (time.time_ns() // HOUR_NS - hours_ago) * HOUR_NS + HOUR_NS // 2 + block["trigger"] * 1_000_000
        )
        for name in set(block.dtype.names) & {"x", "gain", "dose"}:
            values = np.random.default_rng(first).normal(size=block.shape) * 1e6
            values.reshape(-1)[:2] = -0.0, 16_777_215.0
            block[name] = values
        await sender.send(block.reshape(-1))
        await sender.drain_acknowledged(60)


async def report(port: int) -> None:
    async with await Sender.connect("127.0.0.1", port, "current", ack=Ack.COMMITTED) as sender:
        await sender.send(readings_of([(0, 1_000, 1.1), (1, 1_001, 2.2), (0, 1_002, float("nan"))]))
        await sender.drain_acknowledged(60)


async def fill_besides(dsn: str | None, state: Path) -> None:
    """Conditions, and visits: what others write beside the daemon."""
    database = DatabaseConfig(dsn=dsn)
    conditions = open_conditions_store(database, schema="settings", state_dir=state)
    await conditions.create()
    await conditions.add_tag("spring", TagStatus.UNLOCKED)
    await conditions.add_type("bpm")
    name = (await conditions.attach_list("spring", (await conditions.add_list("bpm")).name)).name
    interval = NewInterval(url="bpm/a.json", checksum="ab" * 32, size=7, start=Key(0, 0), end=END)
    await conditions.attach_interval(name, (await conditions.add_interval(interval)).id)
    await conditions.close()
    visits = open_visit_store(database, visits_config("sky", {"index_mode": "partitioned"}), state_dir=state)
    await visits.create()
    await visits.connect()
    await run_visits(visits, range(3))
    await visits.close()


def fill(file: Path, dsn: str | None) -> None:
    """Use every feature that writes."""
    with logging_daemon(file) as daemon:
        for hour, ago in enumerate(HOURS_AGO):
            for group in INSTRUMENTS:
                asyncio.run(send(daemon.port, group, 1 + hour * EACH, ago))
        # Far beyond the others: they are set aside.
        asyncio.run(send(daemon.port, "bpm", 1_000_000, 1, instruments=1))
        asyncio.run(report(daemon.port))
        asyncio.run(fill_besides(dsn, file.parent / "state"))
        mark = {"id": str(uuid4()), "time_ns": time.time_ns(), "text": "shift began"}
        assert daemon.client.post("/marks", json=mark).status_code == 201
        until(lambda: sum(daemon.get("/status")["groups"]["bpm"]["readings"]["aside"].values()), "some are set aside")
    file.write_text(file.read_text() + OLD)
    with logging_daemon(file) as daemon:
        until(lambda: daemon.get("/retention"), "an hour is dropped")
        until(lambda: (daemon.get("/status")["decimation"] or {}).get("periods"), "an hour is reduced")
        until(lambda: not planned(file, "retention", "drops"), "no more is to be dropped", LIMIT_S, every_s=0.5)
        until(lambda: not planned(file, "decimation", "reductions"), "no more is to be reduced", LIMIT_S, every_s=0.5)


def planned(file: Path, command: str, what: str) -> list[Any]:
    """What retention or decimation would do next."""
    return list(json.loads(triggerlog(command, "plan", str(file), "--json").stdout)[what])


def fingerprint(dsn: str | None, state: Path) -> Fingerprint:
    """Everything on the server that is not its own: definitions, and the rows of each table."""
    if dsn is not None and dsn.startswith("mysql"):
        return asyncio.run(_of_mariadb(dsn))
    if dsn is not None:
        return asyncio.run(_of_postgresql(dsn))
    server = EmbeddedPostgresql(state)
    try:
        return asyncio.run(_of_postgresql(asyncio.run(server.start())))
    finally:
        asyncio.run(server.stop())


async def _of_postgresql(dsn: str) -> Fingerprint:
    connection = await asyncpg.connect(dsn, statement_cache_size=0)
    try:
        found: Fingerprint = {}
        for schema, name, kind, bound, comment in await connection.fetch(
            "SELECT nspname, relname, relkind::text, pg_get_expr(relpartbound, c.oid),"
            " obj_description(c.oid, 'pg_class') FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
        ):
            more: Any = None
            if kind == "r":
                rows = "count(*), md5(string_agg(t::text, chr(10) ORDER BY t::text))"
                more = tuple(await connection.fetchrow(f'SELECT {rows} FROM "{schema}"."{name}" t'))
            elif kind in ("i", "I"):
                more = await connection.fetchval(f'SELECT pg_get_indexdef(\'"{schema}"."{name}"\'::regclass)')
            elif kind == "S":
                more = tuple(await connection.fetchrow(f'SELECT last_value, is_called FROM "{schema}"."{name}"'))
            elif kind == "v":
                more = await connection.fetchval(f'SELECT pg_get_viewdef(\'"{schema}"."{name}"\'::regclass)')
            found[f"{schema}.{name}"] = (kind, bound, comment, more)
        return found
    finally:
        await connection.close()


async def _of_mariadb(dsn: str) -> Fingerprint:
    port = int(dsn.rpartition(":")[2])
    connection = await aiomysql.connect(host="127.0.0.1", port=port, user="root")
    found: Fingerprint = {}
    async with connection.cursor() as cursor:
        await cursor.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN"
            " ('mysql', 'information_schema', 'performance_schema', 'sys')"
        )
        for schema, name, kind in await cursor.fetchall():
            await cursor.execute(f"SHOW CREATE TABLE `{schema}`.`{name}`")
            definition = (await cursor.fetchone())[1]
            if kind == "BASE TABLE":
                await cursor.execute(f"CHECKSUM TABLE `{schema}`.`{name}`")  # of the bytes of each value
                definition = (definition, (await cursor.fetchone())[1])
            found[f"{schema}.{name}"] = definition
    connection.close()
    return found


def kept_files(state: Path) -> dict[str, bytes]:
    """The files of the promise: dead letters, journal, log, notes, and the token."""
    files = (
        path for path in state.rglob("*") if path.is_file() and "postgresql" not in path.relative_to(state).parts[0]
    )
    return {str(path.relative_to(state)): path.read_bytes() for path in files if path.name not in ("lock", "taken")}


def answers(daemon: Daemon) -> dict[str, Any]:
    """What the API tells of what is stored."""
    found = {path: daemon.get(path) for path in ("/retention", "/marks", "/folders")}
    for group, last in (("bpm", 3 * EACH), ("blm", 3 * EACH)):
        found[group] = {**daemon.get(f"/groups/{group}/triggers/{last}"), "age_s": None}
        found[f"{group} readings"] = daemon.get(f"/groups/{group}/readings?instrument=0&start_ns=0")
    return found


def destroy(state: Path) -> None:
    data = state / "postgresql"
    if data.is_symlink():
        shutil.rmtree(data.resolve())
    shutil.rmtree(state)


@pytest.mark.parametrize("kind", SERVERS)
def test_all_comes_back_on_an_empty_server_and_goes_on(kind: str) -> None:
    with server_folder() as folder:
        state, backup = folder / "state", folder / "beam.backup"
        with empty_server(kind) as dsn:
            file = configured(folder, dsn)
            fill(file, dsn)
            with logging_daemon(file) as daemon:
                said = answers(daemon)
            letters = triggerlog("dead-letters", "list", str(file)).stdout
            assert "1 letter, 20 readings (for no trigger that is known)" in letters
            before, files = fingerprint(dsn, state), kept_files(state)
            assert {name.partition(".")[0] for name in before} == {"readings", "settings", "channels", "sky"}
            assert any(name.startswith("dead-letters/bpm/") and name.endswith(".dead") for name in files)
            made = triggerlog("backup", str(file), str(backup), timeout_s=LIMIT_S)
            assert made.returncode == 0, made.stderr
            assert made.stdout.startswith(f"{backup}: `readings`, `sky`, `settings`, `channels` of ")
            assert stat.S_IMODE(backup.stat().st_mode) == 0o600
            # What is there is not overwritten, and named.
            again = triggerlog("restore", str(file), str(backup), timeout_s=LIMIT_S)
            assert again.returncode == 1
            assert "state_dir: " in again.stderr
            assert "move the folder away" in again.stderr
            state.rename(folder / "before")
            if dsn is not None:
                again = triggerlog("restore", str(file), str(backup), timeout_s=LIMIT_S)
                assert again.returncode == 1
                assert "has tables already" in again.stderr
                assert fingerprint(dsn, state) == before
                assert not kept_files(state)
            destroy(folder / "before")
        with empty_server(kind) as dsn:
            file = configured(folder, dsn, OLD)
            done = triggerlog("restore", str(file), str(backup), timeout_s=LIMIT_S)
            assert done.returncode == 0, done.stderr
            assert fingerprint(dsn, state) == before
            assert kept_files(state) == files
            with logging_daemon(file) as daemon:
                assert "has lost" not in daemon.run.said
                assert answers(daemon) == said
                assert triggerlog("dead-letters", "list", str(file)).stdout == letters
                for group in INSTRUMENTS:
                    asyncio.run(send(daemon.port, group, 1 + len(HOURS_AGO) * EACH, 1))
                until(lambda: daemon.get("/status")["groups"]["bpm"]["triggers"]["waiting"] == 0, "all is committed")
                agreed = triggerlog("reconcile", str(file), "--daemon", daemon.api)
                assert agreed.returncode == 0, agreed.stdout
                assert not daemon.get("/status")["groups"]["bpm"]["readings"]["lost"]
            if dsn is None:
                destroy(state)


@asynccontextmanager
async def writers_wait(dsn: str) -> AsyncIterator[None]:
    """Keep the readings from being committed, while everybody may read them."""
    if dsn.startswith("mysql"):
        mariadb = await aiomysql.connect(host="127.0.0.1", port=int(dsn.rpartition(":")[2]), user="root")
        async with mariadb.cursor() as cursor:
            await cursor.execute("LOCK TABLES readings.bpm READ")
            yield
        mariadb.close()
        return
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute("LOCK TABLE readings.bpm IN SHARE MODE")
        yield
    await connection.close()


async def stored(dsn: str) -> list[tuple[int, int]]:
    """Trigger and instrument of each reading, in order."""
    asked = "SELECT trigger_id, instrument FROM readings.bpm ORDER BY 1, 2"
    if dsn.startswith("mysql"):
        mariadb = await aiomysql.connect(host="127.0.0.1", port=int(dsn.rpartition(":")[2]), user="root")
        async with mariadb.cursor() as cursor:
            await cursor.execute(asked)
            found = await cursor.fetchall()
        mariadb.close()
        return [tuple(row) for row in found]
    connection = await asyncpg.connect(dsn)
    found = [tuple(row) for row in await connection.fetch(asked)]
    await connection.close()
    return found


async def send_numbers(port: int, triggers: range, ack: Ack) -> None:
    async with await Sender.connect("127.0.0.1", port, "bpm", ack=ack) as sender:
        block = np.zeros((len(triggers), INSTRUMENTS["bpm"]), sender.record)
        block["epoch"], block["instrument"] = 7, np.arange(INSTRUMENTS["bpm"])
        block["trigger"] = np.array(triggers)[:, None]
        block["time_ns"] = time.time_ns() + block["trigger"] * 1_000
        await sender.send(block.reshape(-1))
        await sender.drain_acknowledged(60)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_backup_has_what_was_acknowledged_and_not_committed_when_it_began(kind: str) -> None:
    """The daemon takes readings on and on; none of them can be committed until the dump is made."""
    with server_folder() as folder:
        state, backup = folder / "state", folder / "beam.backup"
        with empty_server(kind) as dsn:
            assert dsn is not None
            file = configured(folder, dsn)
            with running("run", str(file)) as run:
                daemon = Daemon(run, file)
                asyncio.run(send_numbers(daemon.port, range(1, 21), Ack.COMMITTED))
                asyncio.run(_backed_up_while_writers_wait(daemon, dsn, file, backup))
                run.end(signal.SIGKILL)
                daemon.client.close()
            destroy(state)
        with empty_server(kind) as dsn:
            assert dsn is not None
            file = configured(folder, dsn)
            done = triggerlog("restore", str(file), str(backup), timeout_s=LIMIT_S)
            assert done.returncode == 0, done.stderr
            assert len(asyncio.run(stored(dsn))) == 20 * INSTRUMENTS["bpm"]
            with logging_daemon(file) as daemon:
                wanted = [(trigger, number) for trigger in range(1, 221) for number in range(INSTRUMENTS["bpm"])]
                until(lambda: asyncio.run(stored(dsn))[: len(wanted)] == wanted, "what waited is stored", every_s=0.5)
                # What comes again is there already, and what came after the backup is stored now.
                asyncio.run(send_numbers(daemon.port, range(1, 301), Ack.COMMITTED))
                wanted = [(trigger, number) for trigger in range(1, 301) for number in range(INSTRUMENTS["bpm"])]
                found = asyncio.run(stored(dsn))
                assert found[: len(wanted)] == wanted
                assert len(found) == len(set(found))
                until(lambda: not daemon.get("/status")["groups"]["bpm"]["triggers"]["waiting"], "all is committed")
                agreed = triggerlog("reconcile", str(file), "--daemon", daemon.api)
                assert agreed.returncode == 0, agreed.stdout


async def _backed_up_while_writers_wait(daemon: Daemon, dsn: str, file: Path, backup: Path) -> None:
    async def go_on() -> None:
        number = 301
        while True:
            await send_numbers(daemon.port, range(number, number + 5), Ack.RECEIVED)
            number += 5
            await asyncio.sleep(0.02)

    async with writers_wait(dsn):
        await send_numbers(daemon.port, range(21, 221), Ack.RECEIVED)
        going = asyncio.create_task(go_on())
        made = await asyncio.to_thread(triggerlog, "backup", str(file), str(backup), timeout_s=LIMIT_S)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
    assert made.returncode == 0, made.stderr


def half_a_dump(backup: Path, output: Path) -> None:
    """Copy a backup, its checksums right and its dump cut off in the middle: the server's tools refuse it."""
    with tarfile.open(backup) as whole, output.open("wb") as file:
        content = {member.name: whole.extractfile(member).read() for member in whole.getmembers()}
        manifest = Manifest.model_validate_json(content.pop("backup.json"))
        writer = BackupWriter(file, manifest, content.pop("configuration.toml").decode())
        (name,) = manifest.dumps
        dump = b"".join(gzip.decompress(data) for path, data in content.items() if path.startswith("database/"))
        writer.add_dump(name, [dump[: len(dump) // 2]], lambda _: None)
        writer.close()


@pytest.mark.parametrize("kind", ["older postgresql", "mariadb"])
def test_a_restore_that_fails_leaves_nothing_and_can_be_repeated(kind: str) -> None:
    with server_folder() as folder:
        state, backup, half = folder / "state", folder / "beam.backup", folder / "half.backup"
        with empty_server(kind) as dsn:
            file = configured(folder, dsn)
            with logging_daemon(file) as daemon:
                asyncio.run(send(daemon.port, "bpm", 1, 1))
                asyncio.run(report(daemon.port))
            assert triggerlog("backup", str(file), str(backup), timeout_s=LIMIT_S).returncode == 0
            before = fingerprint(dsn, state)
            destroy(state)
        half_a_dump(backup, half)
        with empty_server(kind) as dsn:
            file = configured(folder, dsn)
            failed = triggerlog("restore", str(file), str(half), timeout_s=LIMIT_S)
            assert failed.returncode == 1
            assert failed.stderr.startswith("triggerlog: ")
            assert failed.stderr.count("\n") == 1
            assert fingerprint(dsn, state) == {}
            assert kept_files(state) == {}
            done = triggerlog("restore", str(file), str(backup), timeout_s=LIMIT_S)
            assert done.returncode == 0, done.stderr
            assert fingerprint(dsn, state) == before
