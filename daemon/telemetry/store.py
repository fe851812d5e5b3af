"""The database as the daemon watches it: whether it answers, how it grows, and when a disk is full."""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from backends.base import ConfigurationRefused, SchemaMismatch, Store, StoreError, StoreFacts, StoreUnavailable
from backends.kinds import product_of
from daemon.core.configuration.database import in_its_field, in_use, why_refused
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.core.outside import monotonic_ns
from daemon.pipeline.figures import PipelineFigures
from daemon.web.rates import Backoff
from schemas.api.status import Shortfall, StoreStatus
from schemas.batch import Durability
from schemas.config import Config

APART_S = 60.0
"""Sizes are kept this far apart, and nothing is computed from less: tables grow by leaps."""

OVER_S = 86_400.0
STEADY_S = 3_600.0
"""What grew in less tells nothing of the days to come: a backlog that is made up for, for one."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class _Sizes:
    at_s: float
    size_bytes: Mapping[str, int]


class Growth:
    """Sizes of the groups over the last day, a minute apart."""

    def __init__(self) -> None:
        self._kept: deque[_Sizes] = deque()
        self._newest: _Sizes | None = None

    def note(self, size_bytes: Mapping[str, int], now_s: float | None = None) -> None:
        """Take in the sizes now, by group; now_s: CLOCK_MONOTONIC, s."""
        now_s = time.monotonic() if now_s is None else now_s
        self._newest = _Sizes(now_s, dict(size_bytes))
        if not self._kept or now_s - self._kept[-1].at_s >= APART_S:
            self._kept.append(self._newest)
        while self._kept[0].at_s < now_s - OVER_S:
            self._kept.popleft()

    def age_s(self, now_s: float | None = None) -> float | None:
        """How old the newest sizes are; None without any."""
        now_s = time.monotonic() if now_s is None else now_s
        return None if self._newest is None else now_s - self._newest.at_s

    def bytes_a_day(self, group: str) -> tuple[float | None, float]:
        """Growth of a group in bytes a day, None until there is enough, and the seconds it was measured over."""
        if self._newest is None:
            return None, 0.0
        first = next((sizes for sizes in self._kept if group in sizes.size_bytes), self._newest)
        over_s = self._newest.at_s - first.at_s
        if over_s < APART_S or group not in self._newest.size_bytes:
            return None, over_s
        return (self._newest.size_bytes[group] - first.size_bytes[group]) / over_s * DAY_S, over_s

    def steady_bytes_a_day(self) -> float | None:
        """Growth of all groups together in bytes a day; None until it was measured for STEADY_S."""
        if self._newest is None:
            return None
        found = [self.bytes_a_day(group) for group in self._newest.size_bytes]
        if not found or min(over_s for _, over_s in found) < STEADY_S:
            return None
        return sum(growth or 0.0 for growth, _ in found)


AT_ONCE_S = 1.0
"""What comes in during this time may wait without anybody being behind."""


def full_in_s(room_bytes: float, growth: float) -> float | None:
    """Time until no more has room, in s, if the database took nothing from now on; None while nothing comes in.

    Args:
        room_bytes: where closed triggers wait, what is still free of it.
        growth: what is put there, in bytes a second.
    """
    return max(0.0, room_bytes) / growth if growth > 0 else None


def full_in_days(free_bytes: int, bytes_a_day: float | None) -> float | None:
    """Time until a disk is full, in days; None where nothing on it grows, or nobody knows."""
    return free_bytes / bytes_a_day if bytes_a_day is not None and bytes_a_day > 0 else None


def drained_in_s(waiting: int, receive_rate: float, commit_rate: float) -> float | None:
    """Time until the database is abreast of what comes in, in s; 0 when it is, None while it does not come nearer.

    Args:
        waiting: readings closed and not yet committed.
        receive_rate: readings a second that come in.
        commit_rate: readings a second that are committed.
    """
    if waiting <= AT_ONCE_S * receive_rate or not waiting:
        return 0.0
    gain = commit_rate - receive_rate
    return waiting / gain if gain > 0 else None


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


EVERY_S = 5.0
"""Time between two questions; an idle daemon notices within it that the database is gone."""

T = TypeVar("T")

RETRY_FIRST_S = 0.25
RETRY_MOST_S = 1.0
"""Pauses between attempts to open it."""


class StoreWatch:
    """Keeps the report of the store up to date.

    looked: called after each answer.
    """

    def __init__(
        self, store: Store, report: StoreReport, config: Config, events: Events, looked: Callable[[], None]
    ) -> None:
        self._store = store
        self._report = report
        self._config = config
        self._events = events
        self._looked = looked
        self._refused: str | None = None

    async def open(
        self,
        stop: asyncio.Event,
        ask: Callable[[], Awaitable[T]],
        *,
        away: asyncio.Event,
        is_taking: Callable[[], bool],
        refuse: Callable[[SchemaMismatch], str],
    ) -> T | None:
        """Open the store and ask it, trying again whatever is wrong; None when `stop` came first.

        away: set when it cannot be used yet, so that readings are taken meanwhile. is_taking: whether they are already.
            Then a configuration that is refused ends nothing, either: ending would lose what comes for other groups.
        refuse: called with what the database refuses: its groups take nothing more; returns what to do with what they
            have taken.

        Raises:
            CommandFailed: the configuration is refused, and nothing is taken.
        """
        backoff, is_open = Backoff(RETRY_FIRST_S, RETRY_MOST_S), False
        while not stop.is_set():
            try:
                if not is_open:
                    await self._store.open()
                    self._report.answered(await self._store.facts())
                    is_open = True
                return await ask()
            except StoreError as error:
                found = error if isinstance(error, StoreUnavailable) else await why_refused(self._store, error)
                is_refused = isinstance(found, ConfigurationRefused)
                problem = str(found) if isinstance(found, StoreUnavailable) else in_its_field(found, self._config)
                if isinstance(found, SchemaMismatch):
                    problem += refuse(found)
                if is_refused and not is_taking():
                    raise CommandFailed(problem) from None
                self._wait_for_it("the database is away" if found.is_away else "the database cannot be used", problem)
                away.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), backoff.next_s())
        return None

    def _wait_for_it(self, what: str, problem: str) -> None:
        if self._report.problem != problem:
            keeps = self._config.journal.max_mib > 0
            meanwhile = "readings are kept in the journal" if keeps else "no readings are taken yet"
            self._events.error(f"{what}, {meanwhile}: {problem}")
        self._report.failed(problem)

    async def run(self) -> None:
        """Ask it again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self._look()

    async def _look(self) -> None:
        self._report.asked()
        try:
            self._report.answered(await self._store.facts())
        except StoreError as error:
            if error.is_away:
                self._report.failed(str(error))
                return
            # Readings may well be committed all the same; an operator has to know that the facts are old ones.
            if self._refused != str(error):
                self._events.warning(f"the database does not say how it is: {error}")
            self._refused = str(error)
        else:
            self._refused = None
            self._looked()
