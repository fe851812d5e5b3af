"""Everything whose throughput is measured, by backend: the strategies, the ceiling, and the daemon's own way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from benchmarks.load.workload import LAYOUTS
from benchmarks.rounds.plan import Plan
from benchmarks.strategies.postgresql import bare_copy
from benchmarks.strategies.strategy import Strategy, file_of
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend

AT_FULL_SPEED = (
    "At full speed a trigger waits behind all that was sent before it: its commit latency is in the latency measure."
)
NOT_CRASH_SAFE = "Not crash safe: the server may lose the last moments of what it acknowledged."


class Kind(StrEnum):
    """What a contender is there for."""

    PAPER = "paper"  # a way of the paper, or its counterpart in another database
    CEILING = "ceiling"  # what the server takes at best
    DAEMON = "daemon"  # end to end


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A contender, without the server it is measured on.

    slug: its name in the backend. file: of the strategy, from the root of the repository; None for the daemon. layout:
    of the daemon's tables, None where they are the strategy's own. paper, safe, note: as in `Strategy`. strategy:
    what writes, None where it is not a strategy. with_ledger: whether a ceiling writes the ledger rows, too.
    """

    backend: Backend
    slug: str
    title: str
    kind: Kind
    file: str | None = None
    durability: Durability = Durability.SYNC
    layout: Layout | None = None
    paper: str | None = None
    safe: bool = True
    note: str | None = None
    strategy: Strategy | None = None
    with_ledger: bool = False

    @property
    def name(self) -> str:
        """Its name among those of all backends."""
        return f"{self.backend}-{self.slug}"

    def facts(self) -> dict[str, Any]:
        """What is kept of it with its figures."""
        return {
            "backend": self.backend.value,
            "contender": self.slug,
            "title": self.title,
            "kind": self.kind.value,
            "file": self.file,
            "durability": self.durability.value,
            "layout": None if self.layout is None else self.layout.value,
            "paper": self.paper,
            "safe": self.safe,
            "note": self.note,
        }


def contenders(backend: Backend) -> tuple[Contender, ...]:
    """All contenders of a backend, in the order of the tables."""
    return (*_strategies(backend, STRATEGIES[backend]), *_ceilings(backend), *_daemons(backend))


def measured(backend: Backend, plan: Plan) -> tuple[Contender, ...]:
    """Those of a backend that a plan measures, in the order of the tables."""
    here = [contender for contender in contenders(backend) if contender.layout in (None, *plan.layouts)]
    if plan.every_way:
        return tuple(here)
    ways = [contender for contender in here if contender.strategy is not None]
    firsts = {contender.durability: contender for contender in reversed(ways)}
    return tuple(contender for contender in here if contender not in ways or contender in firsts.values())


STRATEGIES: dict[Backend, Sequence[Strategy]] = {
    backend: import_module(f"benchmarks.strategies.{backend}").STRATEGIES for backend in Backend
}


def _strategies(backend: Backend, strategies: Sequence[Strategy]) -> Iterator[Contender]:
    for strategy in strategies:
        yield Contender(
            backend=backend,
            slug=strategy.slug,
            title=strategy.title,
            kind=Kind.PAPER,
            file=strategy.file,
            durability=strategy.durability,
            paper=strategy.paper,
            safe=strategy.safe,
            note=strategy.note,
            strategy=strategy,
        )


def _ceilings(backend: Backend) -> Iterator[Contender]:
    if backend is not Backend.POSTGRESQL:
        return
    for layout in LAYOUTS:
        for ledger in (False, True):
            yield Contender(
                backend=backend,
                slug=f"bare_copy_{layout}" + ("_with_ledger" if ledger else ""),
                title=f"bare COPY, {layout}" + (", with ledger" if ledger else ""),
                kind=Kind.CEILING,
                file=file_of(bare_copy.write),
                layout=layout,
                note="Encoded before the clock runs, in batches of the daemon's size, into the daemon's own tables.",
                with_ledger=ledger,
            )


def _daemons(backend: Backend) -> Iterator[Contender]:
    for durability in Durability:
        for layout in LAYOUTS:
            is_async = durability is Durability.ASYNC
            yield Contender(
                backend=backend,
                slug=f"daemon_{layout}" + ("_async" if is_async else ""),
                title=f"triggerlog, {layout}" + (", asynchronous commit" if is_async else ""),
                kind=Kind.DAEMON,
                durability=durability,
                layout=layout,
                safe=not is_async,
                note=f"{NOT_CRASH_SAFE} {AT_FULL_SPEED}" if is_async else AT_FULL_SPEED,
            )
