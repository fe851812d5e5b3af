"""The metrics for Prometheus, made from the status and the committers' histograms when they are asked for."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from daemon.core.monitoring.metrics import BOUNDS_MS
from daemon.sources.kinds import KINDS
from daemon.telemetry.exposition.old_readings import dropping, reducing, tiering
from daemon.telemetry.exposition.workloads import reading, serving, visiting
from daemon.telemetry.status.reporter import Reporter
from schemas.api.status import LATELY_S, GroupStatus, Status
from schemas.states import AlarmSeverity, Attention, DaemonState

_TRIGGERS = (
    ("received", "Triggers of which at least one reading was accepted."),
    ("complete", "Triggers closed with every instrument there."),
    ("incomplete", "Triggers closed by timeout with instruments missing."),
    ("committed", "Triggers acknowledged by the store."),
)
_READINGS = (
    ("received", "Readings received."),
    ("committed", "Readings acknowledged by the store."),
    ("late", "Readings accepted after their trigger had closed."),
    ("duplicate", "Readings of an instrument that was already there; not stored."),
    ("dead", "Readings the store rejected for good; kept in the state folder."),
)
_FROM_LETTERS = (
    ("retried", "Readings committed from the dead letters."),
    ("discarded", "Readings discarded from the dead letters, that the store had rejected."),
)


class StatusCollector(Collector):
    """Turns a status into metrics."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        status = self._reporter.status()
        yield from _daemon(status)
        yield _alarms(status)
        yield from _store(status)
        yield from _counters(status)
        yield from _gauges(status)
        yield self._latency()
        yield from _sources(status)
        yield from reading(status)
        yield from visiting(status)
        yield from serving(status)
        yield from dropping(status)
        yield from reducing(status)
        yield from tiering(status)

    def _latency(self) -> Metric:
        family = HistogramMetricFamily(
            "triggerlog_commit_latency_seconds",
            "From a trigger's closing to the store's acknowledgement.",
            labels=["group"],
        )
        for name, pipeline in self._reporter.pipelines.items():
            latencies = pipeline.latencies
            upto = latencies.buckets.cumsum()
            bounds = [*(str(bound / 1e3) for bound in BOUNDS_MS), "+Inf"]
            buckets = [(bound, float(count)) for bound, count in zip(bounds, upto, strict=True)]
            family.add_metric([name], buckets, sum_value=latencies.sum_ms / 1e3)
        return family


def _daemon(status: Status) -> Iterator[Metric]:
    info = GaugeMetricFamily("triggerlog_info", "The logger; the value is 1.", labels=["logger", "version"])
    info.add_metric([status.logger, status.version], 1)
    state = GaugeMetricFamily("triggerlog_state", "1 for the state that the daemon is in.", labels=["state"])
    for each in DaemonState:
        state.add_metric([each], float(each is status.state))
    yield from (info, state)
    yield GaugeMetricFamily(
        "triggerlog_commit_latency_budget_seconds",
        "Budget for the commit latency, p99, by the configuration.",
        value=status.limits["commit_p99_ms"] / 1e3,
    )
    free = GaugeMetricFamily("triggerlog_disk_free_bytes", "Free on the disk of the state folder.")
    total = GaugeMetricFamily("triggerlog_disk_size_bytes", "Size of the disk of the state folder.")
    if status.disk is not None:
        free.add_metric([], status.disk.free_bytes)
        total.add_metric([], status.disk.total_bytes)
    yield from (free, total)


def _alarms(status: Status) -> Metric:
    family = GaugeMetricFamily(
        "triggerlog_alarms",
        "Alarms in force that are not shelved, by severity; those that were acknowledged among them.",
        labels=["severity"],
    )
    for severity in AlarmSeverity:
        counted = (alarm for alarm in status.alarms if alarm.attention is not Attention.SHELVED)
        family.add_metric([severity], sum(alarm.severity is severity for alarm in counted))
    return family


def _store(status: Status) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "triggerlog_store_info", "The database; the value is 1.", labels=["backend", "version", "durability"]
    )
    info.add_metric([status.store.backend, status.store.version, status.store.durability], 1)
    yield info
    short = GaugeMetricFamily(
        "triggerlog_store_shortfall",
        "1 for a durability that groups ask for and the server does not keep.",
        labels=["durability"],
    )
    for durability in status.store.shortfall:
        short.add_metric([durability], 1)
    yield short
    yield GaugeMetricFamily(
        "triggerlog_store_available", "1 while the database answers.", value=float(status.store.available)
    )
    yield GaugeMetricFamily(
        "triggerlog_store_away_seconds", "Time since it last answered; 0 while it does.", value=status.store.away_s
    )
    yield CounterMetricFamily("triggerlog_commits", "Transactions acknowledged.", value=status.store.commits)
    yield CounterMetricFamily("triggerlog_commit_retries", "Transactions tried again.", value=status.store.retries)


