"""What is known of the store: its facts, what it keeps of each durability asked for, and since when it is away."""

import math
from collections.abc import Iterable, Mapping

from backends.base import StoreFacts
from backends.kinds import product_of
from daemon.core.configuration.database import in_use
from daemon.core.monitoring.events import Events
from daemon.core.outside import monotonic_ns
from daemon.pipeline.figures import PipelineFigures
from daemon.telemetry.store.growth import Growth
from schemas.api.status import Shortfall, StoreStatus
from schemas.batch import Durability

SILENT_NS = 5_000_000_000
"""A database that has been asked for so long is away: the time after which it is given up on is a multiple."""


class StoreReport:
    """The store, as the status tells it.

    backend: the kind of database, as long as no facts tell the product.
    target: where it is, without a password.
    groups: the durability that each group asks for, by the group's name.
    events: get it where the server keeps less than is asked of it, and when that changes.
    """

    def __init__(self, backend: str, target: str, groups: Mapping[str, Durability], events: Events) -> None:
        self.facts: StoreFacts | None = None
        self.growth = Growth()
        self.problem: str | None = "not opened yet"
        self._backend = backend
        self._target = target
        self._groups = groups
        self._events = events
        self._short: dict[Durability, Shortfall] = {}
        self._away_since_ns = self._failed_ns = monotonic_ns()
        self._asked_ns = 0  # since when it owes an answer

    def asked(self) -> None:
        """The store is asked how it is."""
        self._asked_ns = monotonic_ns()

    def answered(self, facts: StoreFacts) -> None:
        """The store answered."""
        self.facts = facts
        self._asked_ns = 0
        self.problem = None
        self.growth.note(facts.size_bytes)
        self._look_at_durability(facts)

    def failed(self, problem: str) -> None:
        """The store did not answer."""
        self._failed_ns = monotonic_ns()
        if self.problem is None:
            self._away_since_ns = self._asked_ns or self._failed_ns
        self.problem = problem
        self._asked_ns = 0

    def risk_ms(self, durability: Durability) -> float:
        """How young an acknowledged reading may be and still be lost with the server; infinite while not known."""
        return self.facts.durability[durability].risk_ms if self.facts else math.inf

    def status(self, pipelines: Iterable[PipelineFigures]) -> StoreStatus:
        """The store as it is now; a pipeline knows sooner than anyone that it is away."""
        figures = list(pipelines)
        away = [each for each in figures if each.store_problem is not None]
        if not away and any(each.committed_ns > self._failed_ns for each in figures):
            self.problem = None
        since, problem = self._away_since_ns, self.problem
        moment = monotonic_ns()
        if away:
            since, problem = min(each.store_problem_since_ns for each in away), away[0].store_problem
        elif problem is None:
            asked_ns = [each.asked_ns for each in figures] + [self._asked_ns]
            oldest_ns = min(filter(None, asked_ns), default=moment)
            if moment - oldest_ns > SILENT_NS:
                since, problem = oldest_ns, "it does not answer"
        facts = self.facts
        backend = facts.backend if facts else self._backend
        return StoreStatus(
            backend=backend,
            product=product_of(backend).title,
            probe=product_of(backend).probe,
            version=facts.version if facts else "unknown",
            durability=self._words(),
            shortfall=self._short,
            settings=dict(facts.settings) if facts else {},
            embedded=facts.embedded if facts else False,
            target=facts.target if facts else self._target,
            available=problem is None,
            problem=problem,
            away_s=0.0 if problem is None else (moment - since) / 1e9,
            commits=sum(each.committed.commits for each in figures),
            retries=sum(each.committed.retries for each in figures),
        )

    def _words(self) -> str:
        if self.facts is None:
            return "unknown"
        words = (self.facts.durability[durability].words for durability in in_use(self._groups.values()))
        return "; ".join(dict.fromkeys(words))

    def _look_at_durability(self, facts: StoreFacts) -> None:
        """Say where the server keeps less than is asked for; again only when what it says of itself changes."""
        held = {durability: facts.durability[durability] for durability in in_use(self._groups.values())}
        short = {durability: found.shortfall for durability, found in held.items() if found.shortfall is not None}
        for durability, found in held.items():
            now, before = short.get(durability), self._short.get(durability)
            if now is not None and now != before:
                self._events.warning(f"durability {durability} of {self._who(durability)} is not kept: {now}")
            elif now is None and before is not None:
                self._events.info(f"durability {durability} of {self._who(durability)} is kept: {found.words}")
        self._short = short

    def _who(self, durability: Durability) -> str:
        names = [name for name, asked in self._groups.items() if asked is durability]
        return f"group{'s' if len(names) > 1 else ''} {', '.join(names)}"
