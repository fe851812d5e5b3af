"""Times strategies on a scenario that is stored, in turns, after each was compared with the store."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import psycopg

from benchmarks.conditions.keys import MAJORS, MINORS
from benchmarks.conditions.strategies import (
    STRATEGIES,
    Read,
    Row,
    Strategy,
    body_of,
    by_memory,
    by_orm,
    by_sql,
    connect,
    plan_of,
)
from benchmarks.rounds.rounds import Round
from benchmarks.rounds.summary import percentiles
from daemon.conditions.reading.content import TagContent
from schemas.conditions.intervals import Key, ValidAt

MOST_READS = 400
"""Of one round."""


class WrongAnswer(Exception):
    """A strategy does not answer as the store does; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A strategy that is ready for a tag.

    read: gives rows. timed: what is timed; of memory that is the answer as a client gets it. plan: of its statement.
    """

    name: str
    read: Read
    timed: Callable[[Key], object]
    plan: str


def rows_of(valid: Sequence[ValidAt]) -> list[Row]:
    """What the store answers, as the strategies do, in order."""
    found = [(each.type, each.interval) for each in valid]
    return sorted((type_, i.url, i.checksum, i.size, *i.start, *i.end) for type_, i in found)


def reader(connection: psycopg.Connection[Row], strategy: Strategy, tag: str, content: TagContent) -> Read:
    """A strategy for a tag."""
    if strategy.statement is None:
        return by_memory(content)
    return (by_orm if strategy.orm else by_sql)(connection, strategy.statement, tag)


def checked(name: str, read: Read, wanted: Mapping[Key, list[Row]]) -> None:
    """Compare a strategy with the store.

    Raises:
        WrongAnswer: it answers a key otherwise.
    """
    for key, rows in wanted.items():
        if sorted(read(key)) != rows:
            raise WrongAnswer(f"{name} answers {key.major}, {key.minor} otherwise than the store")


@contextmanager
def readers(
    dsn: str, schema: str, tag: str, content: TagContent, wanted: Mapping[Key, list[Row]]
) -> Iterator[dict[str, Reader]]:
    """All strategies, ready and compared with the store, each with a connection of its own; by name."""
    with ExitStack() as stack:
        found = {}
        for name, strategy in STRATEGIES.items():
            connection = stack.enter_context(connect(dsn, schema, strategy))
            read = reader(connection, strategy, tag, content)
            checked(name, read, wanted)
            plan = (
                "" if strategy.statement is None else plan_of(connection, strategy.statement, tag, next(iter(wanted)))
            )
            timed = read if strategy.statement is not None else partial(body_of, content)
            found[name] = Reader(name=name, read=read, timed=timed, plan=plan)
        yield found


def timed_round(one: Reader, seconds: float, seed: int) -> Round:
    """Read at random keys for some time, at least once; the seconds of the round are the median of a read."""
    drawn = random.Random(seed)  # noqa: S311 - keys to read at
    times: list[float] = []
    until = time.perf_counter() + seconds
    while not times or (time.perf_counter() < until and len(times) < MOST_READS):
        key = Key(drawn.randrange(MAJORS), drawn.randrange(MINORS))
        began = time.perf_counter()
        one.timed(key)
        times.append(time.perf_counter() - began)
    found = percentiles(1e3 * np.asarray(times))
    return Round(
        seconds=found.p50 / 1e3,
        facts={"p50 ms": found.p50, "p99 ms": found.p99, "least ms": 1e3 * min(times), "reads": float(len(times))},
    )
