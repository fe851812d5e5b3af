"""Metrics for Prometheus of those who read: workloads, the governor, an interference experiment."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import ReaderStatus, Status
from schemas.states import ReaderState

_LABELS = ("workload", "kind", "group")

_COUNTERS: tuple[tuple[str, str, Callable[[ReaderStatus], float]], ...] = (
    ("answers", "Questions that were answered, late ones among them.", lambda reader: reader.cycles),
    ("in_time", "Questions that were answered within the deadline.", lambda reader: reader.in_time),
    ("failed", "Questions without an answer.", lambda reader: reader.failed),
    ("rows", "Readings and figures in the answers.", lambda reader: reader.rows),
    ("slipped_seconds", "By how much late answers moved the next questions.", lambda reader: reader.slipped_s),
)
_GAUGES: tuple[tuple[str, str, Callable[[ReaderStatus], float]], ...] = (
    ("clients", "Clients that the workload has.", lambda reader: reader.clients),
    ("admitted", "Clients that may ask now.", lambda reader: reader.admitted),
    ("running", "1 while its process reads.", lambda reader: reader.state is ReaderState.RUNNING),
    ("deadline_seconds", "Deadline of an answer.", lambda reader: reader.deadline_ms / 1e3),
)


def reading(status: Status) -> Iterator[Metric]:
    """All of them; of a workload they begin anew when it is started again."""
    yield from _readers(status)
    yield from _governor(status)
    yield from _experiment(status)


def _readers(status: Status) -> Iterator[Metric]:
    for key, text, value in _COUNTERS:
        counter = CounterMetricFamily(f"triggerlog_reader_{key}", text, labels=_LABELS)
        for name, reader in status.readers.items():
            counter.add_metric([name, reader.kind, reader.group], float(value(reader)))
        yield counter
    for key, text, value in _GAUGES:
        gauge = GaugeMetricFamily(f"triggerlog_reader_{key}", text, labels=_LABELS)
        for name, reader in status.readers.items():
            gauge.add_metric([name, reader.kind, reader.group], float(value(reader)))
        yield gauge
    yield _latency(status)


def _latency(status: Status) -> Metric:
    family = GaugeMetricFamily(
        "triggerlog_reader_latency_seconds",
        "From when a client was due to ask to the answer, percentiles of the last ten seconds; 1 is the longest.",
        labels=[*_LABELS, "quantile"],
    )
    for name, reader in status.readers.items():
        found = reader.latency_ms
        for quantile, value in (("0.5", found.p50), ("0.99", found.p99), ("1", found.max)):
            if value is not None:
                family.add_metric([name, reader.kind, reader.group, quantile], value / 1e3)
    return family


def _governor(status: Status) -> Iterator[Metric]:
    state = GaugeMetricFamily("triggerlog_governor_state", "1 for what the governor does now.", labels=["state"])
    admitted = GaugeMetricFamily("triggerlog_governor_admitted", "Clients that may ask now, of all workloads.")
    share = GaugeMetricFamily("triggerlog_governor_share", "Part of their time for which they may ask.")
    clients = GaugeMetricFamily("triggerlog_governor_clients", "Clients there are.")
    latency = GaugeMetricFamily("triggerlog_governor_commit_ceiling_seconds", "Ceiling for the commit latency, p99.")
    backlog = GaugeMetricFamily("triggerlog_governor_backlog_ceiling_triggers", "Ceiling for the triggers that wait.")
    governor = status.governor
    if governor is not None:
        state.add_metric([governor.state], 1)
        admitted.add_metric([], governor.admitted)
        share.add_metric([], governor.share)
        clients.add_metric([], governor.clients)
        if governor.commit_p99_ms is not None:
            latency.add_metric([], governor.commit_p99_ms / 1e3)
        if governor.backlog_triggers is not None:
            backlog.add_metric([], governor.backlog_triggers)
    yield from (state, admitted, share, clients, latency, backlog)


def _experiment(status: Status) -> Iterator[Metric]:
    running = status.experiment
    yield GaugeMetricFamily(
        "triggerlog_experiment_running",
        "1 while an interference experiment runs.",
        value=float(running is not None),
    )
    phase = GaugeMetricFamily("triggerlog_experiment_phase", "1 for what the experiment does now.", labels=["phase"])
    block = GaugeMetricFamily("triggerlog_experiment_block", "Number of the experiment's block, from 1.")
    blocks = GaugeMetricFamily("triggerlog_experiment_blocks", "Blocks that the experiment has.")
    readers = GaugeMetricFamily("triggerlog_experiment_readers", "Clients that read in this block.")
    left = GaugeMetricFamily("triggerlog_experiment_left_seconds", "Estimate of the time left.")
    if running is not None:
        phase.add_metric([running.phase], 1)
        for family, value in ((block, running.block), (blocks, running.blocks), (readers, running.readers)):
            family.add_metric([], value)
        left.add_metric([], running.left_s)
    yield from (phase, block, blocks, readers, left)
