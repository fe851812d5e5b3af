"""Sessions over real sockets: going on after a loss, fencing, goodbyes, and hostile numbers."""

import asyncio
import socket
import struct

import numpy as np
import pytest

from daemon.client.sender import Sender
from daemon.pipeline.assembly import sessions as assembled_sessions
from daemon.web import keepalive
from schemas.wire import GOODBYE, NUMBER_MAX, RECORD_NUMBER_MAX, parse_answer
from tests.daemon.sources.tcp.test_tcp import ANSWER_WITHIN_S, Client, listening
from tests.support.pipelines import Logger, eventually, logging_to_memory
from tests.support.readings import make_block, make_group, whole
from tests.support.vanishing import vanish

GROUP = make_group()
ON_BOTH_LOOPS = True
SLOW = {"timeout_ms": 60_000.0}
"""Triggers wait for their readings for as long as a test needs."""


async def resumed(
    client: Client, *, session: int = 7, first: int = 0, sender: str = "a", ack: str = "committed"
) -> int:
    said = await client.greet(f"TRIGGERLOG/1 group=bpm sender={sender} session={session} first={first} ack={ack}")
    resume = parse_answer(said.encode()).resume
    assert resume is not None
    return resume


def cut(client: Client) -> None:
    """Break the connection; without a reset the daemon would see an end."""
    linger = struct.pack("ii", 1, 0)
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    client.writer.transport.abort()


async def frame(client: Client) -> tuple[int, int]:
    done, refused = struct.unpack("<QQ", await asyncio.wait_for(client.reader.readexactly(16), ANSWER_WITHIN_S))
    return done, refused


async def stored_once(logger: Logger, triggers: int) -> None:
    stored = (await logger.stored(GROUP))[["trigger", "instrument"]].tolist()
    assert sorted(stored) == [(t, i) for t in range(1, triggers + 1) for i in range(GROUP.size)]


async def test_a_session_begins_at_0_and_a_connection_without_one_is_not_told() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        assert await resumed(await connect()) == 0
        assert " resume=" not in await (await connect()).greet()


async def test_it_goes_on_behind_what_was_received_and_acknowledges_all_of_it() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        records = whole(GROUP, 1, 2, 3)
        first = await connect()
        await resumed(first)
        first.send(records[:8])
        assert await first.acknowledged(5) == 0
        await eventually(lambda: source.status().received == 8)
        cut(first)
        second = await connect()
        assert await resumed(second, first=5) == 8
        second.send(records[8:])
        assert await second.acknowledged(15) == 0
        await stored_once(logger, 3)
        assert logger.pipelines["bpm"].figures().assembled.duplicate == 0


async def test_what_was_settled_in_between_is_told_at_once() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        first = await connect()
        await resumed(first)
        logger.store.serving.clear()
        first.send(whole(GROUP, 1))
        await eventually(lambda: source.status().received == 5)
        cut(first)
        await eventually(lambda: source.status().connections == 0)
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 1)
        second = await connect()
        assert await resumed(second) == 5
        assert await frame(second) == (5, 0)


async def test_a_newer_connection_fences_the_older_and_takes_over_what_gathered() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        older, newer = await connect(), await connect()
        await resumed(older)
        older.send(whole(GROUP, 1)[:3])
        older.writer.write(whole(GROUP, 1)[3:4].tobytes()[:11])  # the begin of a record, which is dropped
        await eventually(lambda: source.status().received == 3)
        assert await resumed(newer) == 3
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await older.reader.readexactly(1)
        await eventually(lambda: source.status().connections == 1)
        newer.send(whole(GROUP, 1)[3:])
        assert await newer.acknowledged(5) == 0
        assert source.status().refused == {}
        await stored_once(logger, 1)


async def test_bytes_that_gathered_are_in_before_the_answer() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        older, newer = await connect(), await connect()
        await resumed(older)
        gather = source.gathers["bpm"]
        (connection,) = source._columns["bpm"].values()
        gather._wanted = 1 << 30  # so that it does not hand on by itself before the other greets
        block = whole(GROUP, 1)[:4].tobytes()
        connection.get_buffer(-1)[: len(block)] = block
        connection.buffer_updated(len(block))
        assert gather._chunks
        assert await resumed(newer) == 4


