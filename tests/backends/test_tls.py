"""TLS towards the databases: real servers, with certificates of an authority that is trusted, or is not."""

import asyncio
import contextlib
import gc
import os
import pwd
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest

from backends import open_store
from backends.base import Store, StoreError, StoreUnavailable
from backends.mysql.server.address import address_of, connect
from backends.throwaway.mariadb import ThrowawayMariadb
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from tests.support.batches import batch_of, group_of, readings_of
from tests.support.certificates import Authority, Certificate
from tests.support.processes import free_port
from tests.support.relays import Ends, hand_on
from tests.support.servers import installed, server_folder

pytestmark = pytest.mark.slow

GROUP = group_of()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with server_folder() as folder:
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
def postgresql(folder: Path, postgresql_dsn: str, server: Certificate) -> Iterator[str]:
    """The system's PostgreSQL, which takes nothing but TLS; the embedded one is built without, and gets it in front."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    query = "postgres?sslmode=verify-full&sslrootcert={ca}"
    if installed:
        with system_postgresql(installed[-1].parent, folder / "postgresql", server) as port:
            yield f"postgresql://postgres@{{host}}:{port}/{query}"
        return
    socket = parse_qs(urlsplit(postgresql_dsn).query)["host"][0]
    with handing_on(
        server_tls(server), lambda: asyncio.open_unix_connection(f"{socket}/.s.PGSQL.5432"), asks=8
    ) as port:
        yield f"postgresql://postgres@{{host}}:{port}/{query}"


@contextmanager
def system_postgresql(programs: Path, folder: Path, server: Certificate) -> Iterator[int]:
    """A server of the system's PostgreSQL, under an account that may run one."""
    account = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    port, data = free_port(), folder / "data"

    def run(program: str, *arguments: str) -> None:
        # Into a file: the server inherits what pg_ctl has open, and a pipe would never end.
        with (folder / "said.log").open("ab") as said:
            command = [str(programs / program), *arguments, "-D", str(data)]
            subprocess.run(command, check=True, stdout=said, stderr=said, user=account.pw_uid, cwd="/")

    folder.mkdir()
    folder.parent.chmod(0o711)
    os.chown(folder, account.pw_uid, account.pw_gid)
    run("initdb", "--auth=trust", "--username=postgres", "--locale=C", "--encoding=UTF8")
    for path in (server.certificate, server.key):
        kept = data / path.name
        kept.write_bytes(path.read_bytes())
        os.chown(kept, account.pw_uid, account.pw_gid)
        kept.chmod(0o600)
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n")
        conf.write(f"ssl = on\nssl_cert_file = '{server.certificate.name}'\nssl_key_file = '{server.key.name}'\n")
    (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
    run("pg_ctl", "start", "-w", "-t", "60", "-l", str(data / "server.log"))
    try:
        yield port
    finally:
        run("pg_ctl", "stop", "-m", "immediate")


@pytest.fixture(scope="module")
def mariadb(folder: Path, server: Certificate) -> Iterator[str]:
    mariadb = ThrowawayMariadb(folder / "mariadb", ssl_cert=server.certificate, ssl_key=server.key)
    with installed():
        dsn = urlsplit(mariadb.start())
    yield f"mysql://root@{{host}}:{dsn.port}?ssl_ca={{ca}}"
    mariadb.stop()


@pytest.fixture(scope="module")
def mongodb(mongodb_dsn: str, server: Certificate) -> Iterator[str]:
    """The MongoDB wire server behind a listener with TLS that hands on every byte: FerretDB is built without."""
    behind = urlsplit(mongodb_dsn)
    with handing_on(server_tls(server), lambda: asyncio.open_connection(behind.hostname, behind.port)) as port:
        yield f"mongodb://{{host}}:{port}/?tls=true&tlsCAFile={{ca}}"


def server_tls(server: Certificate) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)
    return context


@contextmanager
def handing_on(context: ssl.SSLContext, connect: Callable[[], Awaitable[Ends]], asks: int = 0) -> Iterator[int]:
    """Listen with TLS, and hand on every byte.

    asks: bytes with which a client asks for TLS, as PostgreSQL's do; they are answered `S`.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError, ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            try:
                if asks:
                    await reader.readexactly(asks)
                    writer.write(b"S")
                    await writer.start_tls(context)
                await hand_on((reader, writer), await connect())
            finally:
                writer.transport.abort()

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=None if asks else context)

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
    database = DatabaseConfig.model_validate({"dsn": dsn, "schema": schema})
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


async def test_a_mariadb_is_left_with_the_socket_closed(mariadb: str, authority: Authority) -> None:
    address = address_of(mariadb.format(host="127.0.0.1", ca=quote(str(authority.ca), safe="")))
    connection = await connect(address, program="test", timeout_s=30)
    socket = connection._writer.get_extra_info("socket")
    await connection.ensure_closed()
    assert socket.fileno() == -1


# Where the name is another one PyMongo leaves its socket to be collected; it is here, and not amid another test.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
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
        del refused
        gc.collect()


async def test_a_mariadb_without_tls_is_not_spoken_to_in_the_clear(
    mariadb_dsn: str, authority: Authority, schema: str, state_dir: Path
) -> None:
    # A server of another make: this one offers none (MariaDB 11.4 makes itself a certificate, and is not trusted).
    store = store_of(f"{mariadb_dsn}?ssl_ca={quote(str(authority.ca), safe='')}", schema, state_dir)
    with pytest.raises(StoreError, match=r"offers no TLS|is not trusted"):
        await store.open()
    await store.close()
