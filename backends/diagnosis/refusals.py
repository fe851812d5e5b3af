"""What a database refuses, in the same words whatever the driver: a login, and an answer that takes too long."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backends.base import BatchRejected, StoreBusy, StoreError, StoreLacks, StoreUnavailable
from backends.diagnosis.tls import certificate_refused

DETAIL_MOST = 300
"""Characters of what a server says of one row."""

REPAIR = "bring back the tables as triggerlog made them, with the login's rights to them: `triggerlog check-config`"
"""The fix where something is lacking."""

NUMBER = r"(?<![\w.$])[-+]?\d[\d.]*(?:[eE][-+]?\d+)?(?![\w.])"


def rejected(
    target: str, message: str, code: object, *, detail: str = "", context: str = "", values: str = NUMBER
) -> BatchRejected:
    """The error for a batch that a server will never take.

    Args:
        target: what messages call the server.
        message: the server's, in one line.
        code: its code for the error.
        detail: what else the server says of the row; else it is the message, where that has values, or the context.
        context: where the server was.
        values: a regular expression: what of the message is a value of a row.
    """
    reason = without_values(message, values)
    said = detail or (message if reason != message else context)
    return BatchRejected(f"{target} refuses: {reason} ({code})", shortened(said))


def passing(
    target: str, message: str, code: object, *, is_busy: bool = False, is_lacking: bool = False
) -> StoreUnavailable:
    """The error for what a server refuses for no fault of a row: it is tried again until it passes.

    is_busy: only others are in the way. is_lacking: an operator has to give something back.
    """
    text = f"{target} cannot do it now: {message} ({code})"
    if is_lacking:
        return StoreLacks(f"{text}; {REPAIR}")
    return StoreBusy(text) if is_busy else StoreUnavailable(text)


def without_values(message: str, values: str = NUMBER) -> str:
    """A message without what differs from row to row: `...` in its place. Names in quotes stay."""
    return re.sub(rf"({values})|\"[^\"]*\"|'[^']*'|`[^`]*`", lambda found: "..." if found[1] else found[0], message)


def shortened(text: str) -> str:
    """A text in one line of at most `DETAIL_MOST` characters."""
    line = " ".join(text.split())
    return line if len(line) <= DETAIL_MOST else f"{line[:DETAIL_MOST]}..."


@contextmanager
def login_refused(ca_option: str, fix_of: Callable[[BaseException | None], str | None]) -> Iterator[None]:
    """Where the server turned the login away, say so with the fix: at a start no waiting helps.

    ca_option: of the DSN, that names the authority of TLS.
    fix_of: takes what the driver raised, and gives what to do where that is about the login or a right.
    """
    try:
        with certificate_refused(ca_option):
            yield
    except StoreUnavailable as error:
        fix = fix_of(error.__cause__)
        if fix is None:
            raise
        raise StoreError(f"{error}; {fix}") from None


@contextmanager
def taken_too_long(target: str, give_up_s: float, gave_up: Callable[[Exception], bool]) -> Iterator[None]:
    """Say so where a question is given up for its time, here or by the server.

    gave_up: takes what the driver raised.

    Raises:
        StoreUnavailable: instead of TimeoutError, or of what the server answers.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, StoreError) or not (isinstance(error, TimeoutError) or gave_up(error)):
            raise
        raise StoreUnavailable(f"{target}: the answer took longer than {give_up_s:g} s, and was given up") from error
