"""Measures conditions by turns, and counts what is counted beside them."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.folders.counting import cold_blocks, disk_bytes, wire_bytes
from benchmarks.folders.plan import COLD, PAYLOAD, Condition, Plan
from benchmarks.folders.record import Counted, Measured
from benchmarks.rounds.progress import begin, print_line
from benchmarks.servers.base import Server
from benchmarks.servers.small import Running
from daemon.tools.snapshots.tables import figures_words
from daemon.workloads.snapshots.messages import Spec
from daemon.workloads.snapshots.progress import SnapshotsProgress
from daemon.workloads.snapshots.runner import command_of, facts_of, follow, snapshots_process
from schemas.api.snapshots import SnapshotSettings, SnapshotsRun
from schemas.config import DatabaseConfig
from schemas.states import RunState

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
