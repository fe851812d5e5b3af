"""Whole sessions of senders, hostile and good, through the real sources, gathers, pipelines and receipts.

No sockets: a transport in memory hands over bytes just as asyncio's does, so that thousands of sessions a minute are
possible, each in exactly the order that is written down.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from daemon.pipeline.assembly import AssemblyCounts
from daemon.pipeline.gather import WAIT_S
from daemon.sources.tcp import TcpSource
from daemon.sources.tcp.connection import Connection
from daemon.sources.udp import UdpSource
from schemas.config import TcpSource as TcpConfig
from schemas.config import UdpSource as UdpConfig
from schemas.sessions import session_key
from schemas.wire import (
    GOODBYE,
    RECORD_NUMBER_MAX,
    Acknowledgement,
    datagram_header,
    newest_acknowledgement,
    parse_answer,
)
from tests.support.pipelines import Logger, eventually, logging_to_memory
from tests.support.readings import make_group, whole

GROUP = make_group(3)
OTHER = make_group(2, "toroid")
SETTINGS = {"assembly": {"timeout_ms": 20.0, "window": 64, "max_open": 16}}
GOOD_TRIGGERS = range(1, 9)
GREETED = {
    1: b"TRIGGERLOG/1 group=bpm ack=committed\n",
    2: b"TRIGGERLOG/1 group=toroid ack=committed\n",
    3: b"TRIGGERLOG/1 group=toroid sender=bad session=7 ack=committed\n",
    4: b"TRIGGERLOG/1 group=toroid sender=bad session=7 first=%d ack=committed\n" % RECORD_NUMBER_MAX,
}
"""Openings said for a hostile connection; without one it says all of its own."""

HIGH_BYTE = GROUP.record.fields["instrument"][1] + 3


class Kind(IntEnum):
    """What a connection does."""

    DATA = 0
    EOF = 1
    LOST = 2
    TURN = 3
    AGAIN = 4  # and the good one connects again, while its older connection is still there


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that happens on one of a few connections; opening: key of GREETED, when it is the first there."""

    connection: int
    kind: Kind
    opening: int = 0
    data: bytes = b""


def steps_of(data: bytes) -> Iterator[Step]:
    """Read a session: a byte that says connection, kind and opening; for data a length and the bytes."""
    at = 0
    while at + 1 < len(data):
        what, length = data[at], data[at + 1]
        kind = (Kind.DATA, Kind.DATA, Kind.DATA, Kind.DATA, Kind.AGAIN, Kind.EOF, Kind.LOST, Kind.TURN)[what >> 2 & 7]
        at += 2
        yield Step(connection=what & 3, kind=kind, opening=what >> 5, data=data[at : at + length])
        at += length if kind is Kind.DATA else 0


