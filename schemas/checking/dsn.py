"""Which database a DSN names, and what is wrong with it: text only, nothing is asked of any server."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from schemas.checking.addresses import is_loopback
from schemas.checking.problems import ConfigError, Problem, suggestion, wrong


class Backend(StrEnum):
    """The databases there are stores for."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"  # MySQL and MariaDB, which speak the same protocol
    MONGODB = "mongodb"


class Feature(StrEnum):
    """A part that not every database has a store for, by its section of the configuration."""

    CONDITIONS = "conditions"
    DECIMATION = "decimation"
    FOLDERS = "folders"
    TIERS = "tiers"


@dataclass(frozen=True, kw_only=True)
class DsnForm:
    """Rules by which the DSN of one database is written and checked, and the features that the database lacks.

    `backends.kinds` has all else about a database.

    title: the name that people read.
    schemes: what a DSN may begin with.
    port: the one that servers listen on by default.
    example: a DSN with that port.
    verified: options to add, so that nobody between can read or change what travels.
    is_verified: whether the options of a DSN have TLS check the server.
    file_options: options that name a file.
    problems: takes a DSN and yields what is wrong with it, beside its scheme.
    lacks: features that there is no store for.
    """

    title: str
    schemes: tuple[str, ...]
    port: int
    example: str
    verified: str
    is_verified: Callable[[Mapping[str, str]], bool]
    file_options: frozenset[str]
    problems: Callable[[str], Iterator[Problem]]
    lacks: frozenset[Feature] = frozenset()


def backend_of(dsn: str | None) -> Backend:
    """The database that a checked DSN names; without one it is the embedded PostgreSQL."""
    return Backend.POSTGRESQL if dsn is None else SCHEMES[dsn.partition("://")[0]]


def supports(backend: Backend, feature: Feature) -> bool:
    """Return whether a database has a store for a feature."""
    return feature not in DSN_FORMS[backend].lacks


def unsupported(backend: Backend, feature: Feature, field: str) -> Iterator[Problem]:
    """Yield the problem of a field that asks a database for a feature, where the database lacks it."""
    if not supports(backend, feature):
        titles = ", ".join(form.title for form in DSN_FORMS.values() if feature not in form.lacks)
        fix = f"name a {titles} in `database.dsn`, or do without"
        yield wrong(f"triggerlog has no {feature} in {DSN_FORMS[backend].title}", fix, field)


def require(backend: Backend, feature: Feature) -> None:
    """See that a database has a store for a feature.

    Raises:
        ConfigError: it lacks it; the message names the databases that have it.
    """
    problems = [*unsupported(backend, feature, feature)]
    if problems:
        raise ConfigError(problems)


def form_of(dsn: str) -> DsnForm:
    """How a checked DSN is written."""
    return DSN_FORMS[backend_of(dsn)]


def files_of(dsn: str) -> Iterator[tuple[str, str]]:
    """Each option of a checked DSN that names a file, and the file."""
    for option, value in _options(dsn):
        if option in form_of(dsn).file_options and value != "system":
            yield option, value


def is_private(dsn: str) -> bool:
    """Whether what travels can be read by nobody between: it stays on this machine, or the server is checked by TLS."""
    options = dict(_options(dsn))
    if form_of(dsn).is_verified(options):
        return True
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


def without_password(dsn: str) -> tuple[str, str | None]:
    """Take the password out of a DSN: a command line can be read by everybody on the machine."""
    parts = urlsplit(dsn)
    login, at, place = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    found = unquote(password) if colon else None
    options = parse_qsl(parts.query, keep_blank_values=True)
    found = next((value for name, value in options if name == "password"), found)
    query = urlencode([(name, value) for name, value in options if name != "password"], quote_via=quote)
    return parts._replace(netloc=f"{user}{at}{place}", query=query).geturl(), found


def wrong_dsn(dsn: str) -> Iterator[Problem]:
    """Say what is wrong with a DSN; never what is in it, which may be a password."""
    scheme, found, _ = dsn.partition("://")
    backend = SCHEMES.get(scheme)
    if backend is None:
        known = f"{scheme!r} is not a database this version knows" if found else "names no database server"
        yield wrong(known, FIX)
        return
    yield from DSN_FORMS[backend].problems(dsn)


