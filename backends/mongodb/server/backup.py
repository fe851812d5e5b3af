"""Programs of MongoDB for operators: mongosh opens the database; mongodump and mongorestore keep an archive of it.

mongodump copies one collection after the other, so nobody may write meanwhile.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pymongo

from backends.backup import DatabaseTools, blocks_of, fed, found, running
from backends.mongodb.server.client import target_of
from backends.mongodb.server.errors import translated
from schemas.checking.problems import without_passwords
from schemas.config import DatabaseConfig


@contextmanager
def terminal_of(database: DatabaseConfig, _state_dir: Path, _program: str) -> Iterator[tuple[list[str], str]]:
    """The command, which asks for the password, and what names the schema there."""
    assert database.dsn is not None
    dsn = without_passwords(database.dsn).replace(":***@", "@")
    yield ["mongosh", dsn], f"use {database.schema_name}"


PACKAGE = "mongodb-database-tools, from https://www.mongodb.com/try/download/database-tools"
DUMP = ".archive"


@contextmanager
def backup_tools(
    database: DatabaseConfig, password: str | None, _state_dir: Path, *, restores: bool
) -> Iterator[DatabaseTools]:
    """Give the tools, with a file for the DSN that is there as long."""
    assert database.dsn is not None
    program = found(["mongorestore" if restores else "mongodump"], PACKAGE, shutil.which)
    dsn = _for_tools(database.dsn, password)
    with tempfile.NamedTemporaryFile("w", prefix="triggerlog-", suffix=".yaml") as login:  # of mode 0600
        login.write(f"uri: {json.dumps(dsn)}\n")
        login.flush()
        yield MongodbTools(dsn, [program, "--quiet", f"--config={login.name}", "--archive"])


def _for_tools(dsn: str, password: str | None) -> str:
    """Put the password into a DSN, and take a database out: the tools want it as an option alone."""
    scheme, _, rest = dsn.partition("://")
    place, _, path = rest.partition("/")
    database, _, options = path.partition("?")
    login, at, hosts = place.rpartition("@")
    if at and password is not None:
        place = f"{login.partition(':')[0]}:{quote(password, safe='')}@{hosts}"
    if at and database and "authSource=" not in options:
        options = f"{options}&authSource={database}".lstrip("&")
    return f"{scheme}://{place}/{'?' if options else ''}{options}"


class MongodbTools:
    """`DatabaseTools` of a server, with the command of one of the tools."""

    at_one_moment = False

    def __init__(self, dsn: str, command: Sequence[str]) -> None:
        self._dsn, self._command = dsn, command
        with self._client() as client:
            self.description = f"MongoDB {client.server_info()['version']}"

    def filled(self, schemas: Sequence[str]) -> list[str]:
        """Return those that have a collection."""
        with self._client() as client:
            return sorted(name for name in schemas if client[name].list_collection_names())

    def nbytes(self, schemas: Sequence[str]) -> int:
        """Sum the documents."""
        with self._client() as client:
            return int(sum(client[name].command("dbStats")["dataSize"] for name in schemas))

    def dumps(self, schemas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """An archive a database: mongodump takes one, or all of the server's."""
        return {f"{schema}{DUMP}": [schema] for schema in schemas}

    def dump(self, schemas: Sequence[str]) -> Iterator[bytes]:
        """Write mongodump's archive."""
        (schema,) = schemas
        with running([*self._command, f"--db={schema}"]) as process:
            yield from blocks_of(process.stdout)

    def restore(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Run mongorestore, which stops at the first error."""
        (schema,) = schemas
        command = [*self._command, "--stopOnError", f"--nsInclude={schema}.*"]
        with running(command, stdin=subprocess.PIPE) as process, fed(process, blocks):
            for _ in blocks_of(process.stdout):
                continue

    def drop(self, schemas: Sequence[str]) -> None:
        """Remove what was made before an error."""
        with self._client() as client:
            for schema in schemas:
                client.drop_database(schema)

    def removal(self, schemas: Sequence[str]) -> str:
        """Return what mongosh takes."""
        return "; ".join(f'db.getSiblingDB("{schema}").dropDatabase()' for schema in schemas)

    @contextmanager
    def _client(self) -> Iterator[pymongo.MongoClient[dict[str, object]]]:
        client = pymongo.MongoClient[dict[str, object]](self._dsn, appname="triggerlog")
        with translated(target_of(self._dsn)), client:
            yield client
