"""What is wrong when a database's TLS is not trusted, whatever the driver makes of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from backends.base import StoreError, StoreUnavailable

REFUSED = re.compile(r"certificate verify failed: (?P<why>.*?)\.? \(_ssl", re.IGNORECASE)
"""How Python's ssl words it; drivers put it into texts of their own."""


@contextmanager
def certificate_refused(ca_option: str) -> Iterator[None]:
    """Where the server's certificate is not trusted, say so with the fix: at a start no waiting helps.

    ca_option: of the DSN, that names the authority.
    """
    try:
        yield
    except StoreUnavailable as error:
        why = why_refused(error)
        if why is None:
            raise
        target = str(error).partition(" ")[0]
        fix = f"name the authority that signed it in `dsn` ({ca_option}=/path/of/ca.crt)"
        if "mismatch" in why or "not valid for" in why:
            fix = "name the host in `dsn` as the certificate does"
        raise StoreError(f"{target} shows a certificate that is not trusted ({why}); {fix}") from None


def why_refused(error: BaseException | None) -> str | None:
    """Why a certificate was not trusted, if that is what an error is about."""
    while error is not None:
        found = REFUSED.search(str(error))
        if found is not None:
            return found["why"]
        error = error.__cause__ or error.__context__
    return None
