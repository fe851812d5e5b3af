"""A hostile process: what a seed draws, over TCP, UDP, HTTP and WebSocket, but no reading of an honest instrument."""

import json
import random
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import numpy as np

from schemas.config import parse_config
from schemas.wire import DATAGRAM_MAX, RECORD_NUMBER_MAX, Ack, Greeting, ProtocolError, datagram_header

INSTRUMENTS, HONEST = 6, 4
"""Instruments of the group, and those of the honest sender, the first; the others are anybody's."""
TIMEOUT_S = 0.5
"""The time-out of a trigger."""
STEP_S = 0.1
"""A step comes after this time in the mean."""
HELD = 30
"""So many sockets are kept open."""

CONFIG = f"""
[[groups]]
name = "bpm"
count = {INSTRUMENTS}
channels = [{{ name = "x" }}, {{ name = "y" }}]

[[groups]]
name = "toroid"
count = 2
channels = [{{ name = "charge" }}]

[[sources]]
kind = "tcp"
port = 0

[[sources]]
kind = "udp"
port = 0

[assembly]
timeout_ms = {TIMEOUT_S * 1000}

[database]
dsn = "{{dsn}}"

[api]
port = 0
"""
GROUPS = {section.name: section.group() for section in parse_config(CONFIG.replace("{dsn}", "postgresql:///x")).groups}
BPM = GROUPS["bpm"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the daemon listens, and what the honest sender sends at the moment."""

    tcp: int
    udp: int
    api: int
    requests: tuple[tuple[str, str], ...]  # method and path of every route
    epoch: "Synchronized[int]"
    trigger: "Synchronized[int]"


class Hostile:
    """One hostile process: steps drawn from a seed, and sockets that it holds."""

    def __init__(self, target: Target, rng: random.Random, address: str, found: "Queue[str]") -> None:
        self.target = target
        self.rng = rng
        self.address = address
        self.found = found
        self.held: deque[socket.socket] = deque()

    def step(self) -> None:
        kinds = (
            self.garbage,
            self.readings,
            self.readings,
            self.readings,
            self.datagrams,
            self.request,
            self.websocket,
        )
        step = self.rng.choice(kinds)
        with suppress(OSError):  # the daemon closes on who breaks the protocol, and refuses who is too many
            step()

    def odd(self, near: int, least: int, most: int) -> int:
        """Draw a number of a field, near what is used now as often as not."""
        rng = self.rng
        others = (0, 1, least, most, rng.randint(least, most), near + 10**6, near)
        return min(most, max(least, near + rng.randint(-60, 60) if rng.random() < 0.5 else rng.choice(others)))

    def block(self, group: str) -> bytes:
        """Make readings of instruments that are not the honest sender's, a part of them of an ordinary sender."""
        rng, target = self.rng, self.target
        count = rng.randint(1, 200)
        block = np.zeros(count, GROUPS[group].record)
        if rng.random() < 0.5:
            block["trigger"] = np.int64(self.odd(target.trigger.value, 0, 2**62)) + np.arange(count)
            block["epoch"] = self.odd(target.epoch.value, 0, 2**32 - 1)
            block["instrument"] = rng.randint(HONEST, INSTRUMENTS)
            block["time_ns"] = time.time_ns() + rng.choice((0, 0, -(10**9), 10**9, 86_400 * 10**9))
        else:
            now_ns = time.time_ns()
            for name, near, least, most in (
                ("trigger", target.trigger.value, -(2**63), 2**63 - 1),
                ("epoch", target.epoch.value, 0, 2**32 - 1),
                ("time_ns", now_ns, -(2**63), 2**63 - 1),
                ("instrument", HONEST, 0, 2**32 - 1),
            ):
                block[name] = [self.odd(near, least, most) for _ in range(count)]
        data = bytearray(block.tobytes())
        if rng.random() < 0.3:
            for _ in range(rng.randint(1, 20)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        if group == BPM.name:
            tamed = np.frombuffer(data, BPM.record)
            tamed["instrument"][tamed["instrument"] < HONEST] += HONEST
        return bytes(data)

    def mutated(self, data: bytes) -> bytes:
        """Change, take out, double or cut off some bytes."""
        rng, made = self.rng, bytearray(data)
        for _ in range(rng.randint(0, 4)):
            at = rng.randrange(len(made) + 1)
            match rng.randrange(4):
                case 0:
                    made[at : at + 1] = rng.randbytes(1)
                case 1:
                    del made[at : at + rng.randint(1, 8)]
                case 2:
                    made[at:at] = made[at : at + rng.randint(1, 64)]
                case 3:
                    made[at:] = b""
        return bytes(made)

    def connect(self, port: int) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", port), timeout=5, source_address=(self.address, 0))
        self.held.append(sock)
        if len(self.held) > HELD:
            self.leave(self.held.popleft())
        return sock

    def leave(self, sock: socket.socket) -> None:
        """Close, in order or with a reset."""
        with suppress(OSError):
            if self.rng.random() < 0.3:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def drop(self, sock: socket.socket) -> None:
        if self.rng.random() < 0.8:
            self.held.remove(sock)
            self.leave(sock)

    # --- steps ---

    def garbage(self) -> None:
        """Send a greeting with some bytes changed, or no greeting at all; nothing that could be a reading follows."""
        sock = self.connect(self.target.tcp)
        data = self.mutated(self.greeting("toroid").removesuffix(b"\n"))
        sock.sendall(data if self.rng.random() < 0.7 else self.rng.randbytes(self.rng.randint(1, 2000)))
        self.drop(sock)

    def greeting(self, group: str) -> bytes:
        rng = self.rng
        session = rng.choice((None, rng.getrandbits(63), rng.randrange(4)))
        first = 0 if session is None else rng.choice((0, 0, 0, rng.getrandbits(20), RECORD_NUMBER_MAX))
        try:
            return Greeting(
                group=group,
                sender=rng.choice(("bad", "worse", "honest")) if session is not None or rng.random() < 0.5 else None,
                session=session,
                first=first,
                ack=rng.choice(list(Ack)),
            ).line()
        except ProtocolError:
            return f"TRIGGERLOG/1 group={group} session={session} first={first}\n".encode()

    def readings(self) -> None:
        """Send readings in parts, and leave, perhaps in the middle of a record."""
        rng = self.rng
        group = rng.choice(("bpm", "bpm", "toroid"))
        sock = self.connect(self.target.tcp)
        sock.sendall(self.greeting(group))
        data = b"".join(self.block(group) for _ in range(rng.randint(1, 3)))
        if is_cut := rng.random() < 0.3:
            data = data[: rng.randrange(len(data))]
        at = 0
        while at < len(data):
            size = rng.choice((7, 64, 4096, 65_536))
            sock.sendall(data[at : at + size * 40])
            at += size * 40
        if rng.random() < 0.1:
            sock.sendall(b"goodbye\n")
        if is_cut:
            self.held.remove(sock)
            self.leave(sock)
        else:
            self.drop(sock)

    def datagrams(self) -> None:
        """Send datagrams with readings, and some with a header that does not fit."""
        rng = self.rng
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((self.address, 0))
            for _ in range(rng.randint(1, 10)):
                group = rng.choice(("bpm", "toroid"))
                records = self.block(group)
                size = GROUPS[group].record.itemsize
                header = datagram_header(
                    group=group,
                    sequence=rng.choice((0, 1, rng.getrandbits(64))),
                    count=len(records) // size,
                    record_size=size,
                )
                if rng.random() < 0.4:  # of the other group alone: records that are read elsewhere would be anybody's
                    header, records = (
                        self.mutated(header),
                        rng.randbytes(rng.randint(0, 100)) if group == "bpm" else records,
                    )
                    header = header.replace(b"bpm", b"bpn")
                sock.sendto((header + records)[:DATAGRAM_MAX], ("127.0.0.1", self.target.udp))

    def request(self) -> None:
        """Send requests without a token, changed, cut or never ended, and see that none is an error of the daemon."""
        rng = self.rng
        method, path = rng.choice(self.target.requests)
        if rng.random() < 0.3:
            method, path = "POST", f"/api/v1/run?epoch={self.odd(self.target.epoch.value, -1, 2**33)}"
        for name in ("{group}", "{name}", "{id}", "{trigger}", "{instrument}"):
            path = path.replace(name, rng.choice(("bpm", "toroid", "0", "-1", "%00", "x" * 300, str(2**70))))
        body = rng.choice(
            (b"", b"{}", b"[]", b"null", b'{"a":', rng.randbytes(200), json.dumps({"epoch": "x"}).encode())
        )
        length = rng.choice((len(body), len(body) + 5, 0, -1, 10**12))
        more = rng.choice(
            ("", "Authorization: Bearer wrong\r\n", "Expect: 100-continue\r\n", "Transfer-Encoding: chunked\r\n")
        )
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.target.api}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n{more}\r\n"
        )
        sock = self.connect(self.target.api)
        data = head.encode() + body
        is_half = rng.random() < 0.3
        sock.sendall(
            data[: rng.randrange(len(data))] if is_half else self.mutated(data) if rng.random() < 0.3 else data
        )
        if not is_half and rng.random() < 0.7:
            sock.settimeout(0.5)
            with suppress(TimeoutError):
                said = sock.recv(4096)
                if said.startswith(b"HTTP/1.1 500"):
                    self.found.put(f"{data[:300]!r} was answered with {said[:500]!r}")
        self.drop(sock)

    def websocket(self) -> None:
        """Open the stream of the status, or nearly, and send frames that nobody expects."""
        rng = self.rng
        head = (
            f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{self.target.api}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            f"{rng.choice(('', 'Origin: http://evil.example' + chr(13) + chr(10)))}\r\n"
        ).encode()
        sock = self.connect(self.target.api)
        sock.sendall(head if rng.random() < 0.7 else self.mutated(head))
        for _ in range(rng.randint(0, 3)):
            frame = bytes((rng.choice((0x81, 0x82, 0x88, 0x89, 0x01, rng.randrange(256))), rng.randrange(256)))
            sock.sendall(frame + rng.randbytes(rng.randint(0, 200)))
        self.drop(sock)


def attack(number: int, seed: int, target: Target, stop: Any, steps: "Synchronized[int]", found: "Queue[str]") -> None:
    """Do steps until `stop` is set: a process."""
    hostile = Hostile(target, random.Random(f"{seed}-{number}"), f"127.0.0.{2 + number}", found)
    while not stop.wait(hostile.rng.expovariate(1 / STEP_S)):
        hostile.step()
        with steps.get_lock():
            steps.value += 1
