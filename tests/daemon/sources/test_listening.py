"""Sources without sockets: what listens for them may be anything that hands over connections and datagrams."""

from collections.abc import Callable
from typing import Any

from daemon.sources.tcp import TcpSource
from daemon.sources.tcp.connection import Connection
from daemon.sources.udp import UdpSource
from schemas.config import TcpSource as TcpConfig
from schemas.config import UdpSource as UdpConfig
from schemas.wire import datagram_header
from tests.fuzz.sessions import Wire
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import make_group, whole

GROUP = make_group()


class Network:
    """Listens nowhere."""

    def __init__(self, **asked: Any) -> None:
        self.make: Callable[[str], Connection] = asked.get("make")
        self.take: Callable[[memoryview, tuple[Any, ...]], None] = asked.get("take")
        self.is_listening = self.is_bound = False

    async def listen(self, host: str, port: int) -> str:
        self.is_listening = True
        return f"{host}:{port} of no network"

    async def bind(self, host: str, port: int, *, buffer_kib: int) -> str:
        self.is_bound = buffer_kib > 0
        return f"{host}:{port} of no network"

    def close(self) -> None:
        self.is_listening = self.is_bound = False


async def test_connections_may_come_from_anywhere() -> None:
    made: list[Network] = []

    def listening(**asked: Any) -> Network:
        made.append(Network(**asked))
        return made[-1]

    async with logging_to_memory(GROUP) as logger:
        source = TcpSource(TcpConfig(kind="tcp", port=5), logger.intakes, listening=listening)
        assert source.parts()[0].is_busy
        await source.start()
        assert not source.parts()[0].is_busy
        assert source.status().address == "127.0.0.1:5 of no network"
        wire = Wire(made[0].make("10.0.0.1"))
        wire.feed(b"TRIGGERLOG/1 group=bpm sender=a session=1 ack=committed\n" + whole(GROUP, 1).tobytes())
        await eventually(lambda: len(wire.said.partition(b"\n")[2]) >= 16)
        await source.stop()
        assert not made[0].is_listening
        await source.close()


async def test_datagrams_may_come_from_anywhere() -> None:
    made: list[Network] = []

    def receiving(**asked: Any) -> Network:
        made.append(Network(**asked))
        return made[-1]

    async with logging_to_memory(GROUP) as logger:
        source = UdpSource(UdpConfig(kind="udp", port=5), logger.intakes, receiving=receiving)
        await source.start()
        assert made[0].is_bound
        block = whole(GROUP, 1)
        header = datagram_header(group="bpm", sequence=0, count=len(block), record_size=block.dtype.itemsize)
        made[0].take(memoryview(header + block.tobytes()), ("10.0.0.1", 5))
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 1)
        await source.stop()
        assert not made[0].is_bound
        await source.close()
