"""A store in a database of its own in MongoDB, whose writers take turns: its connections and its collections."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pymongo

from backends.base import SchemaMismatch
from backends.mongodb.conditions.session import Session
from backends.mongodb.conditions.turns import Turn, Turns
from backends.mongodb.schema.create import check_rights, create_collection
from backends.mongodb.server.client import Client, make_client, target_of
from backends.mongodb.server.errors import login_refused, translated
from backends.mongodb.server.opened import OpenedDatabase
from schemas.batch import Durability
from schemas.config import DatabaseConfig


class TurnStore:
    """What such stores have in common.

    Args:
        database: where.
        schema: name of the database.
        password: for the DSN.
        connections: most that there are.
        what: is in it, such as `conditions`, for messages and for the name of the connections.
        collections: are made in this order. The first has the turn: a database that has it is one of these, however
            little a crash left of the others.
    """

    def __init__(
        self,
        database: DatabaseConfig,
        *,
        schema: str,
        password: str | None,
        connections: int,
        what: str,
        collections: Sequence[str],
    ) -> None:
        assert database.dsn is not None
        self._dsn, self._password = database.dsn, password
        self._schema, self._connections = schema, connections
        self._what, self._collections = what, collections
        self._timeout_s = database.command_timeout_s
        self._target = target_of(database.dsn)
        self._database = OpenedDatabase(self._make_client, schema, target=self._target, timeout_s=self._timeout_s)
        self._opened: Session | None = None
        self._turns = Turns(self._clear)

    async def create(self) -> None:
        """Create the collections or check them, and complete what a process that was killed has left."""
        with login_refused():
            async with self._session() as session:
                with pymongo.timeout(self._timeout_s):
                    await check_rights(session.database, self._target)
                    await self._see_free(session)
                    for name in self._collections:
                        await create_collection(session.database, {"create": name})
                await self._turns.complete_abandoned(session)

    async def close(self) -> None:
        """Give back the connections."""
        self._opened = None
        await self._database.close()

    async def drop(self) -> None:
        """Remove the database, where it is this store's."""
        async with self._session() as session:
            with pymongo.timeout(self._timeout_s):
                await self._see_free(session)
                await session.database.client.drop_database(self._schema)

    async def _clear(self, turn: Turn) -> None:
        """Remove what the owner of a turn that was taken over has left beside its order; nothing here."""

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Turn]:
        async with self._session() as session, self._turns.turn(session) as turn:
            yield turn

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        with translated(self._target):
            yield await self._connected()

    async def _connected(self) -> Session:
        database, server = await self._database.met()
        if self._opened is None:
            self._opened = Session(
                database=database,
                server=server,
                target=self._target,
                concern=server.write_concern(Durability.SYNC, self._timeout_s),
                timeout_s=self._timeout_s,
                turn=self._collections[0],
            )
        return self._opened

    def _make_client(self) -> Client:
        return make_client(
            self._dsn,
            password=self._password,
            program=f"triggerlog {self._what}",
            timeout_s=self._timeout_s,
            connections=self._connections,
        )

    async def _see_free(self, session: Session) -> None:
        """See that a database has nothing, or what this store makes.

        Raises:
            SchemaMismatch: it has something else.
        """
        there = await session.database.list_collection_names()
        if there and self._collections[0] not in there:
            raise SchemaMismatch(
                f"database {self._schema!r} of {self._target} has a collection {min(there)!r} and no {self._what}; set"
                f" another `schema` in [{self._what}]"
            )
