"""The measure of conditions: scenarios in one schema of a database, read, asked for and changed by turns.

A scenario is stored as a locked tag, which the server answers from memory, and cloned twice: one clone is answered from
the database, and the other is appended to.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import orjson
import psycopg
from psycopg import sql

from backends import open_conditions_store
from backends.conditions import ConditionsStore
from benchmarks.conditions.asking import MAJORS, MINORS, ask
from benchmarks.conditions.scenarios import SCENARIOS, Scenario, intervals_of, load, random_keys
from benchmarks.conditions.serving import Serving, serving
from benchmarks.conditions.strategies import OURS, STRATEGIES, Reader, Row, WrongAnswer, readers, rows_of, timed_round
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.rounds import Round, begin, print_line
from benchmarks.rounds.summary import percentiles
from benchmarks.servers import Servers
from benchmarks.servers.base import PATIENCE_S, Server
from daemon.conditions.content import TagContent
from daemon.conditions.content import load as load_content
from schemas.checking.dsn import Backend, Feature, supports
from schemas.conditions.intervals import END, Key, NewInterval, TagStatus
from schemas.config import DatabaseConfig
from schemas.readings import Array

READ, ALONE, HTTP, ORDER = KINDS = ("read", "read alone", "http", "order")
"""A statement; the same in a database that holds nothing else; a request; an order."""
FROM_MEMORY, FROM_DATABASE = "memory", "database"
APPEND, CLONE, LOAD = ORDERS = ("append", "clone", "load")
IN_BOTH = ("comb_lateral", OURS)
"""Strategies that are measured in a small database, too."""
CHECKED_KEYS = 2
MOST_CONTENT = 8 * 2**30
"""Bytes of a tag in memory: no limit that a scenario reaches."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """What takes turns. kind: one of KINDS. way: a strategy, where the answer is from, or one of ORDERS."""

    backend: Backend
    scenario: str
    kind: str
    way: str
    clients: int = 0

    @property
    def name(self) -> str:
        """Of it, among all."""
        return "-".join((self.backend, self.scenario, self.kind, self.way, *([str(self.clients)] * bool(self.clients))))

    def facts(self) -> dict[str, object]:
        """What is kept of it with the figures."""
        scenario = SCENARIOS[self.scenario]
        return {**asdict(self), "types": scenario.types, "intervals": scenario.intervals}


@dataclass(frozen=True, kw_only=True)
class Found:
    """Rounds of a contender; plan: of its statement, empty without."""

    rounds: list[Round]
    plan: str = ""


Run = Callable[[int], Awaitable[Round]]


def scenarios_for(backend: Backend, plan: Plan, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those that are measured, from small to large: what was asked for, or what the plan has.

    None where the database has no conditions.
    """
    if not supports(backend, Feature.CONDITIONS):
        return ()
    by_plan = plan.scenarios if backend is Backend.POSTGRESQL else plan.further_scenarios
    return tuple(name for name in SCENARIOS if name in (wanted or by_plan))


def contenders(backends: Iterable[Backend], plan: Plan, wanted: Sequence[str] = ()) -> Iterator[Contender]:
    """All contenders, by database and scenario."""
    for backend in backends:
        names = scenarios_for(backend, plan, wanted)
        for scenario in names:
            if backend is Backend.POSTGRESQL:
                for way in STRATEGIES:
                    yield Contender(backend=backend, scenario=scenario, kind=READ, way=way)
                for way in IN_BOTH if scenario == names[0] and len(names) > 1 else ():
                    yield Contender(backend=backend, scenario=scenario, kind=ALONE, way=way)
            for clients in plan.clients:
                for way in (FROM_MEMORY, FROM_DATABASE):
                    yield Contender(backend=backend, scenario=scenario, kind=HTTP, way=way, clients=clients)
            for way in ORDERS:
                yield Contender(backend=backend, scenario=scenario, kind=ORDER, way=way)


def measure(servers: Servers, plan: Plan, wanted: Sequence[str] = ()) -> dict[str, Found]:
    """All rounds by the contenders' names, one database after the other.

    Raises:
        WrongAnswer: a strategy or the server answers otherwise than the store.
    """
    found: dict[str, Found] = {}
    for backend, server in servers.items():
        all_of_it = list(contenders([backend], plan, wanted))
        if all_of_it:
            found |= asyncio.run(_measure(server, plan, all_of_it))
    return found


