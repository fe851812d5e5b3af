"""The embedded PostgreSQL: found again, started again, and careful with the folders around it."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from backends.base import StoreError, StoreUnavailable
from backends.postgresql.server import account
from backends.postgresql.server.embedded import EmbeddedPostgresql
from tests.support.servers import server_folder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account run the server")


@pytest.fixture
async def server(state_dir: Path) -> AsyncIterator[EmbeddedPostgresql]:
    server = EmbeddedPostgresql(state_dir)
    yield server
    await server.stop()
    assert server.pid is None


async def ask(dsn: str, question: str) -> str:
    connection = await asyncpg.connect(dsn)
    try:
        return str(await connection.fetchval(question))
    finally:
        await connection.close()


async def until_gone(server: EmbeddedPostgresql) -> None:
    async with asyncio.timeout(60):
        while server.pid is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def started_again(server: EmbeddedPostgresql) -> str:
    """Children of a killed server need a moment to go: try as the committer does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await server.start()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_it_is_crash_safe_and_listens_on_no_network(server: EmbeddedPostgresql) -> None:
    dsn = await server.start()
    assert await ask(dsn, "SHOW server_version_num") >= "180000"
    for setting, value in (("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")):
        assert await ask(dsn, f"SHOW {setting}") == value
    assert await ask(dsn, "SHOW listen_addresses") == ""
    assert await ask(dsn, "SHOW max_wal_size") == "4GB"
    assert await ask(dsn, "SHOW data_checksums") == "on"


async def test_the_last_user_stops_it(state_dir: Path, server: EmbeddedPostgresql) -> None:
    other = EmbeddedPostgresql(state_dir)
    dsn = await server.start()
    assert await other.start() == dsn
    await other.stop()
    assert await ask(dsn, "SELECT 1") == "1"
    await server.stop()
    assert server.pid is None


async def test_it_is_started_again_after_a_kill(server: EmbeddedPostgresql) -> None:
    dsn = await server.start()
    await ask(dsn, "CREATE TABLE kept (n int)")
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until_gone(server)
    dsn = await started_again(server)
    assert server.pid != first
    assert await ask(dsn, "SELECT count(*) FROM kept") == "0"


async def test_the_server_of_a_killed_daemon_is_found(state_dir: Path, server: EmbeddedPostgresql) -> None:
    text = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from backends.postgresql.server.embedded import EmbeddedPostgresql\n"
        f"print(asyncio.run(EmbeddedPostgresql(Path({str(state_dir)!r})).start()), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, cwd=ROOT, stdout=subprocess.PIPE)
    printed, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = server.pid
    assert left is not None
    assert await server.start() == printed.decode().strip()
    assert server.pid == left


@pytest.mark.parametrize(
    "name", ["with 'quotes', commas and % & spaces", "ünïcödé", '12" $HOME $(touch x) `touch y` \\\\']
)
async def test_any_folder_will_do(state_dir: Path, name: str) -> None:
    server = EmbeddedPostgresql(state_dir / name)
    try:
        assert await ask(await server.start(), "SELECT 1") == "1"
    finally:
        await server.stop()


async def test_a_folder_too_deep_for_a_socket(state_dir: Path) -> None:
    """Its socket is elsewhere, and nothing of it stays there, not even after a kill."""
    server = EmbeddedPostgresql(state_dir / ("deep" * 30))
    try:
        first = sockets_of(await server.start())
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until_gone(server)
        dsn = await started_again(server)
        assert await ask(dsn, "SELECT 1") == "1"
    finally:
        await server.stop()
    second = sockets_of(dsn)
    assert first != second
    assert [path for path in (first, second) if path.exists()] == []


def sockets_of(dsn: str) -> Path:
    return Path(parse_qs(urlsplit(dsn).query)["host"][0])


