"""The account that runs the embedded PostgreSQL puts what it likes into its folder: root is led nowhere by it."""

import asyncio
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.base import StoreError, StoreUnavailable
from backends.postgresql.server.account import account_of
from backends.postgresql.server.embedded import EmbeddedPostgresql
from tests.support.servers import server_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has another account run the server"),
]

SECRET = "roots own: FATAL secret\n"


@pytest.fixture
def server(state_dir: Path) -> Iterator[EmbeddedPostgresql]:
    server = EmbeddedPostgresql(state_dir)
    asyncio.run(server.start())
    asyncio.run(server.stop())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
def outside() -> Iterator[Path]:
    """A file of root, which nothing that the account does may change, and nothing that root says may show."""
    with server_folder() as folder:
        path = folder / "outside"
        path.write_text(SECRET)
        path.chmod(0o600)
        yield path
        found = path.stat()
        assert (path.read_text(), found.st_uid, found.st_mode & 0o777, found.st_nlink) == (SECRET, 0, 0o600, 1)


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)
    account = account_of(path.parent)
    os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def a_hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside)


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


Plant = Callable[[Path, Path], None]


def planted(state: Path, name: str, plant: Plant, outside: Path) -> Path:
    path = state / "postgresql" / name
    path.unlink(missing_ok=True)
    plant(path, outside)
    return path


@pytest.mark.parametrize("plant", [a_link, a_hard_link])
@pytest.mark.parametrize("name", ["triggerlog.conf", "triggerlog.conf.partial", "start.log"])
async def test_what_root_writes_there_overwrites_nothing_outside(
    state_dir: Path, server: EmbeddedPostgresql, outside: Path, name: str, plant: Plant
) -> None:
    planted(state_dir, name, plant, outside)
    await server.start()
    settings = (state_dir / "postgresql" / "triggerlog.conf").lstat()
    assert settings.st_uid == (state_dir / "postgresql").stat().st_uid
    assert settings.st_nlink == 1


@pytest.mark.parametrize("plant", [a_link, a_hard_link, a_pipe])
@pytest.mark.parametrize("name", ["PG_VERSION", "postmaster.pid", "postgresql.conf"])
async def test_what_root_reads_there_is_no_file_from_outside(
    state_dir: Path, server: EmbeddedPostgresql, outside: Path, name: str, plant: Plant
) -> None:
    path = planted(state_dir, name, plant, outside)
    with pytest.raises(StoreError, match=f"{path} cannot be used .*put a plain file in its place") as refused:
        await asyncio.wait_for(server.start(), 60)
    assert SECRET.strip() not in str(refused.value)
    path.unlink()


@pytest.mark.parametrize("plant", [a_link, a_hard_link, a_pipe])
async def test_the_reason_of_a_failed_start_is_no_file_from_outside(
    state_dir: Path, server: EmbeddedPostgresql, outside: Path, plant: Plant
) -> None:
    folder = state_dir / "postgresql"
    with (folder / "postgresql.conf").open("a") as settings:
        settings.write("log_directory = 'elsewhere'\nshared_preload_libraries = 'no_such_library'\n")
    for log in (folder / "log").iterdir():
        log.unlink()
        plant(log, outside)
        os.utime(log, (time.time() + 3600,) * 2, follow_symlinks=False)
    with pytest.raises(StoreUnavailable, match="no_such_library") as refused:
        await asyncio.wait_for(server.start(), 120)
    assert SECRET.strip() not in str(refused.value)
    for log in (folder / "log").iterdir():
        log.unlink()


async def test_folders_that_the_lock_file_names_are_not_removed(
    state_dir: Path, server: EmbeddedPostgresql, outside: Path
) -> None:
    victim = outside.parent / "triggerlog-victim"
    victim.mkdir()
    (victim / "file").write_text("there")
    lock_file = state_dir / "postgresql" / "postmaster.pid"
    lock_file.write_text(f"1\n{state_dir / 'postgresql'}\n1\n5432\n{victim}\n\n\nready\n")
    account = account_of(lock_file.parent)
    os.chown(lock_file, account.pw_uid, account.pw_gid)
    await server.start()
    assert (victim / "file").read_text() == "there"


async def started(server: EmbeddedPostgresql) -> None:
    """Start it once the processes of its life before have ended."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await server.start()
            except StoreUnavailable as error:
                if "still ending" not in str(error):
                    raise
                await asyncio.sleep(0.1)


def test_no_process_of_another_account_is_signalled(state_dir: Path, server: EmbeddedPostgresql) -> None:
    data = state_dir / "postgresql"
    with subprocess.Popen([sys.executable, "-c", "input()", str(data)], stdin=subprocess.PIPE) as stranger:
        lock_file = data / "postmaster.pid"
        lock_file.write_text(f"{stranger.pid}\n{data}\n1\n5432\n{data}\n\n\nready\n")
        account = account_of(data)
        os.chown(lock_file, account.pw_uid, account.pw_gid)
        assert server.pid is None
        asyncio.run(started(server))
        asyncio.run(server.stop())
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


def test_a_link_of_another_account_to_the_data_is_refused(state_dir: Path, outside: Path) -> None:
    victim = outside.parent / "victim"
    victim.mkdir()
    nobody = pwd.getpwnam("nobody")
    state_dir.mkdir()
    link = state_dir / "postgresql"
    link.symlink_to(victim)
    os.chown(link, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    server = EmbeddedPostgresql(state_dir)
    with pytest.raises(StoreError, match=f"root does not follow; if it is right, run `chown -h root {link}`"):
        asyncio.run(server.start())
    asyncio.run(server.stop())
    assert (victim.stat().st_uid, list(victim.iterdir())) == (0, [])


@pytest.mark.parametrize("name", ["postgresql.lock", "postgresql.users"])
def test_locks_in_the_state_folder_make_nothing_outside(state_dir: Path, outside: Path, name: str) -> None:
    state_dir.mkdir()
    (state_dir / name).symlink_to(outside.parent / "made")
    server = EmbeddedPostgresql(state_dir)
    with pytest.raises(StoreError, match=f"{state_dir / name} cannot be used .*put a plain file in its place"):
        asyncio.run(server.start())
    assert not (outside.parent / "made").exists()


def test_a_link_for_the_partial_folder_is_removed_not_followed(state_dir: Path, outside: Path) -> None:
    state_dir.mkdir()
    (state_dir / "postgresql.partial").symlink_to(outside.parent)
    server = EmbeddedPostgresql(state_dir)
    try:
        asyncio.run(server.start())
    finally:
        asyncio.run(server.stop())
