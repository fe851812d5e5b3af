"""What asyncpg raises, in the words of `backends.base`: the only place that knows both."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import asyncpg

from backends.base import BatchRejected, StoreBusy, StoreError, StoreUnavailable
from backends.diagnosis import refusals
from backends.postgresql.protocol.copy import NotBinaryCopy

# https://www.postgresql.org/docs/current/errcodes-appendix.html. What passes with time, or when an operator acts:
TEMPORARY_CLASSES = frozenset(
    {
        "08",  # connection lost or refused
        "25",  # read-only: a standby, or after a switch-over; a transaction in a state it should not be in
        "40",  # serialization failure, deadlock
        "53",  # disk full, out of memory, too many connections
        "55",  # lock not available, object in use
        "57",  # shutdown, crash, starting up, query cancelled
        "58",  # system error, I/O error
        "F0",  # configuration file
        "XX",  # internal error; corruption is no reason to throw readings away
    }
)
BUSY_CLASSES = frozenset({"40", "55"})
"""Those of them where only others are in the way."""
LOGIN_CLASSES: dict[str, str] = {
    "28": "correct the user in `dsn`, or what `password_env` or `password_file` gives; pg_hba.conf there says who may",
    "3D": "create it there (CREATE DATABASE), or name another in `dsn`",
}
"""Authorization, no such database; and the fix."""
NO_RIGHT = "42501"
DATA_EXCEPTION = "22"
QUOTED_OR_NUMBER = rf'"[^"]*"|{refusals.NUMBER}'
"""What of a message is a value; in those of a data exception what is in quotes is one, too, and no name."""
CANCELLED_EARLY_S = 0.1
"""The server's clock for a statement may begin a little before ours has seen it."""


@contextmanager
def translated(target: str, *, otherwise: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the driver raises into StoreUnavailable where trying again can help, else into `otherwise`."""
    try:
        yield
    except StoreError:
        raise
    except asyncpg.PostgresError as error:
        raise _translated(error, target, otherwise) from error
    except TimeoutError as error:
        raise StoreUnavailable(f"{target} does not answer in time") from error
    except asyncpg.ClientConfigurationError as error:
        raise StoreError(f"`dsn` in [database] cannot be used: {one_line(error)}") from error
    except NotBinaryCopy as error:
        raise StoreError(f"the tables in {target} are not as this store made them: {error}") from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreUnavailable(f"{target} is not reachable: {one_line(error)}") from error


def taken_too_long(target: str, give_up_s: float) -> AbstractContextManager[None]:
    """Say so where a question is given up for its time, here or by the server's statement_timeout."""
    began = time.monotonic()

    def gave_up(error: Exception) -> bool:
        # An operator may cancel, too, and the words of both depend on the server's language.
        late = time.monotonic() - began >= give_up_s - CANCELLED_EARLY_S
        return isinstance(error, asyncpg.QueryCanceledError) and late

    return refusals.taken_too_long(target, give_up_s, gave_up)


def _translated(error: asyncpg.PostgresError, target: str, otherwise: type[StoreError]) -> StoreError:
    kind = (error.sqlstate or "08000")[:2]
    # A right that was taken away is no batch's fault: readings wait until it is given back.
    taken_away = error.sqlstate == NO_RIGHT and otherwise is BatchRejected
    if kind in TEMPORARY_CLASSES or kind in LOGIN_CLASSES or taken_away:
        now = StoreBusy if kind in BUSY_CLASSES else StoreUnavailable
        return now(f"{target} cannot do it now: {one_line(error)} ({error.sqlstate})")
    if otherwise is not BatchRejected:
        return otherwise(f"{target} refuses: {one_line(error)} ({error.sqlstate})")
    # Each partition has a name of its own, and so have its constraints.
    message = re.sub(r"\$(\d+(\$leaf)?|default)", "", one_line(error.args[0]))
    values = QUOTED_OR_NUMBER if kind == DATA_EXCEPTION else refusals.NUMBER
    said = {"detail": error.detail or "", "context": error.context or ""}
    return refusals.rejected(target, message, error.sqlstate, values=values, **said)


def login_refused() -> AbstractContextManager[None]:
    """Where the server turned the login away, say so with the fix."""
    return refusals.login_refused("sslrootcert", _login_fix)


def _login_fix(cause: BaseException | None) -> str | None:
    return LOGIN_CLASSES.get((cause.sqlstate or "")[:2]) if isinstance(cause, asyncpg.PostgresError) else None


def one_line(error: BaseException | str) -> str:
    """Shorten an error to one line, without a password that a DSN in it may carry."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"(://[^:/@\s]+):[^@\s]*@", r"\1:***@", text)