async def test_data_of_another_version_is_left_alone(state_dir: Path, server: EmbeddedPostgresql) -> None:
    (state_dir / "postgresql").mkdir(parents=True)
    (state_dir / "postgresql" / "PG_VERSION").write_text("16\n")
    with pytest.raises(StoreError, match="written by PostgreSQL 16, this is 18"):
        await server.start()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where data and binaries may lie that the account cannot reach; not there yet."""
    with server_folder() as folder:
        monkeypatch.setattr(account, "ELSEWHERE", folder / "elsewhere")
        yield folder / "elsewhere"


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that only its owner passes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        assert mode_of(Path(folder)) == 0o700


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def kept_rows(server: EmbeddedPostgresql) -> str:
    """Start it, ask, and stop it again."""
    try:
        dsn = await server.start()
        await ask(dsn, "CREATE TABLE IF NOT EXISTS kept (n int)")
        await ask(dsn, "INSERT INTO kept VALUES (1)")
        return await ask(dsn, "SELECT count(*) FROM kept")
    finally:
        await server.stop()
        assert server.pid is None


@as_root
async def test_data_that_the_account_cannot_reach_lies_elsewhere(closed: Path, elsewhere: Path) -> None:
    for rows in ("1", "2"):
        assert await kept_rows(EmbeddedPostgresql(closed / "state")) == rows
    data = (closed / "state" / "postgresql").readlink()
    assert data.parent == elsewhere
    assert (mode_of(elsewhere), mode_of(data)) == (0o711, 0o700)
    other = closed / "other"
    assert await kept_rows(EmbeddedPostgresql(other)) == "1"
    shutil.rmtree(data)
    assert await kept_rows(EmbeddedPostgresql(closed / "state")) == "1"


@as_root
@pytest.mark.usefixtures("elsewhere")
async def test_data_that_can_no_longer_be_reached_is_refused_with_the_fix() -> None:
    with server_folder() as folder:
        server = EmbeddedPostgresql(folder / "state")
        assert await kept_rows(server) == "1"
        folder.chmod(0o700)
        with pytest.raises(StoreError, match=f"run `chmod o\\+x {folder}`, or set another `state_dir`"):
            await server.start()
        await server.stop()
        assert mode_of(folder) == 0o700
        folder.chmod(0o711)
        assert await kept_rows(server) == "2"


@as_root
async def test_a_folder_that_was_closed_since_the_start_does_not_keep_the_server_from_ending() -> None:
    with server_folder() as folder:
        server = EmbeddedPostgresql(folder / "state")
        await server.start()
        folder.chmod(0o700)
        await server.stop()
        assert server.pid is None
        assert mode_of(folder) == 0o700


@as_root
@pytest.mark.parametrize(
    ("mode", "problem"), [(0o777, "is not a folder that only root may write to"), (0o700, "cannot be reached by it")]
)
def test_elsewhere_is_roots_alone_and_reached(closed: Path, elsewhere: Path, mode: int, problem: str) -> None:
    elsewhere.mkdir()
    elsewhere.chmod(mode)
    with pytest.raises(StoreError, match=f"{problem}.*set another `state_dir`, or `dsn`"):
        asyncio.run(EmbeddedPostgresql(closed / "state").start())
    assert list(elsewhere.iterdir()) == []
    assert mode_of(elsewhere) == mode


@as_root
def test_binaries_that_the_account_cannot_reach_are_copied(
    closed: Path, elsewhere: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = account.binaries().parents[1]
    own = closed / package.name / "pginstall18"
    shutil.copytree(package / own.name, own, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs")
    (own / "bin" / "postgres").chmod(0o700)
    monkeypatch.setattr(account, "binaries", lambda: own / "bin")
    for rows in ("1", "2"):
        assert asyncio.run(kept_rows(EmbeddedPostgresql(state_dir))) == rows
    assert sorted(path.name.partition("-")[0] for path in elsewhere.iterdir()) == ["lock", "pginstall18"]


@as_root
def test_as_an_ordinary_user() -> None:
    nobody = pwd.getpwnam("nobody")
    # The account is changed after the imports: the interpreter may be in a folder that only root can pass.
    text = (
        "import asyncio, os, sys\nfrom pathlib import Path\n"
        "from backends.postgresql.server.embedded import EmbeddedPostgresql\n"
        "async def main():\n"
        "    server = EmbeddedPostgresql(Path(sys.argv[1]) / 'state')\n"
        "    print(await server.start())\n"
        "    await server.stop(); print(server.pid)\n"
        "asyncio.run(asyncio.to_thread(int))\n"
        f"os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})\n"
        "asyncio.run(main())\n"
    )
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", text, home], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == "None"
