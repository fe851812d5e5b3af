"""kill -9 of a process that drops periods, and of the server: the account is whole, and what goes is counted once."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from backends.base import Store
from backends.kinds import KINDS
from backends.throwaway.base import ThrowawayServer
from schemas.queries import Totals
from tests.support.kills import KILLS
from tests.support.lives import SERVERS, Life, random_moments
from tests.support.retention_crash_process import GROUP, Filling, fill, filling_of, keeper_of, live, store_at
from tests.support.servers import installed, server_folder

LASTS_S = 1.0


@pytest.fixture
def rng() -> random.Random:
    return random_moments()


@pytest.fixture
def throwaway(server: str) -> Iterator[ThrowawayServer]:
    """A server that the test may kill."""
    with server_folder() as folder:
        with installed():
            made = KINDS[SERVERS[server]].throwaway_server(folder)
            made.start()
        yield made
        made.stop()


async def see_conserved(store: Store, filling: Filling) -> int:
    """See that each run is stored or dropped as a whole, by data, ledger and account; return how many periods went."""
    found = await store.ask(Totals(group=GROUP, within_s=60))
    hours, triggers = filling.hours, filling.triggers
    assert found["run"].tolist() == list(range(1, hours + 1))
    assert found["triggers"].tolist() == [triggers] * hours
    assert (found["stored"] + found["dropped"]).tolist() == [triggers] * hours
    assert found["account_triggers"][0] == triggers * hours
    account = (await store.dropped())[GROUP.name]
    assert len({each.period.name for each in account}) == len(account)
    for each in account:
        if each.dropped_ns is not None:
            assert list(each.stored.values()) == [triggers]
            assert (each.triggers, each.readings) == (triggers, triggers * GROUP.size)
    return len(account)


async def see_ended(store: Store, filling: Filling) -> None:
    """What was begun ends with the next start, and all that has to go is gone."""
    await keeper_of(store).look()
    assert await see_conserved(store, filling) >= filling.hours - 4
    account = (await store.dropped())[GROUP.name]
    assert all(each.dropped_ns is not None for each in account)
    names = {partition.name for partition in (await store.partitions())[GROUP.name] if partition.rows}
    assert not names & {each.period.name for each in account}


@pytest.mark.parametrize("server", SERVERS)
async def test_the_daemon_is_killed_in_the_midst_of_drops(
    throwaway: ThrowawayServer, server: str, schema: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(throwaway.start)
    store, filling = store_at(dsn, schema), filling_of(dsn)
    await store.open()
    await fill(store, filling)
    await store.close()
    for _ in range(KILLS):
        life = await asyncio.to_thread(Life, live, dsn, schema)
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(life.end)
        looking = store_at(dsn, schema)
        await see_conserved(looking, filling)
        await looking.close()
    store = store_at(dsn, schema)
    await store.open()
    await see_ended(store, filling)
    await store.close()


@pytest.mark.parametrize("server", SERVERS)
async def test_the_server_is_killed_in_the_midst_of_drops(
    throwaway: ThrowawayServer, server: str, schema: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(throwaway.start)
    store, filling = store_at(dsn, schema), filling_of(dsn)
    await store.open()
    await fill(store, filling)
    for _ in range(KILLS):
        dropping = asyncio.create_task(keeper_of(store).look())
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(throwaway.kill)
        await dropping  # it says that the server is away, and is usable afterwards
        await asyncio.to_thread(throwaway.start)
        await see_conserved(store, filling)
    await see_ended(store, filling)
    await store.close()
