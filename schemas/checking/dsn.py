"""Which database a DSN names, and what is wrong with it: text only, nothing is asked of any server."""

from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from schemas.checking.addresses import is_loopback
from schemas.checking.problems import Problem, suggestion, wrong


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
MYSQL_OPTIONS = ("unix_socket", "ssl", "ssl_ca", "ssl_cert", "ssl_key")
"""`ssl=true` asks for TLS and trusts whom the system does, `ssl_ca` names the authority, the others what we show."""
FILE_OPTIONS = frozenset(
    {
        *("sslrootcert", "sslcert", "sslkey", "sslcrl"),  # PostgreSQL
        *("ssl_ca", "ssl_cert", "ssl_key"),  # MariaDB, MySQL
        *("tlsCAFile", "tlsCertificateKeyFile"),  # MongoDB
    }
)
"""Options that name a file."""
CHECKED = {
    Backend.POSTGRESQL: "sslmode=verify-full&sslrootcert=/path/of/ca.crt",
    Backend.MYSQL: "ssl_ca=/path/of/ca.crt",
    Backend.MONGODB: "tls=true&tlsCAFile=/path/of/ca.crt",
}
"""What to add to a DSN, so that nobody between can read or change what travels."""
FIX = (
    "write postgresql://user@host:port/name, mysql://user@host:port or mongodb://user@host:port,"
    " or leave it out for the embedded PostgreSQL"
)


def backend_of(dsn: str | None) -> Backend:
    """The database that a checked DSN names; without one it is the embedded PostgreSQL."""
    return Backend.POSTGRESQL if dsn is None else SCHEMES[dsn.partition("://")[0]]


def files_of(dsn: str) -> Iterator[tuple[str, str]]:
    """Each option of a checked DSN that names a file, and the file."""
    for option, value in _options(dsn):
        if option in FILE_OPTIONS and value != "system":
            yield option, value


def is_private(dsn: str) -> bool:
    """Whether what travels can be read by nobody between: it stays on this machine, or the server is checked by TLS."""
    options = dict(_options(dsn))
    backend = backend_of(dsn)
    if backend is Backend.POSTGRESQL and options.get("sslmode") in ("verify-ca", "verify-full"):
        return True
    if backend is Backend.MYSQL and (options.get("ssl") == "true" or "ssl_ca" in options):
        return True
    unchecked = {"tlsInsecure", "tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames"}
    if backend is Backend.MONGODB and options.get("tls", options.get("ssl")) == "true":
        return not any(options.get(option) == "true" for option in unchecked)
    return all(map(_is_here, _hosts(dsn, options)))


def _options(dsn: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(dsn).query, keep_blank_values=True)


def _hosts(dsn: str, options: dict[str, str]) -> list[str]:
    if "unix_socket" in options:
        return []
    named = unquote(urlsplit(dsn).netloc.rpartition("@")[2]) or options.get("host", "")
    return [host for host in named.split(",") if host and not host.startswith("/")]


def _is_here(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def wrong_dsn(dsn: str) -> Iterator[Problem]:
    """Say what is wrong with a DSN; never what is in it, which may be a password."""
    scheme, found, _ = dsn.partition("://")
    backend = SCHEMES.get(scheme)
    if backend is None:
        known = f"{scheme!r} is not a database this version knows" if found else "names no database server"
        yield wrong(known, FIX)
    elif backend is not Backend.MONGODB:
        # A MongoDB URI may name several hosts, which only its driver can take apart.
        yield from _wrong_url(dsn, backend)


def _wrong_url(dsn: str, backend: Backend) -> Iterator[Problem]:
    try:
        parts = urlsplit(dsn)
        _ = parts.port  # parsed when asked for
    except ValueError:
        # Its message is not passed on: it quotes what could not be read, and with a slash in it that is the password.
        yield wrong("its host and port cannot be read", f"{FIX}; in a password write / as %2F and @ as %40")
        return
    if backend is Backend.MYSQL:
        name = unquote(parts.path.strip("/"))
        if name:
            fix = "take it out: in MySQL and MariaDB a schema is a database, and `schema` names it"
            yield wrong(f"names the database {name!r}", fix)
        for option, _ in parse_qsl(parts.query, keep_blank_values=True):
            if option not in MYSQL_OPTIONS:
                yield wrong(f"unknown option {option!r}", suggestion(option, MYSQL_OPTIONS))
        yield from _wrong_mysql_tls(dict(parse_qsl(parts.query, keep_blank_values=True)))


def _wrong_mysql_tls(options: dict[str, str]) -> Iterator[Problem]:
    if options.get("ssl", "true") != "true":
        yield wrong("`ssl` is something else than `true`", "write ssl=true, or leave it out for no TLS")
    if ("ssl_cert" in options) != ("ssl_key" in options):
        yield wrong("of `ssl_cert` and `ssl_key` one is missing", "give both, or none")
