"""What is known of the store: its facts, what it keeps of each durability asked for, and since when it is away."""

import math
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from backends.base import StoreFacts
from daemon.events import Events
from daemon.growth import Growth
from schemas.batch import Durability
from schemas.status import StoreStatus

if TYPE_CHECKING:
    from daemon.pipeline import Pipeline

PRODUCTS = {
    "postgresql": "PostgreSQL",
    "mariadb": "MariaDB",
    "mysql": "MySQL",
    "mongodb": "MongoDB",
    "ferretdb": "FerretDB",
}
"""Names as people write them, by what a store calls its server."""


class StoreReport:
    """The store, as the status tells it.

    backend: the kind of database, as long as no facts tell the product.
    target: where it is, without a password.
    groups: the durability that each group asks for, by the group's name.
    events: are told where the server keeps less than is asked of it, and when that changes.
    """

    def __init__(self, backend: str, target: str, groups: Mapping[str, Durability], events: Events) -> None:
        self.facts: StoreFacts | None = None
        self.growth = Growth()
        self.problem: str | None = "not opened yet"
        self._backend = backend
        self._target = target
        self._groups = groups
        self._events = events
        self._short: dict[str, str] = {}
        self._away_since_ns = self._failed_ns = time.monotonic_ns()

    def answered(self, facts: StoreFacts) -> None:
        """The store answered."""
        self.facts = facts
        self.problem = None
        self.growth.note(facts.size_bytes)
        self._look_at_durability(facts)

    def failed(self, problem: str) -> None:
        """The store did not answer."""
        self._failed_ns = time.monotonic_ns()
        if self.problem is None:
            self._away_since_ns = self._failed_ns
        self.problem = problem

    def risk_ms(self, durability: Durability) -> float:
        """How young an acknowledged reading may be and still be lost with the server; infinite while not known."""
        return self.facts.durability[durability].risk_ms if self.facts else math.inf

    def status(self, pipelines: "Mapping[str, Pipeline]") -> StoreStatus:
        """The store as it is now; a committer knows sooner than anyone that it is away."""
        committers = [pipeline.committer for pipeline in pipelines.values()]
        away = [c for c in committers if c.problem is not None]
        if not away and any(c.committed_ns > self._failed_ns for c in committers):
            self.problem = None
        since = min([c.problem_since_ns for c in away], default=self._away_since_ns)
        problem = away[0].problem if away else self.problem
        facts = self.facts
        backend = facts.backend if facts else self._backend
        return StoreStatus(
            backend=backend,
            product=PRODUCTS.get(backend, backend),
            version=facts.version if facts else "unknown",
            durability=self._words(),
            shortfall=self._short,
            settings=dict(facts.settings) if facts else {},
            embedded=facts.embedded if facts else False,
            target=facts.target if facts else self._target,
            available=problem is None,
            problem=problem,
            away_s=0.0 if problem is None else (time.monotonic_ns() - since) / 1e9,
            commits=sum(c.counts.commits for c in committers),
            retries=sum(c.counts.retries for c in committers),
        )

    def _words(self) -> str:
        if self.facts is None:
            return "unknown"
        words = (self.facts.durability[durability].words for durability in in_use(self._groups.values()))
        return "; ".join(dict.fromkeys(words))

    def _look_at_durability(self, facts: StoreFacts) -> None:
        """Say where the server keeps less than is asked for; again only when what it says of itself changes."""
        held = {durability: facts.durability[durability] for durability in in_use(self._groups.values())}
        short = {str(durability): found.shortfall for durability, found in held.items() if found.shortfall is not None}
        for durability, found in held.items():
            now, before = short.get(durability), self._short.get(durability)
            if now is not None and now != before:
                self._events.say("warning", f"durability {durability} of {self._who(durability)} is not kept: {now}")
            elif now is None and before is not None:
                self._events.say("info", f"durability {durability} of {self._who(durability)} is kept: {found.words}")
        self._short = short

    def _who(self, durability: Durability) -> str:
        names = [name for name, asked in self._groups.items() if asked is durability]
        return f"group{'s' if len(names) > 1 else ''} {', '.join(names)}"


def in_use(asked: Collection[Durability]) -> list[Durability]:
    """Those that any group asks for, the strongest first."""
    return [durability for durability in Durability if durability in asked]