async def test_sessions_of_one_sender_do_not_disturb_each_other() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        clients = [await connect() for _ in range(3)]
        assert await resumed(clients[0], session=1) == 0
        assert await resumed(clients[1], session=2) == 0
        assert await resumed(clients[2], session=1, sender="b") == 0
        for number, client in enumerate(clients):
            client.send(whole(GROUP, 1)[number : number + 1])
        clients[0].send(whole(GROUP, 1)[3:])
        for client, count in zip(clients, (3, 1, 1), strict=True):
            assert await client.acknowledged(count) == 0
        assert source.status().connections == 3


async def test_a_session_may_go_on_at_another_source() -> None:
    async with (
        logging_to_memory(GROUP, assembly=SLOW) as logger,
        listening(logger) as (one, connect_to_one),
        listening(logger) as (other, connect_to_other),
    ):
        first = await connect_to_one()
        await resumed(first)
        first.send(whole(GROUP, 1)[:2])
        await eventually(lambda: one.status().received == 2)
        second = await connect_to_other()
        assert await resumed(second) == 2
        await eventually(lambda: one.status().connections == 0)
        second.send(whole(GROUP, 1)[2:])
        assert await second.acknowledged(5) == 0
        assert other.status().received == 3


async def test_the_older_connection_makes_room_for_the_newer_at_the_limit() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, max_connections=1) as (_, connect):
        await resumed(await connect())
        await resumed(await connect())
        assert (await (await connect()).greet()).startswith("ERROR too-many-connections 1 senders are connected")


async def test_refusals_count_from_the_beginning_of_the_connection() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        first = await connect()
        await resumed(first)
        first.send(make_block(GROUP, [(1, 0), (1, 77), (1, 78)]))
        await eventually(lambda: source.status().received == 3)
        cut(first)
        second = await connect()
        assert await resumed(second) == 3
        second.send(make_block(GROUP, [(1, 79), (1, 1), (1, 2), (1, 3), (1, 4)]))
        assert await second.acknowledged(8) == 3, "none was told before"
        cut(second)
        third = await connect()
        assert await resumed(third, first=8) == 8
        third.send(make_block(GROUP, [(2, 99)]))
        assert await third.acknowledged(9) == 1


async def test_what_the_sender_lost_is_passed_over_and_counted() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        first = await connect()
        await resumed(first)
        first.send(whole(GROUP, 1))
        assert await first.acknowledged(5) == 0
        cut(first)
        second = await connect()
        assert await resumed(second, first=9) == 9
        second.send(whole(GROUP, 2))
        assert await second.acknowledged(14) == 0
        assert logger.pipelines["bpm"].figures().lost_before == {"sender": 4}


async def test_nothing_below_what_the_sender_holds_is_acknowledged_again() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        first = await connect()
        await resumed(first)
        first.send(whole(GROUP, 1)[:3])
        await eventually(lambda: source.status().received == 3)
        cut(first)
        second = await connect()
        assert await resumed(second, first=9) == 9
        second.send(whole(GROUP, 1)[3:])
        assert await frame(second) == (11, 0)


@pytest.mark.parametrize(
    ("last", "resume", "refused"),
    [(GOODBYE, 0, {}), (b"", 5, {}), (b"begin", 5, {"partial_record": 1})],
    ids=["goodbye", "nothing", "part of a record"],
)
async def test_a_goodbye_after_the_last_acknowledgement_ends_the_session_and_nothing_else(
    last: bytes, resume: int, refused: dict[str, int]
) -> None:
    """A network that breaks ends a connection, too, and a sender that gives it up: it may not have read the last."""
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        first = await connect()
        await resumed(first)
        first.send(whole(GROUP, 1))
        assert await first.acknowledged(5) == 0
        first.writer.write(last)
        first.writer.write_eof()
        assert await first.ended() == b""
        await eventually(lambda: source.status().connections == 0)
        assert source.status().refused == refused
        assert await resumed(await connect()) == resume


async def test_who_ends_before_the_last_acknowledgement_may_not_have_read_it() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        first = await connect()
        await resumed(first)
        logger.store.serving.clear()
        first.send(whole(GROUP, 1))
        first.writer.write(GOODBYE)
        first.writer.write_eof()
        await eventually(lambda: source._admission._ended)
        logger.store.serving.set()
        assert len(await first.ended()) >= 16
        await eventually(lambda: source.status().connections == 0)
        second = await connect()
        assert await resumed(second) == 5
        assert await frame(second) == (5, 0)


