"""Whether what a test needs has to be here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from backends.throwaway import ServerNotInstalled


@contextmanager
def installed() -> Iterator[None]:
    """Skip what needs a server that is not on a laptop; where CI=true it has to be."""
    try:
        yield
    except ServerNotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
