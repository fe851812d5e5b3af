"""Defects: a function of the data path raises in the middle of its caller's step, and the process has to end."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from daemon.pipeline.assembly import Assembly
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.committer import Committer
from daemon.pipeline.log import Log
from daemon.pipeline.pipeline import Pipeline
from daemon.sources.tcp.connection import Connection
from tests.simulation.loop import LIFE

PLACES: dict[str, tuple[type, str]] = {
    f"{owner.__name__}.{name}": (owner, name)
    for owner, name in (
        (Assembly, "receive"),
        (Assembly, "close_due"),
        (Backlog, "put"),
        (Backlog, "settle"),
        (Pipeline, "connect"),
        (Pipeline, "_settled"),
        (Committer, "_count"),
        (Committer, "_deal_with"),
        (Log, "append"),
        (Log, "trim"),
        (Connection, "acknowledge"),
    )
}
"""Functions by which one part of the data path uses another; none of them is marked with `fail_stop` itself."""


class Defect(Exception):
    """It was planted: that it ends the daemon is no finding."""


class Defects:
    """One that waits for its moment."""

    def __init__(self) -> None:
        self._place = ""
        self._left = self._is_after = 0

    def plant(self, place: str, count: int, after: int) -> None:
        """Let a function fail at its so manieth call from now on; after: when its work is done, and not before."""
        self._place, self._left, self._is_after = place, count, after

    def take_out(self) -> None:
        """None is left."""
        self._place = ""

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Let these functions look whether they are meant."""
        with contextlib.ExitStack() as stack:
            for place, (owner, name) in PLACES.items():
                stack.enter_context(mock.patch.object(owner, name, self._defective(place, getattr(owner, name))))
            yield

    def _defective(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if self._place != place or LIFE.get() is None:
                return function(*args, **kwargs)
            if self._left > 0:
                self._left -= 1
                return function(*args, **kwargs)
            self._place = ""
            if self._is_after:
                function(*args, **kwargs)
            raise Defect(place)

        return called
