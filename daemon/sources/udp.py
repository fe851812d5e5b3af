"""Readings over UDP: not acknowledged; gaps in the senders' datagram numbers tell what was lost on the way."""

import asyncio
import socket
from collections import OrderedDict

from daemon.sources.base import Pipelines
from daemon.sources.gather import NOBODY, Gather
from schemas.config import UdpSource as UdpConfig
from schemas.status import SourceStatus
from schemas.wire import DATAGRAM_MAX, ProtocolError, parse_datagram

DATAGRAMS_AT_ONCE = 256
"""Datagrams read before the event loop has its turn again."""

SENDERS_MOST = 4096
"""Senders whose datagram numbers are remembered; beyond it the one heard longest ago is forgotten."""


class UdpSource:
    """A bound datagram socket."""

    def __init__(self, config: UdpConfig, pipelines: Pipelines) -> None:
        self._config = config
        self._pipelines = pipelines
        self._gathers = {name: Gather(pipeline) for name, pipeline in pipelines.items()}
        self._socket: socket.socket | None = None
        self._address = f"{config.host}:{config.port}"
        self._buffer = bytearray(DATAGRAM_MAX)
        self._bytes = 0
        self._refused: dict[str, int] = {}
        self._numbers = DatagramNumbers()

    async def start(self) -> None:
        """Bind."""
        family, kind, protocol, _, address = (
            await asyncio.get_running_loop().getaddrinfo(
                self._config.host, self._config.port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
            )
        )[0]
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer_kib * 1024)
            self._socket.bind(address)
        except OSError:
            self._socket.close()
            raise
        host, port = self._socket.getsockname()[:2]
        self._address = f"{host}:{port}"
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    async def stop(self) -> None:
        """Read nothing more."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for gather in self._gathers.values():
            gather.flush()

    async def close(self) -> None:
        """Nothing is owed to anyone."""

    def status(self) -> SourceStatus:
        """How it does."""
        return SourceStatus(
            kind="udp",
            address=self._address,
            connections=len(self._numbers),
            received=sum(gather.received for gather in self._gathers.values()),
            bytes=self._bytes,
            refused=dict(self._refused),
            lost_datagrams=self._numbers.lost,
        )

    def _readable(self) -> None:
        assert self._socket is not None
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                nbytes, address = self._socket.recvfrom_into(self._buffer)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error of an earlier datagram; the socket itself goes on
                self._refuse("socket_error")
                continue
            self._bytes += nbytes
            self._take(memoryview(self._buffer)[:nbytes], address)

    def _take(self, data: memoryview, address: tuple[str, int]) -> None:
        try:
            datagram = parse_datagram(data)
        except ProtocolError as error:
            self._refuse(error.code)
            return
        gather = self._gathers.get(datagram.group)
        if gather is None:
            self._refuse("unknown-group")
            return
        pipeline = self._pipelines[datagram.group]
        if datagram.record_size != pipeline.group.record.itemsize:
            self._refuse("wrong-record-size")
            return
        self._numbers.heard(address, datagram.sequence)
        if pipeline.is_full:
            pipeline.drop("backlog", datagram.count)
            return
        room = gather.space(b"")
        room[: len(datagram.records)] = datagram.records
        gather.take(len(datagram.records), NOBODY, 0)

    def _refuse(self, reason: str) -> None:
        self._refused[reason] = self._refused.get(reason, 0) + 1


class DatagramNumbers:
    """Counts the gaps in each sender's datagram numbers."""

    def __init__(self) -> None:
        self.lost = 0
        self._next: OrderedDict[tuple[str, int], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._next)

    def heard(self, address: tuple[str, int], sequence: int) -> None:
        """Take note of a datagram: a jump ahead is a gap, one that comes after all fills it, 0 is a new beginning."""
        expected = self._next.get(address, sequence)
        if sequence >= expected:
            self.lost += sequence - expected
            expected = sequence + 1
        elif sequence == 0:
            expected = 1
        elif self.lost:
            self.lost -= 1
        self._next[address] = expected
        self._next.move_to_end(address)
        if len(self._next) > SENDERS_MOST:
            self._next.popitem(last=False)
