"""Senders whose connections were there before the database answered, over real sockets."""

import asyncio
from pathlib import Path

from schemas.readings import join
from tests.daemon.pipeline.intake.test_intake import Life, keys, living, new_store, of_epoch, stored
from tests.daemon.sources.tcp.test_sessions import cut, frame, resumed
from tests.daemon.sources.tcp.test_tcp import listening
from tests.support.pipelines import Logger, eventually
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()
ON_BOTH_LOOPS = True


def logger_of(life: Life) -> Logger:
    return Logger(
        pipelines={},
        intakes={"bpm": life.intake},
        following={},
        store=new_store(),
        events=life.events,
        announced=life.announced,
    )


async def test_connections_go_on_through_the_switch_and_others_come_after_it(tmp_path: Path) -> None:
    store, records = new_store(), of_epoch(whole(GROUP, 1, 2, 3))
    async with living(tmp_path) as life, listening(logger_of(life)) as (source, connect):
        # The first leaves a free column behind it: nobody has the column of before after the switch.
        gone, received, committed, nobody = [await connect() for _ in range(4)]
        await resumed(gone, session=1, ack="received")
        await resumed(received, session=2, ack="received")
        await committed.greet()
        await nobody.greet("TRIGGERLOG/1 group=bpm ack=none")
        cut(gone)
        await eventually(lambda: source.status().connections == 3)
        for client, part in ((received, slice(0, 2)), (committed, slice(2, 4)), (nobody, slice(4, 5))):
            client.send(records[:5][part])
        assert await received.acknowledged(2) == 0
        await eventually(lambda: source.status().received == 5)
        await life.meet(store)
        assert await committed.acknowledged(2) == 0
        later = await connect()
        assert await resumed(later, session=1, ack="received") == 0
        for client, part in ((received, slice(5, 7)), (committed, slice(7, 9)), (later, slice(9, 10))):
            client.send(records[part])
        assert await received.acknowledged(4) == 0
        assert await committed.acknowledged(4) == 0
        assert await later.acknowledged(1) == 0
        await life.until_empty()
    assert await stored(store) == keys(1, 2)


async def test_a_session_that_goes_on_before_the_switch_fences_its_older_connection(tmp_path: Path) -> None:
    store, records = new_store(), of_epoch(whole(GROUP, 1, 2))
    async with living(tmp_path) as life, listening(logger_of(life)) as (_, connect):
        older, newer = await connect(), await connect()
        await resumed(older, ack="received")
        older.send(records[:4])
        assert await older.acknowledged(4) == 0
        assert await resumed(newer, first=4, ack="received") == 4
        assert await older.ended() == b""
        newer.send(records[4:7])
        assert await newer.acknowledged(7) == 0
        await life.meet(store)
        newest = await connect()
        assert await resumed(newest, first=7, ack="received") == 7
        newest.send(records[7:])
        assert await newest.acknowledged(10) == 0
        await life.until_empty()
    assert await stored(store) == keys(1, 2)


async def test_what_was_received_and_is_refused_later_is_told(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path) as life, listening(logger_of(life)) as (_, connect):
        client = await connect()
        await resumed(client, ack="received")
        client.send(join([of_epoch(make_block(GROUP, [(1, 99)])), of_epoch(whole(GROUP, 1))]))
        assert await client.acknowledged(6) == 0
        await life.meet(store)
        async with asyncio.timeout(20):
            assert await frame(client) == (6, 1)
        await life.until_empty()
    assert await stored(store) == keys(1)


async def test_nothing_is_acknowledged_before_it_is_sent(tmp_path: Path) -> None:
    """A sender that sends again what is settled was told of records that it had not sent, and gave up."""
    store, records = new_store(), of_epoch(whole(GROUP, *range(1, 9)))
    async with living(tmp_path, store) as life, listening(logger_of(life)) as (_, connect):
        client = await connect()
        await resumed(client)
        client.send(records[:30])
        assert await client.acknowledged(30) == 0
    async with living(tmp_path) as life, listening(logger_of(life)) as (source, connect):
        client = await connect()
        assert await resumed(client) == 0  # as one that was told of nothing
        client.send(records[:10])
        await eventually(lambda: source.status().received == 10)
        await life.meet(store)
        assert await client.acknowledged(10) == 0
        client.send(records[10:30])
        assert await client.acknowledged(30) == 0
        client.send(records[30:])
        assert await client.acknowledged(40) == 0
    assert await stored(store) == keys(*range(1, 9))


async def test_a_connection_without_a_session_counts_from_0_after_others_that_came_and_went(tmp_path: Path) -> None:
    store, records = new_store(), of_epoch(whole(GROUP, 1, 2))
    async with living(tmp_path) as life, listening(logger_of(life)) as (source, connect):
        before = await connect()
        await before.greet("TRIGGERLOG/1 group=bpm ack=received")
        before.send(join([records[:3], of_epoch(make_block(GROUP, [(1, 99)]))]))
        assert await before.acknowledged(4) == 0
        cut(before)
        await eventually(lambda: source.status().connections == 0)
        staying = await connect()
        await staying.greet("TRIGGERLOG/1 group=bpm ack=received")
        staying.send(records[3:8])
        assert await staying.acknowledged(5) == 0
        await life.meet(store)
        staying.send(records[8:])
        assert await staying.acknowledged(7) == 0
        cut(staying)
        await life.until_empty()
    assert await stored(store) == keys(1, 2)
