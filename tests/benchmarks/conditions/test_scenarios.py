"""The scenarios: as large as the paper says, the same by the same seed, and stored whole."""

import numpy as np
import pytest

from backends.conditions import ConditionsStore
from benchmarks.conditions.scenarios import SCENARIOS, intervals_of, load, random_keys, type_name, valid_at
from daemon.tools.commands.bench import Scenario
from schemas.conditions.intervals import END, Key, TagStatus
from schemas.conditions.rules import ConditionsRefused
from tests.support.memory.conditions import MemoryConditionsStore


def test_the_command_knows_them_all() -> None:
    assert [str(each) for each in Scenario] == list(SCENARIOS)


def test_the_scenarios_are_as_large_as_in_the_paper() -> None:
    assert {name: (each.types, each.intervals) for name, each in SCENARIOS.items()} == {
        "tiny": (10, 100),
        "tiny-moderate": (10, 2_000),
        "moderate": (100, 20_000),
        "heavy-usage": (100, 500_000),
        "worst-case": (200, 5_200_000),
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_intervals_of_a_type_follow_one_another_and_from_the_seed(name: str) -> None:
    scenario = SCENARIOS[name]
    found, again = intervals_of(scenario, 3, seed=7), intervals_of(scenario, 3, seed=7)
    assert len(found) == scenario.intervals_a_type
    assert tuple(found.starts[0]) == (0, 0)
    assert (np.diff(found.starts["major"] * 1_000 + found.starts["minor"]) > 0).all()
    np.testing.assert_array_equal(found.ends[:-1], found.starts[1:])
    assert tuple(found.ends[-1]) == END
    assert len(set(found.urls)) == len(found)
    for column in ("starts", "urls", "checksums", "sizes"):
        np.testing.assert_array_equal(getattr(found, column), getattr(again, column))
        assert (getattr(found, column) != getattr(intervals_of(scenario, 4, seed=7), column)).any()
        assert (getattr(found, column) != getattr(intervals_of(scenario, 3, seed=8), column)).any()


async def test_a_loaded_scenario_answers_random_keys_as_it_was_generated() -> None:
    store: ConditionsStore = MemoryConditionsStore()
    await store.create()
    scenario, said = SCENARIOS["tiny-moderate"], list[tuple[int, int]]()
    await load(store, scenario, seed=7, progress=lambda done, total: said.append((done, total)))
    await load(store, scenario, tag="again", seed=8, status=TagStatus.LOCKED)
    tags = {each.name: each for each in await store.tags()}
    assert {name: (each.lists, each.intervals, each.status) for name, each in tags.items()} == {
        "tiny-moderate": (10, 2_000, TagStatus.UNLOCKED),
        "again": (10, 2_000, TagStatus.LOCKED),
    }
    assert len(await store.types()) == 10
    assert said[-1] == (2_000, 2_000)
    for major, minor in [*random_keys(5, seed=7).tolist(), (0, 0), (999_999, 999)]:
        key = Key(major, minor)
        for tag, seed in (("tiny-moderate", 7), ("again", 8)):
            _, found = await store.valid_at(tag, key)
            assert {each.type: each.interval.url for each in found} == valid_at(scenario, key, seed)
    with pytest.raises(ConditionsRefused):
        await load(store, scenario)


def test_keys_are_random_and_follow_from_the_seed() -> None:
    keys = random_keys(10_000, seed=1)
    np.testing.assert_array_equal(keys, random_keys(10_000, seed=1))
    assert len(np.unique(keys)) > 9_990
    assert (keys["major"].max(), keys["minor"].max()) > (990_000, 990)
    assert type_name(7) == "type_007"
