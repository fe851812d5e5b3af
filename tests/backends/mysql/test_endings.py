"""A MariaDB store that is only asked ends at the server what nobody waits for any more."""

import asyncio

import pytest

from backends.base import ReadOnly
from backends.mysql import MysqlStore
from backends.mysql.server.address import address_of, connect
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from tests.support.batches import by_group, group_of

SLEEP = "SELECT SLEEP(60)"


async def test_a_question_that_is_cancelled_ends_at_the_server_too(mariadb_dsn: str, schema: str) -> None:
    group = group_of()
    store = MysqlStore(
        DatabaseConfig(dsn=mariadb_dsn, schema=schema),
        logger="main",
        groups=by_group(group),
        layouts={"bpm": Layout.ROWS},
        read_only=ReadOnly(connections=1, give_up_s=60),
    )
    onlooker = await connect(address_of(mariadb_dsn, None), program="onlooker", timeout_s=10)

    async def sessions() -> int:
        return len(await onlooker.fetch(f"SELECT id FROM information_schema.processlist WHERE info = '{SLEEP}'"))

    async def until(count: int) -> None:
        async with asyncio.timeout(60):
            while await sessions() != count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def ask() -> None:
        async with store._reader() as connection:
            await connection.run(SLEEP)

    asking = asyncio.create_task(ask())
    await until(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(0)
    await store.close()
    onlooker.terminate()