async def _measure(server: Server, plan: Plan, wanted: list[Contender]) -> dict[str, Found]:
    schema = server.new_name()
    names = list(dict.fromkeys(each.scenario for each in wanted))
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(_store(server, schema))
        found = {_name(server, name, ORDER, LOAD): Found(rounds=[await _loaded(store, server, name)]) for name in names}
        stored = await _stored(store, names)
        strategies = dict[str, Reader]()
        if server.backend is Backend.POSTGRESQL:
            await asyncio.to_thread(make_designs, server.dsn, schema, names)
            largest = _name(server, names[-1], ORDER, LOAD)
            found[largest] = Found(rounds=[_with_sizes(found[largest].rounds[0], sizes(server.dsn, schema))])
            for name in names:
                ready = stack.enter_context(readers(server.dsn, schema, name, *stored[name]))
                strategies |= {_name(server, name, READ, way): one for way, one in ready.items()}
        if any(each.kind == ALONE for each in wanted):
            ready = await _alone(stack, server, names[0])
            strategies |= {_name(server, names[0], ALONE, way): ready[way] for way in IN_BOTH}
        running = await stack.enter_async_context(serving(server, schema))
        for number, name in enumerate(names, 1):
            await _check_server(running, name, number, stored[name][1])
        runs: dict[str, Run] = {name: partial(_read, one, plan.read_s) for name, one in strategies.items()}
        runs |= {each.name: _request(running, each, plan) for each in wanted if each.kind == HTTP}
        runs |= {each.name: _order(store, each) for each in wanted if each.way in (APPEND, CLONE)}
        rounds = await _by_turns(runs, plan.condition_rounds)
    server.drop(schema)
    plans = {name: one.plan for name, one in strategies.items()}
    return found | {name: Found(rounds=done, plan=plans.get(name, "")) for name, done in rounds.items()}


async def _by_turns(runs: Mapping[str, Run], rounds: int) -> dict[str, list[Round]]:
    """`benchmarks.rounds.rounds.interleaved`, beside a server that has to be listened to."""
    found: dict[str, list[Round]] = {name: [] for name in runs}
    for number in range(rounds):
        for name, run in runs.items():
            begin("conditions", f"round {number + 1} of {rounds}, {name}")
            done = await run(number)
            found[name].append(done)
            print_line(f"  round {number + 1}  {name:<56} {1e3 * done.seconds:9.3f} ms")
    return found


def _name(server: Server, scenario: str, kind: str, way: str) -> str:
    return Contender(backend=server.backend, scenario=scenario, kind=kind, way=way).name


@asynccontextmanager
async def _store(server: Server, schema: str) -> AsyncIterator[ConditionsStore]:
    database = DatabaseConfig.model_validate({"dsn": server.dsn, "command_timeout_s": PATIENCE_S})
    store = open_conditions_store(database, schema=schema, state_dir=server.folder)
    try:
        await store.create()
        yield store
    finally:
        await store.close()


async def _loaded(store: ConditionsStore, server: Server, name: str) -> Round:
    begin("conditions", f"loading {name}")
    scenario = SCENARIOS[name]
    began = time.perf_counter()
    await load(store, scenario, status=TagStatus.LOCKED)
    seconds = time.perf_counter() - began
    for way in (FROM_DATABASE, APPEND):
        await store.clone_tag(scenario.name, f"{scenario.name}-{way}")
    # The first append to a list that is shared copies it, and is not timed.
    await append_round(store, f"{scenario.name}-{APPEND}", -1)
    server.settle()
    print_line(f"  {scenario.name}: {scenario.intervals:,} intervals in {seconds:.1f} s")
    keys = [Key(*key) for key in random_keys(20).tolist()]
    facts = {
        "load s": seconds,
        "intervals a second": scenario.intervals / seconds,
        "memory MiB": (await load_content(store.content(scenario.name), MOST_CONTENT)).nbytes / 2**20,
        "wrong in floating point": await asyncio.to_thread(wrong_rows, scenario, keys),
    }
    return Round(seconds=seconds, facts=facts)


