"""Reporting: the status of the whole daemon, put together from its parts, the node's clock among them."""

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import psutil

from daemon.core.monitoring.events import Events
from daemon.core.monitoring.metrics import Rates
from daemon.core.outside import monotonic_ns
from daemon.core.supervision.figures import Figures
from daemon.pipeline.figures import PipelineFigures
from daemon.pipeline.instruments import Finding
from daemon.pipeline.instruments.desync import Kind
from daemon.pipeline.intake import Intake
from daemon.pipeline.pipeline import Pipeline
from daemon.sources.base import Source
from daemon.telemetry.store import StoreReport, drained_in_s, full_in_days, full_in_s
from schemas.api.alarms import AlarmStatus
from schemas.api.conditions import ConditionsStatus
from schemas.api.decimation import DecimationStatus
from schemas.api.marks import MarksStatus
from schemas.api.retention import RetentionStatus
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.status import (
    DeadLetterCounts,
    DiskStatus,
    ExperimentStatus,
    GovernorStatus,
    GroupStatus,
    IntakeStatus,
    ReaderStatus,
    ReadingCounts,
    Slip,
    Status,
    StoreStatus,
    TriggerCounts,
)
from schemas.api.tiers import TiersStatus
from schemas.api.visits import VisitsStatus
from schemas.config import Config
from schemas.readings import InstrumentGroup
from schemas.states import DaemonState, SlipKind

SLIPS_LISTED = 100
"""Instruments out of step that a status lists; it counts all of them."""

LIMITS = (
    "commit_p99_ms",
    "stale_s",
    "quiet_s",
    "node_clock_s",
    "missing_instruments",
    "skipped_triggers",
    "lost_readings",
    "aside_readings",
    "backlog_triggers",
    "journal_full_in_min",
    "disk_full_in_days",
    "slow_visits",
    "visit_stands_s",
    "visits_are_critical",
)
"""Limits of `[alarms]` that a status carries, for whoever judges by it."""


@dataclass(frozen=True, kw_only=True)
class WorkloadsStatus:
    """How each workload is: the part of the status that the workloads make."""

    readers: dict[str, ReaderStatus] = field(default_factory=dict)
    experiment: ExperimentStatus | None = None
    governor: GovernorStatus | None = None
    visits: VisitsStatus | None = None
    snapshots: SnapshotsStatus | None = None


class GroupRates(NamedTuple):
    """Rates of one group, a second, lately: triggers closed and committed, readings received and committed.

    put_bytes: what was put where triggers wait, the mean of a minute.
    """

    closed_triggers: float
    committed_triggers: float
    received: float
    committed: float
    put_bytes: float


MINUTE_NS = 60_000_000_000
NO_RATES = GroupRates(0.0, 0.0, 0.0, 0.0, 0.0)


