"""kill -9 of a process that reduces periods, and of the server: each reading is found raw or reduced, and once."""

import asyncio
import random
from typing import Any

import numpy as np
import pytest

from backends.base import StoreError, Tiered
from backends.decimation import figures_of, together
from backends.throwaway.base import ThrowawayServer
from schemas.queries import Totals, WindowReadings
from schemas.readings import Array
from tests.crashes.test_move_crashes import folder, rng, server
from tests.support.decimation_crash_process import CONFIG, keeper_of, live
from tests.support.kills import KILLS
from tests.support.lives import SQL_SERVERS, Life
from tests.support.retention_crash_process import GROUP, Filling, fill, filling_of, store_at

__all__ = ["folder", "rng", "server"]

LASTS_S = 0.6
BUCKET_NS = round(CONFIG.decimation.bucket_s * 1e9) if CONFIG.decimation.bucket_s else 0
EVER = (-(2**63), 2**63 - 1)


@pytest.fixture(params=SQL_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def raw_of(store: Any) -> Array:
    found: Array = await store.ask(WindowReadings(group=GROUP, start_ns=EVER[0], end_ns=EVER[1]))
    return found


async def see_whole(store: Any, before: Array) -> None:
    """See that the account has what is not there, and that figures and what is there are all that was stored."""
    found = await store.ask(Totals(group=GROUP, within_s=60))
    assert (found["stored"] + found["dropped"]).tolist() == found["triggers"].tolist()
    raw, reduced = await raw_of(store), await store.reduced(GROUP, *EVER)
    whole = together([figures_of(raw, GROUP, BUCKET_NS), reduced], GROUP)
    wanted = figures_of(before, GROUP, BUCKET_NS)
    for name in ("time_ns", "instrument", "readings"):
        np.testing.assert_array_equal(whole[name], wanted[name])
    for figure in ("n", "mean", "m2", "least", "greatest"):
        np.testing.assert_allclose(whole["ch0"][figure], wanted["ch0"][figure], rtol=1e-9, err_msg=figure)


async def see_it_end(store: Any, before: Array, filling: Filling) -> None:
    """See that whoever comes next ends it, and that nothing is left over."""
    keeper = keeper_of(store)
    await keeper.look()
    status = keeper.status()
    assert status is not None
    assert (status.problem, status.periods) == (None, filling.hours - 4)
    assert status.readings == (filling.hours - 4) * filling.triggers * GROUP.size
    if isinstance(store, Tiered):
        assert await store.moves() == ()
    assert len(await raw_of(store)) == 4 * filling.triggers * GROUP.size
    await see_whole(store, before)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.postgresql.decimation.STEP_BYTES", 2 * 8192)
    monkeypatch.setattr("backends.mysql.decimation.STEP_READINGS", 200)


async def test_the_daemon_is_killed_while_it_reduces(server: ThrowawayServer, schema: str, rng: random.Random) -> None:
    dsn = await asyncio.to_thread(server.start)
    store, filling = store_at(dsn, schema), filling_of(dsn)
    await store.open()
    await fill(store, filling)
    before = await raw_of(store)
    assert len(before) == filling.hours * filling.triggers * GROUP.size
    await store.close()
    for _ in range(KILLS):
        life = await asyncio.to_thread(Life, live, dsn, schema)
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(life.end)
        looking = store_at(dsn, schema)
        await see_whole(looking, before)
        await looking.close()
    store = store_at(dsn, schema)
    await store.open()
    await see_it_end(store, before, filling)
    await store.close()


async def test_the_server_is_killed_while_periods_are_reduced(
    server: ThrowawayServer, schema: str, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(server.start)
    store, filling = store_at(dsn, schema), filling_of(dsn)
    await store.open()
    await fill(store, filling)
    before = await raw_of(store)
    for _ in range(KILLS):
        under_way = asyncio.create_task(keeper_of(store).look())
        await asyncio.sleep(rng.uniform(0, LASTS_S))
        await asyncio.to_thread(server.kill)
        await under_way
        await asyncio.to_thread(server.start)
        try:
            await see_whole(store, before)
        except StoreError:
            # Of connections that were lost each is noticed once.
            await see_whole(store, before)
    await see_it_end(store, before, filling)
    await store.close()