def _wrong_url(dsn: str) -> Iterator[Problem]:
    try:
        parts = urlsplit(dsn)
        _ = parts.port  # parsed when asked for
    except ValueError:
        # Its message is not passed on: it quotes what could not be read, and with a slash in it that is the password.
        yield wrong("its host and port cannot be read", f"{FIX}; in a password write / as %2F and @ as %40")


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _wrong_postgresql(dsn: str) -> Iterator[Problem]:
    unreadable = list(_wrong_url(dsn))
    yield from unreadable
    if not unreadable and urlsplit(dsn).netloc.count("@") > 1:
        # The driver takes what follows the first one for the server.
        yield wrong("has more than one @ before the name of its database", "in a user or a password write @ as %40")


def _postgresql_is_verified(options: Mapping[str, str]) -> bool:
    return options.get("sslmode") in ("verify-ca", "verify-full")


# --- MariaDB, MySQL ---------------------------------------------------------------------------------------------------

MYSQL_OPTIONS = ("unix_socket", "ssl", "ssl_ca", "ssl_cert", "ssl_key")
"""`ssl=true` asks for TLS and trusts whom the system does, `ssl_ca` names the authority, the others what we show."""


def _mysql_is_verified(options: Mapping[str, str]) -> bool:
    return options.get("ssl") == "true" or "ssl_ca" in options


def _wrong_mysql(dsn: str) -> Iterator[Problem]:
    unreadable = list(_wrong_url(dsn))
    if unreadable:
        yield from unreadable
        return
    parts = urlsplit(dsn)
    name = unquote(parts.path.strip("/"))
    if name:
        fix = "take it out: in MySQL and MariaDB a schema is a database, and `schema` names it"
        yield wrong(f"names the database {name!r}", fix)
    options = dict(_options(dsn))
    for option in options:
        if option not in MYSQL_OPTIONS:
            yield wrong(f"unknown option {option!r}", suggestion(option, MYSQL_OPTIONS))
    if options.get("ssl", "true") != "true":
        yield wrong("`ssl` is something else than `true`", "write ssl=true, or leave it out for no TLS")
    if ("ssl_cert" in options) != ("ssl_key" in options):
        yield wrong("of `ssl_cert` and `ssl_key` one is missing", "give both, or none")


# --- MongoDB ----------------------------------------------------------------------------------------------------------

MONGODB_UNVERIFIED = ("tlsInsecure", "tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames")


def _mongodb_is_verified(options: Mapping[str, str]) -> bool:
    has_tls = options.get("tls", options.get("ssl")) == "true"
    return has_tls and not any(options.get(option) == "true" for option in MONGODB_UNVERIFIED)


def _wrong_mongodb(_: str) -> Iterator[Problem]:
    # A MongoDB URI may name several hosts, which only its driver can take apart.
    yield from ()


# --- all of them ------------------------------------------------------------------------------------------------------

DSN_FORMS: dict[Backend, DsnForm] = {
    Backend.POSTGRESQL: DsnForm(
        title="PostgreSQL",
        schemes=("postgresql", "postgres"),
        port=5432,
        example="postgresql://user@host:5432/name",
        verified="sslmode=verify-full&sslrootcert=/path/of/ca.crt",
        is_verified=_postgresql_is_verified,
        file_options=frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"}),
        problems=_wrong_postgresql,
    ),
    Backend.MYSQL: DsnForm(
        title="MariaDB or MySQL",
        schemes=("mysql", "mariadb"),
        port=3306,
        example="mysql://user@host:3306",
        verified="ssl_ca=/path/of/ca.crt",
        is_verified=_mysql_is_verified,
        file_options=frozenset({"ssl_ca", "ssl_cert", "ssl_key"}),
        problems=_wrong_mysql,
    ),
    Backend.MONGODB: DsnForm(
        title="MongoDB",
        schemes=("mongodb",),
        port=27017,
        example="mongodb://user@host:27017",
        verified="tls=true&tlsCAFile=/path/of/ca.crt",
        is_verified=_mongodb_is_verified,
        file_options=frozenset({"tlsCAFile", "tlsCertificateKeyFile"}),
        problems=_wrong_mongodb,
        lacks=frozenset(Feature),
    ),
}
SCHEMES: dict[str, Backend] = {scheme: backend for backend, form in DSN_FORMS.items() for scheme in form.schemes}
EXAMPLES = ", ".join(f"`{form.example}` ({form.title})" for form in DSN_FORMS.values())
*_FIRST, _LAST = (form.example.replace(str(form.port), "port") for form in DSN_FORMS.values())
FIX = f"write {', '.join(_FIRST)} or {_LAST}, or leave it out for the embedded PostgreSQL"
