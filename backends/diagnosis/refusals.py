"""What a database refuses, in the same words whatever the driver: a login, and an answer that takes too long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backends.base import StoreError, StoreUnavailable
from backends.diagnosis.tls import certificate_refused


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
