"""A connection that the network has lost: its session at the server keeps no lock for long, and never from its own."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from backends import open_visit_store
from backends.base import SchemaMismatch, Store, StoreError, StoreUnavailable
from backends.mysql import MysqlStore
from backends.mysql.server.address import address_of
from backends.postgresql import PostgresqlStore
from backends.postgresql.server.embedded import SOCKET
from backends.sql import connection as connections
from backends.visits.base import VisitsLocked
from schemas.batch import Batch, Layout
from schemas.config import DatabaseConfig
from schemas.readings import Array
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.processes import GROUP as BPM
from tests.support.processes import LISTENERS, Daemon, running, triggerlog
from tests.support.relays import Network
from tests.support.visits import visits_config

GROUP = group_of()
STORES: dict[str, Callable[..., Store]] = {"postgresql": PostgresqlStore, "mariadb": MysqlStore}
TIMEOUT_S = 2.0


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{server}_dsn"))


@pytest.fixture
async def network(server: str, dsn: str) -> AsyncIterator[Network]:
    if server == "postgresql":
        behind: Any = Path(parse_qs(urlsplit(dsn).query)["host"][0]) / SOCKET
    else:
        behind = ("127.0.0.1", address_of(dsn).port)
    async with Network(behind) as network:
        yield network


@pytest.fixture
def behind(server: str, network: Network) -> str:
    """The DSN through the network."""
    at = f"127.0.0.1:{network.port}"
    return f"postgresql://postgres@{at}/postgres" if server == "postgresql" else f"mysql://root@{at}"


@pytest.fixture
async def make(server: str, schema: str) -> AsyncIterator[Callable[[str], Store]]:
    async with AsyncExitStack() as stack:

        def made(dsn: str) -> Store:
            store = STORES[server](
                DatabaseConfig(dsn=dsn, schema=schema, command_timeout_s=TIMEOUT_S),
                logger="main",
                groups=by_group(GROUP),
                layouts={"bpm": Layout.ROWS},
            )
            stack.push_async_callback(store.close)
            return store

        yield made


def batch(number: int) -> Batch:
    times = 1_700_000_000_000_000_000 + np.arange(30) * 1_000_000
    readings: Array = readings_of(GROUP, np.arange(30) + 100 * number, times, np.random.default_rng(number))
    return batch_of(GROUP, number, readings)


async def test_a_store_ends_its_own_session_that_the_network_lost(
    network: Network, make: Callable[[str], Store], behind: str
) -> None:
    store = make(behind)
    await store.open()
    await store.commit(batch(1))
    network.forget()
    with pytest.raises(StoreUnavailable, match="does not answer in time"):
        await store.commit(batch(2))
    # The first try of the next connection gets the lock.
    await store.commit(batch(2))
    position = await store.position("bpm")
    assert position is not None
    assert position.sequence == 2


@pytest.mark.slow
async def test_a_daemon_commits_again_once_the_network_is_back(
    network: Network, behind: str, schema: str, tmp_path: Path
) -> None:
    file = tmp_path / "beam.toml"
    database = f'[database]\ndsn = "{behind}"\nschema = "{schema}"\ncommand_timeout_s = {TIMEOUT_S}\n'
    file.write_text(f'state_dir = "{tmp_path}/state"\n{BPM}{LISTENERS.format(api=0)}{database}')
    with running("run", str(file)) as run:
        daemon = await asyncio.to_thread(Daemon, run, file)
        for _ in range(2):
            options = ["--port", str(daemon.readings), "--triggers", "20", "--rate", "50", "--json"]
            # What is committed is acknowledged, and until then it waits.
            done = await asyncio.to_thread(triggerlog, "simulate", *options)
            (report,) = json.loads(done.stdout)["groups"]
            assert report["acknowledged"] == report["sent"] == 20 * 12
            network.forget()  # and new connections get through
        assert await asyncio.to_thread(run.end) == 0, run.said


async def test_another_daemon_learns_who_has_the_lock_and_gets_it_when_the_server_hears_nothing(
    network: Network, make: Callable[[str], Store], behind: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.sql.writing.GROUP_LOCK_TIMEOUT_S", 0.05)
    monkeypatch.setattr("backends.sql.connection.DEAD_S", 2)
    lost, other = make(behind), make(dsn)
    await lost.open()
    with monkeypatch.context() as impatient:
        impatient.setattr("backends.sql.store.TAKE_OVER_S", 0)
        with pytest.raises(SchemaMismatch) as refused:
            await other.open()
    said = str(refused.value)
    assert "group 'bpm' in schema" in said
    assert "(session " in said
    assert "; stop that one; if it is gone, the server ends its session within 30 s: try again then" in said
    assert "another `schema`" not in said
    network.forget()
    other = make(dsn)
    await other.open()  # a start waits for it
    await other.commit(batch(1))


async def test_an_idle_connection_proves_that_its_end_lives(
    server: str, make: Callable[[str], Store], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PROOF_S", 0.01)
    store: Any = make(dsn)
    await store.open()
    owner = store._writers["bpm"]._connection
    first, driver, proofs = owner._connection, owner._driver, asyncio.Queue()

    async def prove(connection: Any) -> None:
        await driver.prove(connection)
        proofs.put_nowait(connection)

    owner._driver = replace(driver, prove=prove)
    async with asyncio.timeout(60):
        assert [await proofs.get() for _ in range(3)] == [first] * 3
    name, ask = ("idle_session_timeout", "SHOW {}") if server == "postgresql" else ("wait_timeout", "SELECT @@{}")
    async with owner.session(TIMEOUT_S) as connection:
        ((limit,),) = await connection.fetch(ask.format(name))
    assert limit in ("30s", 30)
    await store.close()
    assert owner._proving is None


async def test_a_run_of_visits_ends_its_own_session_that_the_network_lost(
    network: Network, behind: str, dsn: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.sql.visits.HOLD_TIMEOUT_S", 0.05)
    config = visits_config(schema, {"index_mode": "baseline"}, statement_timeout_s=2 * TIMEOUT_S)
    store, other = (
        open_visit_store(DatabaseConfig(dsn=each, command_timeout_s=TIMEOUT_S), config, state_dir=tmp_path)
        for each in (behind, dsn)
    )
    await store.create()
    await store.hold()
    with pytest.raises(VisitsLocked, match=r"another run writes visits into schema .* \(session \d+.*stop that one"):
        await other.hold()
    network.forget()
    with pytest.raises(StoreError):
        await store.last_visit()
    assert await store.last_visit() is None
    await store.release()
    await other.hold()
    await other.drop()
    await store.close()
    await other.close()


async def test_the_kernel_ends_a_connection_whose_server_has_vanished(
    network: Network, make: Callable[[str], Store], behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "DEAD_S", 1)
    monkeypatch.setattr(connections, "PROBING", {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 2})
    store: Any = make(behind)
    await store.open()
    connection = store._writers["bpm"]._connection._connection
    network.vanish()
    async with asyncio.timeout(60):
        while not store._driver.is_closed(connection):  # noqa: ASYNC110 - nothing is sent over it
            await asyncio.sleep(0.1)
    await store.commit(batch(1))


async def test_each_connection_is_probed(make: Callable[[str], Store], behind: str, server: str) -> None:
    store: Any = make(behind)
    connection = await store._connect()
    transport = connection._transport if server == "postgresql" else connection._writer.transport
    sock = transport.get_extra_info("socket")
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    found = [sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert found == [15, 5, 3, 30_000]
    connection.terminate()
