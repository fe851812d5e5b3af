"""How an operator opens the database: psql, which comes with the embedded server."""

from pathlib import Path

from backends.base import StoreError
from backends.postgresql.server.embedded import EmbeddedPostgresql, binaries
from schemas.config import DatabaseConfig


def terminal_of(database: DatabaseConfig, state_dir: Path) -> tuple[list[str], str]:
    """The command that opens psql on the database, the embedded one without a DSN; nothing is to be typed first.

    Raises:
        StoreError: the embedded server does not run, or psql is not there.
    """
    dsn = database.dsn or EmbeddedPostgresql(state_dir).found()
    if dsn is None:
        raise StoreError(f"no PostgreSQL runs under {state_dir}; it does while the daemon does")
    return [str(binaries() / "psql"), dsn], ""
