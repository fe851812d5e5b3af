"""What snapshot readers do to the writing of triggers: a daemon that writes, with nobody or with readers beside it."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.folders.plan import ARRAYS, FIVE_FOLD, LAYOUTS, OURS, PAPERS, Plan
from benchmarks.folders.record import Writing
from benchmarks.report.words import number as shown
from benchmarks.rounds.progress import begin, print_line
from daemon.api.snapshots import PATH
from daemon.client.api.reach import Reach
from daemon.tools.interference.throwaway import GROUP, Throwaway, throwaway_daemon
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.status import GroupStatus, Status
from schemas.checking.dsn import Backend
from schemas.states import SnapshotsPhase

ALONE = "alone"
BLOCK_S = 20.0
"""The latencies of a status are of its last ten seconds."""
LOOK_S = 0.5
LOAD_S = 600.0
RATE, INSTRUMENTS = 100.0, 120
READERS = {**FIVE_FOLD, "intervals": 12, "clients": 20, "cycles": 1000, "cliff": False}


def writing(backend: Backend, plan: Plan, folder: Path) -> list[Writing]:
    """Blocks of each condition, by turns."""
    folder.mkdir(parents=True)
    return asyncio.run(_writing(backend, plan, folder))


async def _writing(backend: Backend, plan: Plan, folder: Path) -> list[Writing]:
    setup = Throwaway(backend=backend, rate=RATE, instruments=INSTRUMENTS, fill=100)
    found: list[Writing] = []
    async with (
        throwaway_daemon(setup, folder, lambda text: print_line(f"  {text}"), asyncio.Event()) as reach,
        _client(reach) as client,
    ):
        for number in range(plan.rounds):
            for name, readers in _conditions(backend, plan):
                begin("folders", f"writing, {backend}, {name}, round {number + 1} of {plan.rounds}")
                each = await _block(client, backend, name, number, readers)
                found.append(each)
                p99 = "?" if each.p99_ms is None else shown(each.p99_ms)
                print_line(f"  {backend} {name}, round {number + 1}: {each.rate:.1f} triggers/s, p99 {p99} ms")
    return found


def _conditions(backend: Backend, plan: Plan) -> Iterator[tuple[str, dict[str, Any] | None]]:
    yield ALONE, None
    for layout in LAYOUTS[backend]:
        if layout in (OURS, ARRAYS, PAPERS):
            order = "channel" if layout.by_channel else "time"
            yield f"with {layout}", {**READERS, "layout": layout, "order": order, **(plan.small or {}), "cycles": 1000}


def _client(reach: Reach) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=reach.url, trust_env=False, timeout=60, headers={"authorization": f"Bearer {reach.token}"}
    )


async def _block(
    client: httpx.AsyncClient, backend: Backend, name: str, number: int, readers: dict[str, Any] | None
) -> Writing:
    """Have readers read, or nobody; figures of the writing over a block."""
    if readers is not None:
        (await client.post(PATH, json=readers)).raise_for_status()
        await _until(client, lambda each: each.phase is SnapshotsPhase.READING or not each.is_active)
    first = await _group(client)
    await asyncio.sleep(BLOCK_S)
    last = await _group(client)
    efficiency = None
    if readers is not None:
        status = SnapshotsStatus.model_validate_json((await client.delete(PATH)).raise_for_status().content)
        efficiency = status.figures.efficiency
        await _until(client, lambda each: not each.is_active)
    return Writing(
        backend=backend,
        name=name,
        round=number,
        rate=(last.triggers.committed - first.triggers.committed) / BLOCK_S,
        p50_ms=last.commit_ms.p50,
        p99_ms=last.commit_ms.p99,
        efficiency=efficiency,
    )


async def _until(client: httpx.AsyncClient, holds: Callable[[SnapshotsStatus], bool]) -> None:
    """Look until something holds that only the status tells."""
    async with asyncio.timeout(LOAD_S):
        while not holds(await _snapshots(client)):  # noqa: ASYNC110 - it is another process that does it
            await asyncio.sleep(LOOK_S)


async def _snapshots(client: httpx.AsyncClient) -> SnapshotsStatus:
    found = (await _status(client)).snapshots
    assert found is not None
    return found


async def _group(client: httpx.AsyncClient) -> GroupStatus:
    return (await _status(client)).groups[GROUP]


async def _status(client: httpx.AsyncClient) -> Status:
    return Status.model_validate_json((await client.get("/api/v1/status")).raise_for_status().content)
