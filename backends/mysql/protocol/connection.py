"""A connection that also speaks the binary protocol: values as the bytes they are, no text, no object a reading.

What the driver lacks is here: prepared statements (https://mariadb.com/kb/en/3-binary-protocol-prepared-statements/),
MariaDB's COM_STMT_BULK_EXECUTE, which takes as many rows as a packet holds, and result sets left as bytes. Commands may
be sent ahead of their answers, which come in the same order.

Packets of a result set are found in the bytes as they come, without an object a packet where they are alike.
"""

import asyncio
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NamedTuple

import aiomysql
import numpy as np
from aiomysql.connection import MAX_PACKET_LEN, MysqlPacket
from pymysql.constants import CLIENT, COMMAND
from pymysql.err import MySQLError, OperationalError
from pymysql.protocol import OKPacketWrapper

from backends.sql.connection import keep_alive
from schemas.readings import Array

HEADER = 4
"""Bytes before each packet: its length (3, little-endian) and a number."""
LONGEST = 0xFF_FF_FF
"""A longer row comes in several packets, and is not read here: no table of this store has such rows."""
END, ERROR = 0xFE, 0xFF
END_BELOW = 9
"""A packet that begins with END and is shorter than this ends the rows."""


class PacketRun(NamedTuple):
    """Packets of one length that follow each other."""

    start: int
    packets: int
    stride: int


class TooLong(ValueError):
    """A row does not fit a packet."""


class Packets:
    """Collects packets until one ends them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.stretches: list[PacketRun] = []
        self.ended = False
        self.error: bytes | None = None
        self._at = 0

    def __len__(self) -> int:
        return sum(stretch.packets for stretch in self.stretches)

    @property
    def nbytes(self) -> int:
        """How many bytes of whole packets there are, headers included."""
        return self._at

    def feed(self, chunk: bytes) -> None:
        """Take more bytes."""
        self.data += chunk
        while not self.ended and self._step():
            pass

    def rest(self) -> bytes:
        """What came after the end."""
        return bytes(self.data[self._at :])

    def of(self, stretch: PacketRun) -> Array:
        """View the packets of a stretch with their headers; uint8, shape (count, stride)."""
        size = stretch.packets * stretch.stride
        return np.frombuffer(self.data, np.uint8, size, stretch.start).reshape(stretch.packets, stretch.stride)

    def _step(self) -> bool:
        at, data = self._at, self.data
        if len(data) - at <= HEADER:
            return False
        length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        if length == LONGEST:
            raise TooLong(f"a row takes {LONGEST} bytes or more")
        stride = HEADER + length
        if len(data) - at < stride:
            return False
        first = data[at + HEADER]
        if first == ERROR or (first == END and length < END_BELOW):
            self.ended = True
            self.error = bytes(data[at + HEADER : at + stride]) if first == ERROR else None
            self._at += stride
            return False
        self._take(stride)
        return True

    def _take(self, stride: int) -> None:
        """Take a packet, and those like it behind it where the one before was like it too."""
        last = self.stretches[-1] if self.stretches else None
        if last is None or last.stride != stride:
            self.stretches.append(PacketRun(self._at, 1, stride))
            self._at += stride
            return
        count = self._alike(stride)
        self.stretches[-1] = last._replace(packets=last.packets + count)
        self._at += count * stride

    def _alike(self, stride: int) -> int:
        """How many packets from here on have the length and the first byte of the one here."""
        count = (len(self.data) - self._at) // stride
        packets = np.frombuffer(self.data, np.uint8, count * stride, self._at).reshape(count, stride)
        alike = (packets[:, [0, 1, 2, HEADER]] == packets[0, [0, 1, 2, HEADER]]).all(axis=1)
        return count if alike.all() else int(alike.argmin())


STMT_BULK_EXECUTE = 0xFA
SEND_TYPES = 128
READ_BYTES = 1 << 20
CLOSE_S = 2.0
TOGETHER_BYTES = 64 * 1024
"""Most that waits to be sent with what follows it."""

EXTENDED_BULK = 1 << 2
"""MARIADB_CLIENT_STMT_BULK_OPERATIONS, in the upper 32 bits of the capabilities (1 << 34 of the whole)."""
SSL_REQUEST = 32
"""Bytes of what asks for TLS: the beginning of the handshake response."""
LONG_PASSWORD = 1
"""A server or a client that clears this bit is MariaDB's, and has extended capabilities."""
EXTENDED_AT = slice(28, 32)
"""Where the handshake response has the extended capabilities: the end of what MySQL fills with zeros."""

