"""The process of visits and its workers: what it tells, how it is stopped, and why it refuses to begin."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from backends import open_visit_store
from backends.visits.base import VisitsLocked
from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import ProcessRefused
from daemon.workloads.visits.messages import Begun, Sizes, Visited, Visiting, Waiting, spec_of, visits_process
from schemas.api.visits import VisitMeasure
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from tests.support.visit_runs import assert_same, small, tables_in, undisturbed


async def told(database: DatabaseConfig, visits: VisitsConfig, folder: Path, ends_with: type[Message]) -> list[Message]:
    """What a process tells that is stopped at the first message of a kind."""
    process = visits_process(spec_of(database, visits, state_dir=folder), folder / "log")
    messages: list[Message] = []
    async with asyncio.timeout(100), aclosing(process.messages()) as sent:
        async for message in sent:
            messages.append(message)
            if isinstance(message, ends_with):
                process.stop()
    assert not [
        child for child in psutil.Process(os.getpid()).children() if "daemon.workloads.visits" in child.cmdline()
    ]
    return messages


async def test_visits_go_on_where_other_workers_stopped_and_refuse_another_sky(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    database = DatabaseConfig(dsn=postgresql_dsn)
    forking = small(schema, workers="fork", tiles=2)
    store = open_visit_store(database, forking, state_dir=tmp_path)
    try:
        messages = await told(database, forking, tmp_path, Visited)
        assert isinstance(messages[0], Begun)
        assert messages[0].last is None
        measures = [message.visit for message in messages if isinstance(message, Visited)]
        assert isinstance(messages[-1], Sizes)
        assert [measure.visit for measure in measures] == list(range(len(measures)))
        assert all(measure.tiles == 4 and 0 < measure.slowest_tile_s < measure.visit_s for measure in measures)
        assert all(0 < measure.select_object_s < measure.select_s for measure in measures)
        assert all(0 < measure.store_last_s + measure.commit_s < measure.store_s for measure in measures)

        # At the survey's own pace the next visit is hours away: told to stop, the process does not wait for it.
        staying = small(schema, workers="persistent", connections="per_visit", cadence="real", tiles=2)
        begun, visiting, visited, waiting, *rest = await told(database, staying, tmp_path, Waiting)
        assert isinstance(begun, Begun)
        assert begun.done == len(measures)
        assert isinstance(visiting, Visiting)
        assert isinstance(visited, Visited)
        assert isinstance(waiting, Waiting)
        assert [type(message) for message in rest] == [Sizes]
        found = await tables_in(store, staying)
        assert_same(found, await undisturbed(forking.model_copy(update={"visits": len(measures) + 1})))

        other = small(schema, survey={"seed": 8})
        with pytest.raises(ProcessRefused, match="seed") as refused:
            await told(database, other, tmp_path, Visited)
        assert "\n" not in str(refused.value)
    finally:
        await store.drop()
        await store.close()


async def test_no_other_run_takes_the_schema_while_each_visit_has_a_connection_of_its_own(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    database = DatabaseConfig(dsn=postgresql_dsn)
    visits = small(schema, visits=10_000, workers="one", connections="per_visit")
    store, other = [open_visit_store(database, visits, state_dir=tmp_path) for _ in range(2)]
    spec = spec_of(database, visits, state_dir=tmp_path)
    try:
        async with asyncio.timeout(100), aclosing(visits_process(spec, tmp_path / "log").messages()) as said:
            first = await next_visit(said)
            # It waits for its turn for seconds, and would have it as soon as the schema is let go.
            waiting = asyncio.create_task(other.hold())
            while not waiting.done():
                last = await next_visit(said)
            with pytest.raises(VisitsLocked):
                await waiting
            assert last.visit > first.visit + 3
    finally:
        await other.release()
        await store.drop()
        await store.close()


async def test_a_process_goes_no_further_than_its_visits_are_heard_of(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    """What is in the database and was heard by nobody would be in no file when all are killed."""
    database, visits = DatabaseConfig(dsn=postgresql_dsn), small(schema, visits=10_000)
    store = open_visit_store(database, visits, state_dir=tmp_path)
    spec = spec_of(database, visits, state_dir=tmp_path)
    try:
        async with asyncio.timeout(100), aclosing(visits_process(spec, tmp_path / "log").messages()) as said:
            first = await next_visit(said)
            await asyncio.sleep(0.5 + 20 * first.visit_s)
            last = await store.last_visit()
            assert last is not None
            assert last.visit <= first.visit + 1
            while (await next_visit(said)).visit < first.visit + 20:
                pass
    finally:
        await store.drop()
        await store.close()


async def next_visit(said: AsyncGenerator[Message, None]) -> VisitMeasure:
    """The next visit that a process tells of."""
    while not isinstance(message := await anext(said), Visited):
        pass
    return message.visit
