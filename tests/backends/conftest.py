"""What tests of stores of conditions and of folders share: servers by their names, and stores in one schema of them."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from backends.kinds import KINDS
from backends.throwaway.base import ThrowawayServer
from schemas.config import DatabaseConfig
from tests.support.lives import SQL_SERVERS, random_moments
from tests.support.servers import installed, server_folder

MEMORY = "memory"


@pytest.fixture(params=[MEMORY, *SQL_SERVERS])
def server(request: pytest.FixtureRequest) -> str:
    """Which server; a test that names its own ones overrides it."""
    return str(request.param)


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str | None:
    """Where the server is; None stands for memory. A server is started outside of the loop of a test."""
    return None if server == MEMORY else str(request.getfixturevalue(f"{server}_dsn"))


@pytest.fixture
async def make(
    dsn: str | None,
    schema: str,
    tmp_path: Path,
    kind_of_store: tuple[Callable[[], Any], Callable[..., Any]],
) -> AsyncIterator[Callable[[], Any]]:
    """Makes stores of one kind in one schema, as several processes have them; the schema is dropped afterwards.

    kind_of_store: a fixture of the test's module: how one is made in memory, and how one is opened in a database.
    """
    in_memory, opens = kind_of_store
    if dsn is None:
        memory = in_memory()
        yield lambda: memory
        return
    async with AsyncExitStack() as stack:

        def open_one() -> Any:
            store = opens(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
            stack.push_async_callback(store.close)
            return store

        stack.push_async_callback(open_one().drop)
        yield open_one


@pytest.fixture
async def store(make: Callable[[], Any]) -> Any:
    """One of them."""
    made = make()
    await made.create()
    return made


@pytest.fixture
def rng() -> random.Random:
    """Moments to kill at."""
    return random_moments()


@pytest.fixture
def throwaway(server: str) -> Iterator[ThrowawayServer]:
    """A server that the test may kill."""
    with server_folder() as folder:
        with installed():
            made = KINDS[SQL_SERVERS[server]].throwaway_server(folder)
            made.start()
        yield made
        made.stop()
