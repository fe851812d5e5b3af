"""Transactions: what is asked of the store for one group, again for as long as it is away, and the account of it."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from backends.base import BatchRejected, CommitsLost, OtherJournal, Store, StoreError, StoreUnavailable
from backends.columns.filling import readings_in
from daemon.core.outside import Clock
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.closed_blocks import merge, nothing_of
from daemon.pipeline.dead_letters import Reason
from daemon.pipeline.files import Amount
from daemon.pipeline.placer import Asked
from daemon.pipeline.placing import Placed
from daemon.web.rates import Backoff
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition, Stream
from schemas.config import Config
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup


@dataclass(kw_only=True)
class CommitCounts:
    """Counts since the start."""

    commits: int = 0
    retries: int = 0
    triggers: int = 0
    readings: int = 0
    dead_triggers: int = 0
    dead_readings: int = 0
    placed: int = 0  # readings that assembly had set aside for the database to tell where they go
    placed_doubtful: int = 0  # of these, those that were doubtful
    late_aside: int = 0  # readings that assembly had as late, and that are set aside, whoever closed their block
    placed_doubles: int = 0  # readings that were there already, of these and of late ones

    def place(self, placed: Placed, sign: int = 1) -> None:
        """Count what placing did to a block, or take it back."""
        self.placed += sign * placed.aside
        self.placed_doubtful += sign * placed.doubtful
        self.late_aside += sign * placed.late
        self.placed_doubles += sign * placed.doubles


class Account:
    """Counts what is committed on from what the store had of this logger at the start.

    counts: what this process committed. journal: the id that numbers are of.
    at_start: what of the account is of earlier processes. acknowledged: where the store is by what it said last.
    follows: the same, for the next batch to say.
    """

    def __init__(self, counts: CommitCounts, journal: int, at_start: JournalPosition) -> None:
        self._counts = counts
        self._journal = journal
        self.at_start = self.acknowledged = at_start
        self.follows = at_start

    def position(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> JournalPosition:
        """Where the store will be once it has these, too: what is good of these blocks."""
        before, since = self.at_start, self._counts
        return JournalPosition(
            sequence=blocks[-1].number,
            state=blocks[-1].state.encoded,
            triggers=before.triggers + since.triggers + sum(part.triggers for part in parts),
            readings=before.readings + since.readings + sum(readings_in(part) for part in parts),
            journal=self._journal,
        )

    def commit(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> int:
        """The store has these; return how many readings they are."""
        self.acknowledged = self.follows = self.position(parts, blocks)
        readings = sum(readings_in(part) for part in parts)
        self._counts.commits += 1
        self._counts.triggers += sum(part.triggers for part in parts)
        self._counts.readings += readings
        return readings

    def go_back(self, found: JournalPosition, *, is_alone: bool) -> tuple[Amount, int]:
        """The store is there; return what it has lost: what this process committed, and readings of earlier ones.

        is_alone: the position alone is gone, since an operator removed a row: what is in the account is there.
        """
        was, self.follows = self.acknowledged, found
        if is_alone:
            return Amount(), 0
        self.acknowledged = found
        # Neither came in nor was committed, as far as this process is concerned, what was so before it began.
        triggers = max(0, min(was.triggers - found.triggers, self._counts.triggers))
        readings = max(0, min(was.readings - found.readings, self._counts.readings))
        self._counts.triggers -= triggers
        self._counts.readings -= readings
        self.at_start = JournalPosition(
            sequence=min(self.at_start.sequence, found.sequence),
            triggers=found.triggers - self._counts.triggers,
            readings=found.readings - self._counts.readings,
        )
        return Amount(triggers=triggers, readings=readings), max(0, was.readings - found.readings - readings)


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


class Transactions:
    """Makes batches of blocks, each of which follows what the account says that the store has.

    journal: the id that numbers of blocks are of.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        *,
        durability: Durability,
        journal: int,
        account: Account,
        attempts: Attempts,
    ) -> None:
        self._store = store
        self._group = group
        self._durability = durability
        self._journal = journal
        self._account = account
        self._attempts = attempts

    async def commit(self, parts: list[ClosedBlock], blocks: list[Waiting], tries: float = math.inf) -> None:
        """Commit what is good of blocks.

        Raises:
            BatchRejected: a row is at fault, as far as one connection says.
            CommitsLost, OtherJournal: it is no longer at the position that these follow.
            StoreUnavailable: it did not do it so many times.
        """
        batch = self._batch(parts, blocks)
        await self._attempts.at_store(lambda: self._store.commit(batch), tries)

    async def rehearse(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> Reason | None:
        """Why the store rejects parts of blocks; None where it would take them.

        Raises CommitsLost or OtherJournal where it is no longer at the position that these follow.
        """
        batch = self._batch(parts, blocks)
        try:
            await self._attempts.at_store(lambda: self._store.rehearse(batch))
        except BatchRejected as error:
            return Reason.of(error)
        return None

    async def takes_nothing(self, blocks: list[Waiting]) -> bool:
        """True where the store takes blocks without any rows; else wait until it does: no row is at fault till then."""
        batch, waited = self._batch([nothing_of(blocks[0].block)], blocks), False

        async def rehearse() -> None:
            nonlocal waited
            try:
                await self._store.rehearse(batch)
            except BatchRejected as error:
                waited = True
                raise StoreUnavailable(f"no row is at fault: {error}") from error

        await self._attempts.at_store(rehearse)
        return not waited

    async def position(self) -> JournalPosition:
        """Where the store is; at the number 0 where it knows of none."""
        position = await self._attempts.at_store(lambda: self._store.position(self._group.name))
        return position or JournalPosition(sequence=0)

    @fail_stop(StoreError)
    async def held(self) -> int:
        """Up to which number the store has the blocks."""
        position = await self.position()
        return position.sequence if position.journal == self._journal else 0

    async def ask(self, query: Asked | LedgerTail) -> Array:
        """What the store answers."""
        return await self._attempts.at_store(lambda: self._store.ask(query))

    def _batch(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> Batch:
        return Batch(
            **merge(parts).parts,
            group=self._group,
            position=self._account.position(parts, blocks),
            durability=self._durability,
            stream=Stream.JOURNAL,
            follows=self._account.follows,
        )
