"""The process of one reader workload: `python -m daemon.workloads.readers`, started by the daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from backends import open_conditions_store, open_store, open_visit_store
from backends.base import ReadOnly, Store, StoreError
from backends.counting import Counting
from backends.ending import end_tasks
from backends.visits.base import VisitStore
from daemon.calibration.current import Calibrations
from daemon.core.process.children import go_first
from daemon.workloads.frame.messages import Parent, Refused, run_process
from daemon.workloads.readers.clients import Clients, QuestionsOfClients, report_of
from daemon.workloads.readers.messages import (
    REPORT_EVERY_S,
    Admission,
    GroupSpec,
    ReadReport,
    Spec,
    VisitsSpec,
)
from daemon.workloads.readers.questions import Questions
from schemas.config import VisitsConfig, WorkloadKind

MOST_CONNECTIONS = 64
"""Connections that the clients of a workload share at most; who finds none free waits, and the wait counts."""


def main() -> None:
    """Read until the daemon sends `Stop`, or until the daemon is gone."""
    run_process(Spec, _read, Admission)


async def _read(spec: Spec, daemon: Parent[Admission]) -> None:
    go_first()
    try:
        async with _questions(spec) as (questions, of_group):
            clients = Clients(spec.workload, questions, spec.admission)
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(clients.run()), tasks.create_task(_report(clients, of_group, daemon))]
                async for admission in daemon.orders():
                    clients.admit(admission)
                await end_tasks(*running)
    except StoreError as error:
        raise Refused(str(error)) from None


@asynccontextmanager
async def _questions(spec: Spec) -> AsyncIterator[tuple[QuestionsOfClients, Store | None]]:
    """What the clients ask, and the store of a group that they ask; all stores are closed in the end."""
    read_only = ReadOnly(connections=min(spec.workload.clients, MOST_CONNECTIONS), give_up_s=spec.give_up_s)
    async with AsyncExitStack() as stores:
        if isinstance(spec.of, VisitsSpec):
            # Geometry of the sphere and numbers of the sky: other readers need no memory for them.
            from daemon.workloads.readers.visit_questions import VisitQuestions  # noqa: PLC0415

            visits = [_visit_store_of(spec, spec.of.visits, read_only) for _ in range(read_only.connections)]
            for store in visits:
                stores.push_async_callback(store.close)
            yield VisitQuestions(spec.workload, spec.of.visits, visits, spec.seed), None
        else:
            of_group, calibrations = _store_of(spec, spec.of, read_only), None
            stores.push_async_callback(of_group.close)
            if spec.workload.kind is WorkloadKind.ORBIT:
                calibrations = _calibrations_of(spec, spec.of, read_only)
                stores.push_async_callback(calibrations.close)
            yield Questions(spec.workload, spec.of.group.group(), of_group, spec.seed, calibrations), of_group


def _store_of(spec: Spec, of: GroupSpec, read_only: ReadOnly) -> Store:
    return open_store(
        spec.database,
        logger=spec.logger,
        groups={of.group.name: of.group.group()},
        layouts={of.group.name: of.layout},
        state_dir=spec.state_dir,
        password=spec.password,
        read_only=read_only,
    )


def _calibrations_of(spec: Spec, of: GroupSpec, read_only: ReadOnly) -> Calibrations:
    store = open_conditions_store(
        spec.database,
        schema=of.conditions.schema_name,
        state_dir=spec.state_dir,
        password=spec.password,
        connections=read_only.connections,
    )
    return Calibrations(store, of.conditions, [of.group], folder=of.folder, give_up_s=spec.give_up_s)


def _visit_store_of(spec: Spec, visits: VisitsConfig, read_only: ReadOnly) -> VisitStore:
    return open_visit_store(
        spec.database, visits, state_dir=spec.state_dir, password=spec.password, read_only=read_only
    )


async def _report(clients: Clients, of_group: Store | None, daemon: Parent[Admission]) -> None:
    """Report four times a second; while the last report is not taken none is sent: the next one tells all of it."""
    clock = asyncio.get_running_loop().time
    while True:
        if not daemon.unacknowledged:
            daemon.send(report_of(clients, clock()))
            if isinstance(of_group, Counting) and (hours := of_group.take_read()):
                daemon.send(ReadReport(hours=hours))
        await asyncio.sleep(REPORT_EVERY_S)


if __name__ == "__main__":
    main()
