"""Throughput: the bare ceiling, the papers' ways and the daemon, in both layouts, round by round."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import uvloop

from benchmarks.daemon_process import running_daemon
from benchmarks.plan import Plan
from benchmarks.progress import say_round
from benchmarks.rounds import Contender, Round, interleaved
from benchmarks.sending import BANK, send
from benchmarks.server import Server
from benchmarks.strategies import bare_copy, insert_each_table, one_copy
from benchmarks.strategies.insert_each_table import Reading
from benchmarks.summary import commit_rate
from benchmarks.verify import verify
from benchmarks.workload import CHANNELS, INSTRUMENTS, LAYOUTS, random_records
from schemas.batch import Layout

INSERTS = "120 INSERTs a trigger"
ONE_COPY = "one COPY a trigger"
WARM_UP = 0.3
"""Part of a round's time that everybody has before the rounds."""

T = TypeVar("T")
PaperWay = Callable[[str, str, list[list[Reading]], float], tuple[int, float]]


def ceiling(layout: Layout, *, with_ledger: bool = False) -> str:
    """Name of the ceiling."""
    return f"bare COPY, {layout}" + (", with ledger" if with_ledger else "")


def daemon(layout: Layout) -> str:
    """Name of the daemon, end to end."""
    return f"daemon, {layout}"


CONTENDERS = (
    INSERTS,
    ONE_COPY,
    *(name for layout in LAYOUTS for name in (ceiling(layout), ceiling(layout, with_ledger=True), daemon(layout))),
)


def measure(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """Run all rounds; return them by contender. The daemon comes first: the ceiling copies in batches of its size."""
    batches = {}
    for layout in LAYOUTS:
        warm = daemon_round(server, layout, max(0.5, WARM_UP * plan.send_s))
        batches[layout] = bare_copy.pool(layout, round(warm.facts["triggers a commit"]))
    for name, contender in _bare(server, batches, max(0.2, WARM_UP * plan.write_s)).items():
        say_round(f"{name} (warm-up)", 0, contender())
    contenders = _bare(server, batches, plan.write_s)
    for layout in LAYOUTS:
        contenders[daemon(layout)] = partial(daemon_round, server, layout, plan.send_s)
    return interleaved({name: contenders[name] for name in CONTENDERS}, rounds=plan.rounds, say=say_round)


def daemon_round(server: Server, layout: Layout, seconds: float) -> Round:
    """Send at full speed for so many seconds, wait until all is committed, and check the database.

    Raises:
        WrongInDatabase: it does not hold exactly what was sent.
    """
    with running_daemon(server, layout) as process:
        sent = send(process.port, seconds=seconds)
        status = process.status()
        cpu_s = process.cpu_s()
    late = verify(server, process.schema, layout, sent.triggers, random_records(BANK))
    server.drop(process.schema)
    rate, committing_s = commit_rate(sent.acks, INSTRUMENTS)
    return Round(
        seconds=1 / rate,
        facts={
            "triggers": sent.triggers,
            "triggers with late readings": late,
            "triggers a commit": sent.triggers / status.store.commits,
            "seconds of commits": committing_s,
            "seconds of sending": seconds,
            "daemon CPU s": cpu_s,
        },
    )


def _bare(server: Server, batches: dict[Layout, list[bare_copy.Encoded]], seconds: float) -> dict[str, Contender]:
    triggers = _as_python(64)
    contenders: dict[str, Contender] = {
        INSERTS: partial(paper_round, server, insert_each_table.write, triggers, seconds),
        ONE_COPY: partial(paper_round, server, one_copy.write, triggers, seconds),
    }
    for layout in LAYOUTS:
        for ledger in (False, True):
            contenders[ceiling(layout, with_ledger=ledger)] = partial(
                bare_round, server, layout, batches[layout], seconds, with_ledger=ledger
            )
    return contenders


def paper_round(server: Server, write: PaperWay, triggers: list[list[Reading]], seconds: float) -> Round:
    """One round of a way of the paper, in tables of its own."""
    schema = server.new_name()
    written, taken = write(server.dsn, schema, triggers, seconds)
    server.drop(schema)
    return Round(seconds=taken / written, facts={"triggers": written, "triggers a commit": 1})


def bare_round(
    server: Server, layout: Layout, batches: list[bare_copy.Encoded], seconds: float, *, with_ledger: bool
) -> Round:
    """One round of the ceiling, in fresh tables like the daemon's."""
    schema = server.fresh_schema(layout)
    written, taken = on_uvloop(bare_copy.write(server.dsn, schema, batches, seconds, with_ledger=with_ledger))
    server.drop(schema)
    return Round(seconds=taken / written, facts={"triggers": written, "triggers a commit": batches[0].triggers})


def on_uvloop(main: Coroutine[Any, Any, T]) -> T:
    """Run on the loop that the daemon runs on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _as_python(triggers: int) -> list[list[Reading]]:
    records = random_records(triggers)
    columns = [records[name].tolist() for name in CHANNELS]
    return [list(zip(*(column[k] for column in columns), strict=True)) for k in range(triggers)]
