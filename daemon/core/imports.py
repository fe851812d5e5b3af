"""Importing without garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage while modules are imported, and leave what was imported out of later collections.

    Modules, classes and schemas stay for good. The collector would walk through all of them again and again, which is
    a fifth of the CPU time in which the daemon starts.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
