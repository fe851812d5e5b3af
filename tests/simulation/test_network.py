"""The network: what is written arrives in order, or the connection is lost."""

import asyncio
import random

import pytest

from tests.simulation.loop import Life, VirtualLoop, run_in, virtual_loop
from tests.simulation.machine import from_address
from tests.simulation.network import WINDOW, Network

PORT = 1


class Reader(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.lost: list[Exception | None] = []
        self.is_at_end = False
        self.paused = 0

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data

    def eof_received(self) -> bool:
        self.is_at_end = True
        return True

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.paused -= 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


def play(scene, life: Life | None = None) -> None:
    """Run a scene: (loop, network, server's protocol, client's transport, client's protocol)."""
    with virtual_loop() as loop:

        async def main() -> None:
            network = Network(loop, lambda address, number: random.Random(f"{address} {number}"))
            server = Reader()
            run_in(life or Life("server"), lambda: network.listen(PORT, lambda address: server))
            client, protocol = await loop.create_connection(Reader, "host", PORT)
            await asyncio.sleep(0.01)
            await scene(loop, network, server, client, protocol)

        loop.run_until_complete(main())
        assert not loop.failures


def test_bytes_arrive_in_order_in_pieces_and_later() -> None:
    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        sent = bytes(range(256)) * 40
        for at in range(0, len(sent), 100):
            client.write(sent[at : at + 100])
        assert not server.got
        await asyncio.sleep(1)
        assert bytes(server.got) == sent
        server.transport.write(b"answer")
        client.write_eof()
        await asyncio.sleep(1)
        assert (bytes(protocol.got), server.is_at_end) == (b"answer", True)
        server.transport.close()
        await asyncio.sleep(1)
        assert (server.lost, protocol.is_at_end) == ([None], True)

    play(scene)


def test_who_has_said_that_it_writes_no_more_closes_when_the_other_has() -> None:
    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        client.write_eof()
        await asyncio.sleep(1)
        server.transport.close()
        await asyncio.sleep(1)
        assert protocol.lost == []
        client.close()
        await asyncio.sleep(0)
        assert protocol.lost == [None]

    play(scene)


def test_who_does_not_read_makes_the_other_wait() -> None:
    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        client.set_write_buffer_limits(high=0)
        server.transport.pause_reading()
        client.write(bytes(WINDOW + 1000))
        await asyncio.sleep(1)
        assert (protocol.paused, client.get_write_buffer_size(), len(server.got)) == (1, 1000, 0)
        server.transport.resume_reading()
        await asyncio.sleep(1)
        assert (protocol.paused, client.get_write_buffer_size(), len(server.got)) == (0, 0, WINDOW + 1000)

    play(scene)


@pytest.mark.parametrize("nbytes", [1, 7, 64])
def test_a_connection_is_cut_at_any_byte_and_each_end_learns_of_it_in_its_time(nbytes: int) -> None:
    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        (end,) = network.of("10.0.0.1")
        end.cut_after, end.notices_s = nbytes, (1.0, 60.0)
        client.write(bytes(64))
        await asyncio.sleep(0.5)
        assert len(server.got) == nbytes
        client.write(bytes(64))
        await asyncio.sleep(10)
        assert len(server.got) == nbytes
        assert (len(server.lost), len(protocol.lost)) == (1, 0)
        await asyncio.sleep(60)
        assert isinstance(protocol.lost[0], ConnectionResetError)

    play(scene)


def test_nothing_gets_through_a_partition_not_even_a_greeting() -> None:
    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        network.conditions("10.0.0.9").is_cut = True
        began = loop.time()

        async def connect() -> None:
            await loop.create_connection(Reader, "host", PORT)

        task = from_address("10.0.0.9", connect)
        await asyncio.sleep(10)
        assert not task.done()
        network.conditions("10.0.0.9").is_cut = False
        await task
        assert loop.time() - began >= 10

    play(scene)


def test_a_daemon_that_dies_is_refused_and_its_senders_learn_of_it() -> None:
    life = Life("server")

    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        client.write(b"last words")
        life.kill()
        network.daemon_died(life, lambda: 0.5)
        await asyncio.sleep(2)
        assert (bytes(server.got), server.lost) == (b"", [])
        assert isinstance(protocol.lost[0], ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Reader, "host", PORT)

    play(scene, life)


def test_who_aborts_resets_the_other() -> None:
    async def scene(loop: VirtualLoop, network, server, client, protocol) -> None:
        server.transport.abort()
        await asyncio.sleep(1)
        assert server.lost == [None]
        assert isinstance(protocol.lost[0], ConnectionResetError)
        assert client.is_closing()

    play(scene)
