"""`triggerlog psql`: PostgreSQL's own terminal; of another database, the name of its client."""

import os
import shlex
from typing import Annotated
from urllib.parse import parse_qs, unquote, urlsplit

import typer

from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.options import File
from schemas.checking.dsn import Backend
from schemas.checking.problems import without_passwords
from schemas.config import DatabaseConfig

EXAMPLES = examples("triggerlog psql beam.toml", "triggerlog psql beam.toml -c 'SELECT * FROM bpm_ledger LIMIT 5'")

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
def psql(
    file: File,
    arguments: Annotated[list[str] | None, typer.Argument(help="Passed on to psql.", show_default=False)] = None,
) -> None:
    """Open PostgreSQL's own terminal on the database of a configuration, with its schema in the search path."""
    # Imported here, with the driver that comes along: every other command starts without.
    from backends.postgresql.server.embedded import psql_command  # noqa: PLC0415

    loaded = load_config(file)
    database = loaded.config.database
    if database.backend is not Backend.POSTGRESQL:
        raise CommandFailed(f"{file} names no PostgreSQL; open its database with {client_of(database)}")
    environment = {**os.environ, "PGOPTIONS": f"-c search_path={database.schema_name},public"}
    if loaded.password is not None:
        environment["PGPASSWORD"] = loaded.password
    command = [*psql_command(loaded.state_dir, database.dsn), *(arguments or [])]
    os.execve(command[0], command, environment)  # noqa: S606 - no shell is wanted


def client_of(database: DatabaseConfig) -> str:
    """How an operator opens a database that is no PostgreSQL: a command for a shell, without the password."""
    assert database.dsn is not None
    if database.backend is Backend.MONGODB:
        dsn = without_passwords(database.dsn).replace(":***@", "@")
        return f"`mongosh {shlex.quote(dsn)}`, then `use {database.schema_name}`"
    parts = urlsplit(database.dsn)
    socket = parse_qs(parts.query).get("unix_socket")
    if socket:
        place = ["--socket", socket[0]]
    else:
        place = ["-h", parts.hostname or "localhost", *(["-P", str(parts.port)] if parts.port else [])]
    authority = parse_qs(parts.query).get("ssl_ca")
    trust = ["--ssl-ca", authority[0], "--ssl-verify-server-cert"] if authority else []
    user = ["-u", unquote(parts.username)] if parts.username else []
    return f"`{shlex.join(['mariadb', *place, *trust, *user, '-p', database.schema_name])}`"
