"""Processes that give orders to a store of conditions: until killed, or a number of times."""

import asyncio
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import uuid4

from backends import open_conditions_store
from backends.conditions import ConditionsStore
from backends.kinds import KINDS
from schemas.conditions.intervals import TagStatus
from schemas.config import DatabaseConfig
from tests.support.conditions import columns, new
from tests.support.lives import SQL_SERVERS

# Imported once, for all that are forked.
for _backend in SQL_SERVERS.values():
    KINDS[_backend].implementation("conditions")

TYPES = 3
TOGETHER = 4
"""Intervals that one order inserts into each list."""
OPEN = 1_000_000
"""Start of the open interval that each order of `attach` replaces."""


def live(dsn: str, schema: str, what: str, first: int, said: Connection) -> None:
    """Give orders of one kind, numbered from `first` on, until killed; say the number of each that was acknowledged."""

    async def orders() -> None:
        store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=Path())
        order = ORDERS[what]
        said.send(-1)
        for number in count(first):
            await order(store, number)
            said.send(number)

    asyncio.run(orders())


async def prepare(store: ConditionsStore) -> None:
    """Make the tags `a` and `b` with a list of each type."""
    await store.create()
    for type_ in range(TYPES):
        await store.add_type(f"t{type_}")
    for tag in "ab":
        await store.add_tag(tag, TagStatus.UNLOCKED)
        for type_ in range(TYPES):
            await store.attach_list(tag, (await store.add_list(f"t{type_}")).name)


async def insert(store: ConditionsStore, number: int) -> None:
    """Insert some intervals into every list of both tags: all of them, or none."""
    news = [new(f"n{number}", TOGETHER * number + k, TOGETHER * number + k + 1) for k in range(TOGETHER)]
    lists = [name for tag in "ab" for name in (await store.tag_lists(tag)).values()]
    await store.insert({name: columns(news) for name in lists})


async def attach(store: ConditionsStore, number: int) -> None:
    """Replace the open interval of a list: what was there is in no list then. These are two orders."""
    stored = await store.add_interval(new(f"{number}-{uuid4()}", OPEN))
    await store.attach_interval((await store.tag_lists("a"))["t0"], stored.id)


async def clone(store: ConditionsStore, number: int) -> None:
    """Clone a tag, and remove the clone before."""
    await store.clone_tag("a", f"c{number}")
    if number and f"c{number - 1}" in {each.name for each in await store.revisions()}:
        await store.remove_tag(f"c{number - 1}")


ORDERS = {"insert": insert, "attach": attach, "clone": clone}


def race(dsn: str, schema: str, name: str, times: int, which: int, said: Connection) -> None:
    """Attach intervals that trim and split those of another process; say how many, or what failed."""

    async def orders() -> None:
        store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=Path())
        for k in range(times):
            start = (7 * k + 3 * which) % 50
            stored = await store.add_interval(new(f"{which}-{k}", start, start + 5 + k % 7))
            await store.attach_interval(name, stored.id)
        await store.close()

    try:
        asyncio.run(orders())
        said.send(times)
    except BaseException as error:  # the other process is told, which fails
        said.send(repr(error))
        raise
