"""Stores in a MongoDB wire server, and triggers that are closed in more than one way."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pymongo
import pytest
from pymongo.asynchronous.database import AsyncDatabase

from backends.mongodb import MongodbStore
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.readings import InstrumentGroup
from tests.support.batches import by_group

Make = Callable[..., MongodbStore]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners that are found dead soon."""
    monkeypatch.setattr("backends.mongodb.server.positions.LASTS_S", 0.5)
    monkeypatch.setattr("backends.mongodb.server.positions.BEAT_S", 0.1)
    monkeypatch.setattr("backends.mongodb.server.positions.LOOK_S", 0.02)


@pytest.fixture
def dsn(mongodb_dsn: str) -> str:
    """The place where stores are made."""
    return mongodb_dsn


@pytest.fixture
async def make(dsn: str, schema: str) -> AsyncIterator[Make]:
    """Makes stores, not yet open, in one database."""
    async with AsyncExitStack() as stack:

        def make(
            group: InstrumentGroup,
            layout: Layout = Layout.ARRAYS,
            logger: str = "main",
            password: str | None = None,
            **settings: Any,
        ) -> MongodbStore:
            store = MongodbStore(
                DatabaseConfig(**{"dsn": dsn, "schema": schema, **settings}),
                logger=logger,
                groups=by_group(group),
                layouts={group.name: layout},
                password=password,
            )
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
async def database(mongodb_dsn: str, schema: str) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    async with pymongo.AsyncMongoClient[dict[str, Any]](mongodb_dsn) as client:
        yield client.get_database(schema)
