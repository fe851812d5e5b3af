"""A statement that takes long is no outage: it may go on as long as the server answers, and then it is named.

Rows that are written set off a trigger that sleeps, so that the server really is at work for a visit.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import asyncpg
import pymongo
import pytest

from backends import open_visit_store
from backends.base import StoreError, StoreUnavailable
from backends.kinds import KINDS
from backends.mysql.server.address import address_of, connect
from backends.throwaway.mongodb import ThrowawayMongodb
from backends.visits.base import StatementTooLong, VisitStore
from daemon.workloads.frame.runner import ProcessRefused
from daemon.workloads.visits.messages import Visited, spec_of, visits_process
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from tests.support.servers import installed
from tests.support.visit_runs import run_here, small
from tests.support.visits import run_visits, visits_config

ANSWER_S = 1.0
SERVERS = ["postgresql", "mariadb"]


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{server}_dsn"))


async def asked(dsn: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements over a connection of the test's own; the rows of the last one."""
    if dsn.startswith("postgresql"):
        connection = await asyncpg.connect(dsn)
        try:
            return [tuple(row) for row in [await connection.fetch(each) for each in statements][-1]]
        finally:
            await connection.close()
    session = await connect(address_of(dsn), program="test", timeout_s=30)
    try:
        return [await session.fetch(each) for each in statements][-1]
    finally:
        session.terminate()


async def slow_down(dsn: str, schema: str, seconds: float) -> None:
    """Let each row of a mark of DIASource take so long; 0 is as before."""
    if dsn.startswith("postgresql"):
        await asked(
            dsn,
            f"CREATE OR REPLACE FUNCTION {schema}.sleep() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN IF NEW.step = 'sources' THEN PERFORM pg_sleep({seconds}); END IF; RETURN NEW; END $$",
            f'CREATE OR REPLACE TRIGGER sleep BEFORE INSERT ON {schema}."VisitSteps"'
            f" FOR EACH ROW EXECUTE FUNCTION {schema}.sleep()",
        )
    else:
        await asked(
            dsn,
            f"CREATE OR REPLACE TRIGGER {schema}.sleep BEFORE INSERT ON {schema}.VisitSteps FOR EACH ROW"
            f" IF NEW.step = 'sources' THEN DO SLEEP({seconds}); END IF",
        )


async def nothing_at_work(dsn: str) -> None:
    async with asyncio.timeout(20):
        while await at_work(dsn):  # noqa: ASYNC110 - only the server knows
            await asyncio.sleep(0.05)


async def at_work(dsn: str) -> list[tuple[object, ...]]:
    """What the server still does for visits."""
    if dsn.startswith("postgresql"):
        return await asked(
            dsn, "SELECT query FROM pg_stat_activity WHERE application_name = 'triggerlog visits' AND state <> 'idle'"
        )
    return await asked(
        dsn, "SELECT INFO FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' AND STATE = 'User sleep'"
    )


Make = Callable[..., VisitStore]


