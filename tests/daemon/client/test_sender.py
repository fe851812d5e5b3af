"""The sender against a real server on a real socket."""

import asyncio
import os
import random
import socket

import numpy as np
import pytest
import uvloop

from daemon.client.sender import ConnectionLost, Sender, SenderError
from daemon.client.sender.sender import _own_name
from schemas.readings import Array
from schemas.wire import Ack, Acknowledgement, Greeting, ProtocolError, answer_greeting, parse_greeting
from tests.support.listening import BPM, TOROID, eventually, listening


def blocks(sender: Sender, triggers: range) -> Array:
    block = np.zeros((len(triggers), sender.instruments), sender.record)
    block["trigger"] = np.array(triggers)[:, None]
    block["instrument"] = np.arange(sender.instruments)
    block["time_ns"] = 1_700_000_000_000_000_000 + block["trigger"] * 10_000_000
    first = sender.record.names[4]
    block[first] = block["trigger"] + block["instrument"] / 1000
    return block


async def connected(listener, group="bpm", **options) -> Sender:
    return await Sender.connect("127.0.0.1", listener.port, group, **options)


@pytest.mark.parametrize("group", [BPM, TOROID])
async def test_every_byte_arrives_and_is_acknowledged(group) -> None:
    async with listening(BPM, TOROID) as listener:
        async with await connected(listener, group.name, sender="crate-07") as sender:
            assert sender.record == group.record
            assert sender.instruments == group.size
            block = blocks(sender, range(50))
            for trigger in block:
                await sender.send(trigger)
        assert sender.acknowledged == sender.sent == block.size
        assert sender.refused == 0
        assert listener.connections[0].greeting.sender == "crate-07"
        assert np.array_equal(listener.records, block.reshape(-1))


