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

import orjson

from backends import open_conditions_store
from backends.conditions.base import ConditionsStore
from benchmarks.conditions.asking import ask
from benchmarks.conditions.designs import make_designs, sizes
from benchmarks.conditions.floating import wrong_rows
from benchmarks.conditions.orders import append_round, clone_round
from benchmarks.conditions.reading import Reader, WrongAnswer, readers, rows_of, timed_round
from benchmarks.conditions.scenarios import SCENARIOS, load, random_keys
from benchmarks.conditions.serving import Serving, serving
from benchmarks.conditions.strategies import OURS, STRATEGIES, Row
from benchmarks.rounds.plan import Plan
from benchmarks.rounds.progress import begin, print_line
from benchmarks.rounds.rounds import Round
from benchmarks.servers import Servers
from benchmarks.servers.base import PATIENCE_S, Server
from daemon.conditions.reading.content import TagContent
from daemon.conditions.reading.loading import load as load_content
from schemas.checking.dsn import Backend
from schemas.conditions.intervals import Key, TagStatus
from schemas.config import DatabaseConfig

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
    """Those that are measured, from small to large: what was asked for, or what the plan has."""
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