@pytest.fixture
async def make(dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes the store of a configuration, impatient for answers; the schema is dropped afterwards."""
    made: list[VisitStore] = []

    def make_one(visits: VisitsConfig) -> VisitStore:
        database = DatabaseConfig(dsn=dsn, command_timeout_s=ANSWER_S)
        made.append(open_visit_store(database, visits, state_dir=tmp_path))
        return made[-1]

    yield make_one
    await made[0].drop()
    for store in made:
        await store.close()


@pytest.mark.parametrize("server", SERVERS)
async def test_a_transaction_may_take_longer_than_the_server_takes_to_answer(dsn: str, schema: str, make: Make) -> None:
    store = make(visits_config(schema, {"index_mode": "baseline"}))
    await store.create()
    await slow_down(dsn, schema, 4 * ANSWER_S)
    began = time.monotonic()
    await run_visits(store, range(1))
    assert time.monotonic() - began > 4 * ANSWER_S
    assert (await store.counts())["DIASource"] > 0


@pytest.mark.parametrize("server", SERVERS)
async def test_what_takes_longer_than_it_may_ends_here_and_at_the_server(dsn: str, schema: str, make: Make) -> None:
    store = make(visits_config(schema, {"index_mode": "baseline"}, statement_timeout_s=3 * ANSWER_S))
    await store.create()
    await slow_down(dsn, schema, 120)
    with pytest.raises(StatementTooLong, match=r"visits\.statement_timeout_s: .* longer than 3 s"):
        await run_visits(store, range(1))
    await nothing_at_work(dsn)
    await slow_down(dsn, schema, 0)
    await store.connect()
    assert await store.last_visit() is None
    assert (await store.counts())["DIASource"] == 0


@pytest.mark.parametrize("workers", ["one", "persistent", "fork"])
@pytest.mark.parametrize("server", ["postgresql"])
async def test_a_run_ends_with_the_step_that_took_too_long(
    workers: str, dsn: str, schema: str, make: Make, tmp_path: Path
) -> None:
    visits = small(schema, index_mode="baseline", workers=workers, statement_timeout_s=2.0, visits=2)
    await run_here(make(visits), visits, until=1)
    await slow_down(dsn, schema, 120)
    spec = spec_of(DatabaseConfig(dsn=dsn, command_timeout_s=ANSWER_S), visits, state_dir=tmp_path)

    async def follow() -> None:
        async for message in visits_process(spec, tmp_path / "log").messages():
            assert not isinstance(message, Visited)

    with pytest.raises(ProcessRefused) as ended:
        await asyncio.wait_for(follow(), 60)
    reason = str(ended.value)
    assert "visits.statement_timeout_s: `store sources` of tile " in reason
    assert "of visit 1 took longer than 2 s" in reason
    assert "\n" not in reason


@pytest.mark.parametrize("server", ["postgresql", "mariadb", "mongodb"])
async def test_a_server_that_does_not_answer_is_an_outage_as_ever(server: str, state_dir: Path) -> None:
    with installed():
        own = KINDS[Backend("mysql" if server == "mariadb" else server)].throwaway_server(state_dir)
        dsn = await asyncio.to_thread(own.start)
    visits = visits_config("visits", {"index_mode": "baseline"}, statement_timeout_s=600)
    store = open_visit_store(DatabaseConfig(dsn=dsn, command_timeout_s=1.0), visits, state_dir=state_dir)
    try:
        await store.create()
        await run_visits(store, range(1))
        own.freeze()
        try:
            with pytest.raises(StoreUnavailable) as outage:
                await asyncio.wait_for(run_visits(store, range(1, 2)), 30)
            assert not isinstance(outage.value, StatementTooLong)
        finally:
            own.thaw()
        await run_visits(store, range(1, 2))
    finally:
        await store.close()
        await asyncio.to_thread(own.stop)


def test_too_long_is_not_tried_again() -> None:
    """Whoever waits for a database that is away takes StoreUnavailable alone for that."""
    assert issubclass(StatementTooLong, StoreError)
    assert not issubclass(StatementTooLong, StoreUnavailable)


@contextmanager
def writes_wait(server: ThrowawayMongodb, database: str) -> Iterator[None]:
    """Let the server's writes wait, while it answers all else."""
    files = list(server.log.parent.rglob(f"{database}.sqlite"))
    if files:  # FerretDB's
        with closing(sqlite3.connect(files[0], isolation_level=None)) as held:
            held.execute("BEGIN IMMEDIATE")
            yield
        return
    with pymongo.MongoClient(server.start()) as client:
        client.admin.command("fsync", lock=True)
        try:
            yield
        finally:
            client.admin.command("fsyncUnlock")


async def test_a_command_of_mongodb_that_takes_too_long_is_named(own_mongodb: ThrowawayMongodb, tmp_path: Path) -> None:
    visits = visits_config("visits", {"index_mode": "baseline"}, statement_timeout_s=3 * ANSWER_S)
    database = DatabaseConfig(dsn=own_mongodb.start(), command_timeout_s=ANSWER_S)
    store = open_visit_store(database, visits, state_dir=tmp_path)
    try:
        await store.create()
        await run_visits(store, range(1))
        with writes_wait(own_mongodb, "visits"), pytest.raises(StatementTooLong, match=r"longer than 3 s"):
            await run_visits(store, range(1, 2))
        await store.connect()
        assert await store.last_visit() is not None
    finally:
        await store.close()
