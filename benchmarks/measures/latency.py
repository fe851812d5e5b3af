"""Latency at a steady rate: the daemon on every database, and a bare loop that COPYs and commits, by turns."""

import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.load.sending import send
from benchmarks.load.workload import INSTRUMENTS, on_uvloop
from benchmarks.rounds import rounds
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Round, begin, expect, interleaved, print_line
from benchmarks.rounds.summary import Percentiles, acknowledged_after, commit_rate, percentiles
from benchmarks.servers import Servers
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import DaemonProcess, running_daemon
from benchmarks.strategies.postgresql.bare_commit import LEAD_IN_S, commit_at_rate
from schemas.batch import Layout
from schemas.checking.dsn import Backend

BARE = "bare loop"
DAEMON = "daemon"

HISTOGRAM_S = 10.0
"""What the daemon's percentiles are over (`daemon.core.monitoring.metrics`)."""

PROBE_S = 0.5
HEADROOM = 1.5
"""A rate is measured where the daemon's full speed is this many times as high; beyond that it is the backlog's."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """What is measured in one window: a contender, on a database, at a rate."""

    backend: Backend
    contender: str
    rate: int

    @property
    def name(self) -> str:
        """Its name among all."""
        return f"{self.backend}-{self.contender} at {self.rate}/s"

    def facts(self) -> dict[str, Any]:
        """What is kept of it with its figures."""
        return {"backend": self.backend.value, "contender": self.contender, "rate": self.rate}


def windows(backend: Backend, plan: Plan) -> list[Window]:
    """What is measured on a database; the bare loop is PostgreSQL's."""
    contenders = (BARE, DAEMON) if backend is Backend.POSTGRESQL else (DAEMON,)
    return [Window(backend=backend, contender=name, rate=rate) for rate in plan.rates for name in contenders]


def measure(servers: Servers, plan: Plan, layout: Layout = Layout.ROWS) -> dict[str, list[Round]]:
    """Run all windows; return them by name. A daemon a database serves all of its, and is idle in between."""
    runs: dict[Window, rounds.Contender] = {}
    with ExitStack() as stack:
        for server in servers.values():
            # Durability is that of the server where it does not leave it to the writer.
            durability = server.durabilities()[0]
            process = stack.enter_context(
                running_daemon(server, layout, durability=durability, acknowledge_every_ms=0.0)
            )
            daemon = SteadyDaemon(process)
            most = daemon.full_speed(plan) / HEADROOM
            for window in windows(server.backend, plan):
                if window.rate > most:
                    print_line(f"  left out: {window.name}, the daemon does not keep up with it")
                elif window.contender == DAEMON:
                    runs[window] = partial(daemon.window, window.rate, plan.window_s)
                else:
                    schema = server.fresh_schema(layout)
                    runs[window] = partial(bare_window, server, schema, layout, window.rate, plan.window_s)
        # Rate by rate, so that all contenders of a rate have their turns within the same minutes.
        by_rate = sorted(runs, key=lambda window: window.rate)
        return _by_turns({window: runs[window] for window in by_rate}, plan)


def _by_turns(runs: Mapping[Window, rounds.Contender], plan: Plan) -> dict[str, list[Round]]:
    """Run the windows of all; on other databases than PostgreSQL the plan may have fewer."""
    most = {w: plan.windows if w.backend is Backend.POSTGRESQL else plan.further_windows for w in runs}
    found: dict[str, list[Round]] = {window.name: [] for window in runs}
    expect("latency", sum(most.values()))
    for number in range(max(most.values(), default=0)):
        turn = {window.name: run for window, run in runs.items() if number < most[window]}
        for name, done in interleaved(
            turn, rounds=1, begin=partial(_begin, number), end=partial(_print_round, number)
        ).items():
            found[name] += done
    return found


def bare_window(server: Server, schema: str, layout: Layout, rate: int, seconds: float) -> Round:
    """One window of the bare loop."""
    found = percentiles(on_uvloop(commit_at_rate(server.dsn, schema, layout, rate, seconds)))
    return Round(seconds=found.p99 / 1e3, facts=_facts(found))


class SteadyDaemon:
    """A running daemon, and when it was last busy."""

    def __init__(self, process: DaemonProcess) -> None:
        self._process = process
        self._busy_until = -math.inf

    def full_speed(self, plan: Plan) -> float:
        """Triggers a second that it commits when it is sent as many as it takes; it warms it up, too."""
        rate, ahead = 0.0, plan.probe_ahead
        for _ in range(2):
            self._process.open_run()
            rate, _ = commit_rate(send(self._process.port, seconds=PROBE_S, ahead=ahead).acks, INSTRUMENTS)
            # So few as at first make small batches; with a second's worth it shows what it can.
            ahead = max(plan.probe_ahead, round(rate))
        self._busy_until = time.monotonic()
        return rate

    def window(self, rate: int, seconds: float) -> Round:
        """One window: its own histogram of the last ten seconds, and what the sender saw.

        The daemon's figure is from a trigger's closing, which its last reading brings about, to the store's
        acknowledgement. The sender's is from the end of the write of a trigger to the arrival of its acknowledgement:
        the way there, the gathering, the assembly and the way back are in it.
        """
        # Until the histogram holds nothing but this window, at its end.
        time.sleep(max(0.0, self._busy_until + HISTOGRAM_S - LEAD_IN_S - seconds - time.monotonic()))
        self._process.open_run()
        before = self._process.group().triggers.committed
        sent = send(self._process.port, seconds=LEAD_IN_S + seconds, rate=rate)
        group = self._process.group()
        self._busy_until = time.monotonic()
        if group.triggers.committed - before != sent.triggers:
            raise AssertionError(f"{sent.triggers} triggers sent, {group.triggers.committed - before} committed")
        latency = group.commit_ms
        assert latency.p50 is not None
        assert latency.p99 is not None
        assert latency.max is not None
        seen = percentiles(acknowledged_after(sent.sent, sent.acks, INSTRUMENTS)[int(LEAD_IN_S * rate) :] * 1e3)
        own = Percentiles(p50=latency.p50, p99=latency.p99, max=latency.max)
        facts = _facts(own) | {f"sender {key}": value for key, value in _facts(seen).items()}
        return Round(seconds=latency.p99 / 1e3, facts=facts)


def _facts(found: Percentiles) -> dict[str, float]:
    return {"p50 ms": found.p50, "p99 ms": found.p99, "max ms": found.max}


def _begin(number: int, name: str, _: int) -> None:
    begin("latency", f"window {number + 1}, {name}")


def _print_round(number: int, name: str, _: int, done: Round) -> None:
    facts = ", ".join(f"{key} {value:.2f}" for key, value in done.facts.items())
    print_line(f"  window {number + 1}  {name:<36} {facts}")
