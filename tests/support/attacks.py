"""What hostile and broken senders do to a daemon, each until it is told to stop. Real sockets, in a thread."""

import os
import random
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np

from schemas.readings import Array, InstrumentGroup
from schemas.wire import DATAGRAM_MAX, RECORD_NUMBER_MAX, datagram_header

GREETING = b"TRIGGERLOG/1 group=%s ack=%s\n"
HELD = 600
"""Connections that an attack holds at once: more than `max_ungreeted` of the daemon under attack."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The daemon under attack; `trigger` is the first of those that the good senders send now."""

    tcp: int
    udp: int
    group: InstrumentGroup
    trigger: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.tcp), timeout=5)

    def greeted(self, ack: bytes = b"none") -> socket.socket:
        sock = self.connect()
        try:
            sock.sendall(GREETING % (self.group.name.encode(), ack))
        except OSError:
            sock.close()
            raise
        return sock

    def block(self, triggers: Array, instruments: Array) -> Array:
        block = np.zeros(len(triggers), self.group.record)
        block["trigger"], block["instrument"] = triggers, instruments
        block["time_ns"] = 1_700_000_000_000_000_000 + np.asarray(triggers) * 10_000_000
        return block


class Holding:
    """Sockets kept open, the newest so many of them, until the end of the block."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sockets: deque[socket.socket] = deque()

    def add(self, sock: socket.socket) -> None:
        self.sockets.append(sock)
        if len(self.sockets) > self.most:
            self.sockets.popleft().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.sockets:
            sock.close()


Attack = Callable[[Target, threading.Event], None]


def say_nothing(target: Target, stop: threading.Event) -> None:
    """Half-open: connect, say nothing, and hold what is held."""
    with Holding(HELD) as held:
        while not stop.is_set():
            with suppress(OSError):
                held.add(target.connect())


def greet_byte_by_byte(target: Target, stop: threading.Event) -> None:
    """A greeting that never ends, a byte at a time on each of many connections."""
    with Holding(200) as held:
        while not stop.is_set():
            with suppress(OSError):
                held.add(target.connect())
            for sock in held.sockets:
                with suppress(OSError):
                    sock.send(b"T")


def say_garbage(target: Target, stop: threading.Event) -> None:
    """Garbage for a greeting, and garbage for records."""
    dice = random.Random(7)
    while not stop.is_set():
        with suppress(OSError), target.connect() as sock:
            sock.sendall(dice.randbytes(dice.randrange(1, 5000)))
        with suppress(OSError), target.greeted(dice.choice([b"none", b"committed"])) as sock:
            sock.sendall(_harmless(dice.randbytes(60_000), target))


def one_giant_line(target: Target, stop: threading.Event) -> None:
    """A frame without end."""
    line = b"TRIGGERLOG/1 group=" + b"x" * (1 << 20)
    while not stop.is_set():
        with suppress(OSError), target.connect() as sock:
            while not stop.is_set():
                sock.sendall(line)


def never_read(target: Target, stop: threading.Event) -> None:
    """Ask for acknowledgements and never read one."""
    unknown = target.block(np.full(64, target.trigger), np.full(64, 1 << 20)).tobytes()
    with Holding(50) as held:
        for _ in range(50):
            held.add(target.greeted(b"committed"))
        while not stop.wait(0.01):
            for sock in held.sockets:
                with suppress(OSError):
                    sock.send(unknown)


def come_and_go(target: Target, stop: threading.Event) -> None:
    """Connect, greet, leave, in every way, as fast as may be."""
    stray = target.block(np.array([1 << 40]), np.array([3])).tobytes()
    while not stop.is_set():
        with suppress(OSError), target.greeted(b"committed") as sock:
            sock.send(stray)
        with suppress(OSError), target.greeted() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves with a reset
        with suppress(OSError), target.connect():
            pass


def open_sessions(target: Target, stop: threading.Event) -> None:
    """A new session with each connection, with any numbers, left at once or in the middle of a record."""
    numbers = random.Random(6)
    greeting = b"TRIGGERLOG/1 group=%s sender=bad session=%d first=%d ack=committed\n"
    refused = target.block(np.array([1]), np.array([4_000_000_000])).tobytes()
    while not stop.is_set():
        first = numbers.choice([0, numbers.getrandbits(40), RECORD_NUMBER_MAX])
        with suppress(OSError), target.connect() as sock:
            sock.sendall(greeting % (target.group.name.encode(), numbers.getrandbits(63), first))
            sock.sendall(numbers.choice([b"", refused, refused + refused[:9]]))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", numbers.getrandbits(1), 0))


def flood_with_doubles(target: Target, stop: threading.Event) -> None:
    """Readings of the past, over and over, at full speed, on several connections."""
    size = target.group.size
    triggers = np.repeat(np.arange(max(1, target.trigger - 100), target.trigger), size)
    _flood(target, stop, target.block(triggers, np.tile(np.arange(size), len(triggers) // size)))


def flood_with_refused(target: Target, stop: threading.Event) -> None:
    """Unknown instruments, and far triggers of one instrument, at full speed."""
    triggers = np.where(np.arange(4000) % 2, target.trigger, 1 << 50)
    _flood(target, stop, target.block(triggers, np.where(np.arange(4000) % 2, 4_000_000_000, 5)))


def flood_with_new_triggers(target: Target, stop: threading.Event) -> None:
    """One instrument alone, far ahead of the others, so that thousands of triggers open, and others close early."""
    triggers = np.arange(target.trigger + 1000, target.trigger + 11_000)
    # Round and round: from the second time on they are doubles of 10,000 closed triggers.
    _flood(target, stop, target.block(triggers, np.full(len(triggers), target.group.size - 1)))


def flood_with_datagrams(target: Target, stop: threading.Event) -> None:
    """Garbage, wrong groups and sizes, forged numbers, from many ports."""
    dice = random.Random(11)
    record = target.group.record.itemsize
    refused = target.block(np.array([1 << 50]), np.array([5])).tobytes()
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
    while not stop.is_set():
        for sock in sockets:
            header = datagram_header(
                group=dice.choice([target.group.name, "unknown"]),
                sequence=dice.choice([0, 1, 2**63, 2**64 - 1]),
                count=1,
                record_size=dice.choice([record, record + 8]),
            )
            for data in (header + refused, header, os.urandom(200), b"", bytes(DATAGRAM_MAX)):
                with suppress(OSError):
                    sock.sendto(data, ("127.0.0.1", target.udp))
    for sock in sockets:
        sock.close()


def _flood(target: Target, stop: threading.Event, block: Array) -> None:
    data = block.tobytes()

    def one() -> None:
        with suppress(OSError), target.greeted() as sock:
            while not stop.is_set():
                sock.sendall(data)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _harmless(data: bytes, target: Target) -> bytes:
    """Garbage whose instruments are unknown: with others it could be a reading, and spoil a good one's place."""
    size = target.group.record.itemsize
    block = np.frombuffer(data[: len(data) // size * size], target.group.record).copy()
    block["instrument"] |= 1 << 31
    return block.tobytes() + data[:5]


ATTACKS: tuple[Attack, ...] = (
    say_nothing,
    greet_byte_by_byte,
    say_garbage,
    one_giant_line,
    never_read,
    come_and_go,
    open_sessions,
    flood_with_doubles,
    flood_with_refused,
    flood_with_datagrams,
    flood_with_new_triggers,
)
