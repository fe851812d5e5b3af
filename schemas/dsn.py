"""Which database a DSN names, and what is wrong with it: text only, nothing is asked of any server."""

from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from schemas.problems import Problem, suggestion, wrong


class Backend(StrEnum):
    """The databases there are stores for."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"  # MySQL and MariaDB, which speak the same protocol
    MONGODB = "mongodb"


SCHEMES: dict[str, Backend] = {
    "postgresql": Backend.POSTGRESQL,
    "postgres": Backend.POSTGRESQL,
    "mysql": Backend.MYSQL,
    "mariadb": Backend.MYSQL,
    "mongodb": Backend.MONGODB,
}
MYSQL_OPTIONS = ("unix_socket",)
MEND = (
    "write postgresql://user@host:port/name, mysql://user@host:port or mongodb://user@host:port,"
    " or leave it out for the embedded PostgreSQL"
)


def backend_of(dsn: str | None) -> Backend:
    """The database that a checked DSN names; without one it is the embedded PostgreSQL."""
    return Backend.POSTGRESQL if dsn is None else SCHEMES[dsn.partition("://")[0]]


def wrong_dsn(dsn: str) -> Iterator[Problem]:
    """Say what is wrong with a DSN; never what is in it, which may be a password."""
    scheme, found, _ = dsn.partition("://")
    backend = SCHEMES.get(scheme)
    if backend is None:
        known = f"{scheme!r} is not a database this version knows" if found else "names no database server"
        yield wrong(known, MEND)
    elif backend is not Backend.MONGODB:
        # A MongoDB URI may name several hosts, which only its driver can take apart.
        yield from _wrong_url(dsn, backend)


def _wrong_url(dsn: str, backend: Backend) -> Iterator[Problem]:
    try:
        parts = urlsplit(dsn)
        _ = parts.port  # parsed when asked for
    except ValueError:
        # Its message is not passed on: it quotes what could not be read, and with a slash in it that is the password.
        yield wrong("its host and port cannot be read", f"{MEND}; in a password write / as %2F and @ as %40")
        return
    if backend is Backend.MYSQL:
        name = unquote(parts.path.strip("/"))
        if name:
            mend = "take it out: in MySQL and MariaDB a schema is a database, and `schema` names it"
            yield wrong(f"names the database {name!r}", mend)
        for option, _ in parse_qsl(parts.query, keep_blank_values=True):
            if option not in MYSQL_OPTIONS:
                yield wrong(f"unknown option {option!r}", suggestion(option, MYSQL_OPTIONS))
