"""daemon.folders.opened: the store opens beside everything else, on a real PostgreSQL that may be away."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends import open_conditions_store
from backends.base import StoreBusy, StoreUnavailable
from backends.ending import end_tasks
from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.folders.opened import OpenedFolders, opened_folders
from schemas.config import DatabaseConfig
from tests.support.folders import new_folder
from tests.support.pipelines import eventually
from tests.support.processes import GROUP
from tests.support.servers import server_folder

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[ThrowawayPostgresql]:
    """A server of this module's own, which its tests stop and start again."""
    with server_folder() as folder:
        made = ThrowawayPostgresql(folder)
        made.start()
        yield made
        made.stop()


@asynccontextmanager
async def opening(folder: Path, dsn: str, schema: str) -> AsyncIterator[tuple[OpenedFolders, Events]]:
    file = folder / "beam.toml"
    file.write_text(
        f'{GROUP}\n[database]\ndsn = "{dsn}"\n[folders]\nserve = true\nschema = "{schema}"\ntimeout_s = 5.0\n'
    )
    events = Events()
    opened = opened_folders(load_config(file), events)
    assert opened is not None
    task = asyncio.create_task(opened.run())
    try:
        yield opened, events
    finally:
        await end_tasks(task)
        await opened.close()


def refusal(opened: OpenedFolders) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as caught:
        opened.store()
    assert opened.problem == str(caught.value)
    return caught.value


def test_a_daemon_that_serves_none_has_no_store(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(GROUP)
    assert opened_folders(load_config(file), Events()) is None


async def test_folders_open_when_the_database_answers_and_stay_open_while_it_is_away(
    tmp_path: Path, server: ThrowawayPostgresql, schema: str
) -> None:
    dsn = await asyncio.to_thread(server.start)
    await asyncio.to_thread(server.stop)
    async with opening(tmp_path, dsn, schema) as (opened, events):
        assert isinstance(refusal(opened), StoreBusy)
        await eventually(lambda: "is not reachable" in (opened.problem or ""))
        refusal(opened)
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(WITHIN_S):
            store = await opened.wait()
        assert opened.store() is store
        assert opened.problem is None
        folder = await store.add_folder(new_folder())
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreUnavailable):
            await opened.store().folders()
        await asyncio.to_thread(server.start)
        assert await opened.store().folders() == [folder]
        assert [event.text for event in events.newest()] == [f"folders of schema {schema} are open"]


async def test_a_schema_of_something_else_is_told_once_and_tried_again(
    tmp_path: Path, server: ThrowawayPostgresql, schema: str
) -> None:
    dsn = await asyncio.to_thread(server.start)
    other = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
    await other.create()
    async with opening(tmp_path, dsn, schema) as (opened, events):
        await eventually(lambda: not isinstance(refusal(opened), StoreBusy))
        problem = str(refusal(opened))
        assert schema in problem
        await asyncio.sleep(1.0)  # it is tried again meanwhile
        await other.drop()
        await other.close()
        async with asyncio.timeout(WITHIN_S):
            await opened.wait()
        assert [event.text for event in reversed(events.newest())] == [
            f"folders cannot be opened, and are tried again: {problem}",
            f"folders of schema {schema} are open",
        ]
