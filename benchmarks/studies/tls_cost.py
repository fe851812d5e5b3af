"""`python -m benchmarks.studies.tls_cost`: what TLS costs a source.

One daemon, a plain source and one with a certificate.

Simulated senders fill them in turn, as fast as they can. Compared are the readings a second from end to end, and the
processor time of the daemon for a million readings, which other programs on the machine disturb less.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from backends.throwaway.base import free_port
from benchmarks.servers.daemon_process import wait_until_running

CONFIG = """
[[groups]]
name = "bpm"
count = 120
channels = [{ name = "top_in" }, { name = "bot_in" }, { name = "bot_out" }, { name = "top_out" }]
[[sources]]
kind = "tcp"
port = %d
[[sources]]
kind = "tcp"
port = %d
tls_certificate = "daemon.crt"
tls_key = "daemon.key"
[api]
port = %d
"""
KINDS = ("plain", "TLS")


@contextlib.contextmanager
def _daemon(folder: Path) -> Iterator[tuple[psutil.Process, tuple[str, str]]]:
    """A daemon with its embedded PostgreSQL; its process and the ports of its sources."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=triggerlog", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", folder / "daemon.key", "-out", folder / "daemon.crt"),
        ],
        check=True,
        capture_output=True,
    )
    ports = free_port(), free_port(), free_port()
    (folder / "beam.toml").write_text(CONFIG % ports)
    command = [sys.executable, "-m", "daemon", "run", str(folder / "beam.toml")]
    with (folder / "daemon.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            wait_until_running(process, f"http://127.0.0.1:{ports[2]}", folder / "daemon.log")
            yield psutil.Process(process.pid), (str(ports[0]), str(ports[1]))
        finally:
            process.terminate()


def _fill(port: str, options: list[str], first: int, triggers: int) -> float:
    """Send triggers as fast as they go; return readings a second."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "daemon", "simulate", "--port", port, "--rate", "0", "--json", *options),
            *("--triggers", str(triggers), "--first-trigger", str(first)),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)["groups"][0]
    return float(report["readings_a_second"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What TLS costs a source.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--triggers", type=int, default=5000, help="of 120 readings, a round")
    asked = parser.parse_args()
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, _daemon(Path(folder)) as (process, ports):
        options = {"plain": [], "TLS": ["--tls", "--ca", f"{folder}/daemon.crt"]}
        first = 1
        for _ in range(asked.rounds + 1):  # the first warms up
            for kind, port in zip(KINDS, ports, strict=True):
                before = sum(process.cpu_times()[:2])
                rates[kind].append(_fill(port, options[kind], first, asked.triggers))
                spent = sum(process.cpu_times()[:2]) - before
                costs[kind].append(1e6 * spent / (120 * asked.triggers))
                first += asked.triggers
    rate = {kind: statistics.median(rates[kind][1:]) for kind in KINDS}
    cost = {kind: statistics.median(costs[kind][1:]) for kind in KINDS}
    for kind in KINDS:
        sys.stdout.write(f"{kind:<6} {rate[kind]:>10,.0f} readings/s, {cost[kind]:.2f} s of processor a million\n")
    slower, costlier = rate["TLS"] / rate["plain"], cost["TLS"] / cost["plain"]
    sys.stdout.write(f"ratio  {slower:.2f} of the rate, {costlier:.2f} of the processor time\n")


if __name__ == "__main__":
    main()
