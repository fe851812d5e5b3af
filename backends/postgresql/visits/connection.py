"""The connection of one worker: made when needed, named to the server, given up when anything goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from backends.base import ReadOnly
from backends.postgresql.protocol.connection import Connection, target_of
from backends.postgresql.server.connecting import connect, milliseconds, see_no_pooler
from backends.postgresql.server.driver import DRIVER
from backends.postgresql.server.embedded import EmbeddedPostgresql
from backends.postgresql.server.errors import login_refused, taken_too_long, translated
from backends.sql.visits import VisitConnection
from backends.visits.store import Limits
from schemas.batch import Durability
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig

# A number that a pooler gave is that of nobody, or of somebody else.
INTERRUPT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = $1 AND state = 'active' AND usename = session_user AND application_name = 'triggerlog visits'
"""


class PostgresqlVisitConnection(VisitConnection[Connection]):
    """A connection that takes one call at a time; with `read_only` one that only asks."""

    def __init__(
        self,
        database: DatabaseConfig,
        visits: VisitsConfig,
        state_dir: Path,
        *,
        password: str | None = None,
        read_only: ReadOnly | None = None,
    ) -> None:
        self._database = database
        self._read_only = read_only
        limits = Limits(
            answer_s=read_only.give_up_s if read_only else database.command_timeout_s,
            statement_s=None if read_only else visits.statement_timeout_s,
        )
        self._durability = visits.durability
        self._password = password
        self._server = EmbeddedPostgresql(state_dir) if database.dsn is None else None
        super().__init__(
            DRIVER,
            schema=visits.schema_name,
            target=target_of(database.dsn) if database.dsn else "embedded PostgreSQL",
            connect=self._make,
            guarded=self._translated,
            limits=limits,
            interrupt=interrupt,
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        given_up = taken_too_long(self.target, self.limits.answer_s) if self._read_only else nullcontext()
        with translated(self.target), login_refused(), given_up:
            yield

    async def see_no_pooler(self) -> None:
        """See that the connection has a session of the server to itself; a worker's is like that of its run.

        Raises:
            ConfigurationRefused: it has not.
        """
        if self._database.dsn is not None:
            timeout_s = self._database.command_timeout_s
            with self._translated():
                await see_no_pooler(
                    self._database.dsn, password=self._password, timeout_s=timeout_s, target=self.target
                )

    async def _make(self) -> Connection:
        if self._read_only is not None:
            await self.see_no_pooler()  # nobody creates it
        with translated(self.target):
            return await connect(
                self._dsn(),
                password=self._password,
                timeout_s=self._database.command_timeout_s,
                program=f"triggerlog visits{' reader' if self._read_only else ''}",
                settings=self._settings(),
                give_up_s=self._read_only.give_up_s if self._read_only else None,
            )

    def _dsn(self) -> str | None:
        return self._database.dsn if self._server is None else self._server.running()

    def _settings(self) -> dict[str, str]:
        settings = {
            # Tables that grow from nothing have no statistics, or old ones, and a scan of all then looks cheap: what a
            # visit asks is always for an index.
            "enable_seqscan": "off",
            "jit": "off",
            # A worker is one of many: decision 0029 says the same of readers.
            "max_parallel_workers_per_gather": "0",
        }
        if self._durability is Durability.ASYNC:
            settings["synchronous_commit"] = "off"
        if self._read_only is None:
            # A wait for a lock is no slow statement.
            settings["lock_timeout"] = milliseconds(self._database.command_timeout_s)
        return settings


async def interrupt(fresh: Connection, late: Connection) -> bool:
    """End a session of ours over another one; False where it was not at work."""
    return bool(await fresh.fetchval(INTERRUPT, late.get_server_pid()))
