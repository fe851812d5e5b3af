"""A daemon whose host vanishes without a goodbye, as in a power cut: over real sockets."""

import asyncio

import numpy as np
import pytest

from daemon.client.sender import ConnectionLost, Sender
from daemon.web import keepalive
from tests.support.listening import BPM, eventually, listening
from tests.support.vanishing import vanish


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds in place of minutes."""
    for name, value in (("IDLE_S", 1), ("EVERY_S", 1), ("PROBES", 2), ("SILENT_S", 1), ("LOOK_S", 0.05)):
        monkeypatch.setattr(keepalive, name, value)


async def test_an_idle_sender_notices(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepalive, "LOOK_S", 3600.0)
    told: list[str] = []
    async with (
        listening(BPM) as listener,
        await Sender.connect("127.0.0.1", listener.port, "bpm", reconnect=True, on_problem=told.append) as sender,
    ):
        vanish(listener.connections[0].writer.get_extra_info("socket"))
        await eventually(lambda: sender.reconnects == 1)
        assert "lost the connection" in told[0]


async def test_a_sender_whose_readings_nobody_takes_notices(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keepalive, "IDLE_S", 3600)
    told: list[str] = []
    async with (
        listening(BPM) as listener,
        await Sender.connect("127.0.0.1", listener.port, "bpm", reconnect=True, on_problem=told.append) as sender,
    ):
        vanish(listener.connections[0].writer.get_extra_info("socket"))
        await sender.send(np.zeros(10, sender.record))
        await listener.until(lambda: len(listener.connections) == 2 and len(listener.connections[1].records) == 10)
        assert "its host does not answer any more" in told[0]


async def test_a_sender_that_does_not_reconnect_fails(hasty: None) -> None:
    async with listening(BPM) as listener:
        sender = await Sender.connect("127.0.0.1", listener.port, "bpm")
        vanish(listener.connections[0].writer.get_extra_info("socket"))
        await sender.send(np.zeros(10, sender.record))
        with pytest.raises(ConnectionLost, match="10 readings are not acknowledged"):
            await sender.drain_acknowledged(60)
        await sender.close()


async def test_a_daemon_that_holds_back_its_senders_has_not_vanished(hasty: None) -> None:
    """Its kernel answers, but is asked ever more rarely while its buffers are full."""
    async with listening(BPM) as listener:
        listener.reading.clear()
        async with await Sender.connect("127.0.0.1", listener.port, "bpm") as sender:
            sending = asyncio.ensure_future(sender.send(np.zeros(200_000, sender.record)))
            assert sender._connection is not None
            sock = sender._connection.transport.get_extra_info("socket")
            await eventually(lambda: keepalive.silence(sock) > (2 * keepalive.SILENT_S, True))
            await asyncio.sleep(2 * keepalive.LOOK_S)
            listener.reading.set()
            await sending
        assert sender.acknowledged == 200_000
