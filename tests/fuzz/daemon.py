"""Fuzz a daemon in a process of its own, over TCP, UDP, HTTP and WebSocket, with an honest sender beside it.

The honest sender owns most instruments of a group, and has an epoch and a session. Hostile processes do what a seed
says, each from an address of its own. They may send anything but readings of the honest instruments: the protocol knows
no rights of instruments. Every honest reading has to be acknowledged in time, and to be in the database once, as sent.
"""

import asyncio
import json
import multiprocessing
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import numpy as np
import psutil

from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.client.sender import Sender, SenderError
from schemas.config import parse_config
from schemas.readings import Array
from schemas.wire import DATAGRAM_MAX, RECORD_NUMBER_MAX, Greeting, ProtocolError, datagram_header
from tests.support.processes import Running, running
from tests.support.servers import server_folder

INSTRUMENTS, HONEST = 6, 4
"""Instruments of the group, and those of the honest sender, the first; the others are anybody's."""
TIMEOUT_S = 0.5
WITHIN_S = TIMEOUT_S + 5.0
"""The time-out of a trigger, and within what time a reading has to be acknowledged unless asked otherwise."""
PERIOD_S = 0.02
EPOCH_S = 12.0
"""The honest sender restarts its timing system after this time, and begins a new session every second time."""
GROWTH_MIB = 400.0
"""Held for the store: 256 MiB at most; kernel and allocator add some."""
LINES_A_SECOND = 10.0
HELD = 30
HOSTILE_PROCESSES = 2

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


@dataclass(kw_only=True)
class Result:
    """within_s: for an acknowledgement. steps: of hostile processes. readings, slowest_s: of the honest sender."""

    seed: int
    within_s: float = WITHIN_S
    seconds: float = 0.0
    steps: int = 0
    readings: int = 0
    slowest_s: float = 0.0
    growth_mib: float = 0.0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.seconds:.0f} s, {self.steps:,} hostile steps, {self.readings:,} honest readings, "
            f"slowest acknowledgement {self.slowest_s:.2f} s, memory {self.growth_mib:+.0f} MiB, "
            f"{len(self.findings)} findings"
        )


# --- hostile ------------------------------------------------------------------------------------------------------


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
                ack=rng.choice(list(type(Greeting(group=group).ack))),
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
    while not stop.wait(hostile.rng.expovariate(1 / PERIOD_S)):
        hostile.step()
        with steps.get_lock():
            steps.value += 1


@contextmanager
def attacked(target: Target, result: Result, context: Any) -> Iterator[None]:
    """Let the hostile processes run during the block."""
    stop, steps, found = context.Event(), context.Value("q", 0), context.Queue()
    processes = [
        context.Process(target=attack, args=(number, result.seed, target, stop, steps, found), daemon=True)
        for number in range(HOSTILE_PROCESSES)
    ]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        stop.set()
        while not found.empty():
            result.findings.append(found.get())
        for process in processes:
            process.join(60)
            if process.exitcode:
                result.findings.append(f"a hostile process ended with {process.exitcode}: a defect of the fuzzer")
        result.steps = steps.value


# --- honest -------------------------------------------------------------------------------------------------------


class HonestSender:
    """Sends a trigger every PERIOD_S, and notes when each reading is acknowledged."""

    def __init__(self, port: int, target: Target, result: Result, rng: random.Random) -> None:
        self._port = port
        self._target = target
        self._result = result
        self._rng = rng
        self.sent: list[Array] = []
        self.has_begun = asyncio.Event()  # its first run: before, whoever comes first says where that is

    async def run(self, goes_on: Callable[[], bool]) -> None:
        """Send while `goes_on`, an epoch after the other, and wait for the last acknowledgement."""
        epoch = 0
        while goes_on():
            async with await self._connected() as sender:
                for _ in range(2):
                    epoch += 1
                    await self._send_epoch(sender, epoch, goes_on)

    async def _connected(self) -> Sender:
        return await Sender.connect(
            "127.0.0.1",
            self._port,
            "bpm",
            sender="honest",
            reconnect=True,
            timeout_s=self._result.within_s,
            rng=self._rng,
        )

    async def _send_epoch(self, sender: Sender, epoch: int, goes_on: Callable[[], bool]) -> None:
        waiting: deque[tuple[int, float]] = deque()
        began, trigger = time.monotonic(), 0
        while waiting or (goes_on() and time.monotonic() < began + EPOCH_S):
            if goes_on() and time.monotonic() < began + EPOCH_S:
                trigger += 1
                block = self._block(epoch, trigger)
                await sender.send(block)
                self.sent.append(block)
                waiting.append((sender.sent, time.monotonic()))
                self._target.epoch.value, self._target.trigger.value = epoch, trigger
            await asyncio.sleep(PERIOD_S)
            self._look(sender, waiting, epoch)

    def _look(self, sender: Sender, waiting: deque[tuple[int, float]], epoch: int) -> None:
        now = time.monotonic()
        while waiting and waiting[0][0] <= sender.acknowledged:
            self._result.slowest_s = max(self._result.slowest_s, now - waiting.popleft()[1])
            self.has_begun.set()
        if waiting and now - waiting[0][1] > self._result.within_s:
            late = f"{len(waiting)} triggers of epoch {epoch} are not acknowledged after {now - waiting[0][1]:.1f} s"
            raise SenderError(late)

    def _block(self, epoch: int, trigger: int) -> Array:
        block = np.zeros(HONEST, BPM.record)
        block["instrument"] = np.arange(HONEST)
        block["epoch"], block["trigger"], block["time_ns"] = epoch, trigger, time.time_ns()
        block["x"], block["y"] = trigger + np.arange(HONEST) / 8, self._rng.random()
        return block