class Wire(asyncio.Transport):
    """A transport in memory, as strict as the real ones: nothing comes while paused, nothing after the end."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.said = bytearray()
        self.is_reading = True
        self.is_gone = False
        self._closing = False
        self._ended = False
        self._coming = bytearray()
        connection.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes) -> None:
        assert not self.is_gone
        self.said += data

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self._ended, "asyncio would read again after the end"
        if not self.is_reading:
            self.is_reading = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.lose)

    def abort(self) -> None:
        self.close()

    def lose(self) -> None:
        self._closing = True
        if not self.is_gone:
            self.is_gone = True
            self.connection.connection_lost(None)

    def feed(self, data: bytes) -> None:
        self._coming += data
        self._deliver()

    def end(self) -> None:
        if self._closing or self._ended or self._coming:
            return
        self._ended = True
        if not self.connection.eof_received():
            self.close()

    def _deliver(self) -> None:
        while self._coming and self.is_reading and not self._closing and not self._ended:
            room = self.connection.get_buffer(-1)
            assert len(room) > 0
            count = min(len(room), len(self._coming))
            room[:count] = self._coming[:count]
            del self._coming[:count]
            self.connection.buffer_updated(count)


class Good:
    """A good sender, which goes on with its session where it is told to."""

    def __init__(self, source: TcpSource) -> None:
        self._source = source
        self._data = whole(GROUP, *GOOD_TRIGGERS).tobytes()
        self._at = 0
        self._done = 0
        self.wire = self._connected()

    @property
    def told(self) -> Acknowledgement:
        """The newest acknowledgement; without one on this connection that of the ones before."""
        newest = newest_acknowledgement(bytes(self.wire.said).partition(b"\n")[2])
        return newest or Acknowledgement(done=self._done, refused=0)

    def connect_again(self) -> None:
        older, self._done = self.wire, self.told.done
        self.wire = self._connected()
        assert older.is_closing(), "a newer connection fences the older"

    def _connected(self) -> Wire:
        wire = Wire(self._source._arrived("10.0.0.1"))
        wire.feed(b"TRIGGERLOG/1 group=bpm sender=good session=1 first=%d ack=committed\n" % self._done)
        resume = parse_answer(bytes(wire.said).partition(b"\n")[0]).resume
        size = GROUP.record.itemsize
        assert resume is not None
        assert self._done <= resume <= self._at // size
        self._at = resume * size
        return wire

    def feed(self, most: int) -> None:
        part = self._data[self._at : self._at + most]
        self._at += len(part)
        self.wire.feed(part)


class Hostile:
    """A hostile connection; readings of the good group are made harmless: else they could rightly take a good place."""

    def __init__(self, source: TcpSource, opening: int) -> None:
        self.wire = Wire(source._arrived("10.0.0.9"))
        self._is_tamed = opening == 1
        self._position = 0
        if opening in GREETED:
            self.wire.feed(GREETED[opening])

    def feed(self, data: bytes) -> None:
        tamed = bytearray(data)
        if self._is_tamed:
            for at in range((HIGH_BYTE - self._position) % GROUP.record.itemsize, len(tamed), GROUP.record.itemsize):
                tamed[at] |= 0x80
        self._position += len(tamed)
        self.wire.feed(bytes(tamed))

    @property
    def may_spoil(self) -> bool:
        return not self._is_tamed and self.wire.connection.group == GROUP.name


async def tcp_session(steps: Iterable[Step]) -> None:
    """Let hostile connections do their steps while a good one sends; everything has to be right afterwards."""
    async with logging_to_memory(GROUP, OTHER, **SETTINGS) as logger:
        source = TcpSource(
            TcpConfig(kind="tcp", port=0, acknowledge_every_ms=0, max_connections=3, max_ungreeted=2), logger.intakes
        )
        good = Good(source)
        hostile: dict[int, Hostile] = {}
        may_spoil = False
        for step in steps:
            here = hostile.get(step.connection)
            if here is None or here.wire.is_gone:
                here = hostile[step.connection] = Hostile(source, step.opening)
            await _do(here, step)
            may_spoil |= here.may_spoil
            if step.kind is Kind.AGAIN:
                good.connect_again()
            good.feed(37)
        good.feed(1 << 20)
        for here in hostile.values():
            may_spoil |= here.may_spoil
            here.wire.lose()
        await _settled(logger, good, source, may_spoil=may_spoil)


async def _do(here: Hostile, step: Step) -> None:
    match step.kind:
        case Kind.DATA:
            here.feed(step.data)
        case Kind.EOF:
            here.wire.end()
        case Kind.LOST:
            here.wire.lose()
        case Kind.TURN:
            await asyncio.sleep(WAIT_S if len(step.data) % 2 else 0)


async def _settled(logger: Logger, good: Good, source: TcpSource, *, may_spoil: bool) -> None:
    await eventually(lambda: not source.gathers[GROUP.name]._chunks and good.wire.is_reading)
    await logger.drain()
    source._round()
    sent = len(GOOD_TRIGGERS) * GROUP.size
    told = good.told
    assert told.done == sent
    if not may_spoil:
        assert told == Acknowledgement(done=sent, refused=0)
        await _intact(logger)
    good.wire.feed(GOODBYE)
    good.wire.end()
    await source.stop()
    await source.close()
    await asyncio.sleep(0)
    assert session_key("good", 1) not in logger.pipelines[GROUP.name]._assembly.sessions._column_of
    _nothing_left(logger, source)


async def _intact(logger: Logger) -> None:
    stored = await logger.stored(GROUP)
    names = ["trigger", "instrument", "time_ns", "top_in"]
    expected = whole(GROUP, *GOOD_TRIGGERS)
    assert sorted(stored[names].tolist()) == sorted(expected[names].tolist())


def _nothing_left(logger: Logger, source: TcpSource) -> None:
    assert len(source._admission) == 0
    assert not source._admission._of_address
    assert not any(source._columns.values())
    assert not any(source._again.values())
    for name, pipeline in logger.pipelines.items():
        assert not logger.intakes[name].connections
        pipeline.look()  # which takes back the columns of sessions that nobody goes on with
        receipts, counts = pipeline._assembly.receipts, pipeline.figures().assembled
        assert len(receipts._free) == len(set(receipts._free)) == len(receipts._received)
        assert not receipts.owes_refusals
        assert pipeline.figures().assembling == 0
        assert source.gathers[name].received == counts.received
        assert counts.received == counts.accepted + counts.duplicate + _turned_away(counts)


def _turned_away(counts: AssemblyCounts) -> int:
    return sum(counts.refused.values()) + sum(counts.aside.values())


async def udp_session(datagrams: Iterable[tuple[int, bytes]]) -> None:
    """Take datagrams, each from one of a few ports, between those of a good sender."""
    async with logging_to_memory(GROUP, **SETTINGS) as logger:
        source = UdpSource(UdpConfig(kind="udp", port=0), logger.intakes)
        hostile = iter(datagrams)
        received = 0
        for number, trigger in enumerate(GOOD_TRIGGERS):
            for port, data in hostile:
                source._take(memoryview(data), ("10.0.0.9", port))
                if port % 3 == 0:
                    break
            block = whole(GROUP, trigger)
            header = datagram_header(group="bpm", sequence=number, count=len(block), record_size=block.dtype.itemsize)
            source._take(memoryview(header + block.tobytes()), ("10.0.0.1", 5))
            received += len(block)
        await source.stop()
        await logger.drain()
        status = source.status()
        assert 0 <= status.lost_datagrams < 2**63
        assert len(status.refused) <= 6
        counts = logger.pipelines["bpm"].figures().assembled
        assert status.received == counts.received >= received
        assert counts.received == counts.accepted + counts.duplicate + _turned_away(counts)
        if status.received == received:
            await _intact(logger)


def datagrams_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Read datagrams: a byte for the port, two for the length, and the bytes."""
    at = 0
    while at + 2 < len(data):
        port, length = data[at], int.from_bytes(data[at + 1 : at + 3], "little")
        yield port, data[at + 3 : at + 3 + length]
        at += 3 + length


def run(session: Any) -> None:
    """Run a session in an event loop of its own; whatever the loop was told of as gone wrong is an error."""
    wrong: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        await session

    with np.errstate(all="raise", under="ignore"):
        asyncio.run(watched())
    assert not wrong, wrong
