"""Throughput: the papers' ways, the bare ceiling and the daemon, on every server, round by round."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import psycopg

from backends.base import Store
from benchmarks.load.sending import BANK, TOGETHER, send
from benchmarks.load.workload import CHANNELS, GROUP, INSTRUMENTS, random_records
from benchmarks.measures.contenders import Contender, Kind, measured
from benchmarks.rounds import rounds
from benchmarks.rounds.commits import Commits, hz_histogram, hz_quartiles
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Round, begin, expect, interleaved, print_round
from benchmarks.rounds.summary import commit_rate
from benchmarks.servers import Servers
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import running_daemon
from benchmarks.strategies.postgresql import bare_copy
from benchmarks.strategies.strategy import Strategy, Triggers
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend
from schemas.config import JournalConfig
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array

WARM_UP = 0.3
"""Part of a round's time that everybody has before the rounds."""

TRIGGERS = 64
"""Triggers that the strategies write, round and round."""

LEAST_AHEAD = 2 * TOGETHER
"""Triggers that the sender is ahead at least: one write that is committed, and one that is put together."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What the warm-up says of the daemon with a layout: triggers a commit, and how far ahead its sender may be."""

    batch: int
    ahead: int


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What contenders write: strategies Python's floats, ceilings encoded batches; the daemon has a sender."""

    triggers: Triggers
    batches: Mapping[Layout, list[bare_copy.Encoded]]
    ahead: Mapping[Layout, int]


def measure(servers: Servers, plan: Plan) -> dict[str, list[Round]]:
    """Run all rounds on all servers; return them by the contender's name."""
    runs: dict[str, rounds.Contender] = {}
    for backend, server in servers.items():
        runs |= _prepared(server, measured(backend, plan), plan)
    expect("throughput", plan.rounds * len(runs))

    def on_begin(name: str, number: int) -> None:
        begin("throughput", f"round {number + 1} of {plan.rounds}, {name}")

    return interleaved(runs, rounds=plan.rounds, begin=on_begin, end=print_round)


def _prepared(server: Server, contenders: tuple[Contender, ...], plan: Plan) -> dict[str, rounds.Contender]:
    """Warm up, and make the contenders ready to run. The daemon comes first: the ceiling copies batches of its size."""
    inputs = _inputs(server, plan)
    here = [contender for contender in contenders if contender.durability in server.durabilities()]
    if plan.warms_up:
        for contender in here:
            if contender.kind is not Kind.DAEMON:  # which has warmed up
                begin("warm-up", contender.name)
                done = _run(server, contender, inputs, plan, max(0.2, WARM_UP * plan.write_s))()
                print_round(f"{contender.name} (warm-up)", 0, done)
    return {contender.name: _run(server, contender, inputs, plan, plan.write_s) for contender in here}


def _inputs(server: Server, plan: Plan) -> Inputs:
    paces = {layout: _pace(server, layout, plan) for layout in plan.layouts}
    has_ceiling = server.backend is Backend.POSTGRESQL
    return Inputs(
        triggers=as_python(TRIGGERS),
        batches={layout: bare_copy.pool(layout, pace.batch) for layout, pace in paces.items()} if has_ceiling else {},
        ahead={layout: pace.ahead for layout, pace in paces.items()},
    )


def _run(server: Server, contender: Contender, inputs: Inputs, plan: Plan, seconds: float) -> rounds.Contender:
    if contender.strategy is not None:
        return partial(strategy_round, server, contender.strategy, inputs.triggers, seconds)
    layout = contender.layout
    assert layout is not None
    if contender.kind is Kind.CEILING:
        batches = inputs.batches[layout]
        return partial(ceiling_round, server, layout, batches, seconds, with_ledger=contender.with_ledger)
    return partial(daemon_round, server, layout, contender.durability, plan.send_s, inputs.ahead[layout])


def _pace(server: Server, layout: Layout, plan: Plan) -> Pace:
    begin("warm-up", f"{server.backend}-daemon_{layout}")
    durability, seconds = server.durabilities()[0], max(0.5, WARM_UP * plan.send_s)
    ahead = plan.probe_ahead
    for what in ("probe", "warm-up") if plan.warms_up else ("probe",):
        warm = daemon_round(server, layout, durability, seconds, ahead)
        print_round(f"{server.backend}-daemon_{layout} ({what})", 0, warm)
        ahead = max(LEAST_AHEAD, round(plan.ahead_s / warm.seconds))
    return Pace(batch=round(warm.facts["triggers a commit"]), ahead=ahead)


