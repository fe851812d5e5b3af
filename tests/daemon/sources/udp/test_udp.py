"""The UDP source over real sockets."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daemon.sources.udp import UdpSource
from daemon.sources.udp.datagram_numbers import SILENT_S
from daemon.sources.udp.receiver import DATAGRAM_LEAST, Address, Receiver
from schemas.config import UdpSource as UdpConfig
from schemas.readings import Array
from schemas.wire import datagram_header
from tests.support.pipelines import Logger, eventually, logging_to_memory
from tests.support.readings import make_group, whole

GROUP = make_group()
ON_BOTH_LOOPS = True


class Client:
    """Sends datagrams."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))

    def send(self, block: Array, sequence: int, group: str = "bpm") -> None:
        size = block.dtype.itemsize
        header = datagram_header(group=group, sequence=sequence, count=len(block), record_size=size)
        self.socket.send(header + block.tobytes())


@asynccontextmanager
async def listening(logger: Logger) -> AsyncIterator[tuple[UdpSource, Client]]:
    source = UdpSource(UdpConfig(kind="udp", port=0), logger.intakes)
    await source.start()
    client = Client(int(source.status().address.rpartition(":")[2]))
    try:
        yield source, client
    finally:
        client.socket.close()
        await source.stop()
        await source.close()


async def test_datagrams_become_triggers() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, client):
        for trigger in range(1, 21):
            client.send(whole(GROUP, trigger), trigger - 1)
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 20)
        status = source.status()
        assert (status.received, status.lost_datagrams, status.connections, status.refused) == (100, 0, 1, {})
    assert len(await logger.stored(GROUP)) == 100


async def test_senders_that_were_heard_within_a_minute_are_the_connections() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, client):
        client.send(whole(GROUP, 1), 0)
        await eventually(lambda: source.status().connections == 1)
        source._numbers._clock = lambda: time.monotonic() + SILENT_S
        assert source.status().connections == 0


async def test_gaps_are_counted() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, client):
        for sequence in (0, 1, 5, 6, 3):
            client.send(whole(GROUP, sequence + 1), sequence)
        await eventually(lambda: source.status().received == 25)
        assert source.status().lost_datagrams == 2
        assert logger.pipelines["bpm"].figures().lost_before == {"datagrams": 2 * GROUP.size}


async def test_what_has_come_when_it_stops_is_taken() -> None:
    async with logging_to_memory(GROUP) as logger:
        async with listening(logger) as (source, client):
            for trigger in range(1, 201):
                client.send(whole(GROUP, trigger), trigger - 1)
        assert (source.status().received, source.status().lost_datagrams) == (200 * GROUP.size, 0)
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 200)


async def test_datagrams_without_end_do_not_keep_it_from_stopping() -> None:
    taken = 0

    def take(data: memoryview, _: Address) -> None:
        nonlocal taken
        taken += 1
        client.send(data)

    receiver = Receiver(take=take, refuse=lambda reason: None)
    address = await receiver.bind("127.0.0.1", 0, buffer_kib=64)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", int(address.rpartition(":")[2])))
        for _ in range(10):
            client.send(b"once more")
        receiver.close()
    assert not receiver.is_bound
    assert 10 <= taken <= 2 * 64 * 1024 / DATAGRAM_LEAST


async def test_what_is_no_datagram_of_ours_is_refused_by_reason() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, client):
        client.socket.send(b"")
        client.socket.send(b"not a datagram of triggerlog, though long enough to be its header")
        client.send(whole(GROUP, 1), 0, group="unknown")
        client.send(whole(make_group(name="bpm"), 1).view("V8"), 0)
        client.send(whole(GROUP, 1), 0)
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 1)
        assert source.status().refused == {"bad-datagram": 2, "unknown-group": 1, "wrong-record-size": 1}


async def test_what_is_refused_is_not_lost_too() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, client):
        client.send(whole(GROUP, 1), 0)
        client.send(whole(GROUP, 1).view("V8"), 1)
        client.send(whole(GROUP, 1), 2, group="unknown")
        client.send(whole(GROUP, 2), 3)
        await eventually(lambda: source.status().received == 2 * GROUP.size)
        assert source.status().refused == {"wrong-record-size": 1, "unknown-group": 1}
        assert source.status().lost_datagrams == 0
        assert logger.pipelines["bpm"].figures().lost_before == {}


async def test_a_full_backlog_drops_datagrams_and_counts_them() -> None:
    limits = {"max_batch_mib": 0.005, "max_waiting_mib": 0.01}
    async with logging_to_memory(GROUP, committer=limits) as logger, listening(logger) as (source, client):
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        sent = 0
        while not pipeline.is_full:
            client.send(whole(GROUP, sent + 1), sent)
            sent += 1
            await asyncio.sleep(0)
        await eventually(lambda: source.status().received + sum(pipeline.figures().dropped.values()) == 5 * sent)
        before = sum(pipeline.figures().dropped.values())
        client.send(whole(GROUP, 1000), sent)
        await eventually(lambda: sum(pipeline.figures().dropped.values()) == before + 5)
        assert pipeline.figures().dropped == {"backlog": before + 5}


async def test_what_is_lost_is_of_the_group_whose_datagram_was_behind_it_and_comes_off_that() -> None:
    other = make_group(name="blm")
    async with logging_to_memory(GROUP, other) as logger, listening(logger) as (source, client):
        for group, sequence in ((GROUP, 0), (other, 1), (other, 3), (GROUP, 2), (other, 5), (GROUP, 4), (GROUP, 7)):
            client.send(whole(group, sequence + 1), sequence, group.name)
        await eventually(lambda: source.status().received == 7 * GROUP.size)
        figures = {name: pipeline.figures() for name, pipeline in logger.pipelines.items()}
        assert figures["bpm"].lost_before == {"datagrams": GROUP.size}
        assert figures["blm"].lost_before == {"datagrams": 0}
        assert figures["blm"].lost_lately["datagrams"].count == 0
        assert source.status().lost_datagrams == 1
