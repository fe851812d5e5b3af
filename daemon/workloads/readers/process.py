"""The process of one reader workload: `python -m daemon.workloads.readers`, started by the daemon."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import orjson
import uvloop

from backends import open_store, open_visit_store
from backends.base import ReadOnly, Store, StoreError
from backends.visits.base import VisitStore
from daemon.core.process.children import end_with, go_first
from daemon.workloads.readers.clients import Asked, Clients
from daemon.workloads.readers.messages import LONGEST_LINE, REPORT_EVERY_S, GroupSpec, Spec, VisitsSpec, report_of
from daemon.workloads.readers.workloads import Questions
from schemas.config import VisitsConfig

MOST_CONNECTIONS = 64
"""Connections that the clients of a workload share at most; who finds none free waits, and the wait counts."""


def main() -> None:
    """Read until told to stop, or until the daemon is gone."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    # What a library prints must not get among the reports.
    reports = os.dup(1)
    os.dup2(2, 1)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_read(reports))
    except StoreError as error:
        sys.exit(str(error))


async def _read(reports: int) -> None:
    orders = await _orders()
    line = await orders.readline()
    if not line:  # stopped before it began
        return
    spec = Spec.model_validate_json(line)
    end_with(spec.parent)
    go_first()
    async with _questions(spec) as questions:
        clients = Clients(spec.workload, questions, spec.admitted, spec.share)
        async with asyncio.TaskGroup() as tasks:
            tasks_running = [tasks.create_task(clients.run()), tasks.create_task(_report(clients, reports))]
            await _obey(orders, clients)
            for task in tasks_running:
                task.cancel()


@asynccontextmanager
async def _questions(spec: Spec) -> AsyncIterator[Asked]:
    """What the clients ask; its stores are closed in the end."""
    read_only = ReadOnly(connections=min(spec.workload.clients, MOST_CONNECTIONS), give_up_s=spec.give_up_s)
    async with AsyncExitStack() as stores:
        if isinstance(spec.of, VisitsSpec):
            # Geometry of the sphere and numbers of the sky: other readers need no memory for them.
            from daemon.workloads.readers.visit_questions import VisitQuestions  # noqa: PLC0415

            visits = [_visit_store_of(spec, spec.of.visits, read_only) for _ in range(read_only.connections)]
            for store in visits:
                stores.push_async_callback(store.close)
            yield VisitQuestions(spec.workload, spec.of.visits, visits, spec.seed)
        else:
            of_group = _store_of(spec, spec.of, read_only)
            stores.push_async_callback(of_group.close)
            yield Questions(spec.workload, spec.of.group.group(), of_group, spec.seed)


def _store_of(spec: Spec, of: GroupSpec, read_only: ReadOnly) -> Store:
    return open_store(
        spec.database,
        logger=spec.logger,
        groups={of.group.name: of.group.group()},
        layouts={of.group.name: of.layout},
        state_dir=Path(spec.state_dir),
        password=spec.password,
        read_only=read_only,
    )


def _visit_store_of(spec: Spec, visits: VisitsConfig, read_only: ReadOnly) -> VisitStore:
    return open_visit_store(
        spec.database, visits, state_dir=Path(spec.state_dir), password=spec.password, read_only=read_only
    )


async def _orders() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _obey(orders: asyncio.StreamReader, clients: Clients) -> None:
    """Do as told, until told to stop or until nobody is there any more to tell anything."""
    while line := await orders.readline():
        order = orjson.loads(line)
        if "stop" in order:
            return
        clients.admit(order["admit"], order["share"])


async def _report(clients: Clients, reports: int) -> None:
    """Report four times a second.

    A daemon that does not read for a while must not hold up the clients, so what finds no room is left out: the next
    report tells all of it.
    """
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(reports, "wb"))
    while True:
        if not pipe.get_write_buffer_size():
            pipe.write(report_of(clients.measured, asking=clients.asking, now_s=loop.time()).line())
        await asyncio.sleep(REPORT_EVERY_S)
