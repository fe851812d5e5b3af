"""The driver's client, from a DSN."""

import warnings
from typing import Any
from urllib.parse import quote

from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError, InvalidURI, PyMongoError
from pymongo.uri_parser import parse_uri

from backends.base import StoreError

Client = AsyncMongoClient[dict[str, Any]]

SELECTION_S = 5.0
"""How long to look for a server that takes writes when connecting; whoever asked tries again later."""
CONNECT_S = 5.0


def make_client(
    dsn: str, *, password: str | None, program: str, timeout_s: float, connections: int | None = None
) -> Client:
    """Make a client; it connects when it is used.

    Args:
        dsn: `mongodb://...`; its own options count, but for the timeouts that follow from `timeout_s`.
        password: for the user of the DSN; None leaves what the DSN has.
        program: name the server shows among its connections.
        timeout_s: what one command may take.
        connections: so many at most; None leaves what the DSN or the driver says.

    Raises:
        StoreError: it is no DSN; the message does not quote it.
    """
    _parsed(dsn)
    options: dict[str, Any] = {} if password is None else {"password": password}
    if connections is not None:
        options["maxPoolSize"] = connections
    milliseconds = 1000 * timeout_s
    try:
        return AsyncMongoClient(
            dsn,
            **options,
            # Without the second watching connection, which a client that closes early leaves half open (PYTHON-5867);
            # that a server has gone or a primary has changed, the commands notice.
            serverMonitoringMode="poll",
            appname=program,
            serverSelectionTimeoutMS=min(milliseconds, 1000 * SELECTION_S),
            connectTimeoutMS=min(milliseconds, 1000 * CONNECT_S),
        )
    except (PyMongoError, ValueError) as error:
        raise StoreError(f"`dsn` in [database] cannot be used: {' '.join(str(error).split())}") from None


def target_of(dsn: str) -> str:
    """Say where a DSN leads, without its password.

    Raises:
        StoreError: it is no DSN.
    """
    parsed = _parsed(dsn)
    hosts = ",".join(f"{host}:{port}" if port else quote(host, safe="/") for host, port in parsed["nodelist"])
    user = f"{parsed['username']}@" if parsed["username"] else ""
    return f"mongodb://{user}{hosts}"


def _parsed(dsn: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            # An option it does not know is only warned of.
            warnings.simplefilter("error")
            return dict(parse_uri(dsn, warn=False))
    except InvalidURI:
        # Its message is not passed on, nor a ValueError's: it quotes what could not be read, perhaps a password.
        what = "its user, hosts or options cannot be read"
    except ConfigurationError as error:
        what = " ".join(str(error).split())
    except (ValueError, TypeError, UserWarning):
        what = "its user, hosts or options cannot be read"
    raise StoreError(
        f"`dsn` in [database] cannot be understood: {what}; write mongodb://user@host:port/?option=value,"
        " and in a password %2F for / and %40 for @"
    )
