"""Somebody's open transaction that has read a table of visits: visits go on, and so does whoever else reads."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from backends import open_visit_store
from backends.mysql.server.address import address_of, connect
from daemon.workloads.frame.messages import Message
from daemon.workloads.visits.messages import Troubled, Visited
from daemon.workloads.visits.visit_loop import VisitLoop
from daemon.workloads.visits.workers import Alone
from schemas.config import DatabaseConfig
from tests.support.visit_runs import assert_same, small, spec_here, tables_in, undisturbed

AGAIN_S = 0.2
BRIEFLY_S = 2.0
"""The wait of a change of a table."""
Ask = Callable[[str], Awaitable[list[object]]]


@contextlib.asynccontextmanager
async def asking(dsn: str) -> AsyncIterator[Ask]:
    """A connection of a reader's own; gives the first column."""
    if dsn.startswith("postgresql"):
        connection = await asyncpg.connect(dsn)

        async def ask(text: str) -> list[object]:
            return [row[0] for row in await connection.fetch(text)]

        try:
            yield ask
        finally:
            await connection.close()
    else:
        session = await connect(address_of(dsn), program="reader", timeout_s=60)

        async def ask(text: str) -> list[object]:
            return [row[0] for row in await session.fetch(text)]

        try:
            yield ask
        finally:
            session.terminate()


def questions(dsn: str, schema: str) -> tuple[str, str]:
    """What reads a table, and what lists its periods, in order."""
    if dsn.startswith("postgresql"):
        return (
            f'SELECT n FROM {schema}."DIASourcePacks" LIMIT 1',
            "SELECT substring(relname FROM '[0-9]+$')::int AS period FROM pg_class WHERE relkind = 'r'"
            f" AND relnamespace = '{schema}'::regnamespace AND relname LIKE 'DIASourcePacks$%' ORDER BY 1",
        )
    return (
        f"SELECT n FROM {schema}.DIASourcePacks LIMIT 1",
        "SELECT CAST(PARTITION_DESCRIPTION AS SIGNED) AS period FROM information_schema.PARTITIONS"
        f" WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = 'DIASourcePacks' AND PARTITION_NAME <> 'nothing'"
        " ORDER BY 1",
    )


async def longest_wait(dsn: str, read: str, until: asyncio.Event) -> float:
    """The longest that another reader waited, in seconds."""
    longest = 0.0
    async with asking(dsn) as ask:
        while not until.is_set():
            began = time.monotonic()
            await ask(read)
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.02)
    return longest


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{server}_dsn"))


@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
async def test_visits_go_on_beside_an_open_transaction_and_old_periods_go_soon_after_it(
    dsn: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.workloads.visits.visit_loop.AGAIN_S", AGAIN_S)
    visits = small(schema, index_mode="partitioned", compact=False, visits=10_000)  # two a night, a period is a day
    store = open_visit_store(DatabaseConfig(dsn=dsn), visits, state_dir=tmp_path)
    said: list[Message] = []
    heard, allowed, stop = asyncio.Semaphore(0), asyncio.Semaphore(0), asyncio.Event()

    def send(message: Message) -> None:
        said.append(message)
        if isinstance(message, Visited):
            heard.release()

    async def acknowledged() -> None:
        await allowed.acquire()

    async def visit(times: int) -> None:
        async with asyncio.timeout(60):
            for _ in range(times):
                allowed.release()
                await heard.acquire()

    loop = VisitLoop(spec_here(visits), store, Alone(store, visits), send, stop, acknowledged=acknowledged)
    running = asyncio.create_task(loop.run())
    read, periods = questions(dsn, schema)
    try:
        await visit(10)
        async with asking(dsn) as reader, asking(dsn) as other:
            first = min(await other(periods))
            await reader("START TRANSACTION")
            await reader(read)
            others_end = asyncio.Event()
            others = asyncio.create_task(longest_wait(dsn, read, others_end))
            await visit(2)  # a period begins with the second of them, and the first one leaves the window
            assert min(await other(periods)) == first
            others_end.set()
            # A few waits one behind the other, on a busy machine; a lock's own time limit is 30 s.
            assert await others < 5 * BRIEFLY_S
            await reader("COMMIT")
            await asyncio.sleep(AGAIN_S)
            await visit(1)  # of the same period as the one before
            assert min(await other(periods)) == first + 1
        assert not [message for message in said if isinstance(message, Troubled)]
        stop.set()
        allowed.release()
        await asyncio.wait_for(running, 60)
        found = await tables_in(store, visits)
        assert_same(found, await undisturbed(visits.model_copy(update={"visits": 13})))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.drop()
        await store.close()
