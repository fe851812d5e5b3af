"""What asyncpg raises, in the words of `backends.base`: the only place that knows both."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import asyncpg

from backends import diagnosis
from backends.base import BatchRejected, ConfigurationRefused, StoreError, StoreLacks, StoreUnavailable
from backends.postgresql.protocol.copy import NotBinaryCopy

# https://www.postgresql.org/docs/current/errcodes-appendix.html
ROW_FAULTS = frozenset({"22", "23"})
"""Classes of what a row is at fault for: data exceptions, and violations of constraints. All else may pass."""
TABLE_FAULTS = frozenset({"22P03", "22P04", "23502"})
"""Errors of these classes that no row of ours is at fault for: a table was altered, and has other columns or types."""
CHECK = "23514"
"""A check constraint has a name. Without one no partition takes the row: one was dropped, or has other bounds."""
LACKING_CLASSES = frozenset({"3F", "42"})
"""No such schema, table or column; no right to it."""
BUSY_CLASSES = frozenset({"40", "55"})
"""Only others are in the way: deadlocks, locks."""
LOGIN_CLASSES: dict[str, str] = {
    "28": "correct the user in `dsn`, or what `password_env` or `password_file` gives; pg_hba.conf there says who may",
    "3D": "create it there (CREATE DATABASE), or name another in `dsn`",
}
"""Authorization, no such database; and the fix."""
DATA_EXCEPTION = "22"
QUOTED_OR_NUMBER = rf'"[^"]*"|{diagnosis.NUMBER}'
"""What of a message is a value; in those of a data exception what is in quotes is one, too, and no name."""
CANCELLED_EARLY_S = 0.1
"""The server's clock for a statement may begin a little before ours has seen it."""


@contextmanager
def translated(target: str, *, rejects: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the driver raises into `rejects` where a row is at fault, else into StoreUnavailable."""
    try:
        yield
    except StoreError:
        raise
    except asyncpg.PostgresError as error:
        raise _translated(error, target, rejects) from error
    except TimeoutError as error:
        raise StoreUnavailable(f"{target} does not answer in time") from error
    except asyncpg.ClientConfigurationError as error:
        raise ConfigurationRefused(f"`dsn` in [database] cannot be used: {one_line(error)}") from error
    except NotBinaryCopy as error:
        raise StoreLacks(
            f"the tables in {target} are not as this store made them: {error}; {diagnosis.REPAIR}"
        ) from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StoreUnavailable(f"{target} is not reachable: {one_line(error)}") from error


def taken_too_long(target: str, give_up_s: float) -> AbstractContextManager[None]:
    """Say so where a question is given up for its time, here or by the server's statement_timeout."""
    began = time.monotonic()

    def gave_up(error: Exception) -> bool:
        # An operator may cancel, too, and the words of both depend on the server's language.
        late = time.monotonic() - began >= give_up_s - CANCELLED_EARLY_S
        return isinstance(error, asyncpg.QueryCanceledError) and late

    return diagnosis.taken_too_long(target, give_up_s, gave_up)


def _translated(error: asyncpg.PostgresError, target: str, rejects: type[StoreError]) -> StoreError:
    state = error.sqlstate or "08000"
    kind = state[:2]
    of_table = state in TABLE_FAULTS or _is_of_partition(error, state)
    if kind not in ROW_FAULTS or of_table:
        return diagnosis.passing(
            target,
            one_line(error),
            state,
            is_busy=kind in BUSY_CLASSES,
            is_lacking=kind in LACKING_CLASSES or of_table,
        )
    if rejects is not BatchRejected:
        return rejects(f"{target} refuses: {one_line(error)} ({state})")
    # Each partition has a name of its own, and so have its constraints.
    message = re.sub(r"\$(\d+(\$leaf)?|default)", "", one_line(error.args[0]))
    values = QUOTED_OR_NUMBER if kind == DATA_EXCEPTION else diagnosis.NUMBER
    said = {"detail": error.detail or "", "context": error.context or ""}
    return diagnosis.rejected(target, message, state, values=values, **said)


def _is_of_partition(error: asyncpg.PostgresError, state: str) -> bool:
    """Return True if no partition takes a row; what a trigger raises names no table."""
    return state == CHECK and error.table_name is not None and error.constraint_name is None


def login_refused() -> AbstractContextManager[None]:
    """Where the server turned the login away, say so with the fix."""
    return diagnosis.login_refused("sslrootcert", _login_fix)


def _login_fix(cause: BaseException | None) -> str | None:
    return LOGIN_CLASSES.get((cause.sqlstate or "")[:2]) if isinstance(cause, asyncpg.PostgresError) else None


def one_line(error: BaseException | str) -> str:
    """Shorten an error to one line, without a password that a DSN in it may carry."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"(://[^:/@\s]+):[^@\s]*@", r"\1:***@", text)
