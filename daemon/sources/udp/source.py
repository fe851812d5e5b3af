"""Readings over UDP: not acknowledged; gaps in the senders' datagram numbers tell what was lost on the way."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.gather import NOBODY, Gather
from daemon.sources.base import Pipelines
from daemon.sources.limits import Networks, Refusals
from daemon.sources.udp.datagram_numbers import DatagramNumbers
from schemas.api.status import SourceStatus
from schemas.config import UdpSource as UdpConfig
from schemas.wire import DATAGRAM_MAX, ProtocolError, parse_datagram

DATAGRAMS_AT_ONCE = 256
"""Datagrams read before the event loop has its turn again."""


class UdpSource:
    """A bound datagram socket.

    report: called now and then with one line, what was turned away.
    """

    def __init__(
        self, config: UdpConfig, pipelines: Pipelines, *, report: Callable[[str], None] = lambda line: None
    ) -> None:
        self._config = config
        self._pipelines = pipelines
        self._gathers = {name: Gather(pipeline) for name, pipeline in pipelines.items()}
        self._socket: socket.socket | None = None
        self._address = f"{config.host}:{config.port}"
        self._buffer = bytearray(DATAGRAM_MAX)
        self._bytes = 0
        self._networks = Networks(config.allow)
        self._refusals = Refusals(lambda: f"source udp {self._address}", report)
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
            refused=self._refusals.by_reason(),
            refused_most=self._refusals.by_address(),
            lost_datagrams=self._numbers.lost,
        )

    def change(self, config: UdpConfig) -> None:
        """Nothing of it changes while it runs."""

    def parts(self) -> list[Part]:
        """Whether it listens, and hands on what it reads."""
        listening = Part(name=f"listening at udp {self._address}", steps=0, is_busy=self._socket is None)
        return [listening, *(gather.part() for gather in self._gathers.values())]

    def _readable(self) -> None:
        assert self._socket is not None
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                nbytes, address = self._socket.recvfrom_into(self._buffer)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error of an earlier datagram; the socket itself goes on
                self._refusals.count("socket_error")
                continue
            self._bytes += nbytes
            self._take(memoryview(self._buffer)[:nbytes], address)

    def _take(self, data: memoryview, address: tuple[Any, ...]) -> None:
        if address[0] not in self._networks:
            self._refusals.count("not-allowed", address[0])
            return
        try:
            datagram = parse_datagram(data)
        except ProtocolError as error:
            self._refusals.count(error.code, address[0])
            return
        gather = self._gathers.get(datagram.group)
        if gather is None:
            self._refusals.count("unknown-group", address[0])
            return
        pipeline = self._pipelines[datagram.group]
        if datagram.record_size != pipeline.group.record.itemsize:
            self._refusals.count("wrong-record-size", address[0])
            return
        self._numbers.heard(address, datagram.sequence)
        if pipeline.is_full:
            pipeline.drop("backlog", datagram.count)
            return
        room = gather.space(b"")
        room[: len(datagram.records)] = datagram.records
        gather.take(len(datagram.records), NOBODY, 0)
