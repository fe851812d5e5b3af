"""Where a DSN leads, and connecting there."""

import getpass
import math
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from backends.base import StoreError
from backends.mysql.protocol.connection import Connection
from backends.mysql.server.facts import Product, check_version
from schemas.checking.dsn import DSN_FORMS, Backend

IDLE_S = 31_536_000
"""An idle connection is kept for a year, the most that servers allow: a quiet machine is no reason to lose the lock."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A server and a login."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    unix_socket: str | None
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def target(self) -> str:
        """Where it leads, without the password."""
        place = self.unix_socket or f"{self.host}:{self.port}"
        return f"mysql://{self.user}@{place}"


def address_of(dsn: str, password: str | None = None) -> Address:
    """Take a DSN apart; `password` goes before one in it.

    Raises:
        StoreError: it is no DSN.
    """
    try:
        parts = urlsplit(dsn)
        port = parts.port or DSN_FORMS[Backend.MYSQL].port
    except ValueError:
        raise StoreError("`dsn` in [database] cannot be understood: its host and port cannot be read") from None
    options = dict(parse_qsl(parts.query))
    return Address(
        host=parts.hostname or "localhost",
        port=port,
        user=unquote(parts.username) if parts.username else getpass.getuser(),
        password=unquote(parts.password or "") if password is None else password,
        unix_socket=options.get("unix_socket"),
        tls=_context(options),
    )


def _context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """TLS that checks the server's certificate and host name, or none at all."""
    if not options.keys() & {"ssl", "ssl_ca", "ssl_cert"}:
        return None
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca"))
        if "ssl_cert" in options:
            context.load_cert_chain(options["ssl_cert"], options["ssl_key"])
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(
            f"`dsn` in [database]: a file of ssl_ca, ssl_cert or ssl_key cannot be used: {reason}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


async def connect(address: Address, *, program: str, timeout_s: float, give_up_s: float | None = None) -> Connection:
    """Log in, and set what this store needs of a session.

    Args:
        address: where.
        program: what it is called in the server's list of sessions.
        timeout_s: for connecting, and for locks.
        give_up_s: a question that takes longer is given up by the server; its session then only reads.

    Raises:
        StoreError: the server is too old.
    """
    connection = Connection(
        host=address.host,
        port=address.port,
        user=address.user,
        password=address.password,
        unix_socket=address.unix_socket,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=timeout_s,
        program_name=program,
        ssl=address.tls,
    )
    try:
        await connection._connect()
        product = check_version(connection.version, address.target)
        await connection.run(f"SET {', '.join(_settings(product, timeout_s, give_up_s))}")
        if give_up_s is not None:
            await connection.run("SET SESSION TRANSACTION READ ONLY")
        ((connection.max_packet,),) = await connection.fetch("SELECT @@max_allowed_packet")
    except BaseException:
        connection.terminate()
        raise
    return connection


def _settings(product: Product, timeout_s: float, give_up_s: float | None) -> Iterator[str]:
    # A wait whose caller has given up must end, too: the connection's locks go only then.
    waiting = max(1, math.ceil(timeout_s if give_up_s is None else give_up_s))
    yield "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
    yield "SESSION time_zone = '+00:00'"
    yield f"SESSION lock_wait_timeout = {waiting}"
    yield f"SESSION innodb_lock_wait_timeout = {waiting}"
    yield f"SESSION wait_timeout = {IDLE_S}"
    if product.backend == "mysql":
        yield "SESSION information_schema_stats_expiry = 0"
    if give_up_s is not None:
        yield _given_up_after(product, give_up_s)


def _given_up_after(product: Product, seconds: float) -> str:
    """The setting after which the server ends a statement: of MariaDB any, of MySQL a SELECT."""
    if product.backend == "mariadb":
        return f"SESSION max_statement_time = {seconds:f}"
    return f"SESSION max_execution_time = {math.ceil(1000 * seconds)}"
