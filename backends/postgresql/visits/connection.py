"""The connection of one worker: made when needed, named to the server, given up when anything goes wrong."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import asyncpg

from backends.base import Reading, StoreError, StoreUnavailable
from backends.postgresql.protocol.connection import Connection, give_back, target_of
from backends.postgresql.protocol.copy import NotBinaryCopy
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import login_refused, taken_too_long, translated
from backends.postgresql.server.locks import take
from backends.sql.connection import LockNotGranted
from backends.visits.base import VisitsLocked
from schemas.batch import Durability
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

# What the operator set may be stronger than `on` (remote_apply), or survive the server's crash too (local).
SYNCHRONOUS = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"

HOLD_TIMEOUT_S = 5.0


class VisitConnection:
    """A connection that takes one call at a time; with `reading` one that only asks."""

    def __init__(
        self,
        database: DatabaseConfig,
        visits: VisitsConfig,
        state_dir: Path,
        password: str | None,
        reading: Reading | None = None,
    ) -> None:
        self._database = database
        self._reading = reading
        self._timeout_s = reading.give_up_s if reading else database.command_timeout_s
        self._durability = visits.durability
        self._schema = visits.schema_name
        self._password = password
        self._server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
        self.target = target_of(database.dsn) if database.dsn else "embedded PostgreSQL"
        self._connection: Connection | None = None
        self._holds = False
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def session(self, *, unlimited: bool = False) -> AsyncIterator[Connection]:
        """Take the connection, for no longer than a transaction may take; `unlimited` for what reads whole tables.

        Whatever goes wrong ends the connection: half a COPY or half a transaction must never be met again.

        Raises:
            StoreUnavailable: the server does not answer; the next session connects again.
        """
        async with self._turn:
            try:
                with translated(self.target), login_refused(), self._given_up():
                    async with asyncio.timeout(None if unlimited else self._timeout_s):
                        yield await self._connected()
            except BaseException as error:
                self._give_up()
                if isinstance(error, NotBinaryCopy):
                    problem = f"the tables of visits in {self.target} are not as this store made them: {error}"
                    raise StoreError(problem) from error
                raise

    async def close(self) -> None:
        """Give the connection back."""
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await give_back(connection)

    async def hold(self) -> None:
        """Hold the schema over this connection, and over each that comes after it.

        Raises:
            VisitsLocked: another connection has it.
        """
        async with self.session() as connection:
            if not self._holds:
                await self._lock(connection)
                self._holds = True

    async def release(self) -> None:
        """Give the connection back, and the schema with it."""
        self._holds = False
        await self.close()

    def _given_up(self) -> AbstractContextManager[None]:
        return taken_too_long(self.target, self._timeout_s) if self._reading else nullcontext()

    def _give_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            with translated(self.target, otherwise=StoreUnavailable):
                self._connection = await asyncpg.connect(
                    self._dsn(),
                    password=self._password,
                    timeout=self._database.command_timeout_s,
                    server_settings=self._settings(),
                )
                if self._durability is Durability.SYNC:
                    await self._connection.execute(SYNCHRONOUS)
            if self._holds:
                await self._lock(self._connection)
        return self._connection

    async def _lock(self, connection: Connection) -> None:
        try:
            await take(connection, f"visits {self._schema}", HOLD_TIMEOUT_S)
        except LockNotGranted:
            raise VisitsLocked(self._schema, self.target) from None

    def _dsn(self) -> str | None:
        if self._server is None:
            return self._database.dsn
        dsn = self._server.found()
        if dsn is None:
            raise StoreUnavailable("the embedded PostgreSQL does not run; it does while the daemon does")
        return dsn

    def _settings(self) -> dict[str, str]:
        settings = {
            "application_name": "triggerlog visits",
            # Tables that grow from nothing have no statistics, or old ones, and a scan of all then looks cheap: what a
            # visit asks is always for an index.
            "enable_seqscan": "off",
            "jit": "off",
            # A worker is one of many: decision 0029 says the same of readers.
            "max_parallel_workers_per_gather": "0",
        }
        if self._durability is Durability.ASYNC:
            settings["synchronous_commit"] = "off"
        if self._reading is not None:
            settings |= {
                "application_name": "triggerlog visits reader",
                "default_transaction_read_only": "on",
                "statement_timeout": str(math.ceil(1000 * self._reading.give_up_s)),
            }
        return settings
