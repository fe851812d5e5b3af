"""Run a way to write in several processes at once, all of which begin at the same moment."""

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.rounds.commits import Commits

STARTED_WITHIN_S = 60.0

_barriers: list[threading.Barrier] = []
"""In a process that was started here: the one at which it waits for the others."""


def in_processes(write: Callable[..., Commits], arguments: Sequence[tuple[Any, ...]]) -> list[Commits]:
    """Call `write(*arguments[k], start)` in process k; it is to call `start` when it is ready for its clock to run."""
    # A fresh interpreter each: a fork would take the driver's connections and the threads' locks with it.
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(arguments))
    with ProcessPoolExecutor(len(arguments), mp_context=context, initializer=_meet_at, initargs=(barrier,)) as pool:
        futures = [pool.submit(_write, write, given) for given in arguments]
        return [future.result() for future in futures]


def _meet_at(barrier: threading.Barrier) -> None:
    _barriers.append(barrier)


def _write(write: Callable[..., Commits], given: tuple[Any, ...]) -> Commits:
    (barrier,) = _barriers
    try:
        return write(*given, lambda: barrier.wait(STARTED_WITHIN_S))
    except BaseException:
        barrier.abort()
        raise
