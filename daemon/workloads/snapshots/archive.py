"""The archive of runs of snapshot readers: `state_dir/snapshots/ID.json`."""

from pathlib import Path

from daemon.workloads.frame.archive import Files, RunArchive
from schemas.api.snapshots import SnapshotsRun, SnapshotsSummary

FOLDER = "snapshots"


def snapshots_archive(state_dir: Path) -> RunArchive[SnapshotsRun, SnapshotsSummary]:
    """The archive below a state folder."""
    return RunArchive(state_dir / FOLDER, SnapshotsRun, summary_of)


def summary_of(record: SnapshotsRun, _: Files) -> SnapshotsSummary:
    """A line of the list."""
    settings = record.settings
    return SnapshotsSummary(
        id=record.id,
        began_ns=record.began_ns,
        ended_ns=record.ended_ns,
        state=record.state,
        problem=record.problem,
        layout=settings.layout,
        folders=settings.folders,
        channels=settings.channels,
        clients=settings.clients,
        cycles=record.figures.cycles,
        efficiency=record.figures.efficiency,
        rows_asked=settings.rows_asked,
        cliff=record.cliff,
    )
