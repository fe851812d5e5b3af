"""TLS towards the databases: real servers, with certificates of an authority that is trusted, or is not."""

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

from backends import open_store
from backends.base import Store, StoreError, StoreUnavailable
from backends.postgresql.embedded import EmbeddedPostgresql
from backends.throwaway.mariadb import ThrowawayMariadb
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from tests.batches import batch_of, group_of, readings_of
from tests.certificates import Authority, Certificate
from tests.conftest import _folder, _installed
from tests.processes import free_port

GROUP = group_of()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with _folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Authority:
    return Authority(folder, "stranger")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    """A certificate for 127.0.0.1, and not for localhost."""
    return authority.certificate("db", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def postgresql(folder: Path, server: Certificate) -> Iterator[str]:
    """The embedded PostgreSQL, made to listen on TCP and to take nothing but TLS there."""
    embedded = EmbeddedPostgresql(folder / "state")
    asyncio.run(embedded.start())
    asyncio.run(embedded.stop())
    data, port = folder / "state" / "postgresql", free_port()
    own = data.stat()
    for path in (server.certificate, server.key):
        kept = data / path.name
        kept.write_bytes(path.read_bytes())
        os.chown(kept, own.st_uid, own.st_gid)
        kept.chmod(0o600)
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(f"listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\n")
        conf.write(f"ssl_cert_file = '{server.certificate.name}'\nssl_key_file = '{server.key.name}'\n")
    (data / "pg_hba.conf").write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
    asyncio.run(embedded.start())
    yield f"postgresql://postgres@{{host}}:{port}/postgres?sslmode=verify-full&sslrootcert={{ca}}"
    asyncio.run(embedded.stop())


@pytest.fixture(scope="module")
def mariadb(folder: Path, server: Certificate) -> Iterator[str]:
    mariadb = ThrowawayMariadb(folder / "mariadb", ssl_cert=server.certificate, ssl_key=server.key)
    with _installed():
        dsn = urlsplit(mariadb.start())
    yield f"mysql://root@{{host}}:{dsn.port}?ssl_ca={{ca}}"
    mariadb.stop()


@pytest.fixture(scope="module")
def mongodb(mongodb_dsn: str, server: Certificate) -> Iterator[str]:
    """The MongoDB wire server behind a listener with TLS that hands on every byte: FerretDB is built without."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)
    behind = urlsplit(mongodb_dsn)
    with handing_on(context, behind.hostname or "", behind.port or 27017) as port:
        yield f"mongodb://{{host}}:{port}/?tls=true&tlsCAFile={{ca}}"


@contextmanager
def handing_on(context: ssl.SSLContext, host: str, port: int) -> Iterator[int]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while data := await reader.read(1 << 16):
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            there, back = await asyncio.open_connection(host, port)
            await asyncio.gather(one_way(reader, back), one_way(there, writer))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)

    async def end(server: asyncio.Server) -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(30)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(params=["postgresql", "mariadb", "mongodb"])
def dsn(request: pytest.FixtureRequest) -> Callable[[str, Path], str]:
    template: str = request.getfixturevalue(request.param)

    def made(host: str, ca: Path) -> str:
        return template.format(host=host, ca=quote(str(ca), safe=""))

    return made


def store_of(dsn: str, schema: str, state_dir: Path) -> Store:
    database = DatabaseConfig.model_validate({"dsn": dsn, "schema": schema, "command_timeout_s": 30.0})
    return open_store(
        database, logger="test", groups={GROUP.name: GROUP}, layouts={GROUP.name: Layout.ROWS}, state_dir=state_dir
    )


async def test_batches_are_committed_over_tls(
    dsn: Callable[[str, Path], str], authority: Authority, schema: str, state_dir: Path
) -> None:
    store = store_of(dsn("127.0.0.1", authority.ca), schema, state_dir)
    await store.open()
    try:
        triggers = np.arange(1, 4)
        readings = readings_of(GROUP, triggers, triggers * 10_000_000 + 10**18, np.random.default_rng(1))
        batch = batch_of(GROUP, 1, readings)
        await store.commit(batch)
        assert await store.position(GROUP.name) == batch.position
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("host", "trusts", "said"),
    [
        ("127.0.0.1", "stranger", r"shows a certificate that is not trusted \(.*\); name the authority that signed it"),
        (
            "localhost",
            "authority",
            r"shows a certificate that is not trusted \(.*\); name the host in `dsn`",
        ),
    ],
)
async def test_another_authority_and_another_name_are_told_with_the_mend(
    dsn: Callable[[str, Path], str],
    host: str,
    trusts: str,
    said: str,
    schema: str,
    state_dir: Path,
    request: pytest.FixtureRequest,
) -> None:
    trusted: Authority = request.getfixturevalue(trusts)
    for act in ("open", "check"):
        store = store_of(dsn(host, trusted.ca), schema, state_dir)
        with pytest.raises(StoreError, match=said) as refused:
            await getattr(store, act)()
        assert not isinstance(refused.value, StoreUnavailable)
        assert "\n" not in str(refused.value)
        await store.close()


async def test_a_mariadb_without_tls_is_not_spoken_to_in_the_clear(
    mariadb_dsn: str, authority: Authority, schema: str, state_dir: Path
) -> None:
    # A server of another make: this one offers none (MariaDB 11.4 makes itself a certificate, and is not trusted).
    store = store_of(f"{mariadb_dsn}?ssl_ca={quote(str(authority.ca), safe='')}", schema, state_dir)
    with pytest.raises(StoreError, match=r"offers no TLS|is not trusted"):
        await store.open()
    await store.close()
