"""Real servers for the tests, started once a run."""

import asyncio
import gc
import itertools
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
import uvloop

from backends.postgresql.server.account import ELSEWHERE
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.throwaway.base import ServerProcess
from backends.throwaway.mariadb import ThrowawayMariadb
from backends.throwaway.mongodb import ThrowawayMongodb, named_server
from tests.support.forked import Forked
from tests.support.replica_set import ReplicaSet
from tests.support.servers import installed, server_folder, sweep_server_folders

_numbers = itertools.count(1)

# A machine may be slow, and a slow example is no wrong one.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")

# Tests run in several workers, and some run a pytest of their own: that one must not think it is a worker, too.
for _name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
    os.environ.pop(_name, None)


# A run that was started in the background ignores Ctrl-C, and so would whatever the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


FORGOTTEN_SOCKET = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
"""The driver of MongoDB forgets a socket whose connecting is cancelled, as closing a client does while it looks at its
server (PYTHON-5867); the interpreter closes it, and tells."""


QUICK = os.environ.get("TRIGGERLOG_QUICK") == "1"
"""`make quick`: a test that starts a server or a command skips at that moment, so that none has to be marked."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin with the memory that others have left."""
    sweep_server_folders()
    if QUICK:
        for starts in ((EmbeddedPostgresql, "start"), (ServerProcess, "start"), (Forked, "__init__")):
            setattr(*starts, _skip)


def _skip(*_: object, **__: object) -> NoReturn:
    pytest.skip("needs a server or a process: make test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, then those with many: no worker is left alone with a long file at the end."""
    for item in items:
        if "mongodb" in f"{item.nodeid} {getattr(item, 'fixturenames', ())}":
            item.add_marker(pytest.mark.mongodb)
            item.add_marker(pytest.mark.filterwarnings(FORGOTTEN_SOCKET))
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("page")}
    many = Counter(item.path for item in items)
    # Files stay together, and their tests in order: the sort is stable.
    items.sort(key=lambda item: (item.path not in slow, -many[item.path], str(item.path)))


@pytest.fixture(autouse=True)
def _forgotten_sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """See to it that what the driver of MongoDB forgets is told in its own test, and in no other."""
    yield
    if request.node.get_closest_marker("mongodb"):
        gc.collect()


@pytest.fixture(scope="session", autouse=True)
def no_data_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Under root the data of an embedded server lies behind a link, and would outlast the folder that pytest clears."""
    yield
    for link in tmp_path_factory.getbasetemp().rglob("postgresql"):
        if link.is_symlink() and link.readlink().parent == ELSEWHERE:
            shutil.rmtree(link.readlink(), ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_dsn() -> Iterator[str]:
    """DSN of a PostgreSQL that lives as long as the run; take a fresh `schema` in it."""
    with server_folder() as folder:
        server = EmbeddedPostgresql(folder)
        yield asyncio.run(server.start())
        asyncio.run(server.stop())


@pytest.fixture(scope="session")
def mariadb_dsn() -> Iterator[str]:
    """DSN of a MariaDB that lives as long as the run; take a fresh `schema`, which is a database, in it."""
    with server_folder() as folder:
        server = ThrowawayMariadb(folder)
        with installed():
            dsn = server.start()
        yield dsn
        server.stop()


@pytest.fixture(scope="session")
def mongodb_dsn() -> Iterator[str]:
    """DSN of a MongoDB wire server that lives as long as the run; take a fresh `schema`, which is a database, in it."""
    named = named_server()
    if named is not None:
        yield named
        return
    with server_folder() as folder:
        with installed():
            server = ThrowawayMongodb(folder)
        dsn = server.start()
        yield dsn
        server.stop()


@pytest.fixture
def replica_set(mongodb_dsn: str) -> Iterator[ReplicaSet]:
    """The primary of a replica set, with faults, before the MongoDB wire server of the run."""
    with ReplicaSet(mongodb_dsn) as found:
        yield found


@pytest.fixture
def replica_set_dsn(replica_set: ReplicaSet) -> str:
    """DSN of a replica set; take a fresh `schema`, which is a database, in it."""
    return replica_set.dsn


@pytest.fixture
def own_mongodb() -> Iterator[ThrowawayMongodb]:
    """A MongoDB wire server of the test's own, running, which it may kill and start again."""
    with server_folder() as folder:
        with installed():
            server = ThrowawayMongodb(folder)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def schema() -> str:
    """Name of a schema that no other test uses."""
    return f"test_{next(_numbers)}"


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state folder of the test's own, in which an embedded PostgreSQL may run."""
    with server_folder() as folder:
        yield folder / "state"


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests of a module that says `ON_BOTH_LOOPS = True` on each loop: their transports differ in details."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if getattr(item.getparent(pytest.Module).obj, "ON_BOTH_LOOPS", False):
        loops["uvloop"] = uvloop.new_event_loop
    return loops