def _with_sizes(found: Round, measured: Mapping[str, tuple[int, int]]) -> Round:
    facts = {
        f"{name} {part} MiB": size / 2**20
        for name, both in measured.items()
        for part, size in zip(("table", "indexes"), both, strict=True)
    }
    return Round(seconds=found.seconds, facts={**found.facts, **facts})


async def _stored(store: ConditionsStore, names: Sequence[str]) -> dict[str, tuple[TagContent, dict[Key, list[Row]]]]:
    """Of each scenario its content in memory, and what the store answers at a few keys."""
    found = {}
    for name in names:
        keys = [Key(*key) for key in random_keys(CHECKED_KEYS, seed=1).tolist()]
        wanted = {key: rows_of((await store.valid_at(name, key))[1]) for key in keys}
        found[name] = (await load_content(store.content(name), MOST_CONTENT), wanted)
    return found


async def _alone(stack: AsyncExitStack, server: Server, name: str) -> dict[str, Reader]:
    """Readers of a scenario in a schema that holds nothing else."""
    schema = server.new_name()
    store = await stack.enter_async_context(_store(server, schema))
    await load(store, SCENARIOS[name], status=TagStatus.LOCKED)
    await asyncio.to_thread(make_designs, server.dsn, schema, [name])
    found = (await _stored(store, [name]))[name]
    return stack.enter_context(readers(server.dsn, schema, name, *found))


async def _check_server(running: Serving, tag: str, tags: int, wanted: Mapping[Key, list[Row]]) -> None:
    seconds = await running.in_memory(tag, tags)
    print_line(f"  {tag}: in the server's memory after {seconds:.1f} s, {running.memory_mib:,.0f} MiB in all")
    for name in (tag, f"{tag}-{FROM_DATABASE}"):
        for key, rows in wanted.items():
            path = f"/api/cdb_rest/payloadiovs/?gtName={name}&majorIOV={key.major}&minorIOV={key.minor}"
            body = await asyncio.to_thread(ask, running.port, path)
            if sorted(tuple(row[:8]) for row in orjson.loads(body)) != rows:
                raise WrongAnswer(f"the server answers {key.major}, {key.minor} of {name} otherwise than the store")


async def _read(one: Reader, seconds: float, number: int) -> Round:
    return await asyncio.to_thread(timed_round, one, seconds, number)


def _request(running: Serving, each: Contender, plan: Plan) -> Run:
    tag = each.scenario if each.way == FROM_MEMORY else f"{each.scenario}-{FROM_DATABASE}"

    async def run(number: int) -> Round:
        return await running.round(tag, each.clients, plan.request_s, number)

    return run


def _order(store: ConditionsStore, each: Contender) -> Run:
    if each.way == APPEND:
        return partial(append_round, store, f"{each.scenario}-{APPEND}")
    return partial(clone_round, store, SCENARIOS[each.scenario])


# --- the reference’s design, and sizes -------------------------------------------------------------------------------

REFERENCE = (
    """
    CREATE TABLE {0}.reference (
        id bigint PRIMARY KEY, payload_list bigint NOT NULL, major_iov bigint NOT NULL, minor_iov bigint NOT NULL,
        major_end bigint NOT NULL, minor_end bigint NOT NULL, comb_iov decimal(38, 19) NOT NULL,
        payload_url text NOT NULL, checksum text NOT NULL, size bigint)
    """,
    # The product is exact; in floating point, or with 28 digits as in Python, minor would be rounded away.
    """
    INSERT INTO {0}.reference
    SELECT row_number() OVER (), l.id, b.major, b.minor,
           coalesce(b.next_major, 9223372036854775807), coalesce(b.next_minor, 9223372036854775807),
           b.major + b.minor * 0.0000000000000000001::decimal(38, 19), b.url, b.checksum, b.size
    FROM (SELECT *, lead(major) OVER following AS next_major, lead(minor) OVER following AS next_minor
          FROM {0}.breakpoints WINDOW following AS (PARTITION BY content ORDER BY major, minor)) b
    JOIN {0}.lists l ON l.content = b.content JOIN {0}.tags t ON t.id = l.tag
    WHERE b.id IS NOT NULL AND t.name = ANY(%s)
    """,
    "CREATE INDEX ON {0}.reference (payload_list, comb_iov)",
    "CREATE INDEX ON {0}.reference (payload_list, major_iov, minor_iov)",
)
COVERING = (
    "CREATE TABLE {0}.covering AS SELECT * FROM {0}.reference",
    """
    CREATE INDEX ON {0}.covering (payload_list, major_iov, minor_iov)
    INCLUDE (payload_url, checksum, size, major_end, minor_end)
    """,
)
"""Tables with the content of a store, in its own schema. `reference` is that of the reference conditions database: ends
and a `comb_iov` in each row, and an index of `comb_iov` beside one of the key. `covering` has the same rows, and an
index of the key that holds all that a read gives."""
SIZES = """
    SELECT c.relname, pg_table_size(c.oid)::int8, pg_indexes_size(c.oid)::int8
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname IN ('breakpoints', 'reference', 'covering')
    """


