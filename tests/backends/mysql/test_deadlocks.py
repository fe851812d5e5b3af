"""A deadlock that ends the writer's transaction while further statements are on their way."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from backends.base import StoreUnavailable
from backends.mysql import MysqlStore
from backends.mysql.protocol.connection import Connection
from schemas.batch import Batch, JournalPosition
from schemas.queries import LedgerTail
from tests.backends.mysql.test_mysql import BOTH, BULK, Make, committed, database, everything, make, rng, some
from tests.support.batches import answers, batch_of, group_of

__all__ = ["database", "make", "rng"]

GROUP = group_of(size=5)
WITHIN_S = 60
# Of two transactions that wait for each other InnoDB ends the one that has changed less.
MUCH = "INSERT INTO {schema}.much SELECT seq FROM {schema}.seq_1_to_5000"
WAITING = (
    "SELECT COUNT(*) FROM information_schema.INNODB_LOCK_WAITS AS waits JOIN information_schema.INNODB_TRX AS mine"
    " ON waits.blocking_trx_id = mine.trx_id WHERE mine.trx_mysql_thread_id = CONNECTION_ID()"
)
"""How many wait for this connection; other tests may leave some that wait for others."""
LAST = "(SELECT * FROM {schema}.bpm WHERE time_ns > 0 FOR UPDATE)"
"""Locks the table of readings, and where the next ones go."""
POSITION = "(SELECT * FROM {schema}.positions FOR UPDATE)"
LEDGER = "(SELECT * FROM {schema}.bpm_ledger WHERE run = 1 FOR UPDATE)"
NEXT_OF_LEDGER = "(SELECT * FROM {schema}.bpm_ledger WHERE (time_ns, run, trigger_id) = (%d, 1, %d) FOR UPDATE)"
"""Finds no row, and locks where the next ones of the ledger go."""


class Rival:
    """Another connection to the schema, in a transaction that has changed much."""

    def __init__(self, mine: Connection, schema: str) -> None:
        self._mine = mine
        self._schema = schema

    async def begins(self) -> None:
        await self._mine.run(f"CREATE TABLE {self._schema}.much (n INT PRIMARY KEY) ENGINE=InnoDB")
        await self._mine.run("START TRANSACTION")
        await self._mine.run(MUCH.format(schema=self._schema))

    async def locks(self, select: str) -> None:
        await self._mine.fetch(select.format(schema=self._schema))

    async def ends(self) -> None:
        await self._mine.run("ROLLBACK")

    async def sees_it_wait(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not (await self._mine.fetch(WAITING))[0][0]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)  # the server answers from what it saw, if that was less than 0.1 s ago


@pytest.fixture
async def rival(database: Connection, schema: str) -> AsyncIterator[Rival]:
    return Rival(database, schema)


async def is_ended(store: MysqlStore, batch: Batch, rival: Rival, first: Sequence[str], then: str) -> None:
    """Commit a batch whose transaction is ended by a deadlock over what is locked first and then."""
    await rival.begins()
    for select in first:
        await rival.locks(select)
    committing = asyncio.create_task(store.commit(batch))
    await rival.sees_it_wait()
    await rival.locks(then)
    with pytest.raises(StoreUnavailable, match=r"Deadlock found .*\(1213\)"):
        await committing
    await rival.ends()


@BOTH
@BULK
async def test_a_deadlock_at_the_readings(
    make: Make, rng: np.random.Generator, layout: Any, bulk: bool, rival: Rival
) -> None:
    store = make(GROUP, layout, bulk, command_timeout_s=2 * WITHIN_S)
    await store.open()
    first = batch_of(GROUP, 1, some(GROUP, 1, 2, rng))
    second = batch_of(GROUP, 2, some(GROUP, 3, 2, rng))
    await store.commit(first)
    await is_ended(store, second, rival, [LAST], POSITION)
    assert await store.position("bpm") == JournalPosition(sequence=1)
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=GROUP, most=9)), first.ledger)
    await committed(store, second)
    parts = [(1, batch.readings.ravel()) for batch in (first, second)]
    np.testing.assert_array_equal(await everything(store, GROUP), answers(GROUP, parts))


@BOTH
@BULK
async def test_a_deadlock_before_the_position_moves(
    make: Make, rng: np.random.Generator, layout: Any, bulk: bool, rival: Rival
) -> None:
    store = make(GROUP, layout, bulk, command_timeout_s=2 * WITHIN_S)
    await store.open()
    first = batch_of(GROUP, 1, some(GROUP, 1, 2, rng))
    await store.commit(first)
    revised = first.ledger[:1].copy()
    revised["duplicates"] = 3
    second = dataclasses.replace(batch_of(GROUP, 2, some(GROUP, 3, 2, rng)), revised=revised)
    # The rows that are sent ahead wait for the rival, too: they must not keep the store from saying what went wrong.
    following = NEXT_OF_LEDGER % (second.ledger["time_ns"][0], second.ledger["trigger"][0])
    await is_ended(store, second, rival, [following, POSITION], LEDGER)
    assert await store.position("bpm") == JournalPosition(sequence=1)
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=GROUP, most=9)), first.ledger)
    np.testing.assert_array_equal(await everything(store, GROUP), answers(GROUP, [(1, first.readings.ravel())]))
    await committed(store, second)
    expected = np.concatenate([revised, first.ledger[1:], second.ledger])
    np.testing.assert_array_equal(await store.ask(LedgerTail(group=GROUP, most=9)), expected)
