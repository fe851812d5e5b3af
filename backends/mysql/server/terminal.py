"""How an operator opens the database: the client of MariaDB."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from schemas.config import DatabaseConfig


@contextmanager
def terminal_of(database: DatabaseConfig, _state_dir: Path, _program: str) -> Iterator[tuple[list[str], str]]:
    """The command, which asks for the password; nothing is to be typed first."""
    assert database.dsn is not None
    parts = urlsplit(database.dsn)
    options = parse_qs(parts.query)
    if "unix_socket" in options:
        place = ["--socket", options["unix_socket"][0]]
    else:
        place = ["-h", parts.hostname or "localhost", *(["-P", str(parts.port)] if parts.port else [])]
    trust = ["--ssl-ca", options["ssl_ca"][0], "--ssl-verify-server-cert"] if "ssl_ca" in options else []
    user = ["-u", unquote(parts.username)] if parts.username else []
    yield ["mariadb", *place, *trust, *user, "-p", database.schema_name], ""
