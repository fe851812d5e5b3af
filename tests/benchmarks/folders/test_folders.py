"""The benchmark of folders: its conditions, what follows from a record, and what is counted, on a real server."""

import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.folders.measuring import wire_bytes
from benchmarks.folders.plan import (
    CHUNKS,
    CLIFF,
    COLD,
    EFFICIENCY,
    LAYOUTS,
    PARTS,
    PAYLOAD,
    QUICK,
    Counted,
    Measured,
    Plan,
    Record,
    conditions,
)
from benchmarks.folders.report import edge, findings, report
from benchmarks.report.model import Verdict
from benchmarks.report.render import render, text
from daemon.workloads.snapshots.messages import Spec
from daemon.workloads.snapshots.progress import SnapshotsProgress
from daemon.workloads.snapshots.runner import follow, snapshots_process
from schemas.api.snapshots import CliffPoint, SnapshotCycles, SnapshotSettings, SnapshotsRun
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.states import RunState

MB = 10**6


def points(*reads: int) -> list[CliffPoint]:
    """Snapshots of 1, 2 ... MB, of which so many blocks are read again."""
    return [
        CliffPoint(folders=k, rows=1000 * k, value_bytes=k * MB, read=read, hit=0, seconds=0.01 * k)
        for k, read in enumerate(reads, 1)
    ]


def measured(part: str, name: str, in_time: list[bool] | None = None) -> Measured:
    """A run of which so many cycles were in time."""
    settings = SnapshotSettings(folders=10, scale=0.02, clients=1, cycle_s=5)
    run = SnapshotsProgress("20260101T000000Z", settings, target="here", command="")
    run.state = RunState.FINISHED
    given = in_time or []
    many: dict[str, Any] = {
        "wait_s": 0.0,
        "connect_s": 0.1,
        "query_s": 1.0,
        "rows": 10_000,
        "bytes": 10 * MB,
        "failed": False,
    }
    run.cycles = SnapshotCycles(
        client=[0] * len(given),
        number=list(range(len(given))),
        due_s=[10.0 * k for k in range(len(given))],
        in_time=given,
        **{name: [value] * len(given) for name, value in many.items()},
    )
    record: SnapshotsRun = run.record()
    return Measured(part=part, backend="postgresql", name=name, round=0, run=record)


def _with_cliff(of: Measured, cliff: list[CliffPoint]) -> Measured:
    return of.model_copy(update={"run": of.run.model_copy(update={"cliff": cliff})})


def record_of(*runs: Measured, counted: tuple[Counted, ...] = ()) -> Record:
    return Record(
        date="2026-01-01 00:00 UTC",
        machine={"processor": "a <processor>", "cores": "2"},
        commands={part: f"python -m benchmarks.folders.run --only {part}" for part in PARTS},
        caches=dict.fromkeys(PARTS, 10),
        servers={"postgresql": "postgresql 18"},
        measured=runs,
        counted=counted,
    )


def verdicts(record: Record) -> dict[str, Verdict]:
    return {each.claim.removeprefix("postgresql 18: "): each.verdict for each in findings(record)}


@pytest.mark.parametrize("backend", LAYOUTS)
@pytest.mark.parametrize("plan", [Plan(), QUICK])
def test_conditions_have_names_of_their_own_and_ask_for_five_times_the_papers_rate(
    backend: Backend, plan: Plan
) -> None:
    for part in PARTS:
        names = [each.name for each in conditions(part, backend, plan)]
        assert len(names) == len(set(names))
    asked = {each.name: each.settings.rows_asked for each in conditions(EFFICIENCY, backend, Plan())}
    assert asked == pytest.approx(dict.fromkeys(asked, 100_000))
    assert {each.settings.cycles for each in conditions(COLD, backend, plan)} <= {0}


def test_the_edge_is_where_a_snapshot_does_not_stay_in_the_cache() -> None:
    assert edge(points(0, 0, 500)) == (2 * MB, 3 * MB)
    assert edge(points(500, 900)) == (0, MB)
    assert edge(points(0, 19)) == (2 * MB, None)  # what a catalog needs is no cliff


def test_findings_follow_from_the_figures() -> None:
    cliffs = [
        _with_cliff(measured(CLIFF, "window"), points(0, 0, 0)),
        _with_cliff(measured(CLIFF, "channel-max"), points(0, 500, 900)),
    ]
    sizes = {("random", "wire"): 2e6, ("constant", "wire"): 2e6, ("random", "disk"): 9e6, ("constant", "disk"): 1e6}
    counted = tuple(
        Counted(part=PAYLOAD, backend="postgresql", name=name, what=what, value=value)
        for (name, what), value in sizes.items()
    )
    found = verdicts(
        record_of(
            *cliffs,
            measured(EFFICIENCY, "window", [True] * 4),
            measured(EFFICIENCY, "channel-max", [True, False, False, False]),
            measured(CHUNKS, "channel-max 5 s", [False] * 4),
            measured(CHUNKS, "channel-max 60 s", [True] * 4),
            measured(CHUNKS, "channel-max control", [True] * 4),
            counted=counted,
        )
    )
    assert found["Constant payloads are compressed on the wire"] is Verdict.REFUTED
    assert found["Constant payloads are compressed on the disk"] is Verdict.REPRODUCED
    assert found["A snapshot of a fifth of the cache is read from the disk again, each time"] is Verdict.REPRODUCED
    assert found["The paper's way falls at 100,000 rows/s, and windows do not"] is Verdict.REPRODUCED
    assert found["Longer chunks, which share a snapshot, reduce the load"] is Verdict.REPRODUCED
    assert found["As many rows that lie together are no trouble for the same server"] is Verdict.REPRODUCED
    slow = verdicts(record_of(measured(EFFICIENCY, "window", [False]), measured(EFFICIENCY, "channel-max", [False])))
    assert slow["The paper's way falls at 100,000 rows/s, and windows do not"] is Verdict.REFUTED


def test_a_report_has_what_was_measured_and_a_later_record_takes_its_place() -> None:
    first = record_of(measured(EFFICIENCY, "window", [False]), measured(CHUNKS, "window 5 s", [True]))
    both = first.and_then(record_of(measured(EFFICIENCY, "window", [True])))
    assert [(each.part, each.run.figures.in_time) for each in both.measured] == [(CHUNKS, 1), (EFFICIENCY, 1)]
    written = render(report(both))
    assert "a &lt;processor&gt;" in written
    assert "<script" not in written
    assert "python -m benchmarks.folders.run --only efficiency" in text(report(both))


async def test_bytes_on_the_wire_are_those_of_the_values_and_a_little_more(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    settings = SnapshotSettings.model_validate(
        {"schema": schema, "folders": 2, "channels": 100, "intervals": 3, "cycles": 0, "cliff": False}
    )
    spec = Spec(parent=os.getpid(), database=DatabaseConfig(dsn=postgresql_dsn), state_dir=tmp_path, snapshots=settings)
    run = SnapshotsProgress("20260101T000000Z", settings, target="here", command="")
    await follow(run, snapshots_process(spec), lambda _: None)
    assert run.state is RunState.FINISHED, run.problem
    values = settings.rows_in_snapshot * settings.payload_bytes
    assert values < await wire_bytes(spec) < 1.5 * values
