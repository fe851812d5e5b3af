"""The simulation as a client: connects by TCP or UDP, lets every group's stream run, and reports."""

import asyncio
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

import numpy as np

from daemon.client.sender import Sender, SenderError
from daemon.tools.simulate.plan import Numbering, SettingsError, SimulateSettings
from daemon.tools.simulate.report import SimulateReport
from daemon.tools.simulate.stream import GroupStream, Link
from schemas.checking.addresses import host_and_port
from schemas.readings import Array, InstrumentGroup
from schemas.wire import Answer, ProtocolError, datagram_header, records_a_datagram

CONNECTING_AT_ONCE = 64
"""Connections opened together: fewer than a listening socket usually keeps waiting."""

CONNECT_S = 20.0
"""Time for connecting and greeting: a daemon with a great load, ours or others', may take its time."""

STOP_PATIENCE_S = 5.0
"""Time for acknowledgements after Ctrl-C."""


AGAIN_S = 60.0
"""A problem that lasts is reported so often; the report at the end counts each."""


class DatagramSender:
    """Sends blocks of one group as numbered datagrams of at most `datagram_bytes`."""

    acknowledged = 0
    refused = 0
    reconnects = 0
    sent_again = 0

    def __init__(
        self,
        host: str,
        port: int,
        group: InstrumentGroup,
        *,
        datagram_bytes: int,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        self._group = group
        self._most = records_a_datagram(group.record.itemsize, datagram_bytes)
        if self._most < 1:
            raise SenderError(
                f"a record of {group.name} has {group.record.itemsize} bytes; give datagrams room for 48 more than that"
            )
        self._where = host_and_port(host, port)
        self._tell = on_problem
        self._sequence = 0
        self._pending: deque[bytes] = deque()
        self.sent = 0
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.connect(address)
        except UnicodeError:  # of the encoding of host names
            raise SenderError(f"{host!r} is neither an address nor a name; give the host of the daemon") from None
        except OSError as error:
            raise SenderError(f"cannot send datagrams to {self._where}: {error.strerror}; check the address") from None

    @property
    def free(self) -> bool:
        """Whether the kernel has taken everything."""
        return not self._pending

    def put(self, block: Array) -> None:
        """Send a block, shape (readings,), as far as the kernel takes it without waiting."""
        for first in range(0, len(block), self._most):
            part = np.ascontiguousarray(block[first : first + self._most])
            header = datagram_header(
                group=self._group.name, sequence=self._sequence, count=len(part), record_size=part.dtype.itemsize
            )
            self._sequence += 1
            self._post(header, part.view(np.uint8).data)
        self.sent += len(block)

    async def ready(self) -> None:
        """Wait until the kernel has taken everything handed over."""
        loop = asyncio.get_running_loop()
        while self._pending:
            try:
                await loop.sock_sendall(self._socket, self._pending[0])
            except ConnectionRefusedError:
                self._nobody_there()
                continue
            self._pending.popleft()

    async def finish(self, timeout_s: float | None = None) -> None:
        """Wait until the kernel has everything, at most `timeout_s` seconds, and close."""
        async with asyncio.timeout(timeout_s):
            await self.ready()
        await self.close()

    async def close(self) -> None:
        """Close at once."""
        self._socket.close()

    def _post(self, header: bytes, records: memoryview) -> None:
        if not self._pending:
            for _ in range(2):
                try:
                    self._socket.sendmsg([header, records])
                except BlockingIOError:
                    break
                except ConnectionRefusedError:
                    # The kernel tells of an earlier datagram; this one it has not sent.
                    self._nobody_there()
                    continue
                return
        self._pending.append(header + bytes(records))

    def _nobody_there(self) -> None:
        if self._tell is not None:
            self._tell(f"no program listens for datagrams at {self._where}; what was sent there is lost")


class Problems:
    """The problems of the connections; the same problem of 120 connections at once is one line."""

    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say
        self._times: Counter[str] = Counter()
        self._printed_at: dict[str, float] = {}

    def add(self, text: str) -> None:
        """Count a problem, and report it unless the same was reported within `AGAIN_S`."""
        self._times[text] += 1
        now = time.monotonic()
        if self._say is not None and now - self._printed_at.get(text, -AGAIN_S) >= AGAIN_S:
            self._printed_at[text] = now
            self._say(text)

    def lines(self) -> tuple[str, ...]:
        """All of them, each with how often."""
        return tuple(text if times == 1 else f"{text} ({times} times)" for text, times in self._times.items())


async def simulate(
    settings: SimulateSettings, *, stop: asyncio.Event | None = None, say: Callable[[str], None] | None = None
) -> SimulateReport:
    """Simulate the instruments of all groups in the settings until their end, or until `stop` is set.

    Args:
        settings: what to simulate, and where to send it.
        stop: ends it early and cleanly: nothing more is sent, what was sent is still waited for a little.
        say: called with one line when a connection is lost or restored.

    Returns:
        The report; an exact account file is written when the settings name one.

    Raises:
        SenderError: no daemon answers at the address.
        ProtocolError: the daemon refuses a group.
        SettingsError: an instrument is named that a group does not have.
        OSError: the account file cannot be written.
    """
    problems = Problems(say)
    stop = stop or asyncio.Event()
    links: list[Link] = []
    try:
        streams = [await _open(settings, name, number, links, problems) for number, name in enumerate(settings.groups)]
        await _send(streams, stop, problems)
        patience = min(STOP_PATIENCE_S, settings.finish_timeout_s) if stop.is_set() else settings.finish_timeout_s
        for error in await asyncio.gather(*(link.finish(patience) for link in links), return_exceptions=True):
            _note(error, problems)
    finally:
        await asyncio.gather(*(link.close() for link in links))
    report = SimulateReport(
        protocol=settings.protocol,
        groups=tuple(stream.report() for stream in streams),
        problems=problems.lines(),
        accounts={
            name: stream.account.rows(Numbering.of(settings))
            for name, stream in zip(settings.groups, streams, strict=True)
            if settings.account is not None
        },
    )
    if settings.account is not None:
        await asyncio.to_thread(report.save_account, settings.account)
    return report


def run_simulate(settings: SimulateSettings, *, say: Callable[[str], None] | None = None) -> SimulateReport:
    """Run `simulate` in an event loop of its own, ended cleanly by SIGINT (Ctrl-C) or SIGTERM. Raises as `simulate`."""
    return asyncio.run(_until_signalled(settings, say))


async def _until_signalled(settings: SimulateSettings, say: Callable[[str], None] | None) -> SimulateReport:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def asked() -> None:
        # The next signal ends the process at once, without waiting for acknowledgements.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    return await simulate(settings, stop=stop, say=say)


async def _open(
    settings: SimulateSettings, name: str, number: int, links: list[Link], problems: Problems
) -> GroupStream:
    mine: Sequence[Link]
    if settings.protocol == "udp":
        group = next(group for group in settings.layouts if group.name == name)
        layout = Answer(group=name, record=group.record, instruments=group.size)
        mine = [_datagrams(settings, group, problems) for _ in range(_how_many(settings, group.size))]
        links.extend(mine)
    else:
        first = await _connect(settings, name, 0, problems)
        links.append(first)
        layout = Answer(group=name, record=first.record, instruments=first.instruments)
        mine = [first, *await _connect_rest(settings, name, layout.instruments, links, problems)]
    if settings.instruments > layout.instruments:
        setting = settings.setting_of(settings.instruments - 1)
        raise SettingsError(setting, f"{name} has instruments 0 to {layout.instruments - 1}; give one of these")
    return GroupStream(settings, layout, mine, salt=number)


async def _connect_rest(
    settings: SimulateSettings, name: str, instruments: int, links: list[Link], problems: Problems
) -> list[Sender]:
    limit = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def one(number: int) -> Sender:
        async with limit:
            sender = await _connect(settings, name, number, problems)
            links.append(sender)
            return sender

    wanted = range(1, _how_many(settings, instruments))
    opened = await asyncio.gather(*(one(number) for number in wanted), return_exceptions=True)
    for error in opened:
        if isinstance(error, BaseException):
            raise error
    return [sender for sender in opened if isinstance(sender, Sender)]


async def _connect(settings: SimulateSettings, name: str, number: int, problems: Problems) -> Sender:
    share = settings.buffer_mib if settings.connections == 1 else max(settings.buffer_mib / 16, 0.25)
    return await Sender.connect(
        settings.host,
        settings.port,
        name,
        sender=f"{settings.sender}-{number}",
        ack=settings.ack,
        reconnect=settings.sessions,
        buffer_mib=share,
        timeout_s=CONNECT_S,
        on_problem=problems.add,
        tls=settings.tls,
    )


def _datagrams(settings: SimulateSettings, group: InstrumentGroup, problems: Problems) -> DatagramSender:
    return DatagramSender(
        settings.host,
        settings.port,
        group,
        datagram_bytes=settings.datagram_bytes,
        on_problem=problems.add,
    )


def _how_many(settings: SimulateSettings, instruments: int) -> int:
    return instruments if settings.connections == "each" else min(int(settings.connections), instruments)


async def _send(streams: Sequence[GroupStream], stop: asyncio.Event, problems: Problems) -> None:
    begun, begun_ns = asyncio.get_running_loop().time(), time.time_ns()
    sending = [asyncio.create_task(stream.run(begun, begun_ns)) for stream in streams]
    stopped = asyncio.create_task(stop.wait())
    try:
        done = asyncio.ensure_future(asyncio.wait(sending))
        await asyncio.wait((done, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*sending, stopped):
            task.cancel()
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
    for error in outcomes:
        _note(error, problems)


def _note(error: object, problems: Problems) -> None:
    """Record the error of a connection; any other error is a defect of the program and is raised."""
    if isinstance(error, SenderError | ProtocolError | TimeoutError):
        problems.add(str(error))
    elif isinstance(error, Exception):
        raise error
