"""The TCP source over real sockets: greeting, acknowledgements, backpressure, limits, and hostile senders."""

import asyncio
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from daemon.core.process import descriptors
from daemon.sources.tcp import TcpSource
from daemon.sources.tcp.connection import Connection
from schemas.config import TcpSource as TcpConfig
from schemas.readings import Array
from tests.support.pipelines import Logger, eventually, logging_to_memory
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()
OTHER = make_group(2, "toroid")


ON_BOTH_LOOPS = True
ANSWER_WITHIN_S = 60


class Client:
    """A sender that does just what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def greet(self, text: str = "TRIGGERLOG/1 group=bpm ack=committed") -> str:
        self.writer.write(text.encode() + b"\n")
        return (await asyncio.wait_for(self.reader.readline(), ANSWER_WITHIN_S)).decode()

    def send(self, block: Array) -> None:
        self.writer.write(block.tobytes())

    async def acknowledged(self, count: int) -> int:
        """Read acknowledgements until so many records are done; return how many were refused."""
        while True:
            done, refused = struct.unpack("<QQ", await asyncio.wait_for(self.reader.readexactly(16), ANSWER_WITHIN_S))
            assert done <= count
            if done == count:
                return refused

    async def ended(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), ANSWER_WITHIN_S)

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def listening(
    logger: Logger, say: Callable[[str], None] = lambda line: None, **changes: object
) -> AsyncIterator[tuple[TcpSource, Callable]]:
    source = TcpSource(TcpConfig.model_validate({"kind": "tcp", "port": 0, **changes}), logger.intakes, report=say)
    await source.start()
    port = int(source.status().address.rpartition(":")[2])
    clients: list[Client] = []

    async def connect() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return clients[-1]

    try:
        yield source, connect
    finally:
        for client in clients:
            await client.close()
        await source.stop()
        await source.close()


async def test_what_is_sent_is_committed_and_then_acknowledged() -> None:
    async with logging_to_memory(GROUP, OTHER) as logger, listening(logger) as (_, connect):
        client = await connect()
        answer = await client.greet("TRIGGERLOG/1 group=bpm ack=committed instrument=bpm_003 sender=crate-7")
        assert answer.startswith("OK group=bpm record=40 instruments=5 instrument=3 fields=trigger:i8@0,time_ns:i8@8,")
        client.send(whole(GROUP, 1, 2, 3))
        assert await client.acknowledged(15) == 0
        stored = await logger.stored(GROUP)
        assert stored["trigger"].tolist() == [1] * 5 + [2] * 5 + [3] * 5


async def test_nothing_is_acknowledged_before_it_is_committed() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, acknowledge_every_ms=0) as (_, connect):
        client = await connect()
        await client.greet()
        logger.store.serving.clear()
        client.send(whole(GROUP, 1))
        await eventually(lambda: logger.store.begun == 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.readexactly(16), 0.1)
        logger.store.serving.set()
        await client.acknowledged(5)


async def test_records_may_arrive_in_any_pieces() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        client = await connect()
        data = b"TRIGGERLOG/1 group=bpm ack=committed\n" + whole(GROUP, *range(1, 8)).tobytes()
        for start in range(0, len(data), 13):
            client.writer.write(data[start : start + 13])
            await client.writer.drain()
            await asyncio.sleep(0)
        await client.reader.readline()
        await client.acknowledged(35)
        assert len(await logger.stored(GROUP)) == 35


async def test_one_instrument_a_connection_makes_whole_triggers() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        clients = [await connect() for _ in range(GROUP.size)]
        for client in clients:
            await client.greet()
        for trigger in range(1, 21):
            for instrument, client in enumerate(clients):
                client.send(make_block(GROUP, [(trigger, instrument)]))
        for client in clients:
            await client.acknowledged(20)
        counts = logger.pipelines["bpm"].figures().assembled
        assert (counts.complete, counts.duplicate) == (20, 0)


async def test_acknowledgement_stops_at_the_first_reading_that_is_not_committed() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 300.0}) as logger, listening(logger) as (_, connect):
        client = await connect()
        await client.greet()
        client.send(whole(GROUP, 1))
        await client.acknowledged(5)
        client.send(make_block(GROUP, [(2, 0), (2, 1)]))
        client.send(whole(GROUP, 3))
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 2)
        assert logger.pipelines["bpm"].acknowledged()[0].max() == 5
        await client.acknowledged(12)


async def test_refused_readings_are_told_and_do_not_stop_the_count() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        client = await connect()
        await client.greet()
        client.send(make_block(GROUP, [(1, 77), (1, 78)]))
        assert await client.acknowledged(2) == 2
        client.send(whole(GROUP, 1))
        assert await client.acknowledged(7) == 2


async def test_a_half_closed_connection_is_closed_once_all_is_acknowledged() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        await client.greet()
        client.send(whole(GROUP, 1, 2))
        client.writer.write_eof()
        frames = await client.ended()
        assert struct.unpack("<QQ", frames[-16:]) == (10, 0)
        await eventually(lambda: source.status().connections == 0)


async def test_a_half_closed_connection_that_sent_nothing_is_closed() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        client = await connect()
        await client.greet()
        client.writer.write_eof()
        assert await client.ended() == b""


async def test_sent_again_after_a_broken_connection_is_stored_once() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        first = await connect()
        await first.greet()
        first.send(whole(GROUP, 1, 2, 3))
        await eventually(lambda: source.status().received == 15)
        first.writer.transport.abort()
        second = await connect()
        await second.greet()
        second.send(whole(GROUP, 1, 2, 3, 4))
        await second.acknowledged(20)
        assert len(await logger.stored(GROUP)) == 20
        assert logger.pipelines["bpm"].figures().assembled.duplicate == 15


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("HELLO", "ERROR bad-greeting"),
        ("TRIGGERLOG/2 group=bpm", "ERROR unknown-version"),
        ("TRIGGERLOG/1 group=bmp", "ERROR unknown-group there is no group 'bmp'; name one of: bpm"),
        ("TRIGGERLOG/1 group=bpm colour=red", "ERROR unknown-key"),
        ("TRIGGERLOG/1 group=bpm instrument=bpm_9", "ERROR unknown-instrument"),
        ("x" * 3000, "ERROR bad-greeting"),
    ],
)
async def test_a_wrong_greeting_is_answered_with_one_clear_line(line: str, answer: str) -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        said = await client.greet(line)
        assert said.startswith(answer)
        assert said.count("\n") == 1
        with suppress(ConnectionError):
            assert await client.ended() == b""
        assert source.status().refused == {answer.split()[1]: 1}
        await eventually(lambda: source.status().connections == 0)


async def test_silence_instead_of_a_greeting_ends_the_connection() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, handshake_timeout_s=0.05) as (source, connect):
        client = await connect()
        assert (await client.ended()).startswith(b"ERROR timeout no greeting within 0.05 s")
        assert source.status().refused == {"timeout": 1}


async def test_a_sender_that_has_not_greeted_when_the_daemon_stops_is_told_so() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        await eventually(lambda: source.status().connections == 1)
        await source.stop()
        assert (await client.ended()).startswith(b"ERROR stopping the daemon is stopping")


async def test_too_many_connections_are_turned_away_and_the_others_go_on() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, max_connections=2) as (source, connect):
        first, second, third = await connect(), await connect(), await connect()
        await first.greet()
        await second.greet()
        assert (await third.greet()).startswith("ERROR too-many-connections 2 senders are connected, and no more")
        assert await third.ended() == b""
        first.send(whole(GROUP, 1))
        await first.acknowledged(5)
        await second.close()
        await eventually(lambda: source.status().connections == 1)
        assert (await (await connect()).greet()).startswith("OK ")


async def test_too_many_connections_of_one_address_are_turned_away() -> None:
    limits = {"max_connections_per_address": 1}
    async with logging_to_memory(GROUP) as logger, listening(logger, **limits) as (source, connect):
        first, second = await connect(), await connect()
        await first.greet()
        assert (await second.greet()).startswith("ERROR too-many-connections 1 senders are connected from 127.0.0.1")
        await first.close()
        await eventually(lambda: source.status().connections == 0)
        assert (await (await connect()).greet()).startswith("OK ")


async def test_who_waits_for_the_last_acknowledgement_takes_nobodys_place() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, max_connections=1) as (source, connect):
        logger.store.serving.clear()
        ended = []
        for trigger in (1, 2):
            ended.append(await connect())
            assert (await ended[-1].greet()).startswith("OK ")
            ended[-1].send(whole(GROUP, trigger))
            ended[-1].writer.write_eof()
            await eventually(lambda t=trigger: source.status().received == 5 * t)
            await eventually(lambda: not source._admission._greeted)
        with suppress(ConnectionError):  # the older one makes room; it would send again what was not acknowledged
            assert await ended[0].ended() == b""
        assert (await (await connect()).greet()).startswith("OK ")
        logger.store.serving.set()
        await ended[1].acknowledged(5)


async def test_the_oldest_that_has_not_greeted_makes_room_and_nobody_else() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, max_ungreeted=2) as (source, connect):
        good = await connect()
        await good.greet()
        silent = [await connect() for _ in range(4)]
        for gone in silent[:2]:
            assert (await gone.ended()).startswith(b"ERROR timeout others have come since")
        await eventually(lambda: source.status().connections == 3)
        for left in silent[2:]:
            assert (await left.greet()).startswith("OK ")
        good.send(whole(GROUP, 1))
        await good.acknowledged(5)
        assert source.status().refused == {"timeout": 2}
        assert source.status().refused_most == {"127.0.0.1": 2}


async def test_one_that_is_turned_away_while_it_is_being_opened_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = []

    class Arriving(Connection):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            arrived.append(self)

    monkeypatch.setattr("daemon.sources.tcp.source.Connection", Arriving)
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, _):
        port = int(source.status().address.rpartition(":")[2])
        for turns in range(6):
            with socket.create_connection(("127.0.0.1", port)):
                while len(arrived) == turns:  # noqa: ASYNC110 - turn by turn, and an event would take one more
                    await asyncio.sleep(0)
                # In each moment of its opening, of which there is one a turn of the loop.
                for _ in range(turns):
                    await asyncio.sleep(0)
                arrived[-1].abort()
                await eventually(lambda: source.status().connections == 0)


@pytest.mark.parametrize(("allow", "is_let_in"), [("10.1.0.0/16", False), ("127.0.0.0/8", True), ("127.0.0.1", True)])
async def test_only_those_in_the_allowed_networks_are_let_in(allow: str, is_let_in: bool) -> None:
    said: list[str] = []
    limits = {"allow": [allow, "fd00::/8"]}
    async with logging_to_memory(GROUP) as logger, listening(logger, said.append, **limits) as (source, connect):
        client = await connect()
        if is_let_in:
            assert (await client.greet()).startswith("OK ")
            return
        with suppress(ConnectionError):
            assert await client.ended() == b""
        assert source.status().refused == {"not-allowed": 1}
        address = source.status().address
        assert said == [f"source tcp {address}: refused 1 x not-allowed, the last from 127.0.0.1"]


async def test_the_unspecified_address_of_ipv6_takes_ipv4_too() -> None:
    limits = {"host": "::", "allow": ["127.0.0.1"]}
    async with logging_to_memory(GROUP) as logger, listening(logger, **limits) as (source, connect):
        assert source.status().address.startswith("[::]:")
        client = await connect()
        assert (await client.greet()).startswith("OK ")


async def test_without_descriptors_the_others_go_on_and_new_ones_wait() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        good = await connect()
        await good.greet()
        taken, soft_hard = [], resource.getrlimit(resource.RLIMIT_NOFILE)
        # As many files as there are, so that a connection has no descriptor; the sender's own socket is made before.
        waiting = socket.socket()
        waiting.setblocking(False)
        with suppress(BlockingIOError):
            waiting.connect(("127.0.0.1", int(source.status().address.rpartition(":")[2])))
        resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, soft_hard[1]))
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            await eventually(lambda: source.status().refused.get("no-descriptors"))
            good.send(whole(GROUP, 1))
            await good.acknowledged(5)
        finally:
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, soft_hard)
        reader, writer = await asyncio.open_connection(sock=waiting)
        late = Client(reader, writer)
        assert (await late.greet()).startswith("OK ")
        await late.close()


async def test_the_last_descriptors_are_kept_for_what_is_not_a_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "for_senders", lambda: 3)
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        with suppress(ConnectionError):
            assert await client.ended() == b""
        assert source.status().refused == {"no-descriptors": 1}


async def test_part_of_a_record_at_the_end_is_counted() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        await client.greet()
        client.writer.write(whole(GROUP, 1).tobytes()[:-3])
        client.writer.write_eof()
        await eventually(lambda: source.status().refused == {"partial_record": 1})


async def test_a_full_backlog_holds_senders_back_and_loses_nothing() -> None:
    limits = {"max_batch_mib": 0.05, "max_waiting_mib": 0.1}
    async with logging_to_memory(GROUP, committer=limits) as logger, listening(logger) as (source, connect):
        pipeline = logger.pipelines["bpm"]
        client = await connect()
        await client.greet()
        logger.store.serving.clear()
        triggers = 50_000
        sending = asyncio.create_task(_send_all(client, triggers))
        await eventually(lambda: pipeline.is_full)
        received = source.status().received
        late = await connect()
        await late.greet()
        late.send(whole(GROUP, 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(sending), 0.2)
        assert source.status().received == received
        assert received < 5 * triggers
        logger.store.serving.set()
        await sending
        await eventually(lambda: pipeline.figures().committed.triggers == triggers, timeout_s=30)
    assert len(await logger.stored(GROUP)) == 5 * triggers


async def _send_all(client: Client, triggers: int) -> None:
    reading = asyncio.create_task(client.reader.read(-1))
    for start in range(1, triggers + 1, 1000):
        client.send(whole(GROUP, *range(start, start + 1000)))
        await client.writer.drain()
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading


async def test_a_sender_that_never_reads_its_acknowledgements_cannot_fill_the_memory() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, acknowledge_every_ms=0) as (source, connect):
        client = await connect()
        await client.greet()
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection = source._admission.connections()[0]
        for trigger in range(1, 300):
            client.send(whole(GROUP, trigger))
            await eventually(lambda t=trigger: logger.pipelines["bpm"].figures().committed.triggers >= t)
        assert connection._transport is not None
        assert connection._transport.get_write_buffer_size() <= 2 * 65_536


async def test_garbage_after_a_good_greeting_costs_the_others_nothing() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        bad, good = await connect(), await connect()
        await bad.greet()
        await good.greet()
        bad.writer.write(bytes(range(256)) * 40)
        for trigger in range(1, 11):
            good.send(whole(GROUP, trigger))
        await good.acknowledged(50)
        assert len(await logger.stored(GROUP)) == 50
