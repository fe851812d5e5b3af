"""A restart that was announced to a real daemon is followed, once, by the daemons that start after it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg
import httpx
import pytest

from daemon.client.sender import Sender
from daemon.core.configuration.api_token import stored_token
from schemas.wire import Ack
from tests.end_to_end.test_journal import own_server
from tests.support.processes import Running, running, triggerlog
from tests.support.sending import INSTRUMENTS, triggers_of
from tests.support.unreadable_disk import small_disk

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{state}"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[groups]]
name = "ict"
count = 12
channels = [{{ name = "charge" }}]

[[sources]]
kind = "tcp"
port = 0
acknowledge_every_ms = 5

[database]
dsn = "{dsn}"
command_timeout_s = 5

[api]
port = 0
"""
HOUR_NS = 3_600_000_000_000
LEDGER = "SELECT run, count(*), min(trigger_id), max(trigger_id), sum(arrived) FROM triggerlog.{}_ledger GROUP BY 1"
GROUPS = ("bpm", "ict")


class Daemon:
    """`triggerlog run`, once it takes readings, with or without its database."""

    def __init__(self, run: Running, state: Path) -> None:
        self.run = run
        found = run.until_said(r"taking readings .*?at [^\s,]+:(\d+); API at (\S+)")
        self._port, self._api, self._state = int(found[1]), found[2], state

    def announce(self, epoch: int = 0) -> httpx.Response:
        token = {"authorization": f"Bearer {stored_token(self._state)}"}
        path = f"{self._api}/api/v1/run?epoch={epoch}"
        return httpx.post(path, headers=token, trust_env=False, timeout=60)

    async def send(self, first: int, triggers: int, *, ago_ns: int = 0, ack: Ack = Ack.COMMITTED) -> None:
        """Send triggers of both groups without an epoch, until all are acknowledged."""
        for group in GROUPS:
            async with await Sender.connect("127.0.0.1", self._port, group, ack=ack) as sender:
                block = triggers_of(sender.record, first, triggers)
                block["time_ns"] -= ago_ns
                await sender.send(block.reshape(-1))
                await sender.drain_acknowledged(60)
                assert (sender.acknowledged, sender.refused) == (triggers * INSTRUMENTS, 0)


@contextmanager
def logging(file: Path, state: Path) -> Iterator[Daemon]:
    with running("run", str(file)) as run:
        yield Daemon(run, state)


def configured(folder: Path, dsn: str, state: Path | None = None) -> tuple[Path, Path]:
    file, state = folder / "beam.toml", state or folder / "state"
    file.write_text(CONFIGURATION.format(state=state, dsn=dsn))
    return file, state


async def ledger(dsn: str) -> dict[int, tuple[int, ...]]:
    """Return by run: how many triggers, the first and the last of them, and their readings; the same in both groups."""
    connection = await asyncpg.connect(dsn)
    try:
        found = [{row[0]: tuple(row)[1:] for row in await connection.fetch(LEDGER.format(each))} for each in GROUPS]
        assert found[0] == found[1]
        return found[0]
    finally:
        await connection.close()


def fill(file: Path) -> None:
    """Leave no room on a file's disk."""
    with suppress(OSError), file.open("wb", buffering=0) as full:
        while full.write(bytes(4096)):
            pass


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize("epoch", [0, 41], ids=["without_epoch", "with_epoch"])
async def test_a_daemon_that_starts_again_follows_it_once(tmp_path: Path, ending: signal.Signals, epoch: int) -> None:
    async with own_server() as (_, dsn):
        at = configured(tmp_path, dsn)
        with logging(*at) as daemon:
            await daemon.send(1, 20)
            answer = daemon.announce(epoch)
            assert (answer.status_code, answer.json()) == (200, dict.fromkeys(GROUPS, 2 if epoch else None))
            daemon.run.end(ending)
        with logging(*at) as daemon:
            await daemon.send(1, 5, ago_ns=HOUR_NS)
            assert await ledger(dsn) == {1: (20, 1, 20, 20 * INSTRUMENTS), 2: (5, 1, 5, 5 * INSTRUMENTS)}
            daemon.run.end(ending)
        with logging(*at) as daemon:
            await daemon.send(1, 10, ago_ns=HOUR_NS)  # the first five are sent twice
            assert daemon.run.end() == 0
        assert await ledger(dsn) == {1: (20, 1, 20, 20 * INSTRUMENTS), 2: (10, 1, 10, 10 * INSTRUMENTS)}


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
async def test_it_is_accepted_before_the_database_answers(tmp_path: Path, is_killed: bool) -> None:
    """Readings that came before it do not begin the new run, though they go through assembly after it."""
    async with own_server() as (server, dsn):
        at = configured(tmp_path, dsn)
        with logging(*at) as daemon:
            await daemon.send(1, 20)
            assert daemon.run.end() == 0
        await server.stop()
        with logging(*at) as daemon:
            await daemon.send(21, 5, ack=Ack.RECEIVED)
            answer = daemon.announce()
            assert (answer.status_code, answer.json()) == (200, dict.fromkeys(GROUPS))
            if is_killed:
                daemon.run.end(signal.SIGKILL)
            else:
                await daemon.send(1, 5, ago_ns=HOUR_NS, ack=Ack.RECEIVED)
                await server.start()
                daemon.run.until_said(r"taking readings at \S+:\d+")
                assert daemon.run.end() == 0
        if is_killed:
            with logging(*at) as daemon:
                await daemon.send(1, 5, ago_ns=HOUR_NS, ack=Ack.RECEIVED)
                daemon.run.end(signal.SIGKILL)
            await server.start()
        with logging(*at) as daemon:
            daemon.run.until_said(r"taking readings at \S+:\d+")
            await daemon.send(6, 5, ago_ns=HOUR_NS)
            assert daemon.run.end() == 0
        assert await ledger(dsn) == {1: (25, 1, 25, 25 * INSTRUMENTS), 2: (10, 1, 10, 10 * INSTRUMENTS)}


async def test_on_a_full_disk_it_is_refused_and_announces_nothing(tmp_path: Path) -> None:
    async with own_server() as (_, dsn):
        with small_disk(tmp_path, 16384) as disk:
            at = configured(tmp_path, dsn, disk / "state")
            with logging(*at) as daemon:
                await daemon.send(1, 20)
                fill(disk / "full")
                answer = daemon.announce()
                assert answer.status_code == 500
                assert "no space left on device" in answer.json()["detail"]
                assert answer.json()["fix"] == "free space on its disk"
                said = triggerlog("announce-run", str(at[0]), "--daemon", daemon._api)
                assert said.returncode == 1
                assert "free space on its disk" in said.stderr
                await daemon.send(21, 5)
                (disk / "full").unlink()
                assert daemon.announce().json() == dict.fromkeys(GROUPS)
                assert daemon.run.end() == 0
        assert await ledger(dsn) == {1: (25, 1, 25, 25 * INSTRUMENTS)}