class Reporter:
    """Builds the status; `sample` has to be called a few times a second for its rates to be right.

    intakes, pipelines, sources: they fill up while the daemon starts. alarms, marks, conditions, retention,
    decimation, tiers: asked for these parts of the status. state_dir: the folder whose disk is reported on.
    """

    def __init__(
        self,
        config: Config,
        store: StoreReport,
        events: Events,
        *,
        intakes: Mapping[str, Intake],
        pipelines: Mapping[str, Pipeline],
        sources: Sequence[Source],
        workloads: Callable[[], WorkloadsStatus],
        alarms: Callable[[], list[AlarmStatus]],
        marks: Callable[[], MarksStatus],
        state_dir: Path,
        conditions: Callable[[], ConditionsStatus | None] = lambda: None,
        retention: Callable[[], RetentionStatus | None] = lambda: None,
        decimation: Callable[[], DecimationStatus | None] = lambda: None,
        tiers: Callable[[], TiersStatus | None] = lambda: None,
        figures: Figures | None = None,
    ) -> None:
        self._figures = figures or Figures(events)
        self.pipelines = pipelines
        self._intakes = intakes
        self.state = DaemonState.STARTING
        self._sources = sources
        self._workloads = workloads
        self._alarms = alarms
        self._marks = marks
        self._conditions = conditions
        self._retention = retention
        self._decimation = decimation
        self._tiers = tiers
        self._state_dir = state_dir
        self._disk: DiskStatus | None = None
        self._is_synchronised: bool | None = None
        self._config = config
        self._store = store
        self._events = events
        self._epoch = time.time_ns()
        self._version = version("triggerlog")  # read from a file, so not for every status
        self._started_ns = monotonic_ns()
        self._sequence = 0
        self._rates: dict[str, Rates] = {}
        self._growths: dict[str, Rates] = {}
        self._current: dict[str, GroupRates] = {}
        self._process = psutil.Process()
        self._process.cpu_percent()
        self._cpu = self._memory_mib = 0.0
        self._known_store = store.status(())
        self._away_since_ns: int | None = None
        self._cpu_at_ns = self._started_ns

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._config

    @property
    def disk(self) -> DiskStatus | None:
        """The state folder's disk, as last looked at."""
        return self._disk

    def commit_rate(self, group: str) -> float:
        """Readings of a group committed a second, lately."""
        return self._current.get(group, NO_RATES).committed

    def change(self, config: Config) -> None:
        """Report these limits from now on."""
        self._config = config

    def sample(self) -> None:
        """Take the counters for the rates."""
        moment = monotonic_ns()
        for intake in self._intakes.values():
            intake.look()
        for pipeline in self.pipelines.values():
            pipeline.look()
        found = self._figures_of_all()
        self._figures.ask("database", partial(self._look_at_store, found), None)
        for name, figures in found.items():
            rates = partial(self._rates_of, name, figures, moment)
            self._current[name] = self._figures.ask(f"rates of group {name}", rates, NO_RATES)
        if moment - self._cpu_at_ns >= 1_000_000_000:
            self._cpu_at_ns, ask = moment, self._figures.ask
            self._cpu = ask("processor", self._process.cpu_percent, self._cpu)
            self._memory_mib = ask("memory", lambda: self._process.memory_info().rss / 2**20, self._memory_mib)
            self._disk = ask("disk", lambda: _disk(self._state_dir, self._growth_here()), None)
            self._is_synchronised = ask("clock", clock_is_synchronised, None)

    def _figures_of_all(self) -> dict[str, PipelineFigures]:
        found = {
            name: self._figures.ask(f"figures of group {name}", pipeline.figures, None)
            for name, pipeline in self.pipelines.items()
        }
        return {name: figures for name, figures in found.items() if figures is not None}

    def _rates_of(self, name: str, figures: PipelineFigures, moment: int) -> GroupRates:
        assembled, committed = figures.assembled, figures.committed
        rates = self._rates.setdefault(name, Rates())
        growth = self._growths.setdefault(name, Rates(over_ns=MINUTE_NS, most_ns=MINUTE_NS, enough=0))
        return GroupRates(
            *rates.sample(
                moment,
                assembled.complete + assembled.incomplete,
                committed.triggers,
                assembled.received,
                committed.readings,
            ),
            *growth.sample(moment, figures.put_bytes),
        )

    def _growth_here(self) -> float | None:
        """Bytes a day by which the database grows on the state folder's disk; None where it is elsewhere."""
        facts = self._store.facts
        return self._store.growth.steady_bytes_a_day() if facts is not None and facts.embedded else None

    def look_at_store(self) -> None:
        """Report it when the store has gone away, or has come back."""
        self._look_at_store(self._figures_of_all())

    def _look_at_store(self, found: Mapping[str, PipelineFigures]) -> None:
        if self.state is not DaemonState.RUNNING:
            return
        moment = monotonic_ns()
        store = self._store_status(found)
        problem = store.problem
        if problem is not None and self._away_since_ns is None:
            self._away_since_ns = moment - int(store.away_s * 1e9)
            self._events.error(f"the database is away, readings wait: {problem}")
        elif problem is None and self._away_since_ns is not None:
            away_s = (moment - self._away_since_ns) / 1e9
            self._away_since_ns = None
            self._events.info(f"the database is back after {away_s:.1f} s")

    def _store_status(self, found: Mapping[str, PipelineFigures]) -> StoreStatus:
        self._known_store = self._store.status(found.values())
        return self._known_store

    def status(self) -> Status:
        """The status now; what cannot be found out is left out, or as it was last, and `unavailable` says why."""
        self._sequence += 1
        moment, ask = monotonic_ns(), self._figures.ask
        found = self._figures_of_all()
        store = ask("status of store", partial(self._store_status, found), self._known_store)
        workloads = ask("status of workloads", self._workloads, WorkloadsStatus())
        groups = {
            name: ask(f"status of group {name}", partial(self._group, self.pipelines[name], figures, moment), None)
            for name, figures in found.items()
        }
        intakes = {
            name: ask(f"status of intake {name}", partial(_intake, intake), None)
            for name, intake in self._intakes.items()
        }
        sources = [
            ask(f"status of source {number}", source.status, None) for number, source in enumerate(self._sources)
        ]
        return Status(
            epoch=self._epoch,
            sequence=self._sequence,
            time_ns=time.time_ns(),
            uptime_s=(moment - self._started_ns) / 1e9,
            logger=self._config.logger,
            version=self._version,
            state=DaemonState.STORE_AWAY if self.state is DaemonState.RUNNING and not store.available else self.state,
            store=store,
            groups={name: group for name, group in groups.items() if group is not None},
            intakes={name: intake for name, intake in intakes.items() if intake is not None},
            sources=[source for source in sources if source is not None],
            readers=workloads.readers,
            experiment=workloads.experiment,
            governor=workloads.governor,
            visits=workloads.visits,
            snapshots=workloads.snapshots,
            conditions=ask("status of conditions", self._conditions, None),
            marks=ask("status of marks", self._marks, None),
            retention=ask("status of retention", self._retention, None),
            decimation=ask("status of decimation", self._decimation, None),
            tiers=ask("status of tiers", self._tiers, None),
            disk=self._disk,
            alarms=ask("status of alarms", self._alarms, []),
            unavailable=self._figures.unavailable,
            events=self._events.newest(),
            limits={name: float(getattr(self._config.alarms, name)) for name in LIMITS},
            cpu_percent=self._cpu,
            memory_mib=self._memory_mib,
            clock_is_synchronised=self._is_synchronised,
        )

    def _group(self, pipeline: Pipeline, figures: PipelineFigures, moment: int) -> GroupStatus:
        rates = self._current.get(pipeline.group.name, NO_RATES)
        instruments = pipeline.instruments.figures(moment)
        return GroupStatus(
            run=figures.run,
            brief_runs=figures.brief_runs,
            instruments=pipeline.group.size,
            layout=pipeline.layout,
            durability=pipeline.durability,
            folder=pipeline.group.folder,
            at_risk_ms=figures.risk_ms if figures.has_risk_limit else None,
            triggers=_triggers(figures, rates),
            readings=_readings(figures, rates),
            dead_letters=_dead_letters(figures),
            commit_ms=pipeline.latencies.latency(moment),
            missing_now=0 if pipeline.group.reports else _missing_now(instruments.states),
            missing_a_trigger=instruments.missing_a_trigger,
            states=instruments.states,
            quiet_s=instruments.quiet_s,
            ahead_s=instruments.ahead_s,
            calibrated_by=self._config.calibrated_by(pipeline.group.name),
            desynchronised_now=len(instruments.findings),
            slips=[_slip(pipeline.group, finding) for finding in instruments.findings[:SLIPS_LISTED]],
            journal_mib=figures.journal_bytes / 2**20,
            journal_problem=figures.journal_problem,
            backlog_mib=figures.memory_bytes / 2**20,
            backpressure=figures.is_full,
            full_in_s=full_in_s(figures.room_bytes, rates.put_bytes),
            drained_in_s=drained_in_s(figures.waiting.readings, rates.received, rates.committed),
        )


