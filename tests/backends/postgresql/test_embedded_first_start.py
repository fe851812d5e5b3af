"""A first start of the embedded PostgreSQL that is killed, and what an older version left of one."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import psutil
import pytest

from backends.base import StoreError, StoreUnavailable
from backends.postgresql.server.account import account_of, binaries
from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.tools.drill.command import small_disk

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PLACES = ("postgresql", "postgresql.partial")
START = (
    "import asyncio, sys\nfrom pathlib import Path\n"
    "from backends.postgresql.server.embedded import EmbeddedPostgresql\n"
    "print(asyncio.run(EmbeddedPostgresql(Path(sys.argv[1])).start()), flush=True)\n"
)
DEADLINE_S = 120


@pytest.fixture
async def server(state_dir: Path) -> AsyncIterator[EmbeddedPostgresql]:
    server = EmbeddedPostgresql(state_dir)
    yield server
    await server.stop()
    assert server.pid is None


def there(name: str) -> Callable[[Path], bool]:
    """A moment: the first start has made this, in whichever folder it makes the data."""
    return lambda state: any((state / place / name).exists() for place in PLACES)


def is_configured(state: Path) -> bool:
    """The settings of initdb are written, and the next thing it does is the bootstrap."""
    return any(path.stat().st_size > 0 for place in PLACES for path in state.glob(f"{place}/pg_hba.conf"))


def is_over(state: Path) -> bool:
    """The last transaction of initdb is over, and it syncs, or is over itself."""
    return there("triggerlog.conf")(state) or (there("base/5/PG_VERSION")(state) and not there("postmaster.pid")(state))


MOMENTS = {
    "an empty folder": there("."),
    "before PG_VERSION": there("pg_wal"),
    "after PG_VERSION": there("PG_VERSION"),
    "settings are written": is_configured,
    "in the bootstrap": there("global/pg_control"),
    "before the database exists": there("base/5"),
    "in the sync": is_over,
    "before the server": there("triggerlog.conf"),
}


async def ask(dsn: str, question: str) -> str:
    connection = await asyncpg.connect(dsn)
    try:
        return str(await connection.fetchval(question))
    finally:
        await connection.close()


async def started(server: EmbeddedPostgresql) -> str:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await server.start()
            except StoreUnavailable:
                await asyncio.sleep(0.05)


def kill_at(state: Path, moment: Callable[[Path], bool], *, alone: bool) -> None:
    """Kill a first start at a moment: the process that starts alone, or with all that it has started."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(state)], cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + DEADLINE_S
    while not moment(state):
        assert process.poll() is None, "the start was over before the moment came"
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    if alone:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def assert_whole(dsn: str, server: EmbeddedPostgresql, state: Path) -> None:
    """See that it is as a first start makes it that nothing has disturbed."""
    assert await ask(dsn, "SELECT count(*) FROM pg_database WHERE datname = 'postgres'") == "1"
    assert await ask(dsn, "SHOW max_connections") == "1100"
    assert await ask(dsn, "SHOW listen_addresses") == ""
    assert await ask(dsn, "SHOW unix_socket_permissions") == "0700"
    trusted = "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'trust' AND type <> 'local'"
    assert await ask(dsn, trusted) == "0"
    assert await ask(dsn, "SHOW unix_socket_directories") == f'"{state / "postgresql"}"'
    assert_closed(server, state)


def assert_closed(server: EmbeddedPostgresql, state: Path) -> None:
    data = (state / "postgresql").stat()
    assert stat.S_IMODE(data.st_mode) == 0o700
    process = psutil.Process(server.pid)
    assert process.uids().real == data.st_uid
    assert [each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN] == []
    assert sorted(path.name for path in state.iterdir()) == ["postgresql", "postgresql.lock", "postgresql.users"]


