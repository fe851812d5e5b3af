"""A real daemon on a disk that cannot read a sector of its state folder, and on one that is full before the start."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from pathlib import Path
from typing import NoReturn

import asyncpg
import httpx
import pytest

from backends.postgresql.server.embedded import EmbeddedPostgresql
from daemon.client.sender import Sender
from daemon.core.configuration.api_token import stored_token
from daemon.pipeline.log import readings_in
from schemas.wire import Ack
from tests.end_to_end.test_journal import counted, own_server
from tests.support.disks import REAL
from tests.support.processes import Daemon, Running, free_port, here, running, until
from tests.support.sending import INSTRUMENTS, balanced, triggers_of
from tests.support.sending import send as send_any
from tests.support.unreadable_disk import UnreadableDisk, small_disk, unreadable_disk

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{state}"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = {port}
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
command_timeout_s = 5

[api]
port = 0
"""


def configured(folder: Path, state: Path, dsn: str, port: int = 0) -> Path:
    file = folder / "beam.toml"
    file.write_text(CONFIGURATION.format(state=state, dsn=dsn, port=port))
    return file


@contextmanager
def logging_daemon(file: Path) -> Iterator[Daemon]:
    with running("run", str(file)) as run:
        yield Daemon(run, file)


@asynccontextmanager
async def before_its_database(
    folder: Path, port: int
) -> AsyncIterator[tuple[EmbeddedPostgresql, str, UnreadableDisk, Path, Running]]:
    async with own_server() as (server, dsn):
        await server.stop()
        with unreadable_disk(folder) as disk:
            file = configured(folder, disk.mount / "state", dsn, port)
            with running("run", str(file)) as run:
                run.until_said("taking readings into the journal")
                yield server, dsn, disk, file, run


async def send(port: int, first: int, triggers: int, ack: Ack = Ack.COMMITTED) -> None:
    assert await send_any(port, first, triggers, ack, epoch=9) == triggers * INSTRUMENTS


def group_of(daemon: Daemon) -> dict:
    return daemon.status()["groups"]["bpm"]


def alarms_of(daemon: Daemon) -> list[dict]:
    return httpx.get(f"{daemon.api}/api/v1/alarms", trust_env=False, timeout=60).raise_for_status().json()


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


def all_is_committed(daemon: Daemon) -> None:
    until(lambda: group_of(daemon)["readings"]["waiting"] == 0, "all that waits is committed")


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def largest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_size)


def kept(file: Path) -> bool:
    """Whether a file that could not be read is there under its other name."""
    return file.with_name(f"{file.name}.unreadable").stat().st_size > 0


