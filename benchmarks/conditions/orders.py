"""What changing conditions costs: appending to a long list, cloning a large tag."""

import time
from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np

from backends.conditions.base import ConditionsStore
from benchmarks.conditions.keys import MAJORS
from benchmarks.conditions.scenarios import Scenario
from benchmarks.rounds.rounds import Round
from benchmarks.rounds.summary import percentiles
from schemas.conditions.intervals import END, Key, NewInterval

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
