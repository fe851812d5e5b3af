"""Measures conditions by turns, and counts what is counted beside them."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import psycopg

from backends import open_folders_store
from benchmarks.folders.plan import COLD, PAYLOAD, Condition, Counted, Measured, Plan
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.servers.base import Server
from benchmarks.servers.mysql import connect
from benchmarks.servers.small import Running
from daemon.tools.workloads.tables import figures_words
from daemon.workloads.snapshots.data import Data
from daemon.workloads.snapshots.looks import AT_CHUNK, looks_at, settled
from daemon.workloads.snapshots.messages import Spec
from daemon.workloads.snapshots.progress import SnapshotsProgress
from daemon.workloads.snapshots.runner import command_of, facts_of, follow, snapshots_process
from schemas.api.snapshots import SnapshotSettings, SnapshotsRun
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.states import RunState

# --- counting --------------------------------------------------------------------------------------------------------

SOCKET = ".s.PGSQL.5432"
LEAVE_S = 5.0
SETTLED_S = 0.5
SETTLE_MOST_S = 10.0


class Wire:
    """Counts bytes from a server."""

    def __init__(self) -> None:
        self.bytes = 0


@asynccontextmanager
async def counted_wire(dsn: str) -> AsyncIterator[tuple[str, Wire]]:
    """A DSN by which the same server is reached, and what counts the bytes that come from it."""
    wire, parts = Wire(), urlsplit(dsn)
    socket = parse_qs(parts.query).get("host", [""])[0]

    handing: list[asyncio.Task[Any] | None] = []

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handing.append(asyncio.current_task())
        if socket:
            there = await asyncio.open_unix_connection(f"{socket}/{SOCKET}")
        else:
            there = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(_one_way(reader, there[1], Wire()), _one_way(there[0], writer, wire))

    with tempfile.TemporaryDirectory() as folder:
        if socket:
            server = await asyncio.start_unix_server(hand_on, Path(folder) / SOCKET)
            through = parts._replace(query=f"host={quote(folder, safe='')}")
        else:
            server = await asyncio.start_server(hand_on, "127.0.0.1")
            port = server.sockets[0].getsockname()[1]
            through = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{port}"))
        async with server:
            yield urlunsplit(through), wire
            # Who has closed its connection has all of it; the ends that are left go with the last byte.
            await asyncio.wait([task for task in handing if task is not None], timeout=LEAVE_S)


async def _one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire) -> None:
    try:
        while data := await reader.read(1 << 16):
            wire.bytes += len(data)
            writer.write(data)
            await writer.drain()
    except ConnectionError:  # whoever went first
        pass
    finally:
        writer.close()


async def wire_bytes(spec: Spec) -> int:
    """Bytes that a server sends for a whole snapshot, connecting and all."""
    data = Data(spec.snapshots)
    assert spec.database.dsn is not None
    async with counted_wire(spec.database.dsn) as (dsn, wire):
        store = open_folders_store(DatabaseConfig(dsn=dsn), schema=spec.snapshots.schema_name, state_dir=spec.state_dir)
        for path in data.paths:
            await store.snapshot(path, data.at(AT_CHUNK))
        await store.close()
        return wire.bytes


async def cold_blocks(server: Server, spec: Spec) -> int | None:
    """Blocks that a server which has just started reads for a snapshot of the first folder.

    What all folders share is read by asking for the second one before. PostgreSQL counts by table; in MariaDB the count
    is of the whole server.
    """
    data, looks = Data(spec.snapshots), looks_at(spec)

    async def read() -> float | None:
        if server.backend is Backend.POSTGRESQL:
            return await asyncio.to_thread(_read_of_tables, server.dsn, spec.snapshots.schema_name)
        return (await looks.look()).read

    async def settled_read() -> float | None:
        return await settled(read, lambda count: count, SETTLED_S, SETTLE_MOST_S)

    try:
        for folder in (1, 0):
            before = await settled_read()
            store = open_folders_store(spec.database, schema=spec.snapshots.schema_name, state_dir=spec.state_dir)
            await store.snapshot(data.paths[folder], data.at(AT_CHUNK))
            await store.close()
        after = await settled_read()
    finally:
        await looks.close()
    return None if before is None or after is None else round(after - before)


def _read_of_tables(dsn: str, schema: str) -> int:
    """Blocks read of the tables of a schema, of their indexes and of what lies beside them, in PostgreSQL."""
    text = (
        "SELECT sum(heap_blks_read + idx_blks_read + coalesce(toast_blks_read + tidx_blks_read, 0))::int8"
        " FROM pg_statio_user_tables WHERE schemaname = %s"
    )
    with psycopg.connect(dsn) as connection:
        return int(connection.execute(text, (schema,)).fetchall()[0][0])


def disk_bytes(server: Server, schema: str) -> int:
    """Bytes of the tables and indexes of a schema, as the server says."""
    if server.backend is Backend.POSTGRESQL:
        text = (
            "SELECT sum(pg_total_relation_size(c.oid))::int8 FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
        )
        with psycopg.connect(server.dsn) as connection:
            return int(connection.execute(text, (schema,)).fetchall()[0][0])
    text = "SELECT sum(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME LIKE %s"
    with closing(connect(server.dsn)) as sql, sql.cursor() as cursor:
        cursor.execute(text, (f"{schema}/%",))
        return int(cursor.fetchall()[0][0])


NAME = "20260101T000000Z"


class RunFailed(Exception):
    """A run of the workload failed; the message is one line."""


def measured(found: Running, wanted: list[Condition], plan: Plan) -> Iterator[Measured]:
    """All rounds of all conditions, by turns; those that only load have one.

    Raises:
        RunFailed: a run did not do what was asked.
    """
    schemas: dict[str, str] = {}
    facts = {name: _facts(server) for name, server in found.servers.items()}
    for number in range(plan.rounds):
        for each in wanted:
            settings = each.settings
            if number and not settings.cycles:
                continue
            server = found.servers[each.backend]
            # Payloads are compared by the size of their schemas.
            key = each.name if each.part == PAYLOAD else ""
            if key not in schemas:
                schemas[key] = server.new_name()
            update = {"schema_name": schemas[key], "cliff": settings.cliff and not number}
            begin("folders", f"{each.part}, {each.backend}, {each.name}, round {number + 1} of {plan.rounds}")
            run = asyncio.run(_run(server, settings.model_copy(update=update), facts[each.backend]))
            words = figures_words(run.figures) if settings.cycles else f"{run.loading.rows:,} rows"
            print_line(f"  {each.backend} {each.part} {each.name}, round {number + 1}: {words}")
            yield Measured(part=each.part, backend=each.backend, name=each.name, round=number, run=run)


def counted(found: Running, done: list[Measured]) -> Iterator[Counted]:
    """What is counted of conditions that were measured."""
    for each in done:
        server = found.servers[each.backend]
        spec = _spec(server, each.run.settings)
        values: dict[str, float | None] = {}
        if each.part == PAYLOAD:
            values["wire"] = asyncio.run(wire_bytes(spec))
            values["disk"] = disk_bytes(server, each.run.settings.schema_name)
        if each.part == COLD:
            found.restart[each.backend]()
            values["blocks"] = asyncio.run(cold_blocks(server, spec))
        for what, value in values.items():
            if value is not None:
                print_line(f"  {each.backend} {each.part} {each.name}: {what} {value:,.0f}")
                yield Counted(part=each.part, backend=each.backend, name=each.name, what=what, value=value)


def _facts(server: Server) -> dict[str, Any]:
    facts = facts_of(server.facts())
    return facts | {"server": facts["server"] | server.settings()}


def _spec(server: Server, settings: SnapshotSettings) -> Spec:
    folder: Path = server.folder
    return Spec(parent=os.getpid(), database=DatabaseConfig(dsn=server.dsn), state_dir=folder, snapshots=settings)


async def _run(server: Server, settings: SnapshotSettings, facts: dict[str, Any]) -> SnapshotsRun:
    run = SnapshotsProgress(NAME, settings, target=server.backend, command=command_of(settings))
    await follow(run, snapshots_process(_spec(server, settings)), lambda _: None)
    if run.state is not RunState.FINISHED:
        raise RunFailed(f"{server.backend}, {settings.layout}: {run.problem}")
    return run.record(**facts)