async def compare(dsn: str, sent: Array) -> list[str]:
    """Compare what was sent with what is stored of the honest instruments."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            f"SELECT trigger_id, instrument, time_ns, x, y, run FROM triggerlog.bpm WHERE instrument < {HONEST}"
        )
    finally:
        await connection.close()
    stored = sorted(tuple(row)[:5] for row in rows)
    expected = sorted(
        zip(*(sent[name].tolist() for name in ("trigger", "instrument", "time_ns", "x", "y")), strict=True)
    )
    if stored == expected:
        return []
    missing, more = set(expected) - set(stored), set(stored) - set(expected)
    return [
        f"{len(sent)} readings sent, {len(stored)} stored, {len(stored) - len(set(stored))} of them twice; "
        f"{len(missing)} missing {sorted(missing)[:3]}, {len(more)} that nobody sent {sorted(more)[:3]}"
    ]


# --- both ---------------------------------------------------------------------------------------------------------


def target_of(run: Running, context: Any) -> Target:
    """Read where the daemon listens, and what its API has."""
    found = run.until_said(r"taking readings at \S+:(\d+), \S+:(\d+); API at (http://\S+:(\d+))")
    document = httpx.get(f"{found[3]}/openapi.json", trust_env=False, timeout=60).raise_for_status().json()
    requests = tuple((method.upper(), path) for path, methods in document["paths"].items() for method in methods)
    return Target(
        tcp=int(found[1]),
        udp=int(found[2]),
        api=int(found[4]),
        requests=requests,
        epoch=context.Value("q", 0),
        trigger=context.Value("q", 0),
    )


async def send_under_attack(target: Target, pid: int, result: Result, seconds: float, context: Any) -> Array:
    """Let the honest sender begin, then the hostile ones; return what the honest one sent."""
    honest = HonestSender(target.tcp, target, result, random.Random(result.seed))
    process, began = psutil.Process(pid), time.monotonic()
    sending = asyncio.create_task(honest.run(lambda: time.monotonic() < began + seconds))
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({sending, asyncio.ensure_future(honest.has_begun.wait())}, return_when="FIRST_COMPLETED")
        before = process.memory_info().rss
        with attacked(target, result, context):
            while not sending.done():
                await asyncio.wait({sending}, timeout=0.5)
                result.growth_mib = max(result.growth_mib, (process.memory_info().rss - before) / 2**20)
        await sending
    except (SenderError, ProtocolError, TimeoutError, psutil.NoSuchProcess) as error:
        sending.cancel()
        result.findings.append(f"the honest sender: {type(error).__name__}: {error}")
    result.seconds = time.monotonic() - began
    return np.concatenate(honest.sent) if honest.sent else np.zeros(0, BPM.record)


def fuzz_daemon(seconds: float, seed: int, within_s: float, log: Path) -> Result:
    """Attack a daemon for so long; log: a file for what the daemon said."""
    result, context = Result(seed=seed, within_s=within_s), multiprocessing.get_context("spawn")
    with server_folder() as folder:
        server = ThrowawayPostgresql(folder / "server")
        dsn = server.start()
        try:
            file = folder / "beam.toml"
            file.write_text(CONFIG.replace("{dsn}", dsn))
            with running("run", str(file)) as run:
                sent = asyncio.run(
                    send_under_attack(target_of(run, context), run.process.pid, result, seconds, context)
                )
                code = run.end() if run.process.poll() is None else run.process.returncode
            result.readings = len(sent)
            result.findings += [*asyncio.run(compare(dsn, sent)), *judged(run.said, code, result)]
        finally:
            server.stop()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(run.said)
    return result


def judged(said: str, code: int | None, result: Result) -> list[str]:
    """Return what is wrong with how the daemon ended, what it logged and how it grew."""
    lines = said.count("\n") / max(1.0, result.seconds)
    return [
        *([f"the daemon ended with {code}"] if code else []),
        *([f"an exception in the log: {said[said.index('Traceback') :][:3000]}"] if "Traceback" in said else []),
        *([f"{lines:.0f} lines of log a second"] if lines > LINES_A_SECOND else []),
        *([f"its memory grew by {result.growth_mib:.0f} MiB"] if result.growth_mib > GROWTH_MIB else []),
    ]
