"""What the tests' own servers need: that they are here, and a folder."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def server_folder() -> Iterator[Path]:
    """A folder for a server, gone afterwards."""
    # Not pytest's tmp_path: a second pytest of the same user closes the folder above it to all but its owner, and as
    # root the server runs under another account.
    with tempfile.TemporaryDirectory(prefix="triggerlog-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
