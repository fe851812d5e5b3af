"""Where a DSN leads, and connecting there."""

import getpass
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from pymysql.err import MySQLError

from backends.base import StoreError, StoreLacks, StoreUnavailable
from backends.mysql.protocol.connection import Connection
from backends.mysql.server.errors import NO_RIGHT, number_of
from backends.mysql.server.facts import Product, check_version
from backends.sql.connection import DEAD_S
from schemas.checking.dsn import DSN_FORMS, Backend

IDLE_S = 31_536_000
"""An idle connection is kept for a year, the most that servers allow: a quiet machine is no reason to lose the lock."""
MOST = "max_allowed_packet"
BINLOG, BINLOG_FORMAT = "log_bin", "binlog_format"
PREPARED, ENGINE, READ_ONLY = "max_prepared_stmt_count", "enforce_storage_engine", "read_only"
READ_ONLY_ADMINS = "'READ_ONLY ADMIN', 'READ ONLY ADMIN', 'SUPER', 'CONNECTION_ADMIN'"
"""Rights with which, by the server and its version, a login writes all the same."""
WHERE_KNOWN = {
    "auto_increment_increment": "1",
    "auto_increment_offset": "1",
    "check_constraint_checks": "ON",
    "big_tables": "OFF",
    "alter_algorithm": "'DEFAULT'",
    "sql_if_exists": "OFF",
    "innodb_snapshot_isolation": "OFF",
    "idle_transaction_timeout": "0",
    "idle_readonly_transaction_timeout": "0",
    "idle_write_transaction_timeout": "0",
}
"""Settings that not all servers have, or not all logins may set: changed where they are there and have other values."""


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


async def connect(
    address: Address,
    *,
    program: str,
    timeout_s: float,
    give_up_s: float | None = None,
    isolation: str = "REPEATABLE READ",
) -> Connection:
    """Log in, and set all that the stores rely on: a server and its init_connect may give any state to a session.

    Args:
        address: where.
        program: what it is called in the server's list of sessions.
        timeout_s: for connecting, and for locks.
        give_up_s: a question that takes longer is given up by the server; its session then only reads.
        isolation: of its transactions.

    Raises:
        StoreError: the server is too old.
        StoreLacks: it does not take rows as they are sent; only for who writes.
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
        connection.keep_alive(timeout_s)
        product = check_version(connection.version, address.target)
        access = "READ WRITE" if give_up_s is None else "READ ONLY"
        settings = (f"SESSION {name} = {value}" for name, value in _settings(product, timeout_s, give_up_s).items())
        await connection.run(
            "ROLLBACK AND NO CHAIN NO RELEASE;"
            f"SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;SET {', '.join(settings)};"
            f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}, {access}"
        )
        names = ",".join(
            f"'{name}'" for name in (MOST, BINLOG, BINLOG_FORMAT, PREPARED, ENGINE, READ_ONLY, *WHERE_KNOWN)
        )
        found = dict(await connection.fetch(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})"))
        connection.max_packet = int(found[MOST])
        if give_up_s is None:
            await _see_writable(connection, found, address.target)
        wrong = [name for name, right in WHERE_KNOWN.items() if found.get(name, right.strip("'")) != right.strip("'")]
        if wrong:
            await connection.run(f"SET {', '.join(f'SESSION {name} = {WHERE_KNOWN[name]}' for name in wrong)}")
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _see_writable(connection: Connection, found: Mapping[str, str], target: str) -> None:
    """See that the server takes rows as they are sent, and keeps them in InnoDB.

    found: variables of the server, by name.

    Raises:
        StoreUnavailable: it is read-only now.
        StoreLacks: it does not; the message says what to set there.
    """
    if found[READ_ONLY] not in ("OFF", "0"):
        admins = f"information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN ({READ_ONLY_ADMINS})"
        if not await connection.fetch(f"SELECT 1 FROM {admins} LIMIT 1"):
            raise StoreUnavailable(f"{target} is read-only now; name the primary in `dsn`, or set read_only = 0 there")
    if found[BINLOG] == "ON" and found[BINLOG_FORMAT] == "STATEMENT":
        try:
            await connection.run(f"SET SESSION {BINLOG_FORMAT} = ROW")
        except MySQLError as error:
            if number_of(error) not in NO_RIGHT:
                raise
            raise StoreLacks(
                f"{target} takes no rows: binlog_format is STATEMENT, and user {connection.user!r} may not set another;"
                " set it to MIXED or ROW there"
            ) from None
    if found[PREPARED] == "0":
        raise StoreLacks(f"{target} takes no rows: {PREPARED} is 0; set it to 16382, its default, there")
    if found.get(ENGINE, "") not in ("", "InnoDB"):
        raise StoreLacks(f"{target} makes tables in {found[ENGINE]} alone: take {ENGINE} away there")


def _settings(product: Product, timeout_s: float, give_up_s: float | None) -> dict[str, str]:
    """The settings that every server has and every login may set, as SQL."""
    # A wait whose caller has given up must end, too: the connection's locks go only then.
    waiting = str(max(1, math.ceil(timeout_s if give_up_s is None else give_up_s)))
    return {
        **_given_up_after(product, give_up_s or 0),
        "sql_select_limit": str(2**64 - 1),
        "autocommit": "1",
        "completion_type": "0",
        "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        "time_zone": "'+00:00'",
        # Errors of rows are the same where their values alone differ.
        "lc_messages": "'en_US'",
        "foreign_key_checks": "1",
        "unique_checks": "1",
        "sql_safe_updates": "0",
        "sql_big_selects": "1",
        "sql_auto_is_null": "0",
        "sql_quote_show_create": "1",
        "div_precision_increment": "4",
        "max_sort_length": "1024",
        "low_priority_updates": "0",
        "default_storage_engine": "InnoDB",
        "lock_wait_timeout": waiting,
        "innodb_lock_wait_timeout": waiting,
        "wait_timeout": str(IDLE_S),
        "net_read_timeout": str(DEAD_S),
        "net_write_timeout": str(2 * DEAD_S),
    }


def _given_up_after(product: Product, seconds: float) -> dict[str, str]:
    """The setting after which the server ends a statement: of MariaDB any, of MySQL a SELECT; 0 is never."""
    if product.backend == "mariadb":
        return {"max_statement_time": f"{seconds:f}"}
    return {"max_execution_time": str(math.ceil(1000 * seconds)), "information_schema_stats_expiry": "0"}
