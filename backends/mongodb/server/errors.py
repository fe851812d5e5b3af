"""What pymongo raises, and what a server answers, in the words of `backends.base`: the only place that knows both."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from backends.base import BatchRejected, StoreError, StoreUnavailable
from backends.diagnosis import refusals

# https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml. What passes with time, or when an
# operator acts:
TEMPORARY_CODES = frozenset(
    {
        *(1, 8),  # internal error, unknown error: no reason to throw readings away
        *(6, 7, 89, 9001),  # host unreachable, host not found, network timeout, socket exception
        *(24, 50, 262),  # lock timeout, time limits
        *(64, 100),  # write concern failed, or cannot be satisfied: members of the replica set are missing
        *(91, 189, 10107, 11600, 11602, 13435, 13436),  # shutdown, stepped down, not primary
        *(112, 133, 134, 202, 246, 251),  # write conflict, no target, read concern, sharding, snapshot, transaction
        *(14031, 39, 28, 317),  # disk full, file stream, path, connections
    }
)
LOGIN_CODES = frozenset({18, 11, 334, 8000})  # authentication, user not found, mechanism, hosted service's own
NO_RIGHT = 13
DUPLICATE_KEY = 11000
VALUES = rf"(?<= dup key: ).*|{refusals.NUMBER}"
"""What of a message is a value of a document."""


@contextmanager
def translated(target: str, *, otherwise: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the driver raises into StoreUnavailable where trying again can help, else into `otherwise`."""
    try:
        yield
    except StoreError:
        raise
    except OperationFailure as error:
        raise of_code(error.code, one_line(error), target, otherwise, error.details) from error
    except ConfigurationError as error:
        raise StoreError(f"{target} cannot be used: {one_line(error)}") from error
    except (ConnectionFailure, OSError) as error:
        late = isinstance(error, TimeoutError) or (isinstance(error, PyMongoError) and error.timeout)
        # So the driver ends what is under way when the server did not answer it, who looks after it now and then.
        late = late or str(error) == "operation cancelled"
        if isinstance(error, ServerSelectionTimeoutError):
            # It has looked again and again; what it found last says more.
            late = "timed out" in str(error)
        if late:
            raise StoreUnavailable(f"{target} does not answer in time ({_first(error)})") from error
        raise StoreUnavailable(f"{target} is not reachable: {_first(error)}") from error
    except PyMongoError as error:
        kind = StoreUnavailable if error.timeout else otherwise
        raise kind(f"{target}: {one_line(error)}") from error


def taken_too_long(target: str, give_up_s: float) -> AbstractContextManager[None]:
    """Say so where a question is given up for its time, here or by the server."""
    return refusals.taken_too_long(target, give_up_s, lambda error: isinstance(error, PyMongoError) and error.timeout)


def of_code(
    code: int | None,
    message: str,
    target: str,
    otherwise: type[StoreError],
    answer: Mapping[str, Any] | None = None,
) -> StoreError:
    """The error for a code that a server answered with. answer: of which the code is, for what it says of a row."""
    # A right that was taken away is no batch's fault: readings wait until it is given back.
    taken_away = code == NO_RIGHT and otherwise is BatchRejected
    if code is None or code in TEMPORARY_CODES or code in LOGIN_CODES or taken_away:
        return StoreUnavailable(f"{target} cannot do it now: {message} ({code})")
    if otherwise is BatchRejected:
        said = str((answer or {}).get("errInfo", {}).get("details", ""))
        return refusals.rejected(target, message, code, detail=said, values=VALUES)
    return otherwise(f"{target} refuses: {message} ({code})")


def check_answer(answer: Mapping[str, Any], target: str, *, but: int | None = None) -> list[int]:
    """Look through what a write command was answered with; list the documents that failed with code `but`.

    Raises:
        StoreUnavailable: a document, or the write concern, failed for what passes.
        BatchRejected: a document failed for good.
    """
    failed = answer.get("writeErrors", [])
    for error in failed:
        if error["code"] != but:
            raise of_code(error["code"], _short(str(error.get("errmsg", ""))), target, BatchRejected, error)
    unmet = answer.get("writeConcernError")
    if unmet is not None:
        # The documents are there; a repeat finds them, and waits for the write concern again.
        raise StoreUnavailable(f"{target}: {_short(str(unmet.get('errmsg', '')))} ({unmet.get('code')})")
    return [error["index"] for error in failed]


def login_refused() -> AbstractContextManager[None]:
    """Where the server turned the login away, say so with the fix."""
    return refusals.login_refused("tlsCAFile", _login_fix)


def _login_fix(cause: BaseException | None) -> str | None:
    if not isinstance(cause, OperationFailure) or cause.code not in LOGIN_CODES:
        return None
    return "set the user and `authSource` in `dsn`, and the password, to what the server knows"


def one_line(error: BaseException) -> str:
    """Shorten an error to one line, without a password that a DSN in it may carry."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = re.sub(r",? full error: .*", "", text)
    return re.sub(r"(://[^:/@\s]+):[^@\s]*@", r"\1:***@", text)


def _first(error: BaseException) -> str:
    # The driver goes on to tell its settings and the topology it knows.
    return one_line(error).split(" (configured timeouts", maxsplit=1)[0].split(", Timeout: ", maxsplit=1)[0]


def _short(message: str) -> str:
    return " ".join(message.split())[:300]
