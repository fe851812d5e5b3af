"""A real daemon that is started, killed and started again without its database: what it took is stored, once."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from daemon.client.sender import Sender
from schemas.readings import Array
from schemas.wire import Ack, datagram_header
from tests.end_to_end.test_journal import counted, own_server
from tests.support.processes import Running, free_port, running, until
from tests.support.sending import INSTRUMENTS, triggers_of

pytestmark = pytest.mark.slow

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 12
channels = [{{ name = "top_in" }}, {{ name = "gain", dtype = "int16" }}]

[[sources]]
kind = "tcp"
port = {tcp}
acknowledge_every_ms = 5

[[sources]]
kind = "udp"
port = {udp}

[assembly]
timeout_ms = 2000

[database]
dsn = "{dsn}"
command_timeout_s = 5

[api]
port = {api}
"""
TRIGGERS = 50
WITH_SESSION, PLAIN, SPOOLED, COMMITTED, DATAGRAMS = (
    slice(0, 3), slice(3, 5), slice(5, 8), slice(8, 11), slice(11, 12)
)  # fmt: skip
"""Which instruments each sender has."""


class Machine:
    """Twelve instruments, and those who send for them."""

    def __init__(self, tcp: int, udp: int) -> None:
        self._tcp, self._udp = tcp, udp
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sent = 0
        self._senders: dict[Ack, Sender] = {}

    async def connect(self) -> None:
        """Connect those that have sessions: they outlive the daemon."""
        for ack in (Ack.RECEIVED, Ack.SPOOLED, Ack.COMMITTED):
            self._senders[ack] = await Sender.connect("127.0.0.1", self._tcp, "bpm", ack=ack, reconnect=True)

    async def send(self, first: int) -> None:
        """Send TRIGGERS triggers; return when those are acknowledged that wait for `received`, or `spooled`."""
        block = triggers_of(self._senders[Ack.RECEIVED].record, first, TRIGGERS)
        block["epoch"] = 9
        self._send_datagrams(block[:, DATAGRAMS].reshape(-1))
        await self._senders[Ack.SPOOLED].send(block[:, SPOOLED].reshape(-1))
        await self._senders[Ack.COMMITTED].send(block[:, COMMITTED].reshape(-1))
        await self._senders[Ack.RECEIVED].send(block[:, WITH_SESSION].reshape(-1))
        for ack in (Ack.RECEIVED, Ack.SPOOLED):
            await self._senders[ack].drain_acknowledged(60)
        async with await Sender.connect("127.0.0.1", self._tcp, "bpm", ack=Ack.RECEIVED) as plain:
            await plain.send(block[:, PLAIN].reshape(-1))

    def _send_datagrams(self, block: Array) -> None:
        header = datagram_header(group="bpm", sequence=self._sent, count=len(block), record_size=block.dtype.itemsize)
        self._sent += 1
        self._datagrams.sendto(header + block.tobytes(), ("127.0.0.1", self._udp))

    def left(self, ack: Ack) -> int:
        sender = self._senders[ack]
        return sender.sent - sender.acknowledged

    async def drain(self) -> None:
        for sender in self._senders.values():
            await sender.drain_acknowledged(60)

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
        self._datagrams.close()


@contextmanager
def away(file: Path) -> Iterator[Running]:
    """A daemon without its database, which takes readings."""
    with running("run", str(file)) as run:
        run.until_said(r"taking readings into the journal")
        yield run


async def test_kills_without_the_database_lose_nothing_that_was_received(tmp_path: Path) -> None:
    tcp, udp, api = free_port(), free_port(), free_port()
    file = tmp_path / "beam.toml"

    def status() -> dict:
        answer = httpx.get(f"http://127.0.0.1:{api}/api/v1/status", verify=False, trust_env=False, timeout=60)
        return answer.raise_for_status().json()

    async def taken(readings: int) -> None:
        """Wait for so many, so that no datagram is still on its way."""
        await asyncio.to_thread(until, lambda: status()["intakes"]["bpm"]["waiting"] >= readings, "they are taken")

    machine = Machine(tcp, udp)
    async with own_server() as (server, dsn):
        await server.stop()
        file.write_text(CONFIGURATION.format(folder=tmp_path, dsn=dsn, tcp=tcp, udp=udp, api=api))
        with away(file) as run:
            await machine.connect()
            await machine.send(1)
            await taken(TRIGGERS * INSTRUMENTS)
            assert machine.left(Ack.COMMITTED) == 3 * TRIGGERS
            await machine.send(TRIGGERS + 1)  # with its acknowledgements the datagrams of before are on the disk, too
            await taken(2 * TRIGGERS * INSTRUMENTS)
            run.end(signal.SIGKILL)
        with away(file) as run:
            await machine.send(2 * TRIGGERS + 1)
            run.end(signal.SIGKILL)
        with away(file) as run:
            await machine.send(3 * TRIGGERS + 1)
            assert machine.left(Ack.COMMITTED) == 12 * TRIGGERS
            await server.start()
            await asyncio.to_thread(run.until_said, r"taking readings at \S+:\d+")
            await machine.drain()
            await machine.send(4 * TRIGGERS + 1)
            await machine.drain()
            until(lambda: not status()["groups"]["bpm"]["triggers"]["waiting"], "all is committed")
            until(lambda: status()["groups"]["bpm"]["triggers"]["open"] == 0, "all triggers are closed")
            until(lambda: not status()["groups"]["bpm"]["triggers"]["waiting"], "all is committed")
            readings, different, newest = await counted(dsn)
            assert readings == different
            assert newest == 5 * TRIGGERS
            # Of the datagrams those since the last acknowledgement before a kill are not promised.
            assert 5 * TRIGGERS * INSTRUMENTS - TRIGGERS <= readings <= 5 * TRIGGERS * INSTRUMENTS
            assert run.end() == 0
        assert not list((tmp_path / "state" / "intake" / "bpm").glob("*.received"))
    await machine.close()