def strategy_round(server: Server, strategy: Strategy, triggers: Triggers, seconds: float) -> Round:
    """One round of a strategy, in tables of its own.

    Raises:
        WrongInDatabase: they do not hold as many readings as were acknowledged.
    """
    schema = server.new_name()
    with server.holding(strategy.durability):
        commits = strategy.write(server.dsn, schema, triggers, seconds)
    expect_readings(strategy.slug, server.count(schema), commits.readings)
    server.drop(schema)
    return round_of(commits)


def ceiling_round(
    server: Server, layout: Layout, batches: list[bare_copy.Encoded], seconds: float, *, with_ledger: bool
) -> Round:
    """One round of the ceiling, in fresh tables like the daemon's."""
    schema = server.fresh_schema(layout)
    commits = bare_copy.write(server.dsn, schema, batches, seconds, with_ledger=with_ledger)
    verified = bare_copy.readings(server.dsn, schema, layout)
    expect_readings(f"bare COPY, {layout}", verified, commits.readings)
    server.drop(schema)
    return round_of(commits)


def daemon_round(
    server: Server,
    layout: Layout,
    durability: Durability,
    seconds: float,
    ahead: int,
    journal_mib: float = JournalConfig().max_mib,
) -> Round:
    """Send at full speed for so many seconds, wait until all is committed, and check the database.

    ahead: triggers that are sent and not yet acknowledged, at most. journal_mib: the journal's size, 0 for none.

    Raises:
        WrongInDatabase: it does not hold exactly what was sent.
    """
    with (
        server.holding(durability),
        running_daemon(
            server, layout, durability=durability, acknowledge_every_ms=0.0, journal_mib=journal_mib
        ) as process,
    ):
        sent = send(process.port, seconds=seconds, ahead=ahead)
        status = process.status()
        cpu_s = process.cpu_s()
    late = verify(server, process.schema, layout, sent.triggers, random_records(BANK))
    server.drop(process.schema)
    rate, committing_s = commit_rate(sent.acks, INSTRUMENTS)
    acknowledged, triggers = sent.commits()
    return Round(
        seconds=1 / rate,
        facts={
            "triggers": sent.triggers,
            "triggers a commit": sent.triggers / status.store.commits,
            **hz_quartiles(acknowledged, triggers),
            "triggers with late readings": late,
            "seconds of commits": committing_s,
            "seconds of sending": seconds,
            "daemon CPU s": cpu_s,
        },
        hz_counts=hz_histogram(acknowledged, triggers).tolist(),
    )


def round_of(commits: Commits) -> Round:
    """A round, from the time its commits took."""
    counts = hz_histogram(commits.acknowledged, commits.triggers)
    return Round(seconds=commits.seconds_a_trigger, facts=commits.facts(), hz_counts=counts.tolist())


def expect_readings(what: str, found: int, wanted: int) -> None:
    """Compare what the database holds with what it acknowledged.

    Raises:
        WrongInDatabase: they differ.
    """
    if found != wanted:
        raise WrongInDatabase(f"{what}: the database holds {found} readings, it acknowledged {wanted}")


def as_python(triggers: int) -> list[list[tuple[float, float, float, float]]]:
    """Random triggers as drivers are given them."""
    records = random_records(triggers)
    columns = [records[name].tolist() for name in CHANNELS]
    return [list(zip(*(column[k] for column in columns), strict=True)) for k in range(triggers)]


# --- the ledger of a run, checked ------------------------------------------------------------------------------------

SAMPLE = 20
"""Triggers whose values are compared bit by bit in PostgreSQL, whose SQL counts the others."""

SLICE = 20_000
"""Triggers that are read at once where all are read: some 130 MB, and 200 s on the instruments' clock. In the arrays
layout a store looks a minute around for readings that were late, so that much shorter slices would cost more."""

LEDGER = """
    SELECT count(*), count(DISTINCT trigger_id), min(trigger_id), max(trigger_id),
           count(*) FILTER (WHERE arrived <> expected OR expected <> {n} OR duplicates <> 0)
    FROM {schema}.bpm_ledger
"""
LATE = "SELECT count(*) FROM {schema}.bpm_ledger WHERE late <> 0"
# 120 readings of a trigger whose two masks are full are one of each instrument.
ROWS = """
    SELECT count(*), count(*) FILTER (WHERE n = {n} AND low = (1::int8 << 60) - 1 AND high = (1::int8 << 60) - 1)
    FROM (SELECT count(*) AS n, bit_or(CASE WHEN instrument < 60 THEN 1::int8 << instrument ELSE 0 END) AS low,
                 bit_or(CASE WHEN instrument >= 60 THEN 1::int8 << (instrument - 60) ELSE 0 END) AS high
          FROM {schema}.bpm GROUP BY run, trigger_id) AS triggers
"""
ARRAYS = """
    SELECT count(*), count(DISTINCT trigger_id) FILTER (
        WHERE array_length(time_offset_ns, 1) = {n}
          AND array_position(time_offset_ns, (-9223372036854775808)::int8) IS NULL
    ) FROM {schema}.bpm
"""


