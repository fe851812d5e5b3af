"""How an operator opens the database: mongosh."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.checking.problems import without_passwords
from schemas.config import DatabaseConfig


@contextmanager
def terminal_of(database: DatabaseConfig, _state_dir: Path, _program: str) -> Iterator[tuple[list[str], str]]:
    """The command, which asks for the password, and what names the schema there."""
    assert database.dsn is not None
    dsn = without_passwords(database.dsn).replace(":***@", "@")
    yield ["mongosh", dsn], f"use {database.schema_name}"