Parts = bytes | memoryview


class Connection(aiomysql.Connection):  # type: ignore[misc]
    """A connection to MariaDB or MySQL; at most one caller at a time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._greeting: bytes | None = None
        self._announcing = False
        self._ahead = b""
        """What came with the end of a result set and belongs to what follows."""
        self._waiting: list[Parts] = []
        self._waiting_bytes = 0
        self.bulk = False
        """Whether COM_STMT_BULK_EXECUTE may be sent."""
        self.max_packet = 1 << 20
        """Most bytes the server takes as one command (max_allowed_packet); set by who connects."""

    @property
    def version(self) -> str:
        """What the server greets with."""
        return str(self.server_version)

    @property
    def closed(self) -> bool:
        """Whether it is closed, by either side as far as known."""
        return self._writer is None or bool(self._reader.at_eof()) or self._reader.exception() is not None

    def keep_alive(self, timeout_s: float) -> None:
        """Have the kernel notice that the server has vanished."""
        keep_alive(self._writer.transport.get_extra_info("socket"), timeout_s)

    # --- commands -----------------------------------------------------------------------------------------------

    async def send(self, command: int, *parts: Parts) -> None:
        """Send a command; every one sent has to be followed by one `answer`, which may come after more commands.

        Little ones wait for each other, so that they leave together.
        """
        self._ensure_alive()
        length = 1 + sum(len(part) for part in parts)
        if length < MAX_PACKET_LEN:
            self._waiting += [struct.pack("<iB", length, command), *parts]
        else:
            await self._flush()
            await self._execute_command(command, b"".join(parts))
        self._waiting_bytes += length
        if self._waiting_bytes > TOGETHER_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        if self._waiting_bytes:
            self._writer.writelines(self._waiting)
            self._waiting, self._waiting_bytes = [], 0
            await self._writer.drain()

    async def answer(self) -> int:
        """Wait for what a command without a result set gives: the rows that it, or its last statement, changed."""
        self._next_seq_id = 1
        while True:
            packet = await self._read_packet()
            if not packet.is_ok_packet():
                raise OperationalError(2014, "the server answers with rows to a command that has none")
            done = OKPacketWrapper(packet)
            if not done.has_next:
                return int(done.affected_rows)

    async def _execute_command(self, command: int, sql: Parts | str) -> None:
        await self._flush()
        await super()._execute_command(command, sql)

    async def send_text(self, text: str) -> None:
        """Send statements that give no rows, several at once if need be."""
        await self.send(COMMAND.COM_QUERY, text.encode())

    async def run(self, text: str) -> int:
        """Run statements that give no rows, several at once if need be; how many rows the last one changed."""
        await self.send_text(text)
        return await self.answer()

    async def fetch(self, text: str) -> list[tuple[Any, ...]]:
        """Run a query whose few rows come as Python objects."""
        await self.query(text)
        return list(self._result.rows or ())

    async def prepare(self, text: str) -> int:
        """Prepare a statement; its number on this connection."""
        await self.send(COMMAND.COM_STMT_PREPARE, text.encode())
        self._next_seq_id = 1
        packet = await self._read_packet()
        statement, columns, parameters = struct.unpack_from("<IHH", packet.get_all_data(), 1)
        for described in (parameters, columns):
            if described:
                await self._packets()
        return int(statement)

    async def send_bulk(self, statement: int, types: bytes, rows: memoryview) -> None:
        """Execute a prepared statement once for each row; rows are indicators and values, one after the other."""
        await self.send(STMT_BULK_EXECUTE, struct.pack("<IH", statement, SEND_TYPES) + types, rows)

    async def send_execute(self, statement: int, types: bytes, nulls: bytes, values: memoryview) -> None:
        """Execute a prepared statement once."""
        head = struct.pack("<IBI", statement, 0, 1) + nulls + b"\1" + types
        await self.send(COMMAND.COM_STMT_EXECUTE, head, values)

    async def select(self, text: str, into: Packets | None = None) -> Packets:
        """Run a query; its rows stay the bytes of the binary protocol. into: collects them, where it is given."""
        statement = await self._execute(text)
        rows = await self._packets(into=into)
        await self._forget(statement)
        return rows

    async def chunks(self, text: str, chunk_bytes: int) -> AsyncGenerator[Packets, None]:
        """Run a query whose rows come in chunks of about so many bytes, so that they never lie in memory all at once.

        What is left unread ends the connection.
        """
        statement = await self._execute(text)
        ended = False
        try:
            while not ended:
                packets = await self._packets(chunk_bytes)
                ended = packets.ended
                yield packets
        finally:
            if not ended:
                self.terminate()
        await self._forget(statement)

    async def _execute(self, text: str) -> int:
        """Run a query up to its rows; the number of its statement."""
        statement = await self.prepare(text)
        await self.send(COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1))
        self._next_seq_id = 1
        await self._read_packet()  # how many columns
        await self._packets()  # what they are
        return statement

    async def _forget(self, statement: int) -> None:
        await self.send(COMMAND.COM_STMT_CLOSE, struct.pack("<I", statement))  # has no answer

    async def ensure_closed(self) -> None:
        """Take leave of the server, and wait until the connection has gone; who waits no longer ends it."""
        writer = self._writer
        await super().ensure_closed()
        if writer is not None:
            # Over TLS each side takes leave of the other. The driver does not wait for the server's, and a loop that
            # ends first leaves the socket open.
            try:
                with suppress(ConnectionError):  # a server that has gone, and takes no leave
                    await writer.wait_closed()
            except BaseException:
                writer.transport.abort()
                raise

    def terminate(self) -> None:
        """End the connection now, whatever is under way; the server rolls back what was not committed."""
        if self._writer is not None:
            self._writer.transport.abort()
        self.close()

    async def _packets(self, chunk_bytes: int | None = None, into: Packets | None = None) -> Packets:
        """Read packets up to the one that ends them, or until there are so many bytes of them."""
        await self._flush()
        packets = Packets() if into is None else into
        packets.feed(self._ahead)
        while not packets.ended and (chunk_bytes is None or packets.nbytes < chunk_bytes):
            chunk = await self._reader.read(READ_BYTES)
            if not chunk:
                self.close()
                raise OperationalError(2013, "Lost connection to MySQL server during query")
            packets.feed(chunk)
        self._ahead = packets.rest()
        if packets.error is not None:
            MysqlPacket(packets.error, self._encoding).raise_for_error()
        return packets

    async def _read_bytes(self, num_bytes: int) -> bytes:
        await self._flush()
        ahead, self._ahead = self._ahead[:num_bytes], self._ahead[num_bytes:]
        if len(ahead) == num_bytes:
            return ahead
        return ahead + bytes(await super()._read_bytes(num_bytes - len(ahead)))

    # --- the handshake ------------------------------------------------------------------------------------------

    async def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        packet = await super()._read_packet(packet_type)
        if self._greeting is None:
            self._greeting = packet.get_all_data()
        return packet

    async def _request_authentication(self) -> None:
        assert self._greeting is not None
        if self._ssl_context is not None and not self.server_capabilities & CLIENT.SSL:
            # The driver would go on without, and send the password to whoever took the server's place.
            raise OperationalError(2026, "the server offers no TLS; turn it on there, or take ssl... out of `dsn`")
        self._announcing = self.bulk = bool(_extended_capabilities(self._greeting) & EXTENDED_BULK)
        await super()._request_authentication()

    def write_packet(self, payload: bytes) -> None:
        """Write a packet; the response to the server's greeting says what this client knows of MariaDB."""
        if self._announcing:
            # With TLS its first part goes ahead alone, to ask for it, and again with the rest.
            self._announcing = len(payload) == SSL_REQUEST
            response = bytearray(payload)
            response[0] &= ~LONG_PASSWORD & 0xFF
            response[EXTENDED_AT] = struct.pack("<I", EXTENDED_BULK)
            payload = bytes(response)
        super().write_packet(payload)


async def give_back(connection: Connection) -> None:
    """Close a connection in order, or at once where the server does not answer."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await connection.ensure_closed()
    except (OSError, TimeoutError, MySQLError):
        connection.terminate()


def _extended_capabilities(greeting: bytes) -> int:
    """What a MariaDB server can beyond MySQL: the last 4 of the 10 bytes that MySQL leaves empty; 0 in MySQL."""
    # Protocol version, version text, thread, salt (8), filler; then lower capabilities, charset, status, upper
    # capabilities, salt length, reserved (6), extended capabilities.
    at = greeting.index(0, 1) + 1 + 4 + 8 + 1
    if len(greeting) < at + 18 or greeting[at] & LONG_PASSWORD:
        return 0
    extended: int = struct.unpack_from("<I", greeting, at + 14)[0]
    return extended