# Not counters: these fall where what was missing comes after all, or the database can place it.
_MAY_FALL = (
    ("aside", "Readings for no trigger that is known, kept in the dead letters, by reason."),
    ("lost", "Readings proven lost, by how: by the numbers of senders, or with an older database."),
)


def _counters(status: Status) -> Iterator[Metric]:
    for key, text in _TRIGGERS:
        family = CounterMetricFamily(f"triggerlog_triggers_{key}", text, labels=["group"])
        for name, group in status.groups.items():
            family.add_metric([name], getattr(group.triggers, key))
        yield family
    for key, text in _READINGS:
        family = CounterMetricFamily(f"triggerlog_readings_{key}", text, labels=["group"])
        for name, group in status.groups.items():
            family.add_metric([name], getattr(group.readings, key))
        yield family
    for key, text in _FROM_LETTERS:
        family = CounterMetricFamily(f"triggerlog_readings_{key}", text, labels=["group"])
        for name, group in status.groups.items():
            family.add_metric([name], getattr(group.dead_letters, key))
        yield family
    refused = CounterMetricFamily(
        "triggerlog_readings_refused", "Readings never stored, by reason.", labels=["group", "reason"]
    )
    early = [(name, intake.refused) for name, intake in status.intakes.items()]
    _add(refused, [*((name, group.readings.refused) for name, group in status.groups.items()), *early])
    yield refused


def _add(family: CounterMetricFamily | GaugeMetricFamily, counts: Iterable[tuple[str, Mapping[str, int]]]) -> None:
    """Add what was counted of groups by reason: what an intake has not handed over yet is the group's all the same."""
    sums: Counter[tuple[str, str]] = Counter()
    for name, by_reason in counts:
        sums.update({(name, reason): count for reason, count in by_reason.items()})
    for labels, count in sums.items():
        family.add_metric(labels, count)


def _by_reason(status: Status) -> Iterator[Metric]:
    labels = ["group", "reason"]
    for key, text in _MAY_FALL:
        family = GaugeMetricFamily(f"triggerlog_readings_{key}", text, labels=labels)
        early = [(name, intake.lost) for name, intake in status.intakes.items() if key == "lost"]
        _add(family, [*((name, getattr(group.readings, key)) for name, group in status.groups.items()), *early])
        yield family
    lately = GaugeMetricFamily("triggerlog_readings_lost_lately", f"Readings proven lost {_LATELY}.", labels=labels)
    for name, group in status.groups.items():
        for reason, recent in group.readings.lost_lately.items():
            lately.add_metric([name, reason], recent.count)
    yield lately


_LATELY = f"within the last {LATELY_S:.0f} s"

