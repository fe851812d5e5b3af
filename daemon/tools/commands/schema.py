"""`triggerlog schema`: prints the statements that make the schema, for the administrator of a database."""

from typing import Annotated

import typer

from backends import schema_statements
from daemon.core.configuration import load_config
from daemon.core.configuration.database import tables_of
from daemon.core.outcome import examples
from daemon.tools.options import File
from schemas.checking.dsn import Backend

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