def _missing_now(states: str) -> int | None:
    return sum(states.count(letter) for letter in "msn") or (None if "i" in states else 0)


def _intake(intake: Intake) -> IntakeStatus | None:
    if not intake.has_log:
        return None
    log = intake.state
    return IntakeStatus(
        waiting=intake.waiting,
        unsynced=intake.unsynced,
        refused={} if intake.is_counted else dict(intake.losses.dropped),
        lost={} if intake.is_counted else dict(intake.losses.lost),
        log_mib=log.nbytes / 2**20,
        problem=log.problem,
    )


def _disk(folder: Path, bytes_a_day: float | None) -> DiskStatus | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None  # the journal says what is wrong with it
    if not disk.f_blocks:
        return None  # as of some network mounts
    free_bytes = disk.f_bavail * disk.f_frsize
    return DiskStatus(
        total_bytes=disk.f_blocks * disk.f_frsize,
        used_bytes=(disk.f_blocks - disk.f_bfree) * disk.f_frsize,
        free_bytes=free_bytes,
        full_in_days=full_in_days(free_bytes, bytes_a_day),
    )


SLIP_KINDS = {
    Kind.SLIPPED: SlipKind.SLIPPED,
    Kind.CLOCK_OFF: SlipKind.CLOCK,
    Kind.STUCK: SlipKind.STUCK,
    Kind.IRREGULAR: SlipKind.IRREGULAR,
}


