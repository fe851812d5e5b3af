"""Attempts: the store, and the disk, are asked again for as long as they are away."""

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from backends.base import BatchRejected, CommitsLost, OtherJournal, StoreError, StoreUnavailable
from daemon.core.outside import Clock
from daemon.pipeline.committer.account import CommitCounts
from daemon.web.backoff import Backoff
from schemas.config import Config

T = TypeVar("T")


class Attempts:
    """Asks again after pauses, and knows what is wrong meanwhile.

    counts: where each pause for the store is counted. availability_changed: called when `problem` comes or goes,
    however short it was.
    problem: why nothing can be committed now, None where it can; problem_since_ns: since when (CLOCK_MONOTONIC).
    steps: attempts that came to an end, well or not: the watchdog sees by them that the committer is at work.
    asked_ns: since when the store owes an answer (CLOCK_MONOTONIC); 0 where it owes none.
    longest_s: see `longest_attempt_s`.
    """

    def __init__(
        self, clock: Clock, config: Config, counts: CommitCounts, availability_changed: Callable[[], None]
    ) -> None:
        self.problem: str | None = None
        self.problem_since_ns = 0
        self.asked_ns = 0
        self.steps = 0
        self._clock = clock
        self._counts = counts
        self._availability_changed = availability_changed
        self.change(config)

    def change(self, config: Config) -> None:
        """Pause so from now on."""
        self._first_s = config.committer.retry_first_ms / 1e3
        self._most_s = config.committer.retry_most_ms / 1e3
        self.longest_s = longest_attempt_s(config)

    def backoff(self) -> Backoff:
        """The pauses between attempts at one thing."""
        return Backoff(self._first_s, self._most_s)

    async def at_store(self, ask: Callable[[], Awaitable[T]], tries: float = math.inf) -> T:
        """Ask the store, again whatever is wrong: only the faults of rows, and another position, are answers.

        Raises:
            BatchRejected, CommitsLost, OtherJournal: it answers so.
            StoreUnavailable: something else was wrong so many times.
        """
        backoff = self.backoff()
        while True:
            self.asked_ns = self.asked_ns or self._clock.now().monotonic_ns
            try:
                answer = await ask()
            except (BatchRejected, CommitsLost, OtherJournal):
                self.steps += 1
                self.asked_ns = 0
                raise
            except StoreError as error:
                self.note(str(error))
                self._counts.retries += 1
                await backoff.pause()
                tries -= 1
                if tries <= 0:
                    raise StoreUnavailable(str(error)) from error
            else:
                self.note(None)
                return answer

    async def at_disk(self, problem: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do something with the disk, again for as long as that fails."""
        backoff = self.backoff()
        while True:
            try:
                done = await do()
            except OSError as error:
                self.note(f"{problem}: {error}")
                await backoff.pause()
            else:
                self.note(None)
                return done

    def note(self, problem: str | None) -> None:
        """An attempt came to an end: with this problem, or well."""
        self.steps += 1
        is_news = (problem is None) != (self.problem is None)
        if is_news:
            # It was away as soon as it was asked what it did not answer any more.
            self.problem_since_ns = self.asked_ns or self._clock.now().monotonic_ns
        self.problem = problem
        if problem is None:
            self.asked_ns = 0
        if is_news:
            self._availability_changed()


def longest_attempt_s(config: Config) -> float:
    """How long a committer may be at one attempt, in s.

    That is a connection and a transaction, each given up after the database's time, and the pause before the next.
    """
    return 2 * config.database.command_timeout_s + config.committer.retry_most_ms / 1e3
