"""kill -9 in the middle of visits, again and again: no duplicate, no orphan, and the rows of an undisturbed run.

The seed of the moments is printed; TRIGGERLOG_CRASH_SEED repeats them, as far as a machine repeats anything.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from backends import open_visit_store
from backends.base import StoreError
from backends.kinds import KINDS
from backends.throwaway import ServerNotInstalled
from backends.throwaway.base import ThrowawayServer
from backends.throwaway.postgresql import ThrowawayPostgresql
from backends.visits.base import VisitStore
from daemon.workloads.visits.archive import VisitsArchive
from daemon.workloads.visits.messages import Spec, Troubled, Visited, spec_of, visits_process
from daemon.workloads.visits.progress import RunProgress
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.visits.records import Seconds, TileWrite
from tests.support.forked import CONTEXT
from tests.support.kills import KILLS, THOROUGH
from tests.support.visit_crash_process import live
from tests.support.visit_runs import assert_same, assert_whole, run_here, small, tables_in, undisturbed

MODES = {
    "baseline": {"index_mode": "baseline"},
    "pix_id_iov": {"index_mode": "pix_id_iov"},
    "last-delete_insert": {"index_mode": "last_object_table", "last_update": "delete_insert"},
    "last-replace": {"index_mode": "last_object_table", "last_update": "replace"},
    "last-upsert": {"index_mode": "last_object_table", "last_update": "upsert"},
    "partitioned": {"index_mode": "partitioned"},
}
LACKS = {"postgresql": {"last-replace"}, "mariadb": set(), "mongodb": set()}
IN_EVERY_SUITE = [("postgresql", "partitioned"), ("mariadb", "last-replace"), ("mongodb", "partitioned")]
CASES = [(server, mode) for server, lacks in LACKS.items() for mode in MODES if mode not in lacks]
CUTS = [
    ("postgresql", "baseline", True),
    ("postgresql", "partitioned", False),
    ("mariadb", "partitioned", True),
    ("mariadb", "last-upsert", False),
    ("mongodb", "baseline", False),
    ("mongodb", "partitioned", False),
]
COMPACTING = ["postgresql", "mariadb"] if THOROUGH else ["postgresql"]
COMPACT_S = 0.05
"""About what a table of a small run takes, and a little more."""
IN_TURN = [("postgresql", "persistent"), ("postgresql", "fork"), ("mariadb", "persistent"), ("mongodb", "persistent")]


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("TRIGGERLOG_CRASH_SEED") or random.randrange(2**32))
    print(f"TRIGGERLOG_CRASH_SEED={seed}")  # noqa: T201 - for whoever reads of a failure
    return random.Random(seed)


@pytest.fixture
def database(server: str, request: pytest.FixtureRequest) -> DatabaseConfig:
    return DatabaseConfig(dsn=request.getfixturevalue(f"{server}_dsn"))


async def assert_undisturbed(store: VisitStore, visits: VisitsConfig) -> None:
    """Every table has just the rows of a run in memory of as many visits."""
    found = await tables_in(store, visits)
    assert_whole(found, visits)
    last = await store.last_visit()
    assert last is not None
    assert_same(found, await undisturbed(visits.model_copy(update={"visits": last.visit + 1})))


@contextlib.asynccontextmanager
async def opened(database: DatabaseConfig, visits: VisitsConfig, folder: Path) -> AsyncIterator[VisitStore]:
    store = open_visit_store(database, visits, state_dir=folder)
    try:
        yield store
    finally:
        await store.drop()
        await store.close()


class Cut(StoreError):
    """The process ended here."""


def cut_after_a_write(store: VisitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever uses the store live until its next write is committed."""
    commit = store.write

    async def write(write: TileWrite) -> Seconds:
        await commit(write)
        raise Cut

    monkeypatch.setattr(store, "write", write)


