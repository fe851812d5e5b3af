"""Records of experiments that never were, with effects that are known."""

import numpy as np

from daemon.workloads.interference.experiment import command_of, dealt, planned
from schemas.api.interference import Block, Conditions, Experiment, Record, Sample, WorkloadBlock
from schemas.config import Workload, WorkloadKind
from schemas.states import RunState

SCAN = Workload(name="scan", kind=WorkloadKind.SCAN, clients=4, period_s=0.0)
HISTORY = Workload(name="history", kind=WorkloadKind.HISTORY, clients=2, period_s=0.5)
CONDITIONS = Conditions(
    machine="a processor <of> no make",
    cores=2,
    memory_gib=8,
    load_average=0.1,
    python="3.12",
    version="0.1.0",
    backend="postgresql",
    server="PostgreSQL 18.4",
    target="embedded",
    read_from="where it is written",
    embedded=True,
    durability="a commit is on the disk before it is acknowledged",
    settings={"synchronous_commit": "on"},
    groups={"bpm": "120 instruments, rows, sync"},
    journal=True,
    stored=60_000,
    budget_ms=20.0,
    governor="",
)


def made_record(
    experiment: Experiment, *, p99_a_reader: float = 1.15, noise: float = 0.04, drift: float = 0.0, seed: int = 1
) -> Record:
    """A record in which each reader multiplies the p99, and a drift moves it over the whole run (its logarithm)."""
    random = np.random.default_rng(seed)
    order = planned(experiment)
    blocks, timeline = [], []
    for i, each in enumerate(order):
        scale = float(np.exp(drift * i / len(order) + random.normal(0, noise)) * p99_a_reader**each.readers)
        block = _block(experiment, i, 8.0 * scale, dealt(experiment, each), each.kind)
        blocks.append(block)
        for t in np.arange(block.begin_s + 0.5, block.end_s + 1e-9, 0.5):
            p99 = float((block.p99_ms or 0) * np.exp(random.normal(0, 0.12)))
            rate = 100.0 + float(random.normal(0, 1))
            timeline.append(Sample(t_s=float(t), p99_ms=p99, rate=rate, backlog=1, readers=each.readers))
    return Record(
        id="20260101T000000Z",
        began_ns=1_767_225_600_000_000_000,
        state=RunState.FINISHED,
        settings=experiment,
        conditions=CONDITIONS,
        command=command_of(experiment),
        planned=len(order),
        blocks=blocks,
        timeline=timeline,
    )


def _block(experiment: Experiment, i: int, p99: float, clients: dict[str, int], kind: str) -> Block:
    readers = sum(clients.values())
    begin = i * experiment.block_s
    return Block.model_validate(
        {
            "number": i + 1,
            "kind": kind,
            "readers": readers,
            "begin_s": begin,
            "from_s": begin + experiment.warm_up_s,
            "end_s": begin + experiment.block_s,
            "whole": True,
            "triggers": 1700,
            "rate": 100.0,
            "reading_rate": 12_000.0,
            "received_rate": 12_000.0,
            "p50_ms": p99 / 2,
            "p99_ms": p99,
            "max_ms": 3 * p99,
            "backlog": 1 + readers,
            "cpu_percent": 12.0,
            "machine_percent": 30.0 + 5 * readers,
            "workloads": {name: _workload(count) for name, count in clients.items()},
            "looks": 17,
            "server": {
                "wal_bytes": 1.1e6 + 100 * readers,
                "cache_hits": 5e4 * (1 + readers),
                "cache_misses": 30.0 * readers,
            },
            "waits": {"IO:WALSync": 0.4, "Client:<x>": 0.1 * readers},
        }
    )


def _workload(count: int) -> WorkloadBlock:
    return WorkloadBlock(
        admitted=count,
        cycles=100 * count,
        in_time=97 * count,
        failed=0,
        rate=5.0 * count,
        row_rate=600.0 * count,
        slipped_s=0.2,
        p50_ms=180.0 if count else None,
        p99_ms=420.0 if count else None,
        max_ms=510.0 if count else None,
    )
