"""A strategy: a way to write triggers, in a file of its own, with what a reader has to know about it."""

import inspect
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.rounds.commits import Commits
from schemas.batch import Durability

Reading = tuple[float, float, float, float]
"""What a driver is given: Python floats, in the order of the channels."""

Triggers = Sequence[Sequence[Reading]]
"""Triggers to write, round and round; shape (triggers, instruments)."""

Write = Callable[..., Commits]
"""Make the tables in the schema (or database) and write for so many seconds: (dsn, schema, triggers, seconds)."""

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to write triggers.

    slug: its name, that of its file, with `_async` where that is its durability. paper: the paper's figure, None where
    it has none. safe: False where it shows half-written triggers, or a crash loses what was acknowledged. note: what
    else to know.
    """

    slug: str
    title: str
    write: Write
    paper: str | None = None
    durability: Durability = Durability.SYNC
    safe: bool = True
    note: str | None = None

    @property
    def file(self) -> str:
        """Its file, from the root of the repository."""
        return file_of(self.write)


def file_of(write: Callable[..., Any]) -> str:
    """The file a function is in, from the root of the repository."""
    function = write.func if isinstance(write, partial) else write
    return str(Path(inspect.getfile(function)).relative_to(ROOT))


def in_both_durabilities(
    *strategies: Strategy,
    asynchronous: str,
    note: str,
    write_async: Callable[[Strategy], Write] = lambda strategy: strategy.write,
) -> tuple[Strategy, ...]:
    """Each strategy as it is, and each with asynchronous commits.

    asynchronous: what makes the difference, for the title. note: what it means, put before the strategy's own.
    write_async: how to write then, where the writer says it and not the server's settings.
    """
    return (
        *strategies,
        *(
            replace(
                strategy,
                slug=f"{strategy.slug}_async",
                title=f"{strategy.title}, {asynchronous}",
                write=write_async(strategy),
                durability=Durability.ASYNC,
                safe=False,
                note=" ".join(filter(None, (note, strategy.note))),
            )
            for strategy in strategies
        ),
    )


# --- several processes at once ---------------------------------------------------------------------------------------

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
