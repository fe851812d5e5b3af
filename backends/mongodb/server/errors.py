"""What pymongo raises, and what a server answers, in the words of `backends.base`: the only place that knows both."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from backends import diagnosis
from backends.base import BatchRejected, ConfigurationRefused, StoreError, StoreUnavailable

# https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
DUPLICATE_KEY = 11000
ROW_FAULTS = frozenset(
    {
        *(DUPLICATE_KEY, 11001, 12582),  # another document has the key
        121,  # a validator that somebody has made refuses it
        *(10334, 17280, 17419, 17420),  # the document, or a key of it, is too large
    }
)
"""Errors that a document itself is at fault for. All others may pass."""
PASSING_LABELS = frozenset({"RetryableWriteError", "RetryableError", "TransientTransactionError"})
"""With one of these a server says itself that the same may succeed later, whatever the code."""
LOGIN_CODES = frozenset({18, 11, 334, 8000})  # authentication, user not found, mechanism, hosted service's own
LACKING_CODES = frozenset({13, 26})
"""No right; no such collection."""
VALUES = rf"(?<= dup key: ).*|{diagnosis.NUMBER}"
"""What of a message is a value of a document."""


@contextmanager
def translated(target: str, *, rejects: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the driver raises into `rejects` where a document is at fault, else into StoreUnavailable."""
    try:
        yield
    except StoreError:
        raise
    except OperationFailure as error:
        code = None if any(map(error.has_error_label, PASSING_LABELS)) else error.code
        if code is None:
            raise diagnosis.passing(target, one_line(error), error.code) from error
        raise of_code(code, one_line(error), target, rejects, error.details) from error
    except ConfigurationError as error:
        raise ConfigurationRefused(f"{target} cannot be used: {one_line(error)}") from error
    except DocumentTooLarge as error:
        raise rejects(f"{target}: {one_line(error)}") from error
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
        raise StoreUnavailable(f"{target}: {one_line(error)}") from error


def taken_too_long(target: str, give_up_s: float) -> AbstractContextManager[None]:
    """Say so where a question is given up for its time, here or by the server."""
    return diagnosis.taken_too_long(target, give_up_s, lambda error: isinstance(error, PyMongoError) and error.timeout)


def of_code(
    code: int | None,
    message: str,
    target: str,
    rejects: type[StoreError],
    answer: Mapping[str, Any] | None = None,
) -> StoreError:
    """The error for a code that a server answered with. answer: of which the code is, for what it says of a row."""
    if code not in ROW_FAULTS:
        return diagnosis.passing(target, message, code, is_lacking=code in LACKING_CODES)
    if rejects is BatchRejected:
        said = str((answer or {}).get("errInfo", {}).get("details", ""))
        return diagnosis.rejected(target, message, code, detail=said, values=VALUES)
    return rejects(f"{target} refuses: {message} ({code})")


def check_answer(answer: Mapping[str, Any], target: str, *, but: int | None = None) -> list[int]:
    """Look through what a write command was answered with; list the documents that failed with code `but`.

    Raises:
        StoreUnavailable: a document, or the write concern, failed for what passes.
        BatchRejected: a document failed for good.
    """
    failed = answer.get("writeErrors", [])
    passes = not PASSING_LABELS.isdisjoint(answer.get("errorLabels", []))
    for error in failed:
        if passes:
            raise diagnosis.passing(target, _short(str(error.get("errmsg", ""))), error["code"])
        if error["code"] != but:
            raise of_code(error["code"], _short(str(error.get("errmsg", ""))), target, BatchRejected, error)
    unmet = answer.get("writeConcernError")
    if unmet is not None:
        # The documents are there; a repeat finds them, and waits for the write concern again.
        raise StoreUnavailable(f"{target}: {_short(str(unmet.get('errmsg', '')))} ({unmet.get('code')})")
    return [error["index"] for error in failed]


def check_index(answer: Mapping[str, Any], target: str, name: str) -> None:
    """See that documents were left out of a collection for nothing but their `_id`, which is there already.

    Raises:
        BatchRejected: somebody made another unique index, and a document violates it.
    """
    for error in answer.get("writeErrors", []):
        key = error.get("keyPattern", {"_id": 1})  # FerretDB does not tell, and has no other
        if set(key) != {"_id"}:
            raise BatchRejected(
                f"{target}: collection {name!r} has a unique index of {', '.join(key)} that is not triggerlog's, and a"
                " document violates it; drop that index"
            )


def login_refused() -> AbstractContextManager[None]:
    """Where the server turned the login away, say so with the fix."""
    return diagnosis.login_refused("tlsCAFile", _login_fix)


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
