"""Assembly of a pipeline, made from its configuration and from what is known of its group."""

from collections.abc import Container

from daemon.pipeline.assembly import Assembly, Receipts, ReportAssembly, Runs
from daemon.pipeline.assembly.outcomes import ReadingSet
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.recovery import Recalled
from schemas.config import Config
from schemas.readings import InstrumentGroup


def assembly_of(
    group: InstrumentGroup, config: Config, runs: Runs, recalled: Recalled, pinned: Container[int]
) -> Assembly | ReportAssembly:
    """The assembly of a group, by whether it reports on change. pinned: see `Sessions`."""
    if group.reports:
        receipts = Receipts()
        sessions = Sessions(receipts, recalled.state.sessions, pinned=pinned)
        return ReportAssembly(group, sessions, receipts, ReadingSet(recalled.letters))
    return Assembly(
        group,
        timeout_ns=int(config.assembly.timeout_ms * 1e6),
        window=config.assembly.window,
        max_open=config.assembly.max_open,
        runs=runs,
        history=recalled.history,
        epochs=recalled.state.runs,
        sessions=recalled.state.sessions,
        letters=recalled.letters,
        pinned=pinned,
    )


def max_memory(config: Config) -> int:
    """Bytes of closed blocks that may wait in memory."""
    return int(config.committer.max_waiting_mib * 2**20)
