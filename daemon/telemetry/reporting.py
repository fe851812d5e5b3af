"""Reporting: the status of the whole daemon, put together from its parts."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from daemon.core.events import Events
from daemon.core.metrics import Rates
from daemon.pipeline.pipeline import Pipeline
from daemon.sources.base import Source
from daemon.telemetry.forecasts import drained_in_s, full_in_s
from daemon.telemetry.store_report import StoreReport
from schemas.api.status import (
    DeadLetterCounts,
    DiskStatus,
    GroupStatus,
    Latency,
    ReadingCounts,
    Slip,
    State,
    Status,
    TriggerCounts,
)
from schemas.config import Config

SLIPS_TOLD = 100
"""Instruments out of step that a status lists; it counts all of them."""


LIMITS = (
    "commit_p99_ms",
    "stale_s",
    "quiet_s",
    "missing_instruments",
    "backlog_triggers",
    "journal_full_in_min",
    "slow_visits",
    "visit_stands_s",
    "visits_are_critical",
)
"""Limits of `[alarms]` that a status tells, for whoever calls something wrong by it."""


class Reporter:
    """Builds the status; `sample` has to be called a few times a second for its rates to be right."""

    def __init__(self, config: Config, store: StoreReport, events: Events) -> None:
        self.pipelines: Mapping[str, Pipeline] = {}
        self.sources: Sequence[Source] = ()
        self.workloads: Callable[[], dict[str, Any]] = dict
        self.state = State.STARTING
        self.folder: Path | None = None
        """The state folder, whose disk is told of."""
        self._disk: DiskStatus | None = None
        self._config = config
        self._store = store
        self._events = events
        self._epoch = time.time_ns()
        self._version = version("triggerlog")  # read from a file, so not for every status
        self._started_ns = time.monotonic_ns()
        self._sequence = 0
        self._rates: dict[str, Rates] = {}
        self._current: dict[str, list[float]] = {}
        self._process = psutil.Process()
        self._process.cpu_percent()
        self._cpu = 0.0
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
        return self._current.get(group, [0.0] * 4)[3]

    def change(self, config: Config) -> None:
        """Tell these limits from now on."""
        self._config = config

    def sample(self) -> None:
        """Take the counters for the rates."""
        moment = time.monotonic_ns()
        self.look_at_store()
        for name, pipeline in self.pipelines.items():
            pipeline.look()
            assembly, committed = pipeline.assembly.counts, pipeline.committer.counts
            rates = self._rates.setdefault(name, Rates())
            self._current[name] = rates.sample(
                moment,
                assembly.complete + assembly.incomplete,
                committed.triggers,
                assembly.received,
                committed.readings,
            )
        if moment - self._cpu_at_ns >= 1_000_000_000:
            self._cpu, self._cpu_at_ns = self._process.cpu_percent(), moment
            self._disk = None if self.folder is None else _disk(self.folder)

    def look_at_store(self) -> None:
        """Say it when the store has gone away, or has come back."""
        if self.state is not State.RUNNING:
            return
        moment = time.monotonic_ns()
        problem = self._store.status(self.pipelines).problem
        if problem is not None and self._away_since_ns is None:
            self._away_since_ns = moment
            self._events.say("error", f"the database is away, readings wait: {problem}")
        elif problem is None and self._away_since_ns is not None:
            away_s = (moment - self._away_since_ns) / 1e9
            self._away_since_ns = None
            self._events.say("info", f"the database is back after {away_s:.1f} s")

    def status(self) -> Status:
        """The status now."""
        self._sequence += 1
        moment = time.monotonic_ns()
        store = self._store.status(self.pipelines)
        return Status(
            epoch=self._epoch,
            sequence=self._sequence,
            time_ns=time.time_ns(),
            uptime_s=(moment - self._started_ns) / 1e9,
            logger=self._config.logger,
            version=self._version,
            state=State.STORE_AWAY if self.state is State.RUNNING and not store.available else self.state,
            store=store,
            groups={name: self._group(pipeline, moment) for name, pipeline in self.pipelines.items()},
            sources=[source.status() for source in self.sources],
            **self.workloads(),
            disk=self._disk,
            events=self._events.newest(),
            limits={name: float(getattr(self._config.alarms, name)) for name in LIMITS},
            cpu_percent=self._cpu,
            memory_mib=self._process.memory_info().rss / 2**20,
        )

    def _group(self, pipeline: Pipeline, moment: int) -> GroupStatus:
        rates = self._current.get(pipeline.group.name, [0.0] * 4)
        p50, p99, most = pipeline.committer.latencies.percentiles(moment, 50, 99, 100)
        states = pipeline.states(moment)
        risk_ms = pipeline.committer.risk_ms
        return GroupStatus(
            run=pipeline.assembly.run,
            instruments=pipeline.group.size,
            layout=pipeline.layout,
            durability=pipeline.durability,
            at_risk_ms=risk_ms if math.isfinite(risk_ms) else None,
            triggers=_triggers(pipeline, rates),
            readings=_readings(pipeline, rates, pipeline.committer.at_risk(moment)),
            dead_letters=_dead_letters(pipeline),
            commit_ms=Latency(p50=p50, p99=p99, max=most),
            missing_now=sum(states.count(letter) for letter in "msn"),
            missing_a_trigger=pipeline.watch.missing_a_trigger(moment),
            states=states,
            quiet_s=pipeline.watch.quiet_s(moment),
            desynchronised_now=len(pipeline.desync.findings),
            slips=_slips(pipeline),
            journal_mib=pipeline.backlog.journal_bytes / 2**20,
            backlog_mib=pipeline.backlog.memory_bytes / 2**20,
            backpressure=pipeline.is_full,
            full_in_s=full_in_s(pipeline.backlog.room_bytes, pipeline.backlog.bytes_a_reading, rates[2]),
            drained_in_s=drained_in_s(pipeline.backlog.waiting.readings, rates[2], rates[3]),
        )


def _disk(folder: Path) -> DiskStatus | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None  # the journal says what is wrong with it
    return DiskStatus(total_bytes=disk.f_blocks * disk.f_frsize, free_bytes=disk.f_bavail * disk.f_frsize)


def _slips(pipeline: Pipeline) -> list[Slip]:
    return [
        Slip(
            instrument=pipeline.group.instruments[finding.instrument],
            triggers=finding.triggers,
            offset_ms=finding.offset_ms,
            since_trigger=finding.since_trigger,
        )
        for finding in islice(pipeline.desync.findings.values(), SLIPS_TOLD)
    ]


def _triggers(pipeline: Pipeline, rates: Sequence[float]) -> TriggerCounts:
    counts, committer = pipeline.assembly.counts, pipeline.committer
    return TriggerCounts(
        received=counts.opened,
        open=pipeline.assembly.open,
        complete=counts.complete,
        incomplete=counts.incomplete,
        committed=committer.counts.triggers,
        account_at_start=committer.account_at_start.triggers,
        waiting=pipeline.backlog.waiting.triggers,
        newest=pipeline.assembly.newest,
        rate=rates[0],
        commit_rate=rates[1],
    )


def _dead_letters(pipeline: Pipeline) -> DeadLetterCounts:
    lying = pipeline.dead_letters.amount
    return DeadLetterCounts(
        letters=lying.pieces,
        triggers=lying.triggers,
        readings=lying.readings,
        retried=pipeline.retrying.readings,
    )


def _readings(pipeline: Pipeline, rates: Sequence[float], at_risk: int) -> ReadingCounts:
    counts, committer = pipeline.assembly.counts, pipeline.committer
    refused = dict(counts.refused)
    for reason, count in pipeline.dropped.items():
        refused[reason] = refused.get(reason, 0) + count
    return ReadingCounts(
        received=counts.received + pipeline.dropped_total,
        recovered=pipeline.recovered.readings,
        committed=committer.counts.readings,
        account_at_start=committer.account_at_start.readings,
        late=counts.late,
        duplicate=counts.duplicate,
        refused=refused,
        dead=committer.counts.dead_readings + pipeline.lost.readings,
        waiting=pipeline.backlog.waiting.readings,
        assembling=pipeline.assembly.held,
        at_risk=at_risk,
        rate=rates[2],
        commit_rate=rates[3],
    )
