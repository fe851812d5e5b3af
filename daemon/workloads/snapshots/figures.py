"""What follows from the cycles and the time line of a run: pure functions."""

from collections.abc import Sequence

import numpy as np

from schemas.api.snapshots import SnapshotCycles, SnapshotFigures, SnapshotSample, SnapshotSettings


def rate_between(first: float | None, last: float | None, seconds: float) -> float | None:
    """Growth a second; None where one is not known, or where what counts was started again."""
    return None if first is None or last is None or last < first else (last - first) / seconds


def figures(settings: SnapshotSettings, cycles: SnapshotCycles, timeline: Sequence[SnapshotSample]) -> SnapshotFigures:
    """Figures of a run, or of a run so far.

    Seconds are from when a cycle was due until the snapshot was there, so that what a client waits for its turn counts,
    too. How far a client has slipped is how much later than without any lateness its last cycle was due.
    """
    failed = np.array(cycles.failed, bool)
    seconds = _seconds(cycles)[~failed]
    in_time = int(np.count_nonzero(cycles.in_time))
    last_s = max(np.array(cycles.due_s) + _seconds(cycles), default=0.0)
    p50, p90, most = np.percentile(seconds, [50, 90, 100]).tolist() if len(seconds) else (None, None, None)
    answered = len(seconds)
    return SnapshotFigures(
        cycles=len(cycles),
        in_time=in_time,
        failed=int(failed.sum()),
        efficiency=in_time / len(cycles) if len(cycles) else None,
        slipped_s=float(slipped(settings, cycles).sum()),
        p50_s=p50,
        p90_s=p90,
        max_s=most,
        row_rate=sum(cycles.rows) / last_s if last_s > 0 else None,
        byte_rate=sum(cycles.bytes) / last_s if last_s > 0 else None,
        blocks_read=_each(timeline, "read_rate", answered),
        blocks_hit=_each(timeline, "hit_rate", answered),
        server_percent=_mean(timeline, "server_percent"),
        clients_percent=_mean(timeline, "clients_percent"),
        machine_percent=_mean(timeline, "machine_percent"),
    )


def slipped(settings: SnapshotSettings, cycles: SnapshotCycles) -> np.ndarray:
    """Seconds by which each client has slipped, shape (clients,)."""
    found = np.zeros(settings.clients)
    if not len(cycles):
        return found
    client, number = np.array(cycles.client), np.array(cycles.number)
    planned = (client * settings.chunk_s + number * settings.cycle_data_s) * settings.scale
    # A client's cycles come in their order, so that its last one stays.
    found[client] = np.maximum(0.0, np.array(cycles.due_s) - planned)
    return found


def _seconds(cycles: SnapshotCycles) -> np.ndarray:
    found: np.ndarray = np.array(cycles.wait_s) + np.array(cycles.connect_s) + np.array(cycles.query_s)
    return found


def _stretches(timeline: Sequence[SnapshotSample], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Values that are known, and how long each holds, in seconds."""
    ends = np.array([sample.t_s for sample in timeline], float)
    lengths = np.diff(ends, prepend=0.0)
    values = np.array([getattr(sample, name) for sample in timeline], float)
    known = np.isfinite(values)
    return values[known], lengths[known]


def _each(timeline: Sequence[SnapshotSample], name: str, snapshots: int) -> float | None:
    """Blocks for a snapshot."""
    rates, lengths = _stretches(timeline, name)
    return float(rates @ lengths) / snapshots if len(rates) and snapshots else None


def _mean(timeline: Sequence[SnapshotSample], name: str) -> float | None:
    values, lengths = _stretches(timeline, name)
    return float(values @ lengths / lengths.sum()) if len(values) and lengths.sum() > 0 else None
