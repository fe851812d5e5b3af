"""What readers of visits ask: light curves and cones, of every database; and that none outlasts its time."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends import open_visit_store
from backends.base import ReadOnly, StoreUnavailable
from backends.mysql.server.address import address_of, connect
from backends.visits.base import VisitStore
from daemon.workloads.readers.visit_questions import VisitQuestions
from schemas.config import DatabaseConfig, VisitsConfig, Workload
from schemas.readings import Array
from schemas.visits.records import History, Region
from tests.support.memory.visits import MemoryVisitStore, Schema
from tests.support.visit_runs import run_here, small

DSNS = ["postgresql_dsn", "mariadb_dsn", "mongodb_dsn"]
EVERYTHING = {"kind": "cone", "radius_deg": 20}
ASKED = [EVERYTHING, {"kind": "cone", "radius_deg": 0.5}, {"kind": "light_curve"}]
READING = ReadOnly(connections=1, give_up_s=60)


def questions(visits: VisitsConfig, *stores: VisitStore, **workload: object) -> VisitQuestions:
    return VisitQuestions(Workload.model_validate({"name": "w", "clients": 2, **workload}), visits, stores, seed=3)


async def answers(visits: VisitsConfig, store: VisitStore) -> list[list[int]]:
    """Rows of six answers to each question."""
    found = []
    for asked in ASKED:
        some = questions(visits, store, **asked)
        found.append([await some.ask(cycle % 2) for cycle in range(6)])
    return found


class Asked(MemoryVisitStore):
    """A store that keeps what history it was asked for."""

    def __init__(self, visits: VisitsConfig) -> None:
        super().__init__(visits)
        self.histories: list[History] = []

    async def sources(self, history: History) -> Array:
        self.histories.append(history)
        return await super().sources(history)


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@asynccontextmanager
async def stores(dsn: str, visits: VisitsConfig, folder: Path) -> AsyncIterator[Callable[..., VisitStore]]:
    """Makes stores of one schema, which is dropped afterwards."""
    made: list[VisitStore] = []

    def make(read_only: ReadOnly | None = None) -> VisitStore:
        made.append(open_visit_store(DatabaseConfig(dsn=dsn), visits, state_dir=folder, read_only=read_only))
        return made[-1]

    try:
        yield make
    finally:
        for store in made[1:]:
            await store.close()
        await made[0].drop()
        await made[0].close()


@pytest.mark.parametrize("dsn", DSNS, indirect=True)
async def test_every_database_answers_as_memory_does(dsn: str, schema: str, tmp_path: Path) -> None:
    visits = small(schema, visits=5, tiles=1)
    model = MemoryVisitStore(visits)
    await run_here(model, visits)
    expected = await answers(visits, model)
    assert sum(expected[1]) > 0 < min(expected[2])
    async with stores(dsn, visits, tmp_path) as make:
        writing, reading = make(), make(READING)
        assert await answers(visits, reading) == [[0] * 6] * len(ASKED)
        await run_here(writing, visits)
        assert await answers(visits, reading) == expected


async def test_a_light_curve_is_all_of_one_object_within_the_window() -> None:
    visits = small("sky", visits=12, history_days=3.0, index_mode="last_object_table")
    store = Asked(visits)
    await run_here(store, visits)
    store.histories.clear()
    curves = questions(visits, store, kind="light_curve")
    rows = [await curves.ask(client) for client in (0, 1, 0, 1)]
    sources, forced = await store.whole("DIASource"), await store.whole("DIAForcedSource")
    times = {int(one["visit"]): int(one["time_ns"]) for one in await store.pointings(100)}
    first = min(number for number, time_ns in times.items() if time_ns >= times[11] - visits.window_ns)
    assert 0 < first < 11
    expected = []
    for history in store.histories:
        assert len(history.ids) == 1
        expected.append(
            sum(
                int(((table["diaObjectId"] == history.ids[0]) & (table["ccdVisitId"] >= first)).sum())
                for table in (sources, forced)
            )
        )
    assert rows == expected
    assert len({int(history.ids[0]) for history in store.histories}) > 1


async def test_a_cone_has_what_is_within_it_and_nothing_else() -> None:
    visits = small("sky", visits=4)
    store = MemoryVisitStore(visits)
    await run_here(store, visits)
    there = len(np.unique((await store.whole("DIAObjectLast"))["diaObjectId"]))
    # The whole sky of this survey is smaller.
    assert await questions(visits, store, **EVERYTHING).ask(0) == there
    by_radius = [await questions(visits, store, kind="cone", radius_deg=radius).ask(0) for radius in (0.001, 0.5, 1.0)]
    assert by_radius == sorted(by_radius)
    assert by_radius[0] < by_radius[1] < by_radius[2] < there


class OneAtATime(MemoryVisitStore):
    """A connection takes one question at a time."""

    busy = False

    async def objects(self, region: Region) -> Array:
        assert not self.busy
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return await super().objects(region)


async def test_more_clients_than_stores_take_turns() -> None:
    visits = small("sky", visits=2)
    schema = Schema()
    await run_here(MemoryVisitStore(visits, schema), visits)
    some = questions(visits, OneAtATime(visits, schema), **EVERYTHING)
    rows = await asyncio.gather(*(some.ask(client) for client in (0, 1)))
    assert rows[0] == rows[1] > 0


def test_a_group_is_refused() -> None:
    with pytest.raises(ValueError, match="cone asks about visits, and of no group; take it out"):
        Workload.model_validate({"name": "w", "kind": "cone", "group": "bpm"})


Waiting = Callable[[], Awaitable[int]]


@asynccontextmanager
async def locked_in_postgresql(dsn: str, schema: str) -> AsyncIterator[Waiting]:
    """Nobody reads the table Visits; yields what counts the readers that the server has at work."""
    connection, look = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(f'LOCK TABLE "{schema}"."Visits"')
            yield lambda: look.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                f" WHERE application_name = 'triggerlog visits reader' AND state = 'active' AND query LIKE '%{schema}%'"
            )
    finally:
        await connection.close()
        await look.close()


@asynccontextmanager
async def locked_in_mariadb(dsn: str, schema: str) -> AsyncIterator[Waiting]:
    """As `locked_in_postgresql`."""
    connection = await connect(address_of(dsn), program="tests", timeout_s=30)
    look = await connect(address_of(dsn), program="tests", timeout_s=30)

    async def waiting() -> int:
        text = f"ID <> CONNECTION_ID() AND STATE LIKE 'Waiting for%' AND INFO LIKE '%{schema}%'"
        ((count,),) = await look.fetch(f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE {text}")
        return int(count)

    try:
        await connection.run(f"LOCK TABLES `{schema}`.`Visits` WRITE")
        yield waiting
    finally:
        connection.terminate()
        look.terminate()


LOCKED = {"postgresql_dsn": locked_in_postgresql, "mariadb_dsn": locked_in_mariadb}


@pytest.mark.parametrize(("dsn", "locked"), LOCKED.items(), indirect=["dsn"])
async def test_a_question_is_given_up_here_and_by_the_server(
    dsn: str, locked: Callable[[str, str], AbstractAsyncContextManager[Waiting]], schema: str, tmp_path: Path
) -> None:
    visits = small(schema)
    async with stores(dsn, visits, tmp_path) as make:
        await make().create()
        cones = questions(visits, make(ReadOnly(connections=1, give_up_s=3)), kind="cone")
        assert await cones.ask(0) == 0
        async with locked(dsn, schema) as waiting:
            with pytest.raises(StoreUnavailable, match=r"took longer than 3 s, and was given up"):
                await cones.ask(0)
            # Nothing but the server itself can end what waits there.
            deadline = time.monotonic() + 30
            while await waiting():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
        assert await cones.ask(0) == 0


async def test_a_question_to_a_mongodb_is_given_up(mongodb_dsn: str, schema: str, tmp_path: Path) -> None:
    visits = small(schema)
    async with stores(mongodb_dsn, visits, tmp_path) as make:
        await make().create()
        with pytest.raises(StoreUnavailable, match=r"took longer than 1e-06 s, and was given up"):
            await questions(visits, make(ReadOnly(connections=1, give_up_s=1e-6)), kind="cone").ask(0)