def _slip(group: InstrumentGroup, finding: Finding) -> Slip:
    return Slip(
        instrument=group.instruments[finding.instrument],
        kind=SLIP_KINDS[finding.kind],
        triggers=finding.triggers,
        offset_ms=finding.offset_ms,
        since_trigger=finding.since_trigger,
    )


def _triggers(figures: PipelineFigures, rates: GroupRates) -> TriggerCounts:
    return TriggerCounts(
        received=figures.assembled.opened,
        open=figures.open,
        complete=figures.assembled.complete,
        incomplete=figures.assembled.incomplete,
        committed=figures.committed.triggers,
        account_at_start=figures.account_at_start.triggers,
        waiting=figures.waiting.triggers,
        newest=figures.newest,
        skipped=figures.assembled.skipped,
        skipped_lately=figures.skipped_lately,
        rate=rates.closed_triggers,
        commit_rate=rates.committed_triggers,
    )


def _dead_letters(figures: PipelineFigures) -> DeadLetterCounts:
    return DeadLetterCounts(
        letters=figures.dead_letters.blocks,
        triggers=figures.dead_letters.triggers,
        readings=figures.dead_letters.readings,
        aside=figures.letters_aside,
        aside_since_ns=figures.aside_since_ns,
        retried=figures.retried,
        discarded=figures.discarded,
    )


def _readings(figures: PipelineFigures, rates: GroupRates) -> ReadingCounts:
    return ReadingCounts(
        received=figures.received,
        committed=figures.committed.readings,
        account_at_start=figures.account_at_start.readings,
        late=figures.assembled.late,
        duplicate=figures.duplicate,
        refused=figures.refused,
        aside=figures.aside,
        lost=dict(figures.lost_before),
        lost_lately=dict(figures.lost_lately),
        dead=figures.committed.dead_readings + figures.lost.readings,
        waiting=figures.waiting.readings,
        assembling=figures.assembling,
        at_risk=figures.at_risk,
        rate=rates.received,
        commit_rate=rates.committed,
    )


UNSYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2): no time server disciplines the clock."""
TIMEX_BYTES = 256
"""`struct timex` has 208 bytes on 64-bit Linux; all zero, its `modes` change nothing."""


def clock_is_synchronised() -> bool | None:
    """Whether the kernel calls the clock synchronised; None where it does not say."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (OSError, AttributeError):
        return None  # no Linux
    return None if state < 0 else bool(state != UNSYNCHRONISED)
