"""The scenarios of the paper on the reference conditions database: generated in columns, loaded in bulk, and asked.

What is generated follows from the scenario and the seed alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from backends.conditions import ConditionsStore
from benchmarks.conditions.asking import MAJORS, MINORS
from schemas.conditions.intervals import END, KEY_DTYPE, Intervals, Key, TagStatus
from schemas.readings import Array

AT_ONCE = 100_000
"""Intervals of one transaction, where a list has no more by itself."""

Progress = Callable[[int, int], None]
"""Called with how many intervals are stored, and how many there will be."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A global tag: so many payload types, and intervals of each."""

    name: str
    types: int
    intervals_a_type: int

    @property
    def intervals(self) -> int:
        """Of all types."""
        return self.types * self.intervals_a_type


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="tiny", types=10, intervals_a_type=10),
        Scenario(name="tiny-moderate", types=10, intervals_a_type=200),
        Scenario(name="moderate", types=100, intervals_a_type=200),
        Scenario(name="heavy-usage", types=100, intervals_a_type=5_000),
        Scenario(name="worst-case", types=200, intervals_a_type=26_000),
    )
}


def type_name(number: int) -> str:
    """Name of a payload type."""
    return f"type_{number:03d}"


def intervals_of(scenario: Scenario, number: int, seed: int = 0) -> Intervals:
    """The intervals of one type: from key (0, 0) on each ends where the next begins, and the last one is open."""
    rng = np.random.default_rng([seed, number])
    count = scenario.intervals_a_type
    numbers = np.sort(rng.choice(MAJORS * MINORS - 1, count - 1, replace=False)) + 1
    starts = np.zeros(count, KEY_DTYPE)
    starts["major"][1:], starts["minor"][1:] = np.divmod(numbers, MINORS)
    checksums = _checksums(rng, count)
    urls = np.empty(count, object)
    urls[:] = [f"{type_name(number)}/{text[:2]}/{text[2:4]}/{text}.json" for text in checksums]
    return Intervals(
        ids=np.zeros(count, np.int64),
        starts=starts,
        ends=np.append(starts[1:], np.array([tuple(END)], KEY_DTYPE)),
        urls=urls,
        checksums=checksums,
        sizes=rng.integers(200, 2_000_000, count),
        inserted_ns=np.zeros(count, np.int64),
    )


def random_keys(count: int, seed: int = 0) -> Array:
    """Keys at which every type of every scenario has something valid: KEY_DTYPE, shape (count)."""
    rng = np.random.default_rng([seed, 2**32 - 1])
    keys = np.empty(count, KEY_DTYPE)
    keys["major"], keys["minor"] = rng.integers(0, MAJORS, count), rng.integers(0, MINORS, count)
    return keys


def valid_at(scenario: Scenario, key: Key, seed: int = 0) -> dict[str, str]:
    """URL of what is valid at a key by type, computed from what is generated."""
    wanted = np.array(key.major * MINORS + key.minor)
    found = {}
    for number in range(scenario.types):
        intervals = intervals_of(scenario, number, seed)
        starts = intervals.starts["major"] * MINORS + intervals.starts["minor"]
        found[type_name(number)] = str(intervals.urls[np.searchsorted(starts, wanted, "right") - 1])
    return found


async def load(
    store: ConditionsStore,
    scenario: Scenario,
    *,
    tag: str | None = None,
    seed: int = 0,
    status: TagStatus = TagStatus.UNLOCKED,
    progress: Progress | None = None,
) -> None:
    """Store a scenario as a global tag; the types may be there already.

    tag: its name, by default that of the scenario.

    Raises:
        ConditionsRefused: the tag is there already.
        StoreUnavailable: the database does not answer.
    """
    name = tag or scenario.name
    await store.add_tag(name, TagStatus.UNLOCKED)
    there = {each.name for each in await store.types()}
    stored = 0
    for numbers in _parts(scenario):
        lists: dict[str, Intervals] = {}
        for number in numbers:
            kind = type_name(number)
            if kind not in there:
                await store.add_type(kind)
            added = await store.attach_list(name, (await store.add_list(kind)).name)
            lists[added.name] = intervals_of(scenario, number, seed)
        stored += await store.insert(lists)
        if progress is not None:
            progress(stored, scenario.intervals)
    if status is not TagStatus.UNLOCKED:
        await store.set_status(name, status)


def _parts(scenario: Scenario) -> Iterator[range]:
    step = max(1, AT_ONCE // scenario.intervals_a_type)
    for first in range(0, scenario.types, step):
        yield range(first, min(first + step, scenario.types))


def _checksums(rng: np.random.Generator, count: int) -> Array:
    text = rng.bytes(16 * count).hex()
    found = np.empty(count, object)
    found[:] = [text[at : at + 32] for at in range(0, 32 * count, 32)]
    return found
