"""`triggerlog psql` and `triggerlog schema`: the database's own terminal, and the statements that make the schema."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from backends import schema_statements
from backends.kinds import KINDS
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.configuration.database import tables_of
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.options import App, File
from schemas.checking.dsn import Backend, without_password

app = App()


class Program(StrEnum):
    """Programs of PostgreSQL that are told their database alike."""

    PSQL = "psql"
    PG_DUMP = "pg_dump"
    PG_RESTORE = "pg_restore"
    PG_BASEBACKUP = "pg_basebackup"


@app.command(
    epilog=examples(
        "triggerlog psql beam.toml",
        "triggerlog psql beam.toml -c 'SELECT * FROM bpm_ledger LIMIT 5'",
        "triggerlog psql --program pg_dump beam.toml --format=custom --file=beam.dump",
    ),
    context_settings={"ignore_unknown_options": True},
)
def psql(
    file: File,
    arguments: Annotated[list[str] | None, typer.Argument(help="Passed on to psql.", show_default=False)] = None,
    program: Annotated[Program, typer.Option(help="What to run in place of psql.")] = Program.PSQL,
) -> None:
    """Open PostgreSQL's terminal on the database of a configuration.

    An embedded server that does not run is started for it, and stops afterwards.
    """
    loaded = load_config(file)
    database = loaded.config.database
    with KINDS[database.backend].implementation().terminal_of(database, loaded.state_dir, program) as (command, first):
        if database.backend is not Backend.POSTGRESQL:
            typed = f", then `{first}`" if first else ""
            raise CommandFailed(f"{file} names no PostgreSQL; open its database with `{shlex.join(command)}`{typed}")
        with _search_path(loaded, program, arguments or ()) as found:
            code = _run([*command, *(arguments or [])], _environment(loaded) | found)
    # As a shell reports a command that a signal ended.
    raise typer.Exit(code if code >= 0 else 128 - code)


@contextmanager
def _search_path(loaded: LoadedConfig, program: Program, arguments: Sequence[str]) -> Iterator[dict[str, str]]:
    """The environment in which psql finds the tables without their schema.

    Its start-up file sets that, and then does what is in the user's own: a pooler refuses PGOPTIONS.
    """
    if program is not Program.PSQL:
        yield {}
        return
    path = f"{loaded.config.database.schema_name},public"
    if not {"-X", "--no-psqlrc"}.isdisjoint(arguments):
        yield {"PGOPTIONS": f"-c search_path={path}"}
        return
    named = os.environ.get("PSQLRC")
    own = Path(named).expanduser() if named else Path(os.environ.get("HOME", "/"), ".psqlrc")
    lines = [f"SELECT set_config('search_path', '{path}', false) AS _search_path \\gset"]
    if own.is_file():
        quoted = str(own).replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"\\i '{quoted}'")
    with NamedTemporaryFile("w", encoding="utf-8", prefix="triggerlog-psqlrc-") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        yield {"PSQLRC": file.name}


def _environment(loaded: LoadedConfig) -> dict[str, str]:
    found = dict(os.environ)
    in_dsn = None if loaded.config.database.dsn is None else without_password(loaded.config.database.dsn)[1]
    password = in_dsn if loaded.password is None else loaded.password
    if password is not None:
        found["PGPASSWORD"] = password
    return found


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run it on this terminal to its end; return its exit code."""
    with subprocess.Popen(command, env=environment) as running, _ending_with(running):  # noqa: S603 - no shell is wanted
        return running.wait()


@contextmanager
def _ending_with(running: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave it to the program when this process ends: the server is then stopped in order.

    Ctrl-C reaches both, and is for the program alone: it cancels a statement of psql. What else would end this process
    is passed on.
    """

    def pass_on(number: int, _frame: object) -> None:
        if number != signal.SIGINT:
            running.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


EPILOG = examples(
    "triggerlog schema beam.toml",
    "triggerlog schema beam.toml | psql -v ON_ERROR_STOP=1 'postgresql://admin@db.example.org/beam'",
    "triggerlog schema beam.toml | mariadb -h db.example.org -u admin -p",
    "triggerlog schema beam.toml > beam.js; mongosh 'mongodb://admin@db.example.org' beam.js",
)


def schema(
    file: File,
    backend: Annotated[
        Backend | None, typer.Option(help="For another kind of database.", show_default="that of FILE")
    ] = None,
) -> None:
    """Print the SQL that the daemon would run on an empty server; asks no database."""
    config = load_config(file).config
    statements = schema_statements(
        backend or config.database.backend,
        schema=config.database.schema_name,
        logger=config.logger,
        **tables_of(config),
    )
    for statement in statements:
        typer.echo(f"{_ended(statement.strip())}\n")


def _ended(statement: str) -> str:
    """End a statement with a semicolon; a comment is not changed."""
    is_comment = statement.splitlines()[-1].lstrip().startswith(("--", "//"))
    return statement if is_comment or statement.endswith(";") else f"{statement};"
