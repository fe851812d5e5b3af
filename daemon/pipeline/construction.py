"""Assembly and backlog of a pipeline, made from its configuration and from what was recovered of its group."""

from collections.abc import Callable, Container

import numpy as np

from daemon.core.outside import Clock
from daemon.pipeline.announcements import Announcements
from daemon.pipeline.assembly import Assembly, Receipts, ReportAssembly, Runs
from daemon.pipeline.assembly.reading_set import ReadingSet
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.recovery import RecoveredGroup
from schemas.config import Config
from schemas.readings import InstrumentGroup


def assembly_of(
    group: InstrumentGroup, config: Config, runs: Runs, recovered: RecoveredGroup, pinned: Container[int]
) -> Assembly | ReportAssembly:
    """The assembly of a group, by whether it reports on change. pinned: see `Pipeline`."""
    if group.reports:
        return _reports(group, recovered, pinned)
    return Assembly(
        group,
        timeout_ns=int(config.assembly.timeout_ms * 1e6),
        window=config.assembly.window,
        max_open=config.assembly.max_open,
        runs=runs,
        history=recovered.history,
        is_whole=recovered.is_whole,
        epochs=recovered.state.runs,
        sessions=recovered.state.sessions,
        stored=recovered.stored.sessions,
        claimed=recovered.claimed,
        is_uncertain=bool(recovered.again),
        letters=recovered.letters,
        placing=recovered.placing,
        pinned=pinned,
    )


def _reports(group: InstrumentGroup, recovered: RecoveredGroup, pinned: Container[int]) -> ReportAssembly:
    receipts = Receipts()
    sessions = Sessions(
        receipts,
        recovered.state.sessions,
        recovered.stored.sessions,
        recovered.claimed,
        is_uncertain=bool(recovered.again),
        pinned=pinned,
    )
    letters = np.empty(0, group.record) if recovered.letters is None else recovered.letters
    return ReportAssembly(group, sessions, receipts, ReadingSet(letters))


def backlog_of(
    config: Config,
    recovered: RecoveredGroup,
    clock: Clock,
    announcements: Announcements,
    *,
    full: Callable[[bool], None],
    spooled: Callable[[int], None],
) -> Backlog:
    """The backlog of a group, with the journal that is open. full, spooled: see `Backlog`."""
    return Backlog(
        recovered.journal,
        position=recovered.held,
        state=recovered.stored,
        newest=recovered.state,
        states=recovered.states,
        clock=clock,
        recovered=recovered.amount,
        revocable=recovered.revocable,
        acknowledged=recovered.acknowledged,
        max_memory=_max_memory(config),
        announcements=announcements,
        full=full,
        spooled=spooled,
    )


def change_limits(backlog: Backlog, config: Config) -> None:
    """Let so much wait from now on as a configuration says."""
    backlog.change_limits(
        max_memory=_max_memory(config),
        max_journal=config.journal.max_bytes,
        segment=config.journal.segment_bytes,
    )


def _max_memory(config: Config) -> int:
    return int(config.committer.max_waiting_mib * 2**20)