class WrongInDatabase(Exception):
    """The database does not hold what was sent."""


def verify(server: Server, schema: str, layout: Layout, triggers: int, bank: Array) -> int:
    """Check that triggers 1 to `triggers` are there, each reading once, and the values.

    Returns how many triggers got readings after their timeout: those a sender was held back with in between.

    bank: `GROUP.record`, shape (k, INSTRUMENTS): trigger n was sent with the values of bank[(n - 1) % k].

    Raises:
        WrongInDatabase: something is missing, double or different.
    """
    if server.backend is Backend.POSTGRESQL:
        return _by_sql(server.dsn, schema, layout, triggers, bank)
    return asyncio.run(_by_store(server.store(schema, layout), triggers, bank))


def _by_sql(dsn: str, schema: str, layout: Layout, triggers: int, bank: Array) -> int:
    """Count in the tables themselves, and compare the values of a sample as the view shows them."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(LEDGER.format(schema=schema, n=INSTRUMENTS)).fetchone()
        _expect("the ledger", found, (triggers, triggers, 1, triggers, 0))
        text = ROWS if layout is Layout.ROWS else ARRAYS
        found = connection.execute(text.format(schema=schema, n=INSTRUMENTS)).fetchone()
        _expect("the readings", found, (triggers, triggers))
        sample = sorted({1, triggers, *np.random.default_rng(triggers).integers(1, triggers + 1, SAMPLE).tolist()})
        columns = ", ".join(CHANNELS)
        values = connection.execute(
            f"SELECT {columns} FROM {schema}.{GROUP.name}_readings WHERE trigger_id = ANY(%s)"
            " ORDER BY trigger_id, instrument",
            [sample],
        ).fetchall()
        late = connection.execute(LATE.format(schema=schema)).fetchone()
    sent = bank[(np.array(sample) - 1) % len(bank)]
    wanted = np.stack([sent[name].ravel() for name in CHANNELS], axis=1)
    if not np.array_equal(np.array(values), wanted):
        raise WrongInDatabase(f"{schema}: values differ from those sent, in a sample of {len(sample)} triggers")
    assert late is not None
    return int(late[0])


async def _by_store(store: Store, triggers: int, bank: Array) -> int:
    """Read everything back, as the store gives it, and compare each reading."""
    await store.open()
    try:
        ledger = await store.ask(LedgerTail(group=GROUP, most=2 * triggers))
        wrong = (ledger["arrived"] != ledger["expected"]) | (ledger["expected"] != INSTRUMENTS)
        _expect("ledger rows", len(ledger), triggers)
        _expect("the ledger's triggers", bool((ledger["trigger"] == np.arange(1, triggers + 1)).all()), True)
        _expect("wrong ledger rows", int((wrong | (ledger["duplicates"] != 0)).sum()), 0)
        first = 1
        async for found in _slices(store, ledger):
            _compare(found, first, bank)
            first += len(found) // INSTRUMENTS
        _expect("the readings' triggers", first - 1, triggers)
        return int((ledger["late"] != 0).sum())
    finally:
        await store.close()


async def _slices(store: Store, ledger: Array) -> AsyncIterator[Array]:
    """All readings there are, in the order of their triggers, and times beyond those of the ledger with them."""
    edges = [-(2**62), *ledger["time_ns"][SLICE::SLICE].tolist(), 2**62]
    for start, end in pairwise(edges):
        yield await store.ask(WindowReadings(group=GROUP, start_ns=start, end_ns=end))


def _compare(found: Array, first: int, bank: Array) -> None:
    count = len(found) // INSTRUMENTS
    numbers = np.arange(first, first + count)
    _expect("readings of a slice", len(found), count * INSTRUMENTS)
    shaped = found.reshape(count, INSTRUMENTS)
    whole = (shaped["trigger"] == numbers[:, None]).all() and (shaped["instrument"] == np.arange(INSTRUMENTS)).all()
    _expect(f"whether triggers {first} to {first + count - 1} have each instrument once", bool(whole), True)
    sent = bank[(numbers - 1) % len(bank)]
    for name in CHANNELS:
        if not np.array_equal(shaped[name], sent[name]):
            raise WrongInDatabase(f"values of {name} differ from those sent, in triggers from {first} on")


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongInDatabase(f"{what}: counted {found}, sent {wanted}")
