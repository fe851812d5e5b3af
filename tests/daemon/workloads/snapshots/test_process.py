"""The process of snapshot readers on real servers: loading that is cut off, late clients, a server that goes away."""

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from backends import open_folders_store
from backends.folders.base import FoldersStore
from backends.kinds import KINDS
from backends.throwaway.base import ThrowawayServer
from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import WorkloadProcess
from daemon.workloads.snapshots.data import SOURCE, Data
from daemon.workloads.snapshots.messages import Loading, Spec, Tick
from daemon.workloads.snapshots.progress import SnapshotsProgress
from daemon.workloads.snapshots.runner import follow, snapshots_process
from schemas.api.snapshots import SnapshotSettings
from schemas.config import DatabaseConfig
from schemas.folders.blocks import OPEN
from schemas.folders.folders import FolderLayout
from schemas.states import RunState, SnapshotsPhase
from tests.support.lives import SQL_SERVERS
from tests.support.servers import installed, server_folder

PATIENCE_S = 200
MODULE = "daemon.workloads.snapshots"
SMALL = {"folders": 2, "channels": 20, "intervals": 4, "payload_bytes": 50, "clients": 4, "cycles": 3, "scale": 0.05}
"""Cycles of a second, clients 0.25 s apart."""


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str:
    """The address of a server that is started outside of the loop of a test."""
    return str(request.getfixturevalue(f"{server}_dsn"))


@pytest.fixture
def throwaway(server: str) -> Iterator[ThrowawayServer]:
    """A server that the test may kill."""
    with server_folder() as folder:
        with installed():
            made = KINDS[SQL_SERVERS[server]].throwaway_server(folder)
            made.start()
        yield made
        made.stop()


def wanted(schema: str, **changes: Any) -> SnapshotSettings:
    return SnapshotSettings.model_validate(SMALL | {"schema": schema} | changes)


def spec_of(dsn: str, settings: SnapshotSettings, folder: Path, **database: Any) -> Spec:
    config = DatabaseConfig(dsn=dsn, **database)
    return Spec(parent=os.getpid(), database=config, state_dir=folder, snapshots=settings)


async def ran(spec: Spec, took: Any = lambda _: None) -> SnapshotsProgress:
    """A run, followed to its end."""
    run = SnapshotsProgress("20260101T000000Z", spec.snapshots, target="here", command="")
    async with asyncio.timeout(PATIENCE_S):
        await follow(run, snapshots_process(spec), took)
    assert not processes()
    return run