async def test_room_behind_the_stop_lets_nobody_send_on() -> None:
    """What came then would be closed behind the end of the pipeline."""
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        await resumed(client)
        source._full(GROUP.name, True)
        await source.stop()
        source._full(GROUP.name, False)
        client.send(whole(GROUP, 1))
        await asyncio.sleep(0.1)
        assert source.status().received == 0


async def test_the_shipped_sender_loses_and_doubles_nothing_however_often_it_is_cut_off() -> None:
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, _):
        port = int(source.status().address.rpartition(":")[2])
        async with await Sender.connect("127.0.0.1", port, "bpm", reconnect=True) as sender:
            for trigger in range(1, 201):
                await sender.send(whole(GROUP, trigger)[:3])
                await sender.send(whole(GROUP, trigger)[3:])
                if trigger % 20 == 10:
                    await asyncio.sleep(0.002 * (trigger % 3))
                    for connection in source._admission.connections():
                        connection.abort()
        assert (sender.acknowledged, sender.refused) == (1000, 0)
        assert sender.reconnects >= 5
        await stored_once(logger, 200)
        assert logger.pipelines["bpm"].figures().assembled.duplicate == 0
        # It said goodbye, so nothing of its session is left.
        await eventually(lambda: len(logger.pipelines["bpm"]._assembly.sessions) == 0)


@pytest.mark.parametrize("is_idle", [True, False])
async def test_a_sender_whose_host_vanished_is_let_go(is_idle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is idle the kernel notices; with an acknowledgement under way the daemon has to look."""
    hasty = {"IDLE_S": 1, "EVERY_S": 1, "PROBES": 2, "SILENT_S": 1, "LOOK_S": 3600.0 if is_idle else 0.05}
    for name, value in hasty.items():
        monkeypatch.setattr(keepalive, name, value)
    async with logging_to_memory(GROUP) as logger, listening(logger) as (source, connect):
        client = await connect()
        await resumed(client)
        logger.store.serving.clear()
        client.send(whole(GROUP, 1))
        await eventually(lambda: source.status().received == 5)
        vanish(client.writer.get_extra_info("socket"))
        if not is_idle:
            logger.store.serving.set()
        await eventually(lambda: source.status().connections == 0)
        logger.store.serving.set()
        again = await connect()
        assert await resumed(again) == 5
        assert await frame(again) == (5, 0)


async def test_the_highest_numbers_do_no_harm() -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger) as (_, connect):
        hostile, good = await connect(), await connect()
        assert await resumed(hostile, session=NUMBER_MAX, first=RECORD_NUMBER_MAX) == RECORD_NUMBER_MAX
        await resumed(good)
        hostile.send(make_block(GROUP, [(1, 77), (1, 78)]))
        assert await hostile.acknowledged(RECORD_NUMBER_MAX + 2) == 2
        good.send(whole(GROUP, 1))
        assert await good.acknowledged(5) == 0


async def test_too_many_sessions_are_refused_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembled_sessions, "MOST_SESSIONS", 2)
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        clients = [await connect() for _ in range(3)]
        for number, client in enumerate(clients[:2]):
            await resumed(client, session=number)
            client.send(whole(GROUP, 1)[number : number + 1])
        await eventually(lambda: source.status().received == 2)
        said = await clients[2].greet("TRIGGERLOG/1 group=bpm sender=a session=2 ack=committed")
        assert said.startswith("ERROR too-many-connections 2 sessions of this group")
        assert await clients[2].ended() == b""
        await eventually(lambda: source.status().connections == 2)
        clients[0].send(whole(GROUP, 1)[2:])
        assert await clients[0].acknowledged(4) == 0


async def test_the_records_have_the_numbers_of_the_session() -> None:
    taken: list[np.ndarray] = []
    async with logging_to_memory(GROUP, assembly=SLOW) as logger, listening(logger) as (source, connect):
        pipeline = logger.pipelines["bpm"]
        receive = pipeline.receive

        def watched(block: np.ndarray, origin, moment) -> None:
            taken.append(origin.sequence.copy())
            receive(block, origin, moment)

        pipeline.receive = watched
        client = await connect()
        await resumed(client, first=100)
        client.send(whole(GROUP, 1))
        await eventually(lambda: source.status().received == 5 and sum(map(len, taken)) == 5)
        assert np.concatenate(taken).tolist() == list(range(100, 105))
