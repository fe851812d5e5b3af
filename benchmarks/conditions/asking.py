"""A client: a process that asks for what is valid at random keys, with a new connection for each request, and stops.

It imports little, and keeps few objects, so that many of them fit on the machine that is measured.
"""

import json
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

MAJORS, MINORS = 1_000_000, 1_000
"""Keys are below these: runs, and parts of a run."""


ROOT = Path(__file__).parents[2]
LEAD_S, LEAD_EACH_S = 0.5, 0.08
"""Processes need so long to start, and so much more each, on two cores."""
PATIENCE_S = 60.0


class ClientFailed(Exception):
    """A client got another answer than 200 with a whole body; the message is one line."""


def ask(port: int, path: str) -> bytes:
    """GET over a connection of its own; return the body.

    Raises:
        ClientFailed: the status is another one than 200, or the body is not as long as the answer says.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = bytearray()
        while part := connection.recv(1 << 18):
            answer += part
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    if b" 200 " not in lines[0] or b"content-length: %d" % len(body) not in lines[1:]:
        raise ClientFailed(f"the server answers {head.splitlines()[:1]} with {len(body)} bytes")
    return body


def main(port: int, tag: str, begin: float, end: float, seed: int) -> None:
    """Ask from `begin` to `end` of the monotonic clock, at least once; print when and how long each took, as JSON."""
    drawn = random.Random(seed)  # noqa: S311 - keys to ask for
    time.sleep(max(0.0, begin - time.monotonic()))
    times = list[tuple[float, float]]()
    while (began := time.monotonic()) < end or not times:
        major, minor = drawn.randrange(MAJORS), drawn.randrange(MINORS)
        ask(port, f"/api/cdb_rest/payloadiovs/?gtName={tag}&majorIOV={major}&minorIOV={minor}")
        times.append((began, round(time.monotonic() - began, 6)))
    sys.stdout.write(json.dumps(times))


def ask_by(clients: int, port: int, tag: str, seconds: float, seed: int) -> tuple[float, float, list[float]]:
    """Have so many clients ask; return when the first request began and the last one ended, and the seconds of each.

    Raises:
        ClientFailed: one of them did not end well.
    """
    begin = time.monotonic() + LEAD_S + LEAD_EACH_S * clients
    command = [sys.executable, "-m", "benchmarks.conditions.asking", str(port), tag, str(begin), str(begin + seconds)]
    processes = [
        subprocess.Popen(
            [*command, str(1000 * seed + number)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(clients)
    ]
    asked: list[tuple[float, float]] = []
    for process in processes:
        output, problem = process.communicate()
        if process.returncode:
            raise ClientFailed(problem.decode().strip().splitlines()[-1])
        asked += json.loads(output)
    return min(at for at, _ in asked), max(at + took for at, took in asked), [took for _, took in asked]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
