"""Counters of the writing at a moment, and what came between two moments."""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import psutil

from daemon.core.monitoring.metrics import percentile_of, percentile_within
from daemon.core.process.usage import machine_seconds
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.readers.measuring import Totals, percentiles_ms
from daemon.workloads.readers.reader import Figures
from schemas.api.interference import WorkloadBlock
from schemas.readings import Array

_PROCESS = psutil.Process()


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counters of all groups together, since the daemon's start.

    at_s: CLOCK_MONOTONIC. fine: as `Latencies.fine`. triggers, readings: committed. received: readings.
    cpu_s: of this process. busy_s, all_s: of all cores together.
    """

    at_s: float
    fine: Array
    triggers: int
    readings: int
    received: int
    cpu_s: float
    busy_s: float
    all_s: float


def read_counters(pipelines: Iterable[Pipeline]) -> Counters:
    """Counters now; at least one pipeline."""
    figures = [pipeline.figures() for pipeline in pipelines]
    own = _PROCESS.cpu_times()
    busy_s, all_s = machine_seconds()
    return Counters(
        at_s=time.monotonic(),
        fine=np.sum([pipeline.latencies.fine for pipeline in pipelines], axis=0),
        triggers=sum(each.committed.triggers for each in figures),
        readings=sum(each.committed.readings for each in figures),
        received=sum(each.assembled.received for each in figures),
        cpu_s=own.user + own.system,
        busy_s=busy_s,
        all_s=all_s,
    )


def waiting(pipelines: Iterable[Pipeline]) -> int:
    """Triggers that wait now."""
    return sum(pipeline.waiting.triggers for pipeline in pipelines)


def writing_between(first: Counters, last: Counters) -> dict[str, Any]:
    """The figures of a block that are of the writing and of the machine, by their names in `Block`."""
    seconds = max(last.at_s - first.at_s, 1e-9)
    fine = last.fine - first.fine
    machine_s = last.all_s - first.all_s
    return {
        "triggers": last.triggers - first.triggers,
        "rate": (last.triggers - first.triggers) / seconds,
        "reading_rate": (last.readings - first.readings) / seconds,
        "received_rate": (last.received - first.received) / seconds,
        "p50_ms": percentile_within(fine, 50),
        "p99_ms": percentile_within(fine, 99),
        "max_ms": percentile_of(fine, 100),
        "cpu_percent": 100 * (last.cpu_s - first.cpu_s) / seconds,
        "machine_percent": 100 * (last.busy_s - first.busy_s) / machine_s if machine_s > 0 else 0.0,
    }


def reading_between(counted: Totals, due: Figures, admitted: int, seconds: float) -> WorkloadBlock:
    """What a workload did in a stretch of time.

    counted: what came in it. due: of the questions that were due in it.
    """
    return WorkloadBlock(
        admitted=admitted,
        rate=counted.cycles / seconds,
        row_rate=counted.rows / seconds,
        **_answers(due),
    )


def with_answers(found: WorkloadBlock, due: Figures) -> WorkloadBlock:
    """The same, with the answers that came since to the questions that were due in it, and its rates as they are."""
    return found.model_copy(update=_answers(due))


def _answers(due: Figures) -> dict[str, Any]:
    counts = np.ctypeslib.as_array(due.latency.counts)
    p50, p99, most = percentiles_ms(due.latency, counts, 50, 99, 100)
    counted = asdict(due.totals)
    del counted["rows"]
    return counted | {"p50_ms": p50, "p99_ms": p99, "max_ms": most}
