"""Real servers for the tests, started once a run."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from backends.embedded import EmbeddedPostgresql

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """DSN of a PostgreSQL that lives as long as the run; take a fresh `schema` in it."""
    server = EmbeddedPostgresql(tmp_path_factory.mktemp("postgresql"))
    yield asyncio.run(server.start())
    asyncio.run(server.stop())


@pytest.fixture
def schema() -> str:
    """Name of a schema that no other test uses."""
    return f"test_{next(_numbers)}"


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state folder of the test's own."""
    return tmp_path / "state"


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of a module that says `ON_BOTH_LOOPS = True` on each loop: their transports differ in details."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if getattr(item.getparent(pytest.Module).obj, "ON_BOTH_LOOPS", False):
        loops["uvloop"] = uvloop.new_event_loop
    return loops
