"""Questions to readings on the fast disk, on the slow one, and with the newest fifth on the fast one: all caches cold.

The three take turns. Each of them is a schema of its own with the same readings.
"""

import asyncio
import time
from collections.abc import Iterator

import numpy as np
import psycopg

from benchmarks.load.workload import INSTRUMENTS
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.tiers.plan import ALL, FAST, HOT, HOT_PART, MIX, PLACES, QUESTIONS, SLOW, Asked, Plan
from benchmarks.tiers.tiered import SLOW as TABLESPACE
from benchmarks.tiers.tiered import TieredServer, fill, hourly_store, move_all, periods_of
from schemas.batch import Layout

SETTINGS = {"max_parallel_workers_per_gather": "0"}
"""Of the server: as in the blog, one process answers."""
CACHE_MIB = 1
MEANS = {
    Layout.ROWS: "SELECT avg(top_in), count(*) FROM {s}.bpm",
    Layout.ARRAYS: "SELECT avg(v), count(*) FROM {s}.bpm, unnest(top_in) AS v",
}
LOOKED_UP = "SET enable_seqscan = off"
"""Random triggers are looked up by the indexes, as in the blog: partitions as small as these the planner would rather
read as a whole."""
TIMES = "SELECT time_ns, trigger_id FROM {s}.bpm_ledger WHERE trigger_id = ANY(%s)"
PICK = """
    SELECT avg(found.v), count(*)
    FROM unnest(%s::int8[], %s::int8[]) AS wanted (time_ns, trigger_id) CROSS JOIN LATERAL (
        SELECT {v} FROM {{s}}.bpm AS b{more}
        WHERE b.time_ns = wanted.time_ns AND b.trigger_id = wanted.trigger_id OFFSET 0
    ) AS found
"""
"""OFFSET 0: one look-up for each, and no join of all."""
PICKS = {
    Layout.ROWS: PICK.format(v="b.top_in AS v", more=""),
    Layout.ARRAYS: PICK.format(v="u.v", more=", unnest(b.top_in) AS u (v)"),
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
    with psycopg.connect(found.server.dsn, autocommit=True) as connection:
        if question == ALL:
            text, times = MEANS[layout].format(s=schema), None
        else:
            connection.execute(LOOKED_UP)
            rows = connection.execute(TIMES.format(s=schema).encode(), [ids(plan, question, number)]).fetchall()
            text, times = PICKS[layout].format(s=schema), [[row[0] for row in rows], [row[1] for row in rows]]
        # The session knows all tables then, and has read nothing of them.
        connection.execute(f"EXPLAIN {text}".encode(), times)
        begun = time.perf_counter()
        figure, readings = connection.execute(text.encode(), times).fetchall()[0]
        seconds = time.perf_counter() - begun
    wanted = INSTRUMENTS * (plan.periods * plan.triggers if times is None else len(times[0]))
    if readings != wanted:
        raise WrongAnswer(f"{layout}, {question}: {readings:,} readings are found, and {wanted:,} are there")
    return seconds, figure, readings
