"""A sender in a process of its own that costs next to nothing: blocks made beforehand, a blocking socket.

`python -m benchmarks.load.sending PORT --seconds S` sends as fast as the daemon takes it; with `--rate R`, R triggers a
second, each as one write; with `--ahead N` it waits while N triggers are sent and not yet acknowledged; with `--ago S`
the readings' own times begin S seconds in the past, and with `--first N` triggers are numbered from N on. With a rate
SIGTERM ends the sending early. It ends when everything is acknowledged, and prints JSON: triggers sent, when sending
ended, acknowledgements as [time, readings], and with a rate when each trigger had gone out; times are CLOCK_MONOTONIC,
in s.
"""

import argparse
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from benchmarks.load.workload import GROUP, INSTRUMENTS, PERIOD_NS, number, random_records
from schemas.readings import Array
from schemas.wire import ACKNOWLEDGEMENT, Ack, Greeting, newest_acknowledgement, parse_answer

BANK = 1024
TOGETHER = 64
"""Triggers made, and triggers in one write; at 56 bytes a reading that is 6.6 MiB and 420 KiB."""
LEAST_ACKS = 2
ACKNOWLEDGED_WITHIN_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What a sender did; times in s on CLOCK_MONOTONIC.

    acks: float64, shape (n, 2): time, readings acknowledged until then. sent: float64, shape (triggers,) with a rate,
    else (0,): when each trigger had gone out.
    """

    triggers: int
    ended: float
    acks: Array
    sent: Array

    def commits(self) -> tuple[Array, Array]:
        """Times at which triggers were acknowledged, float64, shape (n,), and how many each time, int64, shape (n,).

        An acknowledgement that completes no trigger is left out.
        """
        triggers = np.diff(self.acks[:, 1].astype(np.int64) // INSTRUMENTS, prepend=0)
        return self.acks[triggers > 0, 0], triggers[triggers > 0]

    @classmethod
    def of(cls, text: str) -> Self:
        """Read what the process printed."""
        found = json.loads(text)
        acks = np.array(found["acks"], float).reshape(-1, 2)
        return cls(triggers=found["triggers"], ended=found["ended"], acks=acks, sent=np.array(found["sent"], float))


def start_sending(
    port: int, *, seconds: float, rate: float = 0.0, ahead: int = 0, ago_s: float = 0.0, first: int = 1
) -> subprocess.Popen[str]:
    """Start the process; the readings are as if they had been taken from `ago_s` ago on. first: number of a trigger."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.load.sending",
        str(port),
        "--seconds",
        str(seconds),
        "--rate",
        str(rate),
    ]
    command += ["--ahead", str(ahead), "--ago", str(ago_s), "--first", str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def send(port: int, *, seconds: float, rate: float = 0.0, ahead: int = 0, ago_s: float = 0.0, first: int = 1) -> Sent:
    """Run the process to its end.

    Raises:
        subprocess.CalledProcessError: it failed; the reason is on stderr.
    """
    return result(start_sending(port, seconds=seconds, rate=rate, ahead=ahead, ago_s=ago_s, first=first))


def result(process: subprocess.Popen[str]) -> Sent:
    """Wait for the end of the process; raises as `send`."""
    with process:
        output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return Sent.of(output)


class Acknowledgements(threading.Thread):
    """Reads acknowledgements while the main thread sends; both wait in the kernel, not for each other."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(daemon=True)
        self.frames: list[tuple[float, int]] = []
        self._connection = connection
        self._changed = threading.Condition()

    def run(self) -> None:
        """Read until the daemon closes."""
        rest = b""
        while data := self._connection.recv(65_536):
            moment, data = time.monotonic(), rest + data
            rest = data[len(data) - len(data) % ACKNOWLEDGEMENT.itemsize :]
            newest = newest_acknowledgement(data)
            if newest is not None:
                with self._changed:
                    self.frames.append((moment, newest.done))
                    self._changed.notify()

    def wait_for(self, readings: int) -> None:
        """Wait until so many are acknowledged; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: bool(self.frames) and self.frames[-1][1] >= readings, ACKNOWLEDGED_WITHIN_S
            ):
                raise TimeoutError(f"not all of {readings} readings are acknowledged after {ACKNOWLEDGED_WITHIN_S:g} s")


def run(port: int, *, seconds: float, rate: float, ahead: int, ago_s: float, first: int) -> dict[str, Any]:
    """Send; return what is printed."""
    bank = random_records(BANK)
    begun_ns = time.time_ns() - round(ago_s * 1e9) - (first - 1) * PERIOD_NS
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(Greeting(group=GROUP.name, sender="bench", ack=Ack.COMMITTED).line())
        with connection.makefile("rb", buffering=0) as lines:
            answer = parse_answer(lines.readline())
        if answer.record != GROUP.record:
            raise SystemExit("the daemon's records have another layout than the benchmarks'")
        acks = Acknowledgements(connection)
        acks.start()
        sent = _paced(connection, bank, seconds, rate, begun_ns, first) if rate else []
        triggers = len(sent) if rate else _at_full_speed(connection, bank, seconds, ahead, acks, begun_ns, first)
        ended = time.monotonic()
        acks.wait_for(triggers * INSTRUMENTS)
        connection.shutdown(socket.SHUT_WR)
        acks.join()
    return {"triggers": triggers, "ended": ended, "acks": acks.frames, "sent": sent}


def _at_full_speed(
    connection: socket.socket,
    bank: Array,
    seconds: float,
    ahead: int,
    acks: Acknowledgements,
    begun_ns: int,
    first: int,
) -> int:
    begun, triggers = time.monotonic(), 0
    # A rate is that between acknowledgements; where the first is of all that is sent ahead, a second has to follow.
    while time.monotonic() - begun < seconds or (ahead and len(acks.frames) < LEAST_ACKS):
        start = triggers % len(bank)
        block = bank[start : start + TOGETHER]
        number(block, triggers + first, begun_ns)
        connection.sendall(block.data)
        triggers += len(block)
        if ahead and triggers > ahead:
            acks.wait_for((triggers - ahead) * INSTRUMENTS)
    return triggers


def _paced(
    connection: socket.socket, bank: Array, seconds: float, rate: float, begun_ns: int, first: int
) -> list[float]:
    enough = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: enough.set())
    begun = time.monotonic()
    sent = []
    for k in range(int(seconds * rate)):
        if enough.is_set():
            break
        block = bank[k % len(bank)][None]
        number(block, k + first, begun_ns)
        time.sleep(max(0.0, begun + k / rate - time.monotonic()))
        connection.sendall(block.data)
        sent.append(time.monotonic())
    return sent


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--ahead", type=int, default=0)
    parser.add_argument("--ago", dest="ago_s", type=float, default=0.0)
    parser.add_argument("--first", type=int, default=1)
    json.dump(run(**vars(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
