"""kill -9 of a process that gives orders to a store of conditions, and of the server: an order is whole, or not at all.

The seed of the moments is printed; TRIGGERLOG_CRASH_SEED repeats them, as far as a machine repeats anything.
"""

import asyncio
import random
from functools import partial
from pathlib import Path

import pytest

from backends import open_conditions_store
from backends.conditions import ConditionsStore
from backends.throwaway.base import ThrowawayServer
from schemas.conditions.intervals import END, Interval
from tests.support.conditions import EVERY, content, everything, held, loose
from tests.support.conditions_crash_process import OPEN, ORDERS, TOGETHER, TYPES, live, prepare
from tests.support.kills import KILLS
from tests.support.lives import LASTS_S, SQL_SERVERS, Life, opened, until_killed


async def inserted(store: ConditionsStore) -> int:
    """See that each order's intervals are in all lists or in none; return the number of the last one, -1 for none."""
    lists = [found for tag in "ab" for found in (await content(store, tag))[1].values()]
    assert len(lists) == 2 * TYPES
    what = [[(each.url, each.start.major) for each in found] for found in lists]
    assert all(each == what[0] for each in what)
    count = len(what[0]) // TOGETHER
    assert what[0] == [(f"n{k // TOGETHER}", k) for k in range(TOGETHER * count)]
    assert [each.list for each in await store.intervals(0, EVERY)].count(None) == 0
    return count - 1


async def attached(store: ConditionsStore) -> int:
    """See that each order's interval is in the list or in none, once; return the number of the one in the list."""
    (name,) = (each.name for each in await store.lists() if each.tag == "a" and each.type == "t0")
    in_list = await held(store, name)
    assert [(each.start.major, each.end) for each in in_list] == [(OPEN, END)] * len(in_list)
    every = await store.intervals(0, EVERY)
    assert len({each.url for each in every}) == len(every)
    number = _number(in_list[0]) if in_list else -1
    # Some were stored, and not attached any more: the order was given again, with another interval.
    free = await loose(store)
    assert {each.id for each in every} == {each.id for each in (*in_list, *free)}
    assert set(range(number)) <= {_number(each) for each in free} <= set(range(number + 2))
    return number


def _number(interval: Interval) -> int:
    return int(interval.url.partition("-")[0])


async def cloned(store: ConditionsStore) -> int:
    """See that each clone has all lists or is not there; return the number of the newest, -1 for none."""
    clones = {each.name: each for each in await store.tags() if each.name not in "ab"}
    for name, each in clones.items():
        assert each.lists == len(await store.tag_lists(name)) == len((await content(store, name))[1]) == TYPES
    lists = await store.lists()
    assert {each.tag for each in lists} == {"a", "b", *clones}
    assert len(lists) == TYPES * (2 + len(clones))
    return max((int(name[1:]) for name in clones), default=-1)


SEEN = {"insert": inserted, "attach": attached, "clone": cloned}


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_a_process_is_killed_in_the_midst_of_its_orders(
    dsn: str, schema: str, tmp_path: Path, rng: random.Random
) -> None:
    async with opened(open_conditions_store, dsn, schema, tmp_path) as store:
        await prepare(store)
        for what in ORDERS:
            next_number = 0
            for _ in range(KILLS):
                life = await asyncio.to_thread(Life, live, dsn, schema, what, next_number)
                await asyncio.sleep(rng.uniform(0, LASTS_S))
                acknowledged = await asyncio.to_thread(life.end)
                # Whoever looks every second sees to it that nothing is left half done.
                await store.revisions()
                number = await SEEN[what](store)
                # One more may have happened and not been told.
                assert max(acknowledged, next_number - 1) <= number <= max(acknowledged, next_number - 1) + 1
                next_number = number + 1
            await store.drop()
            await prepare(store)
        await store.drop()


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_the_server_is_killed_in_the_midst_of_orders(
    throwaway: ThrowawayServer, schema: str, tmp_path: Path, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(throwaway.start)
    async with opened(open_conditions_store, dsn, schema, tmp_path) as store:
        await prepare(store)
        for what, order in ORDERS.items():
            number = -1
            for _ in range(max(1, KILLS // 2)):
                acknowledged = await until_killed(partial(order, store), number, throwaway, rng.uniform(0, LASTS_S))
                await asyncio.to_thread(throwaway.start)
                # The store is still usable.
                await store.revisions()
                number = await SEEN[what](store)
                assert acknowledged <= number <= acknowledged + 1
            before = await everything(store)
            async with opened(open_conditions_store, dsn, schema, tmp_path) as other:
                await other.create()
                assert await everything(other) == before
            await store.drop()
            await prepare(store)
