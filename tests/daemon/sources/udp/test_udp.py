"""The UDP source over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daemon.sources.udp import UdpSource
from daemon.sources.udp.datagram_numbers import GAP_MOST, GAPS_MOST, SENDERS_MOST, DatagramNumbers
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


def test_datagram_numbers_tell_what_was_lost() -> None:
    numbers = DatagramNumbers()
    a, b = ("10.0.0.1", 5), ("10.0.0.2", 5)
    for sequence in (7, 8, 12):
        numbers.heard(a, sequence, 1)
    assert numbers.lost == 3
    numbers.heard(a, 10, 1)
    assert numbers.lost == 2
    numbers.heard(b, 0, 1)
    numbers.heard(a, 0, 1)
    numbers.heard(a, 1, 1)
    assert (numbers.lost, len(numbers)) == (2, 2)


def test_lost_datagrams_count_as_many_readings_as_those_around_them() -> None:
    numbers = DatagramNumbers()
    address = ("10.0.0.1", 5)
    heard = [numbers.heard(address, sequence, readings) for sequence, readings in ((0, 3), (2, 1), (3, 7), (6, 26))]
    assert heard == [0, 1, 0, 52]
    found = [numbers.heard(address, sequence, 26) for sequence in (4, 1, 5)]
    assert found == [-26, -1, -26]
    assert numbers.heard(address, 1, 26) == 0
    assert numbers.lost == 0


def test_a_datagram_that_comes_twice_hides_no_loss() -> None:
    numbers = DatagramNumbers()
    address = ("10.0.0.1", 5)
    heard = [numbers.heard(address, sequence, 4) for sequence in (0, 1, 3, 4, 3, 3, 1, 4)]
    assert (heard, numbers.lost) == ([0, 0, 4, 0, 0, 0, 0, 0], 1)
    assert [numbers.heard(address, 2, 4) for _ in range(2)] == [-4, 0]
    assert numbers.lost == 0


def test_the_gaps_of_a_sender_do_not_fill_the_memory() -> None:
    numbers = DatagramNumbers()
    address = ("10.0.0.1", 5)
    every_other = range(0, 20 * GAPS_MOST, 2)
    for sequence in every_other:
        numbers.heard(address, sequence, 1)
    lost = len(every_other) - 1
    assert numbers.lost == lost
    for sequence in range(1, every_other[-1], 2):
        numbers.heard(address, sequence, 1)
    assert numbers.lost == lost - GAPS_MOST


def test_senders_without_end_do_not_fill_the_memory_or_displace_those_at_work() -> None:
    numbers = DatagramNumbers()
    for sequence in range(10):
        numbers.heard(("10.0.0.2", 5), sequence, 1)
    for port in range(SENDERS_MOST + 100):
        numbers.heard(("10.0.0.1", port), 0, 1)
    assert len(numbers) == SENDERS_MOST + 1
    numbers.heard(("10.0.0.2", 5), 12, 1)
    assert numbers.lost == 2


def test_forged_numbers_neither_hide_the_gaps_of_others_nor_grow_the_count_without_bound() -> None:
    numbers = DatagramNumbers()
    good, bad = ("10.0.0.2", 5), ("10.0.0.1", 5)
    for sequence in (0, 5):
        numbers.heard(good, sequence, 1)
    for sequence in (100, *range(99)):
        numbers.heard(bad, sequence, 1)
    assert numbers.lost == 4
    for sequence in (2**64 - 1, 0, 2**64 - 1, 0, 2**63, GAP_MOST + 2**63 + 1):
        numbers.heard(bad, sequence, 1)
    assert numbers.lost == 4 + GAP_MOST