def processes() -> list[psutil.Process]:
    """Of the workload, below this one; a client's process has the arguments of the one that forked it."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if MODULE in child.cmdline():
                found.append(child)
    return found


@contextlib.asynccontextmanager
async def opened(spec: Spec) -> AsyncIterator[FoldersStore]:
    store = open_folders_store(spec.database, schema=spec.snapshots.schema_name, state_dir=spec.state_dir)
    try:
        yield store
    finally:
        await store.drop()
        await store.close()


async def assert_loaded(store: FoldersStore, data: Data) -> None:
    """See that each folder has what was to be inserted, nothing less and nothing twice."""
    for folder, path in enumerate(data.paths):
        rows = np.concatenate([data.insertion(folder, number).block for number in range(data.insertions)])
        rows = rows[np.lexsort((rows["since"], rows["channel"]))]
        assert (await store.changes(path, -1, OPEN - 1)).tolist() == rows.tolist()
        position = await store.position(path, SOURCE)
        assert position is not None
        assert position.sequence == data.insertions


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_each_client_reads_a_whole_snapshot_in_each_cycle(
    server: str, dsn: str, schema: str, tmp_path: Path
) -> None:
    spec = spec_of(dsn, wanted(schema), tmp_path)
    async with opened(spec) as store:
        run = await ran(spec)
        record = run.record()
        assert (record.state, record.problem) == (RunState.FINISHED, None)
        await assert_loaded(store, Data(spec.snapshots))
        assert record.loading.rows == record.loading.rows_in_all == 160
        assert record.loading.rows_found == 0
        cycles = record.cycles
        each = sorted(zip(cycles.client, cycles.number, strict=True))
        assert each == [(client, number) for client in range(4) for number in range(3)]
        assert set(cycles.rows) == {40}
        assert not any(cycles.failed)
        assert [point.folders for point in record.cliff] == [1, 2]
        assert [point.rows for point in record.cliff] == [20, 40]
        assert all(point.read is not None for point in record.cliff)
        assert not record.notes
        assert record.figures.clients_percent
        assert record.figures.server_percent
        assert sum(sample.ended for sample in record.timeline) == 12
        # The same again finds all of it.
        again = await ran(spec_of(dsn, wanted(schema, cycles=1, cliff=False), tmp_path))
        assert (again.loading.rows_found, again.loading.row_rate) == (160, None)
        assert len(again.cycles) == 4


@pytest.mark.parametrize("server", SQL_SERVERS)
@pytest.mark.parametrize("after", [1, 3])
async def test_loading_goes_on_where_a_kill_cut_it_off(
    server: str, dsn: str, schema: str, tmp_path: Path, after: int
) -> None:
    big = {"folders": 2, "channels": 10, "intervals": 60, "payload_bytes": 16_000, "clients": 1, "cycles": 1}
    spec = spec_of(dsn, wanted(schema, **big, cliff=False), tmp_path)
    assert Data(spec.snapshots).insertions == 2
    seen = 0

    def kill(message: Message) -> None:
        nonlocal seen
        seen += isinstance(message, Loading)
        if seen == after:
            for process in processes():
                process.send_signal(signal.SIGKILL)

    async with opened(spec) as store:
        killed = await ran(spec, kill)
        assert killed.state is RunState.FAILED
        assert "SIGKILL" in (killed.problem or "")
        assert killed.loading.rows < killed.loading.rows_in_all
        run = await ran(spec)
        assert run.state is RunState.FINISHED, run.problem
        assert killed.loading.rows <= run.loading.rows_found < run.loading.rows_in_all
        await assert_loaded(store, Data(spec.snapshots))


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_loading_waits_for_a_server_that_is_away(
    throwaway: ThrowawayServer, server: str, schema: str, tmp_path: Path
) -> None:
    dsn = await asyncio.to_thread(throwaway.start)
    spec = spec_of(dsn, wanted(schema, cycles=0, cliff=False), tmp_path, command_timeout_s=1.0)
    await asyncio.to_thread(throwaway.kill)
    starting: list[asyncio.Task[str]] = []

    def bring_back(message: Message) -> None:
        if not starting:
            assert not isinstance(message, Loading), "the server was killed"
            starting.append(asyncio.create_task(asyncio.to_thread(throwaway.start)))

    run = await ran(spec, bring_back)
    await asyncio.gather(*starting)
    assert run.state is RunState.FINISHED, run.problem
    async with opened(spec) as store:
        await assert_loaded(store, Data(spec.snapshots))


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_cycles_fail_while_the_server_is_away_and_the_clients_go_on(
    throwaway: ThrowawayServer, server: str, schema: str, tmp_path: Path
) -> None:
    dsn = await asyncio.to_thread(throwaway.start)
    settings = wanted(schema, clients=2, cycles=2000, chunk_s=2, cliff=False)
    spec = spec_of(dsn, settings, tmp_path, command_timeout_s=1.0)
    run = SnapshotsProgress("20260101T000000Z", settings, target="here", command="")
    process = snapshots_process(spec)
    stages: list[asyncio.Task[Any]] = []
    problems: set[str] = set()

    def took(message: Message) -> None:
        if not isinstance(message, Tick):
            return
        good = len(run.cycles) - sum(run.cycles.failed)
        if not stages and good:
            stages.append(asyncio.create_task(asyncio.to_thread(throwaway.kill)))
        elif len(stages) == 1 and sum(run.cycles.failed) and run.problem:
            problems.add(run.problem)
            stages.append(asyncio.create_task(asyncio.to_thread(throwaway.start)))
        elif len(stages) == 2 and stages[1].done() and not run.cycles.failed[-1]:
            process.stop()

    async with asyncio.timeout(PATIENCE_S):
        await follow(run, process, took)
    assert run.state is RunState.STOPPED
    assert len(stages) == 2
    assert problems
    assert run.record().figures.failed == sum(run.cycles.failed)
    assert not processes()


async def test_a_late_client_slips(postgresql_dsn: str, schema: str, tmp_path: Path) -> None:
    """No answer comes within a millisecond: each cycle begins when the one before has ended."""
    spec = spec_of(postgresql_dsn, wanted(schema, clients=3, cycles=4, cycle_s=0.02, cliff=False), tmp_path)
    run = await ran(spec)
    cycles = run.cycles
    assert len(cycles) == 12
    assert not any(cycles.in_time)
    for client in range(3):
        of = [k for k in range(12) if cycles.client[k] == client]
        assert [cycles.number[k] for k in of] == [0, 1, 2, 3]
        for before, after in itertools.pairwise(of):
            ended_s = cycles.due_s[before] + cycles.wait_s[before] + cycles.connect_s[before] + cycles.query_s[before]
            assert cycles.due_s[after] >= ended_s - 1e-3
    found = run.record().figures
    assert found.efficiency == 0
    assert found.slipped_s > 0


@pytest.mark.parametrize("layout", list(FolderLayout))
async def test_every_layout_and_sample_answers_with_all_rows(
    postgresql_dsn: str, schema: str, tmp_path: Path, layout: FolderLayout
) -> None:
    for changes in ({"order": "channel", "payload": "constant"}, {"sample": "control"}, {"ask": "changes"}):
        of = {"layout": layout, "clients": 2, "cycles": 2, "chunk_s": 60, "cycle_s": 0.5, "cliff": False}
        run = await ran(spec_of(postgresql_dsn, wanted(schema, **of, **changes), tmp_path))
        assert run.state is RunState.FINISHED, run.problem
        assert not any(run.cycles.failed), (changes, run.problem)


async def test_clients_share_processes_and_one_that_dies_ends_the_run(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    settings = wanted(schema, clients=30, processes=3, chunk_s=0.2, cycles=5000, cliff=False)
    spec = spec_of(postgresql_dsn, settings, tmp_path)
    run = SnapshotsProgress("20260101T000000Z", settings, target="here", command="")
    process: WorkloadProcess[Message] = snapshots_process(spec)
    counts: set[int] = set()

    def kill_one(message: Message) -> None:
        if not counts and isinstance(message, Tick) and set(run.cycles.client) == set(range(30)):
            found = processes()
            counts.add(len(found))
            max(found, key=lambda each: each.create_time()).kill()

    async with asyncio.timeout(PATIENCE_S):
        await follow(run, process, kill_one)
    assert run.state is RunState.FAILED
    assert "of the clients was ended by SIGKILL" in (run.problem or "")
    assert counts == {5}  # the workload's, the one that forks, and three of clients
    assert run.phase is SnapshotsPhase.READING
    assert not processes()


async def test_what_a_server_has_no_way_for_is_refused_in_one_line(
    mariadb_dsn: str, schema: str, tmp_path: Path
) -> None:
    run = await ran(spec_of(mariadb_dsn, wanted(schema, layout="brin"), tmp_path))
    assert run.state is RunState.FAILED
    assert "layout: MariaDB has no way for brin; take" in (run.problem or "")
    assert "\n" not in (run.problem or "")
