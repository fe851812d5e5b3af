"""Readings over UDP: not acknowledged; gaps in the senders' datagram numbers tell what was lost on the way."""

from collections.abc import Callable

from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.gather import NOBODY, Gather
from daemon.pipeline.intake import Subscriber
from daemon.sources.base import Intakes
from daemon.sources.limits import Networks, Refusals
from daemon.sources.parsing import parsed
from daemon.sources.udp.datagram_numbers import DatagramNumbers
from daemon.sources.udp.receiver import Address, MakesReceiving, Receiver
from schemas.api.status import SourceStatus
from schemas.checking.addresses import host_and_port
from schemas.config import UdpSource as UdpConfig
from schemas.wire import ErrorCode, ProtocolError, parse_datagram


class UdpSource:
    """A bound datagram socket.

    report: called now and then with one line, what was turned away. receiving: what receives datagrams for it.
    """

    def __init__(
        self,
        config: UdpConfig,
        intakes: Intakes,
        *,
        report: Callable[[str], None] = lambda line: None,
        receiving: MakesReceiving = Receiver,
    ) -> None:
        self._config = config
        self._intakes = intakes
        self._gathers = {name: Gather(intake) for name, intake in intakes.items()}
        self._address = host_and_port(config.host, config.port)
        self._bytes = 0
        self._networks = Networks(config.allow)
        self._refusals = Refusals(lambda: f"source udp {self._address}", report)
        self._numbers = DatagramNumbers()
        for name, intake in intakes.items():
            intake.subscribe(Subscriber(flush=self._gathers[name].flush))
        self._receiving = receiving(take=self._take, refuse=self._refusals.count)

    async def start(self) -> None:
        """Bind."""
        self._address = await self._receiving.bind(
            self._config.host, self._config.port, buffer_kib=self._config.receive_buffer_kib
        )

    async def stop(self) -> None:
        """Read what has come, and nothing more."""
        self._receiving.close()
        for gather in self._gathers.values():
            gather.flush()

    async def close(self) -> None:
        """Nothing is owed to anyone."""

    def status(self) -> SourceStatus:
        """How it does."""
        return SourceStatus(
            kind="udp",
            address=self._address,
            connections=self._numbers.heard_lately(),
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
        listening = Part(name=f"listening at udp {self._address}", steps=0, is_busy=not self._receiving.is_bound)
        return [listening, *(gather.part() for gather in self._gathers.values())]

    def _take(self, data: memoryview, address: Address) -> None:
        self._bytes += len(data)
        if address[0] not in self._networks:
            self._refusals.count("not-allowed", address[0])
            return
        try:
            datagram = parsed(parse_datagram, data, ErrorCode.BAD_DATAGRAM)
        except ProtocolError as error:
            self._refusals.count(error.code, address[0])
            return
        intake = self._intakes.get(datagram.group)
        # Also of what is refused below: it has come, and is not lost. Names of groups that are none can be made up.
        named = "" if intake is None else datagram.group
        for group, readings in self._numbers.heard(address, datagram.sequence, named, datagram.count).items():
            if group and readings:
                self._intakes[group].note_lost(readings, "datagrams")
        if intake is None:
            self._refusals.count("unknown-group", address[0])
            return
        if datagram.record_size != intake.group.record.itemsize:
            self._refusals.count("wrong-record-size", address[0])
            return
        if intake.is_full:
            intake.drop("backlog", datagram.count)
            return
        gather = self._gathers[datagram.group]
        room = gather.space(b"")
        room[: len(datagram.records)] = datagram.records
        gather.take(len(datagram.records), NOBODY, 0)
