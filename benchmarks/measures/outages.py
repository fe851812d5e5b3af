"""Costs of being ready for an outage of the database, and the time until one is made up for.

The journal's cost is measured at full speed, with it and without, by turns. For the drain the database is killed while
100 triggers a second come in, stays away, and comes back.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from backends.throwaway.postgresql import ThrowawayPostgresql
from benchmarks.load.sending import BANK, TOGETHER, result, start_sending
from benchmarks.load.workload import random_records
from benchmarks.measures.throughput import daemon_round, verify
from benchmarks.rounds import rounds
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Round, begin, expect, interleaved, print_line, print_round
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import DaemonProcess, running_daemon, until
from benchmarks.servers.postgresql import PostgresqlServer
from schemas.batch import Durability, Layout
from schemas.config import JournalConfig

LIVE_RATE = 100
"""Triggers a second of 120 instruments that come in all the time."""

BACK_WITHIN_S = 60.0
AHEAD_S = 0.25
"""The sender may be ahead by what the daemon is likely to commit in this time, so that the journal is used at all:
what the database has within 20 ms is never written."""
GUESSED_RATE = 8_000


def journal_contenders(server: Server, plan: Plan) -> dict[str, rounds.Contender]:
    """The daemon with a journal and without, in each layout, by name."""
    ahead = max(2 * TOGETHER, round(AHEAD_S * GUESSED_RATE))
    journal_mib = {True: JournalConfig().max_mib, False: 0.0}
    return {
        journal_name(layout, with_journal=with_journal): partial(
            daemon_round,
            server,
            layout,
            Durability.SYNC,
            plan.send_s,
            ahead,
            journal_mib=journal_mib[with_journal],
        )
        for layout in plan.layouts
        for with_journal in (True, False)
    }


def journal_name(layout: Layout, *, with_journal: bool) -> str:
    """Name of a contender."""
    return f"{layout}_{'with' if with_journal else 'without'}_journal"


def journal(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """Full speed with the journal and without, round by round."""
    contenders = journal_contenders(server, plan)
    expect("outages", plan.rounds * len(contenders) + plan.drains * len(plan.layouts))

    def on_begin(name: str, number: int) -> None:
        begin("outages", f"round {number + 1} of {plan.rounds}, {name}")

    return interleaved(contenders, rounds=plan.rounds, begin=on_begin, end=print_round)


def drain(server: Server, layout: Layout, plan: Plan) -> list[Round]:
    """Outages of a PostgreSQL of the measure's own; a round's time is that of a trigger drained, in s.

    Raises:
        DaemonFailed: it did not make up for the outage in time.
        WrongInDatabase: the database lacks something afterwards, or has it twice.
    """
    found = []
    for number in range(plan.drains):
        begin("outages", f"an outage of {plan.outage_s:g} s, {layout}")
        folder = server.folder / f"outage-{layout}-{number}"
        folder.mkdir()
        found.append(_outage(folder, layout, plan))
        facts = found[-1].facts
        print_line(
            f"  {layout}: {facts['triggers waiting']:,.0f} triggers drained in {facts['seconds of drain']:.2f} s,"
            f" {1 / found[-1].seconds:,.0f} triggers/s; the first commit {facts['seconds to first commit']:.2f} s after"
            " the database was back"
        )
    return found


def _outage(folder: Path, layout: Layout, plan: Plan) -> Round:
    database = ThrowawayPostgresql(folder)
    try:
        server = PostgresqlServer(database.start(), folder, own=True)
        with running_daemon(server, layout) as process:
            # It is stopped when the backlog is drained.
            sender = start_sending(process.port, seconds=plan.outage_s + 3 * BACK_WITHIN_S, rate=LIVE_RATE)
            until(
                lambda: process.group().triggers.committed >= LIVE_RATE, "the first second is committed", BACK_WITHIN_S
            )
            database.kill()
            until(
                lambda: process.group().triggers.waiting >= plan.outage_s * LIVE_RATE,
                "an outage's triggers wait",
                BACK_WITHIN_S,
            )
            done = _drained(process, database)
            sender.terminate()
            sent = result(sender)
        verify(server, process.schema, layout, sent.triggers, random_records(BANK))
        return done
    finally:
        database.stop()


def _drained(process: DaemonProcess, database: ThrowawayPostgresql) -> Round:
    """Start the database and watch the drain, from the moment in which the database takes connections again."""
    before = process.group().triggers
    back = _started(process, database)
    until(lambda: process.group().triggers.committed > before.committed, "something is committed again", BACK_WITHIN_S)
    first = time.monotonic()
    until(lambda: process.group().triggers.waiting < LIVE_RATE, "the backlog is drained", BACK_WITHIN_S)
    ended, after = time.monotonic(), process.group().triggers
    # Counted from the moment in which the database is back: what the committer needs to find out is part of it.
    seconds = ended - back
    return Round(
        seconds=seconds / (after.committed - before.committed),
        facts={
            "triggers waiting": before.waiting,
            "seconds to first commit": first - back,
            "seconds of drain": seconds,
            "live triggers a second meanwhile": (after.received - before.received) / seconds,
        },
    )


def _started(process: DaemonProcess, database: ThrowawayPostgresql) -> float:
    """Start the database; the moment (CLOCK_MONOTONIC, s) in which it is back.

    The daemon may be connected before the start has ended: then all of the start counts, and no rate looks better.
    """
    called, committed = time.monotonic(), process.group().triggers.committed
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(database.start)
        until(
            lambda: starting.done() or process.group().triggers.committed > committed,
            "the database starts",
            BACK_WITHIN_S,
        )
        back = time.monotonic() if starting.done() else called
        starting.result()
    return back
