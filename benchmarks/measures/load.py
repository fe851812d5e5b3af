"""Costs of the daemon at the control node: CPU at a steady rate over 120 connections, memory at full speed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.load.sending import result, start_sending
from benchmarks.load.workload import INSTRUMENTS
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Round, begin, print_line
from benchmarks.rounds.summary import commit_rate, slope
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import DaemonProcess, running_daemon, until
from schemas.batch import Layout

LEAD_IN_S = 2.0
START_S = 30.0
SAMPLE_S = 0.5
CPU_ROUNDS = 3
"""Parts the time of a CPU measure is cut into, so that it has a spread."""


def cpu(server: Server, plan: Plan, rate: int, layout: Layout = Layout.ROWS) -> list[Round]:
    """CPU time of the daemon's process a trigger, at a rate over one connection an instrument."""
    rounds = []
    begin("load", f"CPU at {rate} triggers/s")
    # A second more than is measured, so that the sender does not end before the measure.
    seconds = LEAD_IN_S + plan.cpu_s + 1.0
    with running_daemon(server, layout) as process, simulating(process.port, rate, seconds):
        _wait_for_the_first(process)
        time.sleep(LEAD_IN_S)
        for _ in range(CPU_ROUNDS):
            rounds.append(_cpu_round(process, plan.cpu_s / CPU_ROUNDS))
            print_line(
                f"  {rate} triggers/s over {INSTRUMENTS} connections: {rounds[-1].facts['CPU percent']:.1f} % of a core"
            )
    server.drop(process.schema)
    return rounds


def _cpu_round(process: DaemonProcess, seconds: float) -> Round:
    begun, cpu_before, triggers_before = time.monotonic(), process.cpu_s(), process.group().triggers.committed
    time.sleep(seconds)
    triggers = process.group().triggers.committed - triggers_before
    used, taken = process.cpu_s() - cpu_before, time.monotonic() - begun
    return Round(
        seconds=used / triggers,
        facts={"CPU percent": 100 * used / taken, "triggers a second": triggers / taken},
    )


def _wait_for_the_first(process: DaemonProcess) -> None:
    until(lambda: bool(process.group().triggers.committed), "something is committed", START_S)


@contextmanager
def simulating(port: int, rate: int, seconds: float) -> Iterator[None]:
    """Run `triggerlog simulate` over a connection an instrument, to its end; raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", "daemon", "simulate", "--port", str(port), "--rate", str(rate)]
    command += ["--connections", "each", "--duration-s", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as simulator:
        try:
            yield
            if simulator.wait(60):
                raise subprocess.CalledProcessError(simulator.returncode, command)
        finally:
            simulator.kill()


def memory(server: Server, plan: Plan, layout: Layout = Layout.ROWS) -> tuple[Round, list[tuple[float, float]]]:
    """Resident memory of the daemon at full speed; its samples are (seconds since the start, MiB)."""
    samples = []
    begin("load", "memory at full speed")
    with running_daemon(server, layout) as process:
        sender = start_sending(process.port, seconds=plan.memory_s)
        begun = time.monotonic()
        while (now := time.monotonic() - begun) < plan.memory_s and sender.poll() is None:
            samples.append((now, process.memory_mib()))
            time.sleep(SAMPLE_S)
        rate, _ = commit_rate(result(sender).acks, INSTRUMENTS)
    server.drop(process.schema)
    growth = 60 * slope([at for at, _ in samples], [mib for _, mib in samples])
    second_half = [mib for _, mib in samples[len(samples) // 2 :]]
    facts = {
        "seconds": plan.memory_s,
        "MiB a minute": growth,
        "MiB least": min(second_half),
        "MiB most": max(second_half),
    }
    print_line(
        f"  {rate:,.0f} triggers/s for {plan.memory_s:g} s: "
        f"{min(second_half):.0f} to {max(second_half):.0f} MiB, {growth:+.1f} MiB a minute"
    )
    return Round(seconds=1 / rate, facts=facts), samples
