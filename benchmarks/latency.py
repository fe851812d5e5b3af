"""Latency at a steady rate: the daemon, and a bare loop that COPYs and commits one trigger at a time, by turns."""

from functools import partial

from benchmarks.daemon_process import DaemonProcess, running_daemon
from benchmarks.plan import Plan
from benchmarks.progress import say
from benchmarks.rounds import Round, interleaved
from benchmarks.sending import send
from benchmarks.server import Server
from benchmarks.strategies.bare_commit import LEAD_IN_S, commit_at_rate
from benchmarks.summary import Percentiles, acknowledged_after, percentiles
from benchmarks.throughput import on_uvloop
from benchmarks.workload import INSTRUMENTS
from schemas.batch import Layout

BARE = "bare loop"
DAEMON = "daemon"


def name(contender: str, rate: int) -> str:
    """Name of a contender at a rate."""
    return f"{contender} at {rate}/s"


def measure(server: Server, plan: Plan, layout: Layout = Layout.ROWS) -> dict[str, list[Round]]:
    """Run all windows of all rates; return them by name. One daemon serves them all, idle while the bare loop runs."""
    found: dict[str, list[Round]] = {}
    bare_schema = server.fresh_schema(layout)
    with running_daemon(server, layout, acknowledge_every_ms=0.0) as process:
        for rate in plan.rates:
            contenders = {
                name(BARE, rate): partial(bare_window, server, bare_schema, layout, rate, plan.window_s),
                name(DAEMON, rate): partial(daemon_window, process, rate, plan.window_s),
            }
            found |= interleaved(contenders, rounds=plan.windows, say=_say)
    for schema in (process.schema, bare_schema):
        server.drop(schema)
    return found


def bare_window(server: Server, schema: str, layout: Layout, rate: int, seconds: float) -> Round:
    """One window of the bare loop."""
    found = percentiles(on_uvloop(commit_at_rate(server.dsn, schema, layout, rate, seconds)))
    return Round(seconds=found.p99 / 1e3, facts=_facts(found))


def daemon_window(process: DaemonProcess, rate: int, seconds: float) -> Round:
    """One window of the daemon: its own histogram of the last ten seconds, and what the sender saw.

    The daemon's figure is from a trigger's closing, which its last reading brings about, to the store's
    acknowledgement. The sender's is from the end of the write of a trigger to the arrival of its acknowledgement: the
    way there, the gathering, the assembly and the way back are in it.
    """
    before = process.group().triggers.committed
    sent = send(process.port, seconds=LEAD_IN_S + seconds, rate=rate)
    group = process.group()
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


def _say(contender: str, number: int, done: Round) -> None:
    facts = ", ".join(f"{key} {value:.2f}" for key, value in done.facts.items())
    say(f"  window {number + 1}  {contender:<20} {facts}")