async def test_the_named_instrument_is_told_its_number() -> None:
    async with listening(BPM) as listener, await connected(listener, instrument="bpm_007") as sender:
        assert sender.instrument == 7


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_block_may_be_written_to_again_once_it_is_sent(loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(write_to_blocks_again())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_block_may_be_written_to_again_after_its_sending_was_cancelled(loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(write_after_a_timeout())


async def write_after_a_timeout() -> None:
    async with listening(BPM) as listener:
        listener.reading.clear()
        sender = await connected(listener)
        block = np.zeros(400_000, sender.record)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await sender.send(block)
        block["trigger"] = 1
        with pytest.raises(ConnectionLost, match="400000 readings are not acknowledged"):
            await sender.send(block)
        listener.reading.set()
        await sender.close()
    # Its connections have ended.
    assert not listener.records["trigger"].any()


async def write_to_blocks_again() -> None:
    async with listening(BPM) as listener:
        async with await connected(listener) as sender:
            block = np.zeros(10, sender.record)
            for trigger in range(1000):
                block["trigger"] = trigger
                await sender.send(block)
        assert np.array_equal(listener.records["trigger"], np.repeat(np.arange(1000), 10))
    async with listening(BPM) as listener:
        listener.reading.clear()
        async with await connected(listener) as sender:
            block = np.zeros(100_000, sender.record)
            sending = asyncio.ensure_future(sender.send(block))
            await asyncio.sleep(0)
            assert not sending.done(), "5.6 MB do not fit the socket's buffers: the sender must wait"
            listener.reading.set()
            await sending
            block["trigger"] = 99
            await sender.drain_acknowledged(10)
        assert not listener.records["trigger"].any()


async def test_a_sender_without_acknowledgements_finishes_all_the_same() -> None:
    async with listening(BPM) as listener:
        async with await connected(listener, ack=Ack.NONE) as sender:
            await sender.send(blocks(sender, range(1))[0])
            with pytest.raises(SenderError, match=r"ack=Ack\.COMMITTED"):
                await sender.drain_acknowledged(1)
        assert listener.connections[0].greeting.ack is Ack.NONE
        assert len(listener.records) == 120
        assert sender.acknowledged == 0


async def test_refused_readings_are_counted() -> None:
    async with listening(BPM, acknowledges=False) as listener, await connected(listener) as sender:
        await sender.send(blocks(sender, range(1))[0])
        await listener.until(lambda: len(listener.records) == 120)
        listener.connections[0].acknowledge(120, refused=3)
        await sender.drain_acknowledged(5)
        assert (sender.acknowledged, sender.refused) == (120, 3)


async def test_what_is_not_acknowledged_in_time_is_told() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        sender = await connected(listener)
        await sender.send(blocks(sender, range(1))[0])
        with pytest.raises(SenderError, match=r"120 of 120 readings are not acknowledged after 0.05 s"):
            await sender.drain_acknowledged(0.05)
        await sender.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await sender.send(blocks(sender, range(1))[0])


async def test_after_a_loss_the_sender_sends_again_what_was_not_acknowledged() -> None:
    told: list[str] = []
    async with listening(BPM, acknowledges=False) as listener:
        async with await connected(listener, reconnect=True, on_problem=told.append) as sender:
            block = blocks(sender, range(10))
            for trigger in block[:5]:
                await sender.send(trigger)
            await listener.until(lambda: len(listener.records) == 600)
            # 250: in the middle of a block.
            listener.connections[0].acknowledge(250, refused=2)
            await eventually(lambda: sender.acknowledged == 250)
            listener.connections[0].cut()
            await eventually(lambda: told)
            for trigger in block[5:]:
                await sender.send(trigger)
            await listener.until(lambda: len(listener.connections) == 2 and len(listener.connections[1].records) == 950)
            assert np.array_equal(listener.connections[1].records, block.reshape(-1)[250:])
            await listener.acknowledged(listener.connections[1], 1200, refused=1)
        assert (sender.acknowledged, sender.refused) == (1200, 3)
        assert (sender.reconnects, sender.sent_again) == (1, 350)
        assert "lost the connection" in told[0]
        assert "connected again" in told[1]


async def test_a_session_goes_on_where_the_daemon_says() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        async with await connected(listener, sender="crate-07", reconnect=True) as sender:
            block = blocks(sender, range(10)).reshape(-1)
            await sender.send(block[:500])
            await sender.send(block[500:600])
            await listener.until(lambda: len(listener.records) == 600)
            listener.connections[0].acknowledge(250, refused=2)
            await eventually(lambda: sender.acknowledged == 250)
            listener.resume = 480  # received, and not settled yet
            listener.connections[0].cut()
            await listener.until(lambda: len(listener.connections) == 2 and len(listener.connections[1].records) == 120)
            await sender.send(block[600:])
            first, second = listener.connections
            await listener.until(lambda: len(second.records) == 720)
            assert np.array_equal(second.records, block[480:])
            assert (sender.acknowledged, sender.sent_again) == (250, 120)
            assert (first.greeting.sender, first.greeting.first, second.greeting.first) == ("crate-07", 0, 250)
            assert first.greeting.session == second.greeting.session is not None
            # Settled before the loss, and told only now: nothing of it was sent on this connection.
            second.acknowledge(470)
            await eventually(lambda: sender.acknowledged == 470)
            await listener.acknowledged(second, 1200, refused=4)
        assert (sender.acknowledged, sender.refused) == (1200, 6)


async def test_what_the_daemon_has_it_is_not_sent_again() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        async with await connected(listener, reconnect=True) as sender:
            await sender.send(blocks(sender, range(5)).reshape(-1))
            await listener.until(lambda: len(listener.records) == 600)
            listener.resume = 600
            listener.connections[0].cut()
            await eventually(lambda: len(listener.connections) == 2)
            await listener.acknowledged(listener.connections[1], 600)
        assert (sender.acknowledged, sender.sent_again) == (600, 0)
        assert not len(listener.connections[1].records)


async def test_acknowledgements_may_come_with_the_answer() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        async with await connected(listener, reconnect=True) as sender:
            await sender.send(blocks(sender, range(5)).reshape(-1))
            await listener.until(lambda: len(listener.records) == 600)
            listener.connections[0].acknowledge(10, refused=5)
            await eventually(lambda: sender.refused == 5)
            listener.resume, listener.at_once = 600, Acknowledgement(done=600, refused=1)
            listener.connections[0].cut()
            await sender.drain_acknowledged(10)
            await listener.acknowledged(listener.connections[1], 600, refused=1)
        assert (sender.acknowledged, sender.refused) == (600, 6)


@pytest.mark.parametrize("resume", [249, 601])
async def test_a_session_that_would_go_on_elsewhere_fails(resume: int) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        sender = await connected(listener, reconnect=True)
        await sender.send(blocks(sender, range(5)).reshape(-1))
        await listener.until(lambda: len(listener.records) == 600)
        listener.connections[0].acknowledge(250)
        await eventually(lambda: sender.acknowledged == 250)
        listener.resume = resume
        listener.connections[0].cut()
        with pytest.raises(ProtocolError, match=f"bad-answer: .*with record {resume}; this sender holds 250 to 600"):
            await sender.drain_acknowledged(10)
        await sender.close()


async def test_a_new_session_begins_at_its_first_record() -> None:
    async with listening(BPM) as listener:
        listener.resume = 1
        with pytest.raises(ProtocolError, match=r"bad-answer: .*with record 1; this sender holds 0 to 0"):
            await connected(listener, reconnect=True)


async def test_a_daemon_that_knows_no_sessions_is_told_apart() -> None:
    async def forgetful(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer_greeting(parse_greeting(await reader.readline()), {"bpm": BPM}).line())
        writer.close()

    server = await asyncio.start_server(forgetful, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ProtocolError, match="bad-answer: the answer does not say where the session goes on"):
            await Sender.connect("127.0.0.1", port, "bpm", reconnect=True)


async def test_each_sender_has_a_session_and_a_name_of_its_own() -> None:
    async with listening(BPM) as listener:
        for _ in range(2):
            async with await connected(listener, reconnect=True):
                pass
        async with await connected(listener, reconnect=True, rng=random.Random(1)):
            pass
        async with await connected(listener):
            pass
    *of_session, without = [connection.greeting for connection in listener.connections]
    assert len({greeting.session for greeting in of_session}) == 3
    assert of_session[2].session == random.Random(1).getrandbits(63)
    assert all(greeting.sender.endswith(f"-{os.getpid()}") for greeting in of_session)
    assert (without.sender, without.session) == (None, None)


def test_a_host_with_any_name_makes_a_name_of_a_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Köln control/7" + "x" * 80)
    name = _own_name()
    assert Greeting(group="bpm", sender=name).line()
    assert name.startswith("K-ln-control-7xxx")
    assert name.endswith(f"-{os.getpid()}")


async def test_very_many_small_blocks_are_sent_again_at_once() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        sender = await connected(listener, reconnect=True)
        block = np.zeros(100_000, sender.record)
        block["trigger"] = np.arange(len(block))
        for number in range(len(block)):
            await sender.send(block[number : number + 1])
        listener.acknowledges = True
        listener.connections[0].cut()
        await listener.until(lambda: len(listener.connections) == 2 and len(listener.connections[1].records) == 100_000)
        await sender.finish(10)
        assert np.array_equal(listener.connections[1].records, block)
        assert sender.sent_again == 100_000


async def test_nothing_is_lost_when_the_daemon_is_away_for_a_while() -> None:
    async with listening(BPM) as listener:
        sender = await connected(listener, reconnect=True, buffer_mib=0.1)
        block = blocks(sender, range(100))
        await sender.send(block[0])
        await sender.drain_acknowledged(5)
        listener.acknowledges = False
        sending = asyncio.ensure_future(send_all(sender, block[1:]))
        await listener.until(lambda: len(listener.records) >= 600)
        held = sender.sent
        assert held < block.size, "the buffer is bounded: the sender waits"
    async with listening(BPM, port=listener.port) as second:
        await sending
        await sender.finish(10)
        assert sender.acknowledged == sender.sent == block.size
        assert np.array_equal(second.records, block.reshape(-1)[120:])


async def send_all(sender: Sender, block: Array) -> None:
    for trigger in block:
        await sender.send(trigger)


async def test_closing_ends_what_waits_while_the_daemon_is_away() -> None:
    async with listening(BPM) as listener:
        sender = await connected(listener, reconnect=True)
    await eventually(lambda: not sender.free)
    waiting = [
        asyncio.ensure_future(sender.send(blocks(sender, range(1))[0])),
        asyncio.ensure_future(sender.drain_acknowledged()),
    ]
    await asyncio.sleep(0)
    await sender.close()
    for task in waiting:
        with pytest.raises(ConnectionLost, match="this sender is closed"):
            await asyncio.wait_for(task, 10)


async def test_a_sender_that_does_not_reconnect_says_what_is_at_stake() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        sender = await connected(listener)
        await sender.send(blocks(sender, range(1))[0])
        await listener.until(lambda: len(listener.records) == 120)
        listener.connections[0].cut()
        with pytest.raises(ConnectionLost, match="120 readings are not acknowledged: connect and send them again"):
            await sender.drain_acknowledged(5)
        with pytest.raises(ConnectionLost):
            await sender.send(blocks(sender, range(1))[0])
        await sender.close()


async def test_a_daemon_that_refuses_for_good_ends_the_reconnecting() -> None:
    async with listening(BPM) as listener:
        sender = await connected(listener, reconnect=True)
        listener.refusal = ProtocolError("stopping", "the daemon is stopping; try again later")
        listener.connections[0].cut()
        await eventually(lambda: listener.refused)
        waiting = asyncio.ensure_future(sender.ready())
        listener.refusal = ProtocolError("unknown-group", "there is no group 'bpm'; name one of: toroid")
        with pytest.raises(ProtocolError, match="unknown-group"):
            await waiting
        assert listener.refused >= 2
        await sender.close()


async def test_refusals_on_connecting_carry_the_daemons_words() -> None:
    async with listening(BPM) as listener:
        with pytest.raises(ProtocolError, match="unknown-group: there is no group 'bpx'; name one of: bpm"):
            await connected(listener, "bpx")
        with pytest.raises(ProtocolError, match="unknown-instrument"):
            await connected(listener, instrument="nobody")
        with pytest.raises(ProtocolError, match="cannot be a name"):
            await connected(listener, sender="a b")
        with pytest.raises(ValueError, match="reconnect needs acknowledge"):
            await connected(listener, ack=Ack.NONE, reconnect=True)


async def test_nobody_there_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(SenderError, match=f"cannot reach a daemon at 127.0.0.1:{port}: Connection refused"):
            await Sender.connect("127.0.0.1", port, "bpm")
        taken.listen()
        with pytest.raises(SenderError, match=r"did not answer within 0.05 s"):
            await Sender.connect("127.0.0.1", port, "bpm", timeout_s=0.05)


async def test_another_kind_of_server_is_recognised() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(web, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ProtocolError, match="is this the port of a triggerlog daemon"):
            await Sender.connect("127.0.0.1", server.sockets[0].getsockname()[1], "bpm")


async def test_a_wrong_block_is_refused_before_it_is_sent() -> None:
    async with listening(BPM) as listener, await connected(listener) as sender:
        with pytest.raises(SenderError, match="dtype `record`"):
            await sender.send(np.zeros(3))
        with pytest.raises(SenderError, match="1 dimension"):
            await sender.send(np.zeros((3, 3), sender.record))
        assert sender.sent == 0


async def test_an_acknowledgement_of_what_was_not_sent_ends_it() -> None:
    async with listening(BPM, acknowledges=False) as listener:
        sender = await connected(listener)
        await sender.send(blocks(sender, range(1))[0])
        await listener.until(lambda: len(listener.records) == 120)
        listener.connections[0].acknowledge(121)
        with pytest.raises(ProtocolError, match="121 records are acknowledged; 0 were before, and 120 are sent"):
            await sender.drain_acknowledged(5)
        await sender.close()


async def test_nothing_is_written_to_a_connection_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(BPM) as listener:
        async with await connected(listener, reconnect=True) as sender:
            block = blocks(sender, range(200))
            # As when the daemon has gone: the next write fails, and the event loop tells of it in its next round only.
            sender._connection.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
            for trigger in block:
                await sender.send(trigger)
            assert sender.reconnects == 1
        assert sender.acknowledged == block.size
        assert np.array_equal(np.unique(listener.records), block.reshape(-1))
    assert "socket.send() raised exception" not in caplog.text