_GAUGES: tuple[tuple[str, str, Callable[[GroupStatus], float]], ...] = (
    ("instruments", "Instruments of the group.", lambda group: group.instruments),
    ("triggers_open", "Triggers being put together.", lambda group: group.triggers.open),
    ("triggers_waiting", "Triggers closed and not yet committed.", lambda group: group.triggers.waiting),
    (
        "triggers_skipped",
        "Trigger numbers between those of a run that no trigger was closed for.",
        lambda group: group.triggers.skipped,
    ),
    (
        "triggers_skipped_lately",
        f"Trigger numbers found skipped {_LATELY}.",
        lambda group: group.triggers.skipped_lately.count,
    ),
    ("readings_waiting", "Readings closed and not yet committed.", lambda group: group.readings.waiting),
    ("readings_assembling", "Readings of triggers being put together.", lambda group: group.readings.assembling),
    (
        "full_in_seconds",
        "Time for which readings would find room without the database; +Inf while none come in.",
        lambda group: math.inf if group.full_in_s is None else group.full_in_s,
    ),
    (
        "drained_in_seconds",
        "Time until the database is abreast of what comes in; +Inf while it does not come nearer.",
        lambda group: math.inf if group.drained_in_s is None else group.drained_in_s,
    ),
    (
        "readings_at_risk",
        "Committed readings that a crash of the server now could lose.",
        lambda group: group.readings.at_risk,
    ),
    (
        "at_risk_seconds",
        "Age up to which a crash of the server can lose committed readings; +Inf is without limit.",
        lambda group: math.inf if group.at_risk_ms is None else group.at_risk_ms / 1e3,
    ),
    ("backlog_bytes", "Memory held by readings that wait for the store.", lambda group: group.backlog_mib * 2**20),
    ("journal_bytes", "Disk held by the journal.", lambda group: group.journal_mib * 2**20),
    ("backpressure", "1 while TCP senders are held back.", lambda group: group.backpressure),
    (
        "dead_letters",
        "Triggers, late parts of triggers, and parts of blocks set aside, that lie in the dead letters.",
        lambda group: group.dead_letters.letters,
    ),
    ("dead_letter_readings", "Readings that lie in the dead letters.", lambda group: group.dead_letters.readings),
    (
        "dead_letter_readings_aside",
        "Readings that lie in the dead letters since they are for no trigger that is known.",
        lambda group: group.dead_letters.aside,
    ),
    (
        "instruments_missing",
        "Instruments missing, silent or never seen; NaN while no trigger says so.",
        lambda group: _known(group.missing_now),
    ),
    (
        "missing_a_trigger",
        "Mean number of instruments missing from the triggers closed lately; NaN without triggers.",
        lambda group: _known(group.missing_a_trigger),
    ),
    (
        "instruments_desynchronised",
        "Instruments whose trigger numbers or clock are out of step.",
        lambda group: group.desynchronised_now,
    ),
    (
        "clock_ahead_seconds",
        "How far the times of triggers are ahead of the node's clock as they come; NaN without triggers.",
        lambda group: _known(group.ahead_s),
    ),
    ("run", "Number of the run.", lambda group: group.run),
)


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _gauges(status: Status) -> Iterator[Metric]:
    for key, text, value in _GAUGES:
        family = GaugeMetricFamily(f"triggerlog_{key}", text, labels=["group"])
        for name, group in status.groups.items():
            family.add_metric([name], float(value(group)))
        yield family
    yield from _by_reason(status)
    yield from _slips(status)
    yield from _intakes(status)


def _intakes(status: Status) -> Iterator[Metric]:
    nbytes = GaugeMetricFamily(
        "triggerlog_intake_log_bytes",
        "Disk held by the journal, before the database has answered too.",
        labels=["group"],
    )
    waiting = GaugeMetricFamily(
        "triggerlog_intake_waiting_readings",
        "Readings received since the start, until the database answers for the first time.",
        labels=["group"],
    )
    unsynced = GaugeMetricFamily(
        "triggerlog_intake_unsynced_readings",
        "Readings that came and are not on the disk in the journal.",
        labels=["group"],
    )
    problem = GaugeMetricFamily("triggerlog_intake_log_failed", "1 while the journal takes nothing.", labels=["group"])
    for name, intake in status.intakes.items():
        nbytes.add_metric([name], intake.log_mib * 2**20)
        waiting.add_metric([name], intake.waiting)
        unsynced.add_metric([name], intake.unsynced)
        problem.add_metric([name], float(intake.problem is not None))
    yield from (nbytes, waiting, unsynced, problem)


def _slips(status: Status) -> Iterator[Metric]:
    labels = ["group", "instrument"]
    triggers = GaugeMetricFamily(
        "triggerlog_slip_triggers",
        "Triggers that an instrument out of step is ahead of its timestamps; negative: behind; 0: its clock is off.",
        labels=labels,
    )
    offset = GaugeMetricFamily(
        "triggerlog_slip_offset_seconds",
        "Timestamps of an instrument out of step less those of the others.",
        labels=labels,
    )
    for name, group in status.groups.items():
        for slip in group.slips:
            triggers.add_metric([name, slip.instrument], slip.triggers)
            offset.add_metric([name, slip.instrument], slip.offset_ms / 1e3)
    yield from (triggers, offset)


def _sources(status: Status) -> Iterator[Metric]:
    labels = ["kind", "address"]
    for metric in dict.fromkeys(metric for kind in KINDS.values() for metric in kind.metrics):
        make = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
        family = make(f"triggerlog_source_{metric.name}", metric.text, labels=labels)
        for source in status.sources:
            if metric in KINDS[source.kind].metrics:
                family.add_metric([source.kind, source.address], metric.value(source))
        yield family
    refused = CounterMetricFamily(
        "triggerlog_source_refused", "Connections and datagrams turned away.", labels=[*labels, "reason"]
    )
    for source in status.sources:
        for reason, count in source.refused.items():
            refused.add_metric([source.kind, source.address, reason], count)
    yield refused
