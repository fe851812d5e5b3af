"""States of clients, buffered until the next tick, and the figures that follow from cycles and the time line.

Pure: the clock is the caller's.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daemon.workloads.snapshots.looks import Look
from daemon.workloads.snapshots.messages import Asking, Done, Reading, Tick
from schemas.api.snapshots import (
    CLIENT_LETTERS,
    ClientState,
    SnapshotCycles,
    SnapshotFigures,
    SnapshotSample,
    SnapshotSettings,
)


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


LETTERS = {state: letter for letter, state in CLIENT_LETTERS.items()}
PROGRESS_MOST = 999
PROBLEM_S = 10.0
ROUNDED = 6


@dataclass
class _Client:
    """One client: what it said last, and when its cycle was due."""

    state: ClientState = ClientState.NOT_STARTED
    due_s: float = 0.0
    ended_s: float = 0.0
    percent: int = 0


@dataclass
class _Counts:
    """What came since the sample before."""

    rows: int = 0
    bytes: int = 0
    in_time: int = 0
    ended: int = 0


@dataclass(frozen=True)
class _Problem:
    text: str
    at_s: float


class Board:
    """Takes what clients say.

    ended: cycles that have ended. wanted: cycles that there will be.
    """

    def __init__(self, settings: SnapshotSettings, begin_s: float) -> None:
        self.ended = 0
        self.wanted = settings.clients * settings.cycles
        self.settings = settings
        self._begin_s = begin_s
        self._cycle_s = settings.cycle_data_s * settings.scale
        self._processing_s = settings.processing_s * settings.scale
        self._clients = [_Client() for _ in range(settings.clients)]
        self._columns = _empty()
        self._counts = _Counts()
        self._problem: _Problem | None = None
        self._cpu_s: dict[int, float] = defaultdict(float)
        self._cpu_before_s = 0.0

    def take(self, message: Asking | Reading | Done, now_s: float) -> None:
        """Take a message of a client."""
        client = self._clients[message.client]
        match message:
            case Asking():
                client.state, client.due_s, client.percent = ClientState.CONNECTING, message.due_s, 0
            case Reading():
                client.state, client.percent = ClientState.READING, message.percent
            case Done():
                self._done(client, message, now_s)

    def _done(self, client: _Client, done: Done, now_s: float) -> None:
        client.ended_s, client.percent = now_s, 100
        client.state = ClientState.WAITING if done.problem is None else ClientState.FAILED
        if done.number == self.settings.cycles - 1:
            client.state = ClientState.ENDED
        if done.problem is not None:
            self._problem = _Problem(done.problem, now_s)
        values = done.model_dump(include=set(SnapshotCycles.model_fields)) | {"failed": done.problem is not None}
        values["due_s"] -= self._begin_s
        for name, column in self._columns.items():
            value = values[name]
            column.append(round(value, ROUNDED) if isinstance(value, float) else value)
        self.ended += 1
        self._cpu_s[done.process] = done.cpu_s
        self._counts.rows += done.rows
        self._counts.bytes += done.bytes
        self._counts.ended += 1
        self._counts.in_time += done.in_time

    def tick(self, now_s: float, sample: SnapshotSample | None) -> Tick:
        """How all of them are, and the cycles that ended since the tick before."""
        cycles, self._columns = SnapshotCycles(**self._columns), _empty()
        states = [self._state(client, now_s) for client in self._clients]
        problem = self._problem
        return Tick(
            started=sum(client.state is not ClientState.NOT_STARTED for client in self._clients),
            states="".join(LETTERS[state] for state in states),
            progress=tuple(self._progress(client, now_s) for client in self._clients),
            read=tuple(client.percent for client in self._clients),
            cycles=cycles,
            sample=sample,
            problem=problem.text if problem is not None and now_s - problem.at_s < PROBLEM_S else None,
        )

    def sample(self, before: Look, after: Look) -> SnapshotSample:
        """What came between two looks: the samples follow each other without a gap."""
        counts, self._counts = self._counts, _Counts()
        seconds = max(after.at_s - before.at_s, 1e-9)
        cpu_s = sum(self._cpu_s.values())
        clients_s, self._cpu_before_s = cpu_s - self._cpu_before_s, cpu_s
        states = [self._state(client, after.at_s) for client in self._clients]
        late = states.count(ClientState.LATE)
        server = rate_between(before.server_s, after.server_s, seconds)
        machine_s = after.all_s - before.all_s
        return SnapshotSample(
            t_s=after.at_s - self._begin_s,
            reading=late + states.count(ClientState.CONNECTING) + states.count(ClientState.READING),
            late=late,
            row_rate=counts.rows / seconds,
            byte_rate=counts.bytes / seconds,
            in_time=counts.in_time,
            ended=counts.ended,
            read_rate=rate_between(before.read, after.read, seconds),
            hit_rate=rate_between(before.hit, after.hit, seconds),
            server_percent=None if server is None else 100 * server,
            clients_percent=100 * clients_s / seconds,
            machine_percent=100 * (after.busy_s - before.busy_s) / machine_s if machine_s > 0 else 0.0,
        )

    def _state(self, client: _Client, now_s: float) -> ClientState:
        if client.state in (ClientState.CONNECTING, ClientState.READING):
            deadline_s = client.due_s + self._cycle_s - self._processing_s
            return ClientState.LATE if now_s > deadline_s else client.state
        if client.state is ClientState.WAITING and now_s < client.ended_s + self._processing_s:
            return ClientState.PROCESSING
        return client.state

    def _progress(self, client: _Client, now_s: float) -> int:
        if client.state in (ClientState.NOT_STARTED, ClientState.ENDED):
            return 0
        return max(0, min(PROGRESS_MOST, round(100 * (now_s - client.due_s) / self._cycle_s)))


def _empty() -> dict[str, list[Any]]:
    return {name: [] for name in SnapshotCycles.model_fields}
