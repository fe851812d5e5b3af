"""kill -9 of a process that loads a folder or reports on change, and of the server: nothing is lost, nothing is twice.

After each kill the order that may have happened is given again.
"""

import asyncio
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from backends import open_folders_store
from backends.folders.base import FoldersStore
from backends.throwaway.base import ThrowawayServer
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Folder
from schemas.readings import Array
from tests.support.folders_crash_process import CHANNELS, EACH, FOLDERS, insert, intervals, live, prepare
from tests.support.kills import KILLS
from tests.support.lives import LASTS_S, SQL_SERVERS, Life, opened, until_killed


async def settled(store: FoldersStore, what: str) -> int:
    """See that a folder has all of each order or none; return the number of the last one, -1 for none.

    The server may still be at the commit of a process that is gone: then it is looked at again.
    """
    before = None
    while before != (folder := await store.folder(f"/{what}")):
        before = folder
        found = await store.changes(folder.path, -1, OPEN - 1)
        snapshot = await store.snapshot(folder.path, EACH * folder.version - 1)
        position = await store.position(folder.path, "crashing")
    expected = everything(folder, what)
    assert found.tolist() == expected.tolist()
    valid = (expected["since"] < EACH * folder.version) & (expected["until"] >= EACH * folder.version)
    assert snapshot[["channel", "number"]].tolist() == expected[valid][["channel", "number"]].tolist()
    assert what == "report" or len(snapshot) == (CHANNELS if folder.version else 0)
    assert (0 if position is None else position.sequence) == folder.version
    return folder.version - 1


def everything(folder: Folder, what: str) -> Array:
    """What a folder has after so many orders as it is versions old."""
    orders = [intervals(folder, what, number) for number in range(folder.version)]
    expected = np.concatenate([np.empty(0, folder.dtype), *orders])
    expected = expected[np.lexsort((expected["since"], expected["channel"]))]
    follows = np.append(expected["channel"][1:] == expected["channel"][:-1], np.zeros(min(1, len(expected)), bool))
    if what != "load":
        # What comes next of the same channel ends it, or hides the rest of it.
        follows &= expected["until"] != expected["since"]
        expected["until"][follows] = np.roll(expected["since"], -1)[follows]
    return expected


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_a_process_is_killed_in_the_midst_of_its_insertions(
    dsn: str, schema: str, tmp_path: Path, rng: random.Random
) -> None:
    async with opened(open_folders_store, dsn, schema, tmp_path) as store:
        await prepare(store)
        for what in FOLDERS:
            acknowledged = -1
            for _ in range(KILLS):
                # What was acknowledged last is given again.
                life = await asyncio.to_thread(Life, live, dsn, schema, what, max(acknowledged, 0))
                await asyncio.sleep(rng.uniform(0, LASTS_S))
                acknowledged = max(acknowledged, await asyncio.to_thread(life.end))
                number = await settled(store, what)
                # One more may have happened and not been told.
                assert acknowledged <= number <= acknowledged + 1
            assert await insert(store, what, number + 1)
            assert not await insert(store, what, number + 1)
            assert await settled(store, what) == number + 1
        await store.drop()


@pytest.mark.parametrize("server", SQL_SERVERS)
async def test_the_server_is_killed_in_the_midst_of_insertions(
    throwaway: ThrowawayServer, schema: str, tmp_path: Path, rng: random.Random
) -> None:
    dsn = await asyncio.to_thread(throwaway.start)
    async with opened(open_folders_store, dsn, schema, tmp_path) as store:
        await prepare(store)
        for what in FOLDERS:
            acknowledged = -1
            for _ in range(max(1, KILLS // 2)):
                after_s = rng.uniform(0, LASTS_S)
                acknowledged = await until_killed(partial(insert, store, what), acknowledged, throwaway, after_s)
                await asyncio.to_thread(throwaway.start)
                # The store is still usable.
                assert acknowledged <= await settled(store, what) <= acknowledged + 1
                await insert(store, what, acknowledged + 1)
                assert await settled(store, what) == acknowledged + 1
                acknowledged += 1
