"""Metrics of what runs beside the logger: workloads, visits, the server of conditions."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from schemas.api.status import ReaderStatus, Status
from schemas.api.visits import TIMES
from schemas.states import ConditionsState, ReaderState

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


PARTS = ("visit_s", "select_s", "store_s", *TIMES, "dia_s")


def visiting(status: Status) -> Iterator[Metric]:
    """All of them; without a run since the daemon started there is nothing but that none runs."""
    run = status.visits
    yield GaugeMetricFamily(
        "triggerlog_visits_running",
        "1 while visits are run, also between two of them.",
        value=float(run is not None and not run.state.is_over),
    )
    done = CounterMetricFamily("triggerlog_visits_done", "Visits that are in the database.")
    wanted = GaugeMetricFamily("triggerlog_visits_wanted", "Visits that there are to be in all.")
    over = GaugeMetricFamily("triggerlog_visits_over_limit", "Fraction of the run's visits that took over limit_s.")
    slow = GaugeMetricFamily("triggerlog_visits_slow", "Visits in a row, up to the last, that took too long.")
    left = GaugeMetricFamily("triggerlog_visits_left_seconds", "Estimate of the time left.")
    seconds = GaugeMetricFamily("triggerlog_visits_seconds", "What the last visit took, by part.", labels=["part"])
    compactions = CounterMetricFamily("triggerlog_visits_compactions", "Tables of ended periods that were compacted.")
    compact = CounterMetricFamily("triggerlog_visits_compaction_seconds", "What that took, between the visits.")
    if run is not None:
        compactions.add_metric([], run.compactions)
        compact.add_metric([], run.compact_s)
        done.add_metric([], run.done)
        wanted.add_metric([], run.visits)
        slow.add_metric([], run.slow)
        if run.over_limit is not None:
            over.add_metric([], run.over_limit)
        if run.remaining_s is not None:
            left.add_metric([], run.remaining_s)
        if run.last is not None:
            for part in PARTS:
                seconds.add_metric([part.removesuffix("_s")], getattr(run.last, part))
    yield from (done, wanted, over, slow, left, seconds, compactions, compact)


def serving(status: Status) -> Iterator[Metric]:
    """All of them; nothing where the daemon runs no server."""
    server = status.conditions
    if server is None:
        return
    state = GaugeMetricFamily("triggerlog_conditions_state", "1 for the state of the server.", labels=["state"])
    for each in ConditionsState:
        state.add_metric([each], float(each is server.state))
    requests = CounterMetricFamily("triggerlog_conditions_requests", "Answers.", labels=["route", "status"])
    for route, by_status in server.requests.items():
        for code, count in by_status.items():
            requests.add_metric([route, code], count)
    latency = GaugeMetricFamily(
        "triggerlog_conditions_latency_seconds",
        "Of questions for what is valid, in the server, percentiles of the last ten seconds.",
        labels=["quantile"],
    )
    for quantile, value in (("0.5", server.p50_ms), ("0.99", server.p99_ms)):
        if value is not None:
            latency.add_metric([quantile], value / 1e3)
    yield from (state, requests, latency)
    for key, text, total in (
        ("memory_hits", "Questions for what is valid that were answered from memory.", server.memory_hits),
        ("database_reads", "Questions for what is valid that were answered from the database.", server.database_reads),
    ):
        yield CounterMetricFamily(f"triggerlog_conditions_{key}", text, value=total)
    for key, text, amount in (
        ("processes", "Processes of the server that answer.", float(server.running)),
        ("tags_in_memory", "Tags in memory, most of any process.", float(server.tags_in_memory)),
        ("memory_bytes", "What tags and answers take, most of any process.", server.memory_mib * 2**20),
        ("memory_limit_bytes", "What they may take in each process.", server.memory_limit_mib * 2**20),
    ):
        yield GaugeMetricFamily(f"triggerlog_conditions_{key}", text, value=amount)