@pytest.mark.parametrize("alone", [False, True], ids=["with what it started", "alone"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_first_start_is_made_again(
    state_dir: Path, server: EmbeddedPostgresql, moment: str, alone: bool
) -> None:
    kill_at(state_dir, MOMENTS[moment], alone=alone)
    dsn = await started(server)
    await assert_whole(dsn, server, state_dir)


def initdb(state: Path, moment: Callable[[Path], bool] | None) -> None:
    """Make the data as older versions did, in its own folder; kill that at a moment."""
    data = state / "postgresql"
    data.mkdir(parents=True)
    account = account_of(data) if os.geteuid() == 0 else None
    if account is not None:
        os.chown(data, account.pw_uid, account.pw_gid)
    process = subprocess.Popen(
        [binaries() / "initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres", "-D", data],
        cwd="/",
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
    )
    if moment is not None:
        deadline = time.monotonic() + DEADLINE_S
        while not moment(state):
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        os.killpg(process.pid, signal.SIGKILL)
    assert (process.wait() == 0) == (moment is None)


@pytest.mark.parametrize("empty", [False, True], ids=["as it is", "PG_VERSION is empty"])
@pytest.mark.parametrize("moment", ["before PG_VERSION", "after PG_VERSION", "in the bootstrap"])
async def test_what_an_older_version_left_unfinished_is_named(
    state_dir: Path, server: EmbeddedPostgresql, moment: str, empty: bool
) -> None:
    initdb(state_dir, MOMENTS[moment])
    data = state_dir / "postgresql"
    if empty:
        (data / "PG_VERSION").write_bytes(b"")
    with pytest.raises(StoreError, match=f"{data} is no whole database .*; `mv {data} {data}.unfinished`"):
        await started(server)
    assert server.pid is None
    data.rename(f"{data}.unfinished")
    assert await ask(await started(server), "SELECT 1") == "1"


async def test_what_an_older_version_has_not_configured_is_made_good(
    state_dir: Path, server: EmbeddedPostgresql
) -> None:
    initdb(state_dir, None)
    for _ in range(2):
        dsn = await started(server)
        assert await ask(dsn, "SHOW max_connections") == "1100"
        assert await ask(dsn, "SHOW listen_addresses") == ""
        assert_closed(server, state_dir)
        await server.stop()
    assert (state_dir / "postgresql" / "postgresql.conf").read_text().count("include_if_exists = 'triggerlog") == 1


async def test_settings_of_the_files_and_the_environment_open_no_door(
    state_dir: Path, server: EmbeddedPostgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "5999")
    await started(server)
    await server.stop()
    with (state_dir / "postgresql" / "postgresql.conf").open("a") as settings:
        settings.write("listen_addresses = '*'\nunix_socket_directories = '/tmp'\nunix_socket_permissions = 0777\n")
    await assert_whole(await started(server), server, state_dir)


def test_no_place_for_a_socket_is_refused_with_the_fix(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = state_dir.parent / ("long" * 30)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    server = EmbeddedPostgresql(state_dir / "a,comma")
    with pytest.raises(StoreError, match=r"no socket can be in .* set another `state_dir`, or another TMPDIR"):
        asyncio.run(started(server))
    asyncio.run(server.stop())
    assert list(temporary.iterdir()) == []


async def test_two_first_starts_at_once_make_one_server(state_dir: Path, server: EmbeddedPostgresql) -> None:
    command = [sys.executable, "-c", START, str(state_dir)]
    both = [await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
    said = [(await each.communicate())[0] for each in both]
    assert said[0] == said[1] != b""
    assert (await started(server)).encode() == said[0].strip()


@pytest.mark.parametrize("first", [os.getpid(), None], ids=["a stranger's number", "nothing"])
async def test_the_lock_file_of_a_server_that_is_dead_is_removed(
    state_dir: Path, server: EmbeddedPostgresql, first: int | None
) -> None:
    dsn = await started(server)
    lock_file = state_dir / "postgresql" / "postmaster.pid"
    text = lock_file.read_text()
    await server.stop()
    lock_file.write_text("" if first is None else text.replace(text.splitlines()[0], str(first), 1))
    os.chown(lock_file, *owner(lock_file.parent))
    assert await started(server) == dsn
    assert await ask(dsn, "SELECT 1") == "1"


def owner(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid


def test_a_first_start_on_a_full_disk_is_made_again_when_there_is_room(state_dir: Path) -> None:
    with small_disk(state_dir, 12 * 2**10) as why_not:
        if why_not is not None:
            pytest.skip(why_not)
        state_dir.chmod(0o711)
        server = EmbeddedPostgresql(state_dir)
        with pytest.raises(StoreUnavailable, match=r"No space left on device.*free space on its disk"):
            asyncio.run(server.start())
        subprocess.run(["mount", "-o", "remount,size=400m", state_dir], check=True)
        try:
            dsn = asyncio.run(started(server))
            asyncio.run(assert_whole(dsn, server, state_dir))
        finally:
            asyncio.run(server.stop())


def test_a_mount_point_is_refused_with_the_fix(state_dir: Path) -> None:
    state_dir.mkdir()
    with small_disk(state_dir / "postgresql", 400 * 2**10) as why_not:
        if why_not is not None:
            pytest.skip(why_not)
        server = EmbeddedPostgresql(state_dir)
        with pytest.raises(StoreError, match=r"is a mount point.*a link to a folder on that disk"):
            asyncio.run(server.start())
        asyncio.run(server.stop())
        assert sorted(path.name for path in state_dir.iterdir() if path.is_dir()) == ["postgresql"]
