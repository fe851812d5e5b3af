"""Two processes that change one list at the same time: no torn list, and nothing is lost."""

import asyncio
import os
from pathlib import Path

import pytest

from backends import open_conditions_store
from schemas.config import DatabaseConfig
from tests.support.conditions import EVERY, bpm, held
from tests.support.conditions_crash_process import race
from tests.support.forked import CONTEXT
from tests.support.lives import SQL_SERVERS

TIMES = int(os.environ.get("TRIGGERLOG_RACES") or 200)
"""Orders of both processes together."""
LOOK_S = 0.05


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_two_processes_race_on_one_list(dsn: str, schema: str, tmp_path: Path) -> None:
    store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
    await store.create()
    name = await bpm(store)
    revision = (await store.tag("a")).revision
    pipes = [CONTEXT.Pipe(duplex=False) for _ in range(2)]
    processes = [
        CONTEXT.Process(target=race, args=(dsn, schema, name, TIMES // 2, which, said))
        for which, (_, said) in enumerate(pipes)
    ]
    for process in processes:
        await asyncio.to_thread(process.start)
    looks = 0
    while any(process.is_alive() for process in processes):
        found = await held(store, name)  # sees that they are in order and apart
        assert len({each.id for each in found}) == len(found)
        looks += 1
        await asyncio.sleep(LOOK_S)
    for process, (heard, _) in zip(processes, pipes, strict=True):
        await asyncio.to_thread(process.join)
        assert heard.recv() == TIMES // 2
    assert looks
    assert (await store.tag("a")).revision == revision + TIMES
    every = await store.intervals(0, EVERY)
    assert len({each.id for each in every}) == len(every)
    in_list = {each.id: each for each in await held(store, name)}
    assert {each.id: each for each in every if each.list == name} == in_list
    # Each interval that was attached is there, or detached; beside them are those that were split off.
    urls = {f"{which}-{k}" for which in range(2) for k in range(TIMES // 2)}
    assert {each.url for each in every} == urls
    assert {each.list for each in every} <= {name, None}
    await store.drop()
    await store.close()
