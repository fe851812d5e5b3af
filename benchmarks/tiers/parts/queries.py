"""Questions to readings on the fast disk, on the slow one, and with the newest fifth on the fast one: all caches cold.

The three take turns. Each of them is a schema of its own with the same readings.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator

import numpy as np
import psycopg

from backends.base import Store
from benchmarks.load.workload import GROUP, INSTRUMENTS
from benchmarks.rounds.progress import begin, print_line
from benchmarks.tiers.plan import ALL, FAST, HOT, HOT_PART, MIX, PLACES, QUESTIONS, SLOW, Plan
from benchmarks.tiers.record import Asked
from benchmarks.tiers.stored import fill, hourly_store, move_all, periods_of
from benchmarks.tiers.tiered import SLOW as TABLESPACE
from benchmarks.tiers.tiered import TieredServer
from schemas.batch import Layout
from schemas.queries import LedgerEnds, TriggersReadings

SETTINGS = {"max_parallel_workers_per_gather": "0"}
"""Of the server: as in the seed, one process answers."""
CACHE_MIB = 1
AT_ONCE = 20
"""Triggers that are asked for at once: of triggers that are near each other ours reads what lies between."""
MEANS = {
    Layout.ROWS: "SELECT avg(top_in), count(*) FROM {}.bpm",
    Layout.ARRAYS: "SELECT avg(v), count(*) FROM {}.bpm, unnest(top_in) AS v",
}


class WrongAnswer(Exception):
    """The same question has two answers."""


def queries(found: TieredServer, plan: Plan) -> Iterator[Asked]:
    """All questions of all rounds, in both layouts.

    Raises:
        WrongAnswer: readings are not the same wherever they lie.
    """
    for layout in Layout:
        schemas = {place: _stored(found, plan, layout, place) for place in PLACES}
        answers: dict[tuple[str, int], float] = {}
        for number in range(plan.rounds):
            for question in QUESTIONS:
                for place, schema in schemas.items():
                    begin("tiers", f"queries, {layout}, {question} on {place}, round {number + 1} of {plan.rounds}")
                    found.make_cold()
                    seconds, answer, readings = _ask(found, plan, layout, schema, question, number)
                    before = answers.setdefault((question, number), answer)
                    if not np.isclose(before, answer):
                        raise WrongAnswer(f"{layout}, {question}: {answer} on {place}, and {before} on {PLACES[0]}")
                    print_line(f"  {layout} {question} on {place}, round {number + 1}: {seconds:.3f} s")
                    yield Asked(
                        layout=layout,
                        place=place,
                        question=question,
                        round=number,
                        seconds=seconds,
                        readings=readings,
                    )
        for schema in schemas.values():
            found.server.drop(schema)


def ids(plan: Plan, question: str, number: int) -> list[int]:
    """The triggers that a round asks for, the same wherever they lie."""
    everything = plan.periods * plan.triggers
    first = round((1 - HOT_PART) * everything) if question == HOT else 0
    rng = np.random.default_rng([number, first])
    drawn: list[int] = rng.choice(everything - first, min(plan.ids, everything - first), replace=False).tolist()
    return [first + each for each in drawn]


def _stored(found: TieredServer, plan: Plan, layout: Layout, place: str) -> str:
    """A schema with readings that lie there."""
    schema = found.server.new_name()
    begin("tiers", f"queries, {layout}: readings for {place}")
    asyncio.run(_store(found, plan, layout, place, schema))
    # What is left is what a server at rest has: statistics, and pages that are all visible.
    with psycopg.connect(found.server.dsn, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) {schema}.bpm, {schema}.bpm_ledger".encode())
    return schema


async def _store(found: TieredServer, plan: Plan, layout: Layout, place: str, schema: str) -> None:
    store = hourly_store(found.server, schema, layout)
    try:
        await fill(store, plan.periods, plan.triggers)
        partitions = await periods_of(store)
        cold = {FAST: 0, SLOW: len(partitions), MIX: round((1 - HOT_PART) * len(partitions))}[place]
        began = time.monotonic()
        await move_all(store, partitions[:cold], TABLESPACE)
        took_s = time.monotonic() - began
        print_line(f"  {layout}, {place}: {cold} of {len(partitions)} hours moved in {took_s:.1f} s")
    finally:
        await store.close()


def _ask(
    found: TieredServer, plan: Plan, layout: Layout, schema: str, question: str, number: int
) -> tuple[float, float, int]:
    """Seconds, a figure that tells answers apart, and readings."""
    if question == ALL:
        with psycopg.connect(found.server.dsn) as connection:
            _load_catalog(connection, schema)
            begun = time.perf_counter()
            mean, count = connection.execute(MEANS[layout].format(schema).encode()).fetchall()[0]
            return time.perf_counter() - begun, mean, count
    return asyncio.run(_ask_for(hourly_store(found.server, schema, layout), ids(plan, question, number)))


def _load_catalog(connection: psycopg.Connection, schema: str) -> None:
    """Have the session know all tables of the group, of which it reads nothing."""
    connection.execute(f"EXPLAIN SELECT count(*) FROM {schema}.bpm".encode())


async def _ask_for(store: Store, triggers: list[int]) -> tuple[float, float, int]:
    try:
        run = int((await store.ask(LedgerEnds(group=GROUP)))[0]["run"])
        # What a session does once is not counted.
        other = next(number for number in itertools.count() if number not in triggers)
        await store.ask(TriggersReadings(group=GROUP, run=run, triggers=(other,)))
        total, readings = 0.0, 0
        begun = time.perf_counter()
        for first in range(0, len(triggers), AT_ONCE):
            some = tuple(triggers[first : first + AT_ONCE])
            answer = await store.ask(TriggersReadings(group=GROUP, run=run, triggers=some))
            total += float(answer["top_in"].sum())
            readings += len(answer)
        seconds = time.perf_counter() - begun
    finally:
        await store.close()
    if readings != INSTRUMENTS * len(triggers):
        raise WrongAnswer(f"{len(triggers)} triggers have {readings:,} readings, and not {INSTRUMENTS} each")
    return seconds, total, readings