class TestUnreadableSector:
    async def test_a_segment_of_the_journal(self, tmp_path: Path) -> None:
        async with own_server() as (server, dsn):
            with unreadable_disk(tmp_path) as disk:
                file = configured(tmp_path, disk.mount / "state", dsn)
                with logging_daemon(file) as daemon:
                    await send(daemon.readings, 1, 10)
                    await server.stop()
                    for first in range(11, 211, 10):
                        await send(daemon.readings, first, 10, Ack.RECEIVED)
                    daemon.run.end(signal.SIGKILL)
                await server.start()
                segment = largest(disk.mount / "state/intake/bpm", "*.received")
                disk.damage(segment, segment.stat().st_size // 2)
                with logging_daemon(file) as daemon:
                    all_is_committed(daemon)
                    await send(daemon.readings, 211, 10)
                    readings, different, newest = await counted(dsn)
                    assert (readings, newest) == (different, 220)
                    assert 120 * INSTRUMENTS < readings < 220 * INSTRUMENTS
                    assert balanced(group_of(daemon))
                    assert segment.name in daemon.run.said
                    assert "input/output error" in daemon.run.said
                    assert f"{segment}.unreadable" in daemon.run.said
                    assert daemon.run.end() == 0
                # What its disk may read again one day is there.
                disk.mend()
                assert kept(segment)
                with logging_daemon(file) as daemon:
                    assert "input/output error" not in daemon.run.said

    async def test_a_segment_that_was_written_before_the_database_answered(self, tmp_path: Path) -> None:
        port = free_port()
        async with before_its_database(tmp_path, port) as (server, dsn, disk, file, run):
            for first in range(1, 201, 10):
                await send(port, first, 10, Ack.RECEIVED)
            run.end(signal.SIGKILL)
            segment = largest(disk.mount / "state/intake/bpm", "*.received")
            disk.damage(segment, segment.stat().st_size // 2)
            await server.start()
            with logging_daemon(file) as daemon:
                all_is_committed(daemon)
                await send(port, 201, 10)
                all_is_committed(daemon)
                readings, different, newest = await counted(dsn)
                assert (readings, newest) == (different, 210)
                assert 110 * INSTRUMENTS < readings < 210 * INSTRUMENTS
                assert segment.name in daemon.run.said
                assert "input/output error" in daemon.run.said
                assert daemon.run.end() == 0
            assert kept(segment)

    async def test_the_last_of_a_session_whose_sender_is_silent(self, tmp_path: Path) -> None:
        port, sent = free_port(), 100 * INSTRUMENTS
        async with before_its_database(tmp_path, port) as (server, dsn, disk, file, run):
            sender = await Sender.connect("127.0.0.1", port, "bpm", ack=Ack.COMMITTED, reconnect=True)
            for first in range(1, 101, 10):
                await sender.send(triggers_of(sender.record, first, 10).reshape(-1))
                await asyncio.sleep(0.1)  # records of their own
            folder = disk.mount / "state/intake/bpm"
            await asyncio.to_thread(until, lambda: readings_in(folder, REAL.disk) == sent, "it is kept")
            segment = only(folder, "*.received")
            disk.damage(segment, segment.stat().st_size - 100)
            await server.start()
            assert await asyncio.to_thread(run.ended) == 1
            assert "records of the journal cannot be read again" in run.said
            with running("run", str(file)) as after:
                await sender.drain_acknowledged(60)
                assert sender.acknowledged == sent
                assert await counted(dsn) == (sent, sent, 100)
                await sender.close()
                assert after.end() == 0

    async def test_a_dead_letter(self, tmp_path: Path) -> None:
        async with own_server() as (_, dsn):
            with unreadable_disk(tmp_path) as disk:
                file = configured(tmp_path, disk.mount / "state", dsn)
                with logging_daemon(file) as daemon:
                    await send(daemon.readings, 1, 1)
                    await execute(dsn, "ALTER TABLE triggerlog.bpm ADD CHECK (trigger_id < 100)")
                    for trigger in range(101, 201, 10):
                        await send(daemon.readings, trigger, 10)
                    daemon.run.end(signal.SIGKILL)
                segment = only(disk.mount / "state/dead-letters/bpm", "*.dead")
                disk.damage(segment, segment.stat().st_size // 2)
                with logging_daemon(file) as daemon:
                    assert 0 < group_of(daemon)["dead_letters"]["readings"] < 100 * INSTRUMENTS
                    assert f"bytes of {segment} are no whole dead letter" in daemon.run.said
                    assert "input/output error" in daemon.run.said
                    await send(daemon.readings, 50, 1)
                    assert daemon.run.end() == 0
                assert kept(segment)

    @pytest.mark.parametrize(
        "name",
        [
            "intake/bpm/id",
            "intake/bpm/acknowledged",
            "dead-letters/bpm/acknowledged",
            "api-token",
            "events.jsonl",
        ],
    )
    async def test_a_small_file(self, tmp_path: Path, name: str) -> None:
        async with own_server() as (server, dsn):
            with unreadable_disk(tmp_path) as disk:
                file = configured(tmp_path, disk.mount / "state", dsn)
                with logging_daemon(file) as daemon:
                    await send(daemon.readings, 1, 10)
                    await execute(dsn, "ALTER TABLE triggerlog.bpm ADD CHECK (trigger_id <> 12)")
                    await execute(dsn, "ALTER TABLE triggerlog.bpm ADD CONSTRAINT once CHECK (trigger_id <> 11)")
                    await send(daemon.readings, 11, 2)
                    await execute(dsn, "ALTER TABLE triggerlog.bpm DROP CONSTRAINT once")
                    here("dead-letters", "retry", str(file), "--daemon", daemon.api)
                    await server.stop()
                    await send(daemon.readings, 21, 10, Ack.RECEIVED)
                    assert daemon.run.end() == 0
                await server.start()
                path = disk.mount / "state" / name
                assert path.stat().st_size
                disk.damage(path, 0)
                with logging_daemon(file) as daemon:
                    all_is_committed(daemon)
                    await send(daemon.readings, 31, 10)
                    assert await counted(dsn) == (31 * INSTRUMENTS, 31 * INSTRUMENTS, 40)
                    assert balanced(group_of(daemon))
                    assert f"{path} cannot be read (input/output error)" in daemon.run.said
                    assert daemon.run.end() == 0


def write_on(file: FileIO, size: int) -> NoReturn:
    while True:
        file.write(bytes(size))


def fill(mount: Path) -> Path:
    """Leave no byte free."""
    filler = mount / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            with pytest.raises(OSError, match="No space left"):
                write_on(file, size)
    return filler


def remount(mount: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(mount)], check=True)


async def takes_committed_only(daemon: Daemon, state: Path, first: int) -> None:
    """See that a daemon commits 30 triggers, says so alone, and names the folder and the fix."""
    await send(daemon.readings, first, 10)
    await send(daemon.readings, first + 10, 20, Ack.RECEIVED)  # acknowledged, since the database has them
    assert balanced(group_of(daemon))
    until(lambda: "journal" in [alarm["key"] for alarm in alarms_of(daemon)], "the alarm comes")
    (alarm,) = [alarm for alarm in alarms_of(daemon) if alarm["key"] == "journal"]
    assert f"{state / 'intake/bpm'} cannot be written (" in alarm["text"]
    assert alarm["fix"].startswith("Make room")
    assert daemon.run.process.poll() is None


def recovers(daemon: Daemon, state: Path) -> None:
    until(lambda: group_of(daemon)["journal_problem"] is None, "the journal is in order again")
    until(lambda: "journal" not in [alarm["key"] for alarm in alarms_of(daemon)], "the alarm goes")
    assert (state / "intake/bpm/id").stat().st_size
    until(lambda: stored_token(state), "commands find the token")


class TestFullDisk:
    async def test_at_the_first_start_and_after_a_kill(self, tmp_path: Path) -> None:
        async with own_server() as (server, dsn):
            with small_disk(tmp_path, 1024) as mount:
                state, filler = mount / "state", fill(mount)
                file = configured(tmp_path, state, dsn)
                with logging_daemon(file) as daemon:
                    await takes_committed_only(daemon, state, 1)
                    daemon.run.end(signal.SIGKILL)
                with logging_daemon(file) as daemon:
                    await takes_committed_only(daemon, state, 31)
                    assert await counted(dsn) == (60 * INSTRUMENTS, 60 * INSTRUMENTS, 60)
                    filler.unlink()
                    recovers(daemon, state)
                    await server.stop()
                    await send(daemon.readings, 61, 10, Ack.RECEIVED)
                    daemon.run.end(signal.SIGKILL)
                await server.start()
                with logging_daemon(file) as daemon:
                    all_is_committed(daemon)
                    await send(daemon.readings, 71, 10)
                    assert await counted(dsn) == (80 * INSTRUMENTS, 80 * INSTRUMENTS, 80)
                    assert daemon.run.end() == 0

    @pytest.mark.parametrize("how", ["full", "read-only"])
    async def test_with_what_an_earlier_daemon_left(self, tmp_path: Path, how: str) -> None:
        async with own_server() as (server, dsn):
            with small_disk(tmp_path, 1024) as mount:
                state = mount / "state"
                file = configured(tmp_path, state, dsn)
                with logging_daemon(file) as daemon:
                    await execute(dsn, "ALTER TABLE triggerlog.bpm ADD CHECK (trigger_id <> 5)")
                    await send(daemon.readings, 1, 10)
                    await server.stop()
                    await send(daemon.readings, 11, 20, Ack.RECEIVED)
                    daemon.run.end(signal.SIGKILL)
                with largest(state / "intake/bpm", "*.received").open("ab") as segment:
                    segment.write(b"half a record, as a kill leaves it")
                await server.start()
                filler = fill(mount)
                if how == "read-only":
                    remount(mount, "ro")
                for first in (31, 61):
                    with logging_daemon(file) as daemon:
                        all_is_committed(daemon)
                        if how == "full":
                            fill(mount)  # what was committed has made some room
                            for at, ack in enumerate((Ack.COMMITTED, Ack.RECEIVED, Ack.RECEIVED)):
                                await send(daemon.readings, first + 10 * at, 10, ack)
                        else:
                            await takes_committed_only(daemon, state, first)
                        all_is_committed(daemon)
                        stored = (first + 28) * INSTRUMENTS
                        assert await counted(dsn) == (stored, stored, first + 29)
                        if first == 31:
                            daemon.run.end(signal.SIGKILL)
                            continue
                        if how == "read-only":
                            remount(mount, "rw")
                        filler.unlink()
                        recovers(daemon, state)
                        assert group_of(daemon)["dead_letters"]["readings"] == INSTRUMENTS
                        assert daemon.run.end() == 0
                assert readings_in(state / "intake/bpm", REAL.disk) == 0
