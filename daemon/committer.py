"""The committer of one group: closed triggers become transactions.

Natural batching: while one transaction is under way the next batch gathers, and an idle system commits a single
trigger at once. The committer owns batching, retry and backoff; the store only writes.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backends.base import BatchRejected, Store, StoreUnavailable
from daemon.backlog import Backlog, Waiting
from daemon.dead_letters import DeadLetters
from daemon.events import Events
from daemon.metrics import Latencies, Recent
from schemas.batch import Batch, ClosedTriggers, Durability, JournalPosition
from schemas.config import CommitterConfig
from schemas.readings import Array, InstrumentGroup, join


@dataclass(kw_only=True)
class CommitCounts:
    """Counts since the start."""

    commits: int = 0
    retries: int = 0
    triggers: int = 0
    readings: int = 0
    dead_triggers: int = 0
    dead_readings: int = 0


class Committer:
    """Commits the pieces of one group's backlog in order.

    settled: called with the number of pieces that are committed (or kept as dead letters) now, of those that closed in
    this process.
    noticed: called when `problem` comes or goes, however short it was.
    account: how much the store said at the start that this logger ever committed; each batch counts on from there.
    steps: attempts that came to an end, well or not: the watchdog sees by them that it is at work.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        *,
        durability: Durability,
        settings: CommitterConfig,
        backlog: Backlog,
        dead_letters: DeadLetters,
        events: Events,
        settled: Callable[[int], None],
        noticed: Callable[[], None],
        account: JournalPosition | None = None,
    ) -> None:
        self.counts = CommitCounts()
        self.latencies = Latencies()
        self.problem: str | None = None
        self.problem_since_ns = 0
        self.committed_ns = 0
        self.steps = 0
        self.risk_ms = math.inf
        self._recent = Recent()
        self._store = store
        self._group = group
        self._durability = durability
        self._max_batch = int(settings.max_batch_mib * 2**20)
        self._retry_first_s = settings.retry_first_ms / 1e3
        self._retry_most_s = settings.retry_most_ms / 1e3
        self._backlog = backlog
        self._dead_letters = dead_letters
        self._events = events
        self._settled = settled
        self._noticed = noticed
        self.account_at_start = account or JournalPosition(sequence=0)

    def note_risk(self, risk_ms: float) -> None:
        """Be told how young an acknowledged reading may be, in ms, and still be lost with the server."""
        self.risk_ms = risk_ms
        self._recent.keep(0 if math.isinf(risk_ms) else math.ceil(risk_ms * 1e6))

    def at_risk(self, monotonic_ns: int) -> int:
        """How many acknowledged readings a crash of the server now could lose; of unlimited risk, all since the start.

        What waits in memory is not among them: nobody was told that it is safe. Nor is what an earlier process of the
        daemon committed, nor what was lost already in a crash that has happened.
        """
        return self.counts.readings if math.isinf(self.risk_ms) else self._recent.count(monotonic_ns)

    async def run(self) -> None:
        """Commit until the backlog has ended and nothing is left of it."""
        while pieces := await self._backlog.take(self._max_batch):
            await self._commit(pieces)

    async def _commit(self, pieces: list[Waiting]) -> None:
        batch = self._batch(pieces)
        try:
            await self._persist(batch)
        except BatchRejected as error:
            if len(pieces) > 1:
                # One bad piece must not take the good ones with it.
                for piece in pieces:
                    await self._commit([piece])
                return
            await self._bury(batch, str(error))
            self.counts.dead_triggers += len(batch.ledger)
            self.counts.dead_readings += pieces[0].readings
        else:
            self._count(pieces)
        self._settled(self._backlog.settle(len(pieces)))

    async def _persist(self, batch: Batch) -> None:
        """Commit, trying again for as long as the store is not available."""
        pause = self._retry_first_s
        while True:
            try:
                await self._store.commit(batch)
            except StoreUnavailable as error:
                self._note(str(error))
                self.counts.retries += 1
                # Spread, so that several groups and daemons do not knock at the same moment.
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
                pause = min(2 * pause, self._retry_most_s)
            else:
                self._note(None)
                return

    async def _bury(self, batch: Batch, reason: str) -> None:
        pause = self._retry_first_s
        while True:
            try:
                path = await asyncio.to_thread(self._dead_letters.keep, batch, reason)
            except OSError as error:
                self._note(f"the store rejected a batch ({reason}), and it cannot be kept on disk: {error}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._retry_most_s)
            else:
                self._note(None)
                self._events.say(
                    "error", f"group {self._group.name}: a batch was rejected and kept in {path}: {reason}"
                )
                return

    def _batch(self, pieces: list[Waiting]) -> Batch:
        return Batch(
            **_merge([waiting.piece for waiting in pieces]).parts,
            group=self._group,
            position=self._position(pieces),
            durability=self._durability,
        )

    def _position(self, pieces: list[Waiting]) -> JournalPosition:
        """Where the store will be once it has these pieces, too."""
        before, since = self.account_at_start, self.counts
        return JournalPosition(
            sequence=pieces[-1].number,
            triggers=before.triggers + since.triggers + sum(waiting.piece.triggers for waiting in pieces),
            readings=before.readings + since.readings + sum(waiting.readings for waiting in pieces),
        )

    def _count(self, pieces: list[Waiting]) -> None:
        now = time.monotonic_ns()
        closing = [waiting for waiting in pieces if waiting.piece.triggers]
        self.counts.commits += 1
        self.committed_ns = now
        readings = sum(waiting.readings for waiting in pieces)
        self.counts.triggers += sum(waiting.piece.triggers for waiting in closing)
        self.counts.readings += readings
        self._recent.add(readings, now)
        # How long something waited that was read back from the journal says nothing of how commits do now.
        fresh = [(now - waiting.put_ns, waiting.piece.triggers) for waiting in closing if waiting.put_ns is not None]
        if fresh:
            waited, triggers = np.array(fresh).T
            self.latencies.add(waited / 1e6, triggers, now)

    def _note(self, problem: str | None) -> None:
        self.steps += 1
        is_news = (problem is None) != (self.problem is None)
        if is_news:
            self.problem_since_ns = time.monotonic_ns()
        self.problem = problem
        if is_news:
            self._noticed()


def _merge(pieces: list[ClosedTriggers]) -> ClosedTriggers:
    if len(pieces) == 1:
        return pieces[0]
    closing = [piece for piece in pieces if piece.triggers] or pieces[:1]
    late, late_of, revised = _merge_revised([piece for piece in pieces if len(piece.revised)] or pieces[:1])
    return ClosedTriggers(
        readings=join([piece.readings for piece in closing]),
        present=np.concatenate([piece.present for piece in closing]),
        ledger=np.concatenate([piece.ledger for piece in closing]),
        late=late,
        late_of=late_of,
        revised=revised,
    )


def _merge_revised(pieces: list[ClosedTriggers]) -> tuple[Array, Array, Array]:
    """Join late readings and revised rows; of a row that was revised several times, keep the last."""
    revised = np.concatenate([piece.revised for piece in pieces])
    starts = np.cumsum([0, *(len(piece.revised) for piece in pieces[:-1])])
    late_of = np.concatenate([piece.late_of + start for piece, start in zip(pieces, starts, strict=True)])
    order = np.lexsort((np.arange(len(revised)), revised["trigger"], revised["run"]))
    ordered = revised[order]
    is_last = np.ones(len(revised), bool)
    is_last[:-1] = (ordered["run"][1:] != ordered["run"][:-1]) | (ordered["trigger"][1:] != ordered["trigger"][:-1])
    row_of = np.empty(len(revised), np.intp)
    # Of rows that belong together, the last one follows the others: each belongs to the next last one.
    row_of[order] = np.cumsum(is_last) - is_last
    return join([piece.late for piece in pieces]), row_of[late_of], ordered[is_last]
