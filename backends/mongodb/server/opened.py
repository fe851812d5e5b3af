"""A database as a store has it open: a client that is made when it is needed, and what its server has told."""

from collections.abc import Callable

from pymongo import ReadPreference

from backends.mongodb.server.client import Client
from backends.mongodb.server.facts import Database, Server, check_server, meet_server


class OpenedDatabase:
    """Makes the client and meets the server at the first question, and again after `close`.

    Args:
        make_client: makes it.
        name: of the database.
        target: what messages call the server.
        timeout_s: for each command to the server when it is met.
        writes: whether it is written to, and read where that is; who only asks does so where the DSN says.
    """

    def __init__(
        self, make_client: Callable[[], Client], name: str, *, target: str, timeout_s: float, writes: bool = True
    ) -> None:
        self._make_client = make_client
        self._name, self._target = name, target
        self._timeout_s = timeout_s
        self._writes = writes
        self._client: Client | None = None
        self._server: Server | None = None

    async def met(self) -> tuple[Database, Server]:
        """The database and its server.

        Raises:
            StoreError: the server is too old, or cannot be used so.
        """
        if self._client is None:
            self._client = self._make_client()
        where = ReadPreference.PRIMARY if self._writes else None
        database = self._client.get_database(self._name, read_preference=where)
        if self._server is None:
            server = await meet_server(database, self._timeout_s)
            check_server(server, self._target, writes=self._writes)
            self._server = server
        return database, self._server

    async def close(self) -> None:
        """Give back the connections."""
        client, self._client, self._server = self._client, None, None
        if client is not None:
            await client.close()
