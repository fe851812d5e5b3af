"""Measures the effect of the governor on the writing and on the readers.

100 triggers a second of 120 instruments are written: alone, with readers, and with the same readers under the
governor, block by block in turns. The readers ask for a scan of everything and for half an hour's means, each again
as soon as it has its answer.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks.load.sending import Sent, result, send, start_sending
from benchmarks.load.workload import INSTRUMENTS
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Contender, Round, begin, expect, interleaved, print_line
from benchmarks.rounds.summary import acknowledged_after, percentiles
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import DaemonProcess, running_daemon, until
from schemas.api.status import Status
from schemas.batch import Layout

RATE = 100
ALONE, READERS, GOVERNED = BLOCKS = ("writing alone", "readers", "readers, governed")
KINDS = ("scan", "history")
EACH = 2
CLIENTS = EACH * len(KINDS)
ROOM = 1.5
"""The governor's ceiling is so many times the commit p99 of the block of writing alone just before."""

STORED_S, STORED_AHEAD, STORED_AGO_S = 3.0, 1024, 1800.0
"""What is stored beforehand: what the daemon commits in this time, of half an hour ago."""

LEAD_IN_S = 11.0
"""Until the daemon's percentiles, which are of ten seconds, are of nothing but this block."""

FINDING_S = 30.0
"""What the governor has to find out how much it has to hold back; blocks with it begin so much later."""

START_S = 60.0
LOOK_S = 1.0


@dataclass
class _Turn:
    """What the blocks of a round have from one another: the ceiling, from the block of writing alone."""

    ceiling_ms: float = 0.0


@dataclass
class _Looks:
    """What the status says in a block: commit latencies of the last ten seconds, in ms, and clients that may ask."""

    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    doses: list[float] = field(default_factory=list)

    def add(self, status: Status) -> None:
        """Look."""
        (group,) = status.groups.values()
        if group.commit_ms.p50 is not None and group.commit_ms.p99 is not None:
            self.p50_ms.append(group.commit_ms.p50)
            self.p99_ms.append(group.commit_ms.p99)
        if status.governor is not None:
            self.doses.append(status.governor.admitted * status.governor.share)


def measure(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All blocks, by their names; a round's time is the commit p99 in seconds."""
    expect("governor", plan.governor_rounds * len(BLOCKS))
    turn = _Turn()
    with running_daemon(server, Layout.ROWS, acknowledge_every_ms=0.0) as daemon:
        send(daemon.port, seconds=STORED_S, ahead=STORED_AHEAD, ago_s=STORED_AGO_S)
        runs: dict[str, Contender] = {name: partial(_block, daemon, name, plan.governor_s, turn) for name in BLOCKS}
        found = interleaved(
            runs,
            rounds=plan.governor_rounds,
            begin=lambda name, number: begin("governor", f"round {number + 1} of {plan.governor_rounds}, {name}"),
            end=_print_round,
        )
    server.drop(daemon.schema)
    return found


def _print_round(name: str, number: int, done: Round) -> None:
    facts = done.facts
    print_line(
        f"  round {number + 1}  {name:<18} p99 {facts['p99 ms']:7.2f} ms, within {facts['ceiling ms']:.2f} ms for"
        f" {100 * facts['within ceiling']:3.0f} % of the time; {facts['triggers a second']:.1f} triggers/s;"
        f" {facts['answers a second']:.2f} answers/s at a dose of {facts['dose']:.2f}"
    )


def _block(daemon: DaemonProcess, name: str, seconds: float, turn: _Turn) -> Round:
    lead_s = LEAD_IN_S + (FINDING_S if name == GOVERNED else 0.0)
    daemon.open_run()
    sender = start_sending(daemon.port, seconds=lead_s + seconds, rate=RATE)
    daemon.order("/api/v1/governor", {"commit_p99_ms": turn.ceiling_ms} if name == GOVERNED else {})
    with _reading(daemon, [] if name == ALONE else [_workload(kind) for kind in KINDS]):
        time.sleep(lead_s)
        looks, begun, answers = _Looks(), time.monotonic(), _answers(daemon.status())
        while time.monotonic() - begun < seconds - LOOK_S:
            time.sleep(LOOK_S)
            looks.add(daemon.status())
        answered = (_answers(daemon.status()) - answers) / (time.monotonic() - begun)
        sent = result(sender)
    p99_ms = float(np.median(looks.p99_ms))
    if name == ALONE:
        turn.ceiling_ms = ROOM * p99_ms
    return Round(
        seconds=p99_ms / 1e3,
        facts={
            "p50 ms": float(np.median(looks.p50_ms)),
            "p99 ms": p99_ms,
            "ceiling ms": turn.ceiling_ms,
            "within ceiling": float(np.mean(np.array(looks.p99_ms) <= turn.ceiling_ms)),
            "answers a second": answered,
            "dose": float(np.mean(looks.doses)) if name != ALONE else 0.0,
            **_seen_by_sender(sent, lead_s),
        },
    )


def _seen_by_sender(sent: Sent, lead_s: float) -> dict[str, float]:
    """What tells without the daemon: the way there and back, the gathering and the assembly are in it."""
    begun = sent.sent[0] + lead_s
    latencies = acknowledged_after(sent.sent, sent.acks, INSTRUMENTS)
    times, triggers = sent.commits()
    committed = triggers[(times > begun) & (times <= sent.ended)].sum()
    return {
        "sender p99 ms": percentiles(latencies[sent.sent > begun] * 1e3).p99,
        "triggers a second": float(committed / (sent.ended - begun)),
    }


def _workload(kind: str) -> dict[str, object]:
    return {"name": kind, "kind": kind, "clients": EACH, "period_s": 0.0, "deadline_s": 10.0}


@contextmanager
def _reading(daemon: DaemonProcess, workloads: list[dict[str, object]]) -> Iterator[None]:
    """Run reader workloads; they are gone when it is left."""
    for workload in workloads:
        daemon.order("/api/v1/readers", workload)
    until(lambda: all(reader.state == "running" for reader in daemon.status().readers.values()), "readers run", START_S)
    yield
    for workload in workloads:
        daemon.drop(f"/api/v1/readers/{workload['name']}")
    until(lambda: not daemon.status().readers, "the readers are gone", START_S)


def _answers(status: Status) -> int:
    return sum(reader.cycles for reader in status.readers.values())
