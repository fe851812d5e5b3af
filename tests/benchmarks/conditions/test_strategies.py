"""All strategies answer as the store does, on a real PostgreSQL."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from backends import open_conditions_store
from backends.conditions import ConditionsStore
from benchmarks.conditions.measure import make_designs, rounded, sizes
from benchmarks.conditions.scenarios import SCENARIOS, load, random_keys
from benchmarks.conditions.strategies import (
    MEMORY,
    STRATEGIES,
    Row,
    WrongAnswer,
    checked,
    connect,
    plan_of,
    reader,
    rows_of,
)
from daemon.conditions.content import TagContent
from daemon.conditions.content import load as load_content
from schemas.conditions.intervals import Key
from schemas.config import DatabaseConfig

SCHEMA = "conditions_strategies"
TAGS = ["tiny", "tiny-moderate"]
KEYS = [Key(0, 0), Key(999_999, 999), *(Key(*key) for key in random_keys(20, seed=3).tolist())]


async def filled(dsn: str, folder: Path) -> tuple[dict[tuple[str, Key], list[Row]], dict[str, TagContent]]:
    store: ConditionsStore = open_conditions_store(DatabaseConfig(dsn=dsn), schema=SCHEMA, state_dir=folder)
    try:
        await store.drop()
        await store.create()
        for tag in TAGS:
            await load(store, SCENARIOS[tag])
        wanted = {(tag, key): rows_of((await store.valid_at(tag, key))[1]) for tag in TAGS for key in KEYS}
        return wanted, {tag: await load_content(store.content(tag), 2**30) for tag in TAGS}
    finally:
        await store.close()


@pytest.fixture(scope="module")
def content(
    postgresql_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[tuple[str, Key], list[Row]], dict[str, TagContent]]:
    found = asyncio.run(filled(postgresql_dsn, tmp_path_factory.mktemp("conditions")))
    make_designs(postgresql_dsn, SCHEMA, TAGS)
    return found


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("tag", TAGS)
def test_each_answers_as_the_store(
    postgresql_dsn: str, content: tuple[dict[tuple[str, Key], list[Row]], dict[str, TagContent]], name: str, tag: str
) -> None:
    wanted, kept = content
    strategy = STRATEGIES[name]
    with connect(postgresql_dsn, SCHEMA, strategy) as connection:
        read = reader(connection, strategy, tag, kept[tag])
        for key in KEYS:
            assert sorted(read(key)) == wanted[tag, key]
            assert len(wanted[tag, key]) == SCENARIOS[tag].types
        if strategy.statement is not None:
            plan = plan_of(connection, strategy.statement, tag, KEYS[-1])
            assert "Execution Time" in plan
            assert "Buffers" in plan


def test_another_answer_ends_the_run(postgresql_dsn: str, content: tuple[object, dict[str, TagContent]]) -> None:
    _, kept = content
    strategy = STRATEGIES[MEMORY]
    with connect(postgresql_dsn, SCHEMA, strategy) as connection:
        other = reader(connection, strategy, "tiny", kept["tiny-moderate"])
        wanted = {key: sorted(other(key)) for key in KEYS}
        checked("memory", other, wanted)
        with pytest.raises(WrongAnswer, match=r"memory answers .* otherwise than the store"):
            checked("memory", reader(connection, strategy, "tiny", kept["tiny"]), wanted)


def test_each_design_holds_the_same_rows(postgresql_dsn: str, content: object) -> None:
    found = sizes(postgresql_dsn, SCHEMA)
    assert found.keys() == {"breakpoints", "reference", "covering"}
    assert min(min(each) for each in found.values()) > 0


def test_a_comb_iov_in_floating_point_forgets_the_minor() -> None:
    starts = np.array([(5, 0), (5, 3), (6, 0)], [("major", "<i8"), ("minor", "<i8")])
    keys = [Key(5, 1), Key(5, 7), Key(7, 0)]
    assert [rounded(starts, key) for key in keys] == [1, 1, 2]
