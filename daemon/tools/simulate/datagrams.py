"""A sender with the interface of `Sender`, over UDP: without answers, acknowledgements and repeats."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

import numpy as np

from daemon.client.sender import SenderError
from schemas.checking.networks import host_and_port
from schemas.readings import Array, InstrumentGroup
from schemas.wire import datagram_header, records_a_datagram


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
