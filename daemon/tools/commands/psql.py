"""`triggerlog psql`: PostgreSQL's own terminal; of another database, the name of its client."""

import os
import shlex
from typing import Annotated

import typer

from backends.kinds import KINDS
from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.options import File
from schemas.checking.dsn import Backend

EXAMPLES = examples("triggerlog psql beam.toml", "triggerlog psql beam.toml -c 'SELECT * FROM bpm_ledger LIMIT 5'")

app = typer.Typer(add_completion=False)


@app.command(epilog=EXAMPLES, context_settings={"ignore_unknown_options": True})
def psql(
    file: File,
    arguments: Annotated[list[str] | None, typer.Argument(help="Passed on to psql.", show_default=False)] = None,
) -> None:
    """Open PostgreSQL's own terminal on the database of a configuration, with its schema in the search path."""
    loaded = load_config(file)
    database = loaded.config.database
    command, first = KINDS[database.backend].implementation().terminal_of(database, loaded.state_dir)
    if database.backend is not Backend.POSTGRESQL:
        typed = f", then `{first}`" if first else ""
        raise CommandFailed(f"{file} names no PostgreSQL; open its database with `{shlex.join(command)}`{typed}")
    environment = {**os.environ, "PGOPTIONS": f"-c search_path={database.schema_name},public"}
    if loaded.password is not None:
        environment["PGPASSWORD"] = loaded.password
    os.execve(command[0], [*command, *(arguments or [])], environment)  # noqa: S606 - no shell is wanted