def make_designs(dsn: str, schema: str, tags: list[str]) -> None:
    """Fill the tables of all designs with what some tags of a store hold; the planner knows their contents then."""
    name = sql.Identifier(schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in (*REFERENCE, *COVERING):
            connection.execute(sql.SQL(text).format(name), [tags] if "ANY(%s)" in text else None)
        # VACUUM sets the bits of pages without which no read is of the index alone.
        for table in ("reference", "covering", "breakpoints", "lists", "tags", "types"):
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(schema, table)))


def sizes(dsn: str, schema: str) -> dict[str, tuple[int, int]]:
    """Bytes of the table and of the indexes of each design, by the name of its table."""
    with psycopg.connect(dsn) as connection:
        return {name: (table, indexes) for name, table, indexes in connection.execute(SIZES, [schema])}


# --- keys in floating point ------------------------------------------------------------------------------------------

SCALE = 1e19


def rounded(starts: Array, key: Key) -> int:
    """Tell which interval would be found at a key, by major + minor / 1e19 as float64; starts: KEY_DTYPE, in order."""
    combined = starts["major"] + starts["minor"] / SCALE
    return int(np.searchsorted(combined, key.major + key.minor / SCALE, "right")) - 1


def wrong_rows(scenario: Scenario, keys: Sequence[Key], seed: int = 0) -> float:
    """Compute which part of the rows of all answers would be those of another interval."""
    wrong = 0
    for number in range(scenario.types):
        starts = intervals_of(scenario, number, seed).starts
        exact = starts["major"] * MINORS + starts["minor"]
        for key in keys:
            right = int(np.searchsorted(exact, key.major * MINORS + key.minor, "right")) - 1
            wrong += rounded(starts, key) != right
    return wrong / (scenario.types * len(keys))


# --- orders ----------------------------------------------------------------------------------------------------------

APPENDS = 30
"""In a round."""


async def append_round(store: ConditionsStore, tag: str, number: int) -> Round:
    """Append open intervals behind the last one of the first list of a tag, one by one, each stored and attached."""
    name = next(iter(sorted((await store.tag_lists(tag)).items())))[1]
    first = MAJORS + (number + 1) * APPENDS
    times = [await _took(partial(_append, store, name, major)) for major in range(first, first + APPENDS)]
    return _round(times)


async def clone_round(store: ConditionsStore, scenario: Scenario, number: int) -> Round:
    """Clone a tag, and remove the clone, which is not timed."""
    name = f"{scenario.name}-clone-{number}"
    took = await _took(lambda: store.clone_tag(scenario.name, name))
    await store.remove_tag(name)
    return _round([took])


async def _append(store: ConditionsStore, name: str, major: int) -> None:
    new = NewInterval(url=f"appended/{major}.json", checksum="", size=1, start=Key(major, 0), end=END)
    added = await store.add_interval(new)
    await store.attach_interval(name, added.id)


async def _took(run: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await run()
    return time.perf_counter() - began


def _round(times: list[float]) -> Round:
    found = percentiles(1e3 * np.asarray(times))
    facts = {"p50 ms": found.p50, "p99 ms": found.p99, "least ms": 1e3 * min(times)}
    return Round(seconds=found.p50 / 1e3, facts=facts)
