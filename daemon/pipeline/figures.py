"""What there is to know of a pipeline at one moment, for whoever reports on it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, AssemblyCounts, ReportAssembly
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.committer import CommitCounts, Committer
from daemon.pipeline.dead_letters import DeadLetters
from daemon.pipeline.files import Amount
from daemon.pipeline.log import LogState
from daemon.pipeline.losses import Losses
from schemas.api.status import Recent
from schemas.batch import JournalPosition


@dataclass(frozen=True, kw_only=True)
class PipelineFigures:
    """The figures of one group, in the order of the data's way; counts are those since the start.

    dropped: readings that sources threw away, by reason. lost_before: readings proven lost, by how: on their way
    here, or by the database before the start.
    skipped_lately, lost_lately: trigger numbers skipped, and readings so lost, lately.
    run, newest: the run under way, and its highest trigger closed. brief_runs: those of one trigger up to it.
    open, assembling: triggers being put together, and their readings.
    assembled: counts of the assembly.
    waiting: closed and not committed yet, in memory or in the log alone.
    memory_bytes: what that takes. journal_bytes: what the log takes of the disk. room_bytes: what is still free of the
    place where readings wait: of the log, or of memory where none is kept. put_bytes: what all that was put there took.
    is_full: whether senders are held back.
    journal_problem: why the log cannot be written.
    committed: counts of the committer. committed_ns: when it committed last (CLOCK_MONOTONIC); 0 for never.
    account_at_start: what the store had of this logger when it started.
    store_problem, store_problem_since_ns: why commits fail, and since when (CLOCK_MONOTONIC). asked_ns: since when the
    store owes an answer; 0 where it owes none.
    at_risk, risk_ms: acknowledged readings that a crash of the server could lose, and how young they may be.
    lost: acknowledged by the database in this process, and gone.
    dead_letters: what is in them now. letters_aside, aside_since_ns: the readings of it that were set aside, and since
    when there are any (UTC). retried: readings that were committed from there. discarded: of those that the database
    rejected, the readings that were discarded from there.
    """

    dropped: Mapping[str, int]
    lost_before: Mapping[str, int]
    skipped_lately: Recent
    lost_lately: Mapping[str, Recent]
    run: int
    brief_runs: int
    newest: int | None
    open: int
    assembling: int
    assembled: AssemblyCounts
    waiting: Amount
    memory_bytes: int
    journal_bytes: int
    room_bytes: int
    put_bytes: int
    is_full: bool
    journal_problem: str | None
    committed: CommitCounts
    committed_ns: int
    account_at_start: JournalPosition
    store_problem: str | None
    store_problem_since_ns: int
    asked_ns: int
    at_risk: int
    risk_ms: float
    lost: Amount
    dead_letters: Amount
    letters_aside: int
    aside_since_ns: int | None
    retried: int
    discarded: int

    @property
    def aside(self) -> dict[str, int]:
        """Readings for no trigger that is known, by reason, without those that the database could place.

        With them those that came late for what it has no more.
        """
        aside, doubtful = dict(self.assembled.aside), self.committed.placed_doubtful
        older = self.committed.placed - doubtful - self.committed.late_aside
        for reason, placed in (("older", older), ("doubtful", doubtful)):
            if placed:
                aside[reason] = aside.get(reason, 0) - placed
        return aside

    @property
    def duplicate(self) -> int:
        """Readings that were there already."""
        return self.assembled.duplicate + self.committed.placed_doubles

    @property
    def received(self) -> int:
        """Readings that came in, those dropped by sources among them."""
        return self.assembled.received + sum(self.dropped.values())

    @property
    def refused(self) -> dict[str, int]:
        """Readings never stored, by reason."""
        refused = dict(self.assembled.refused)
        for reason, count in self.dropped.items():
            refused[reason] = refused.get(reason, 0) + count
        return refused

    @property
    def unaccounted(self) -> int:
        """Readings that came in and are nowhere else."""
        went = self.committed.readings + self.committed.dead_readings + self.lost.readings + self.duplicate
        here = self.waiting.readings + self.assembling
        return self.received - went - here - sum(self.refused.values()) - sum(self.aside.values())

    def with_waiting(self, readings: int) -> "PipelineFigures":
        """The same with so many readings more that wait in the log."""
        return replace(self, waiting=self.waiting.plus(Amount(readings=readings)))

    @property
    def account(self) -> int:
        """Readings that this logger ever committed into the group."""
        return self.account_at_start.readings + self.committed.readings

    @property
    def has_risk_limit(self) -> bool:
        """Whether the server tells after what time an acknowledged reading is safe."""
        return math.isfinite(self.risk_ms)


def figures_of(
    assembly: Assembly | ReportAssembly,
    backlog: Backlog,
    committer: Committer,
    dead_letters: DeadLetters,
    *,
    counts: AssemblyCounts,
    log: LogState | None,
    losses: Losses,
    lost: Amount,
    is_full: bool,
    retried: int,
    now: Instant,
) -> PipelineFigures:
    """All counts and amounts as they are now.

    counts: of the assembly. log: how far the log is. lost, is_full, retried: see `PipelineFigures`.
    """
    attempts = committer.attempts
    return PipelineFigures(
        dropped=dict(losses.dropped),
        lost_before=dict(losses.lost),
        skipped_lately=losses.skipped_lately(now),
        lost_lately=losses.lost_lately(now),
        run=assembly.run,
        brief_runs=assembly.brief_runs,
        newest=assembly.newest,
        open=assembly.open,
        assembling=assembly.held,
        assembled=counts,
        waiting=backlog.waiting,
        memory_bytes=backlog.memory_bytes,
        journal_bytes=0 if log is None else log.nbytes,
        room_bytes=backlog.room_bytes if log is None else log.room,
        put_bytes=backlog.put_bytes,
        is_full=is_full,
        journal_problem=None if log is None else log.problem,
        committed=replace(committer.counts),
        committed_ns=committer.committed_ns,
        account_at_start=committer.account.at_start,
        store_problem=attempts.problem,
        store_problem_since_ns=attempts.problem_since_ns,
        asked_ns=attempts.asked_ns,
        at_risk=committer.at_risk(now.monotonic_ns),
        risk_ms=committer.risk_ms,
        lost=lost,
        dead_letters=replace(dead_letters.amount),
        letters_aside=dead_letters.aside_readings,
        aside_since_ns=dead_letters.aside_since_ns,
        retried=retried,
        discarded=dead_letters.discarded_readings,
    )