@pytest.mark.parametrize(("server", "mode", "since_first"), CUTS if THOROUGH else CUTS[:3])
async def test_a_run_cut_after_every_step_of_every_tile_goes_on(
    mode: str,
    since_first: bool,
    database: DatabaseConfig,
    schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    survey = {"cutoff_since_first": since_first}
    visits = small(schema, survey=survey, visits=2, all_history=since_first, **MODES[mode])
    cuts = 0
    async with opened(database, visits, tmp_path) as store:
        cut_after_a_write(store, monkeypatch)
        done = False
        while not done:
            try:
                await run_here(store, visits)
                done = True
            except Cut:
                cuts += 1
        assert cuts > 2 * 3 * 2
        await assert_undisturbed(store, visits)


class Life:
    """A process of visits, which says what begins: `begun` of its visits, `compacting` of a compaction."""

    def __init__(self, spec: Spec) -> None:
        self._said, said = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=live, args=(spec.line(), said))
        self.process.start()
        said.close()

    def until(self, word: str) -> None:
        heard = None
        while heard != word:
            assert self._said.poll(60), f"not {word}"
            heard = self._said.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._said.close()


@pytest.mark.parametrize(("server", "mode"), CASES if THOROUGH else IN_EVERY_SUITE)
async def test_the_process_of_visits_is_killed_again_and_again(
    mode: str,
    database: DatabaseConfig,
    schema: str,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    visits = small(schema, visits=10_000, **MODES[mode])
    spec = spec_of(database, visits, state_dir=tmp_path)
    async with opened(database, visits, tmp_path) as store:
        (first,) = await run_here(store, visits, until=1)
        for _ in range(KILLS):
            life = await asyncio.to_thread(Life, spec)
            await asyncio.to_thread(life.until, "begun")
            # As far as a visit and a half, however slow the machine is.
            await asyncio.sleep(rng.uniform(0, 1.5 * (first.dia_s + first.visit_s)))
            await asyncio.to_thread(life.kill)
        last = await store.last_visit()
        assert last is not None
        assert len(await run_here(store, visits, until=last.visit + 3)) == 2
        await assert_undisturbed(store, visits)


@pytest.mark.parametrize("server", COMPACTING)
async def test_the_process_is_killed_while_it_compacts(
    database: DatabaseConfig,
    schema: str,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    visits = small(schema, visits=10_000, index_mode="partitioned")
    night = visits.survey.visits_a_night
    async with opened(database, visits, tmp_path) as store:
        await run_here(store, visits, until=night)
        done = night
        for _ in range(KILLS):
            # A night more, and no visit of the next: what is compacted has to be all that this process was at.
            done += night
            life = await asyncio.to_thread(Life, spec_of(database, visits, state_dir=tmp_path, until=done))
            await asyncio.to_thread(life.until, "compacting")
            await asyncio.sleep(rng.uniform(0, COMPACT_S))
            await asyncio.to_thread(life.kill)
            await assert_undisturbed(store, visits)
        await run_here(store, visits, until=done + night)
        await assert_undisturbed(store, visits)
        last = await store.last_visit()
        assert last is not None
        assert list(await store.uncompacted(last.time_ns)) == []


class Followed:
    """`python -m daemon.workloads.visits`, and what it has told; `run` takes all of it."""

    def __init__(self, spec: Spec, folder: Path, run: RunProgress | None = None) -> None:
        self._run = run
        self._process = visits_process(spec, folder / "visits.log")
        self.visited: list[Visited] = []
        self.problems: list[str] = []
        self._heard = asyncio.Condition()
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for message in self._process.messages():
            if self._run is not None:
                await self._run.take(message)
            if isinstance(message, Visited):
                self.visited.append(message)
            elif isinstance(message, Troubled):
                self.problems.append(message.problem)
            async with self._heard:
                self._heard.notify_all()

    def stop(self) -> None:
        self._process.stop()

    async def until_visited(self, visits: int) -> None:
        """Wait until so many more visits are done."""
        wanted = len(self.visited) + visits
        async with asyncio.timeout(180), self._heard:
            await self._heard.wait_for(lambda: len(self.visited) >= wanted or self._following.done())
        assert len(self.visited) >= wanted, self._following.exception()

    async def ended(self) -> None:
        async with asyncio.timeout(60):
            await self._following

    def workers(self) -> list[psutil.Process]:
        """Processes of workers, and those of tiles; one may be gone by now."""
        visits = [child for child in psutil.Process().children() if "daemon.workloads.visits" in child.cmdline()]
        return visits[0].children(recursive=True) if visits else []


@pytest.fixture
async def own_server(server: str, state_dir: Path) -> AsyncIterator[ThrowawayServer]:
    backend = Backend("mysql" if server == "mariadb" else server)
    try:
        own = KINDS[backend].throwaway_server(state_dir)
        await asyncio.to_thread(own.start)
    except ServerNotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield own
    await asyncio.to_thread(own.stop)


@pytest.mark.slow
@pytest.mark.parametrize(("server", "workers"), IN_TURN if THOROUGH else IN_TURN[:1])
async def test_workers_and_the_server_are_killed_in_turn(
    workers: str, own_server: ThrowawayServer, state_dir: Path, rng: random.Random
) -> None:
    visits = small("visits", visits=10_000, workers=workers, index_mode="partitioned")
    database = DatabaseConfig(dsn=await asyncio.to_thread(own_server.start))
    followed = Followed(spec_of(database, visits, state_dir=state_dir), state_dir.parent)
    await followed.until_visited(1)
    for number in range(KILLS // 2):
        await asyncio.sleep(rng.uniform(0, 0.2))
        if number % 2:
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                rng.choice(followed.workers()).kill()
        else:
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)
        await followed.until_visited(1)
    followed.stop()
    await followed.ended()
    assert len(followed.problems) >= KILLS // 4
    async with opened(database, visits, state_dir) as store:
        last = await store.last_visit()
        assert last is not None
        # Told to stop while a worker is away, a run leaves its visit half done; the next one completes it.
        await run_here(store, visits, until=last.visit + 2)
        await assert_undisturbed(store, visits)


@pytest.fixture
async def forgetful_server(state_dir: Path) -> AsyncIterator[ThrowawayServer]:
    """A server that writes what it acknowledged to its log after 10 s, where nothing else makes it."""
    own = ThrowawayPostgresql(state_dir)
    connection = await asyncpg.connect(await asyncio.to_thread(own.start))
    await connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
    yield own
    await asyncio.to_thread(own.stop)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["one", "persistent"] if THOROUGH else ["persistent"])
async def test_visits_that_a_server_acknowledged_and_lost_are_done_again_and_have_one_row(
    workers: str, forgetful_server: ThrowawayServer, state_dir: Path, rng: random.Random
) -> None:
    # A partition that is made or dropped takes with it to the disk whatever was before it.
    visits = small("visits", visits=10_000, durability="async", workers=workers, period_days=30, compact=False)
    database = DatabaseConfig(dsn=await asyncio.to_thread(forgetful_server.start))
    archive = VisitsArchive(state_dir / "visits")
    run = RunProgress(archive, archive.new_id(), visits, target="here")
    run.begin()
    followed = Followed(spec_of(database, visits, state_dir=state_dir), state_dir.parent, run)
    await followed.until_visited(1)
    kills = 0
    while kills < 3 or not run.status().lost:
        assert kills < 3 * KILLS, "the server lost nothing"
        await followed.until_visited(3)
        await asyncio.sleep(rng.uniform(0, 0.2))
        await asyncio.to_thread(forgetful_server.kill)
        await asyncio.to_thread(forgetful_server.start)
        await followed.until_visited(1)
        kills += 1
    followed.stop()
    await followed.ended()
    run.close()
    async with opened(database, visits, state_dir) as store:
        last = await store.last_visit()
        assert last is not None
        assert archive.rows(run.name)["visit"].tolist() == list(range(last.visit + 1))
        assert run.status().here == run.status().done == last.visit + 1
        await run_here(store, visits, until=last.visit + 2)
        await assert_undisturbed(store, visits)
