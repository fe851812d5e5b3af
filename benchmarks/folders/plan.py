"""Conditions that are measured by turns, by part and database; pure functions.

All are runs of the workload `daemon.workloads.snapshots`, on data in the paper's proportions: channels of 1,000
characters, valid for 300 s, a snapshot asked for each 5 s, which become shorter alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.servers.sizes import Small
from schemas.api.model import Model
from schemas.api.snapshots import SnapshotSettings, SnapshotsRun
from schemas.checking.dsn import Backend
from schemas.folders.folders import FolderLayout

EFFICIENCY, CLIFF, COLD, PAYLOAD, CHUNKS, WRITING = PARTS = (
    *("efficiency", "cliff", "cold", "payload", "chunks", "writing"),
)
OURS, ARRAYS, PAPERS = FolderLayout.WINDOW, FolderLayout.ARRAYS, FolderLayout.CHANNEL_MAX
COMPARED = (OURS, ARRAYS, PAPERS)
LAYOUTS: Mapping[Backend, tuple[FolderLayout, ...]] = {
    Backend.POSTGRESQL: tuple(FolderLayout),
    Backend.MYSQL: (OURS, ARRAYS, PAPERS),
}
SCALE = 0.02
"""Of time: 500 s are 10 s, 5 s are 0.1 s."""
FIVE_FOLD = {"folders": 10, "intervals": 24, "scale": SCALE, "cycles": 6}
"""A tenth of the paper's folders, 50 times as often: 100,000 rows/s are asked for, and the paper asked for 20,000."""
CLIFF_DATA = {"folders": 24, "intervals": 12, "cycles": 0}
PAYLOAD_DATA = {"folders": 2, "intervals": 12, "cycles": 0, "cliff": False}
CHUNKED = {**FIVE_FOLD, "clients": 20, "cliff": False}
LASTS = 24
"""Seconds of the clock that a condition of chunks reads at least."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One way to run the workload on one database. name: unique in its part and database."""

    part: str
    backend: Backend
    name: str
    settings: SnapshotSettings


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured. rounds: of conditions that take turns. small: fields that make everything smaller."""

    rounds: int = 2
    efficiency_cache_mib: int = 40
    cliff_cache_mib: int = 24
    small: Mapping[str, Any] | None = None

    def servers(self, part: str) -> Small:
        """How small servers are: in the paper a cache was 4 times as large as the snapshot."""
        cache = self.cliff_cache_mib if part in (CLIFF, COLD) else self.efficiency_cache_mib
        # PostgreSQL reads past the page cache as MariaDB does: what its own cache has not is on the disk.
        return Small(cache_mib=cache, postgresql={"debug_io_direct": "data"}, connections=300)


QUICK = Plan(rounds=1, small={"folders": 2, "channels": 50, "cycles": 1, "clients": 10})


def conditions(part: str, backend: Backend, plan: Plan) -> list[Condition]:
    """Those of a part, in the order in which they take turns."""
    return [
        Condition(part=part, backend=backend, name=name, settings=_settings(fields, plan))
        for name, fields in _named(part, backend)
    ]


def _named(part: str, backend: Backend) -> Iterator[tuple[str, dict[str, Any]]]:
    layouts = LAYOUTS[backend]
    if part == EFFICIENCY:
        yield from _by_layout([each for each in layouts if each in COMPARED], FIVE_FOLD)
    elif part in (CLIFF, COLD):
        yield from _by_layout(layouts, {**CLIFF_DATA, "cliff": part == CLIFF})
    elif part == PAYLOAD:
        for payload in ("random", "constant"):
            yield payload, {**PAYLOAD_DATA, "payload": payload}
    elif part == CHUNKS:
        yield from _chunks()


def _by_layout(layouts: Sequence[FolderLayout], fields: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for layout in layouts:
        yield layout, {**fields, **_laid(layout)}


def _chunks() -> Iterator[tuple[str, dict[str, Any]]]:
    for layout in (OURS, PAPERS):
        for chunk_s in (5, 10, 60):
            cycle_s = CHUNKED["clients"] * chunk_s * SCALE
            cycles = max(2, round(LASTS / cycle_s))
            yield f"{layout} {chunk_s} s", {**CHUNKED, **_laid(layout), "chunk_s": chunk_s, "cycles": cycles}
    cycles = round(LASTS / (CHUNKED["clients"] * 5 * SCALE))
    yield f"{OURS} changes", {**CHUNKED, **_laid(OURS), "ask": "changes", "cycles": cycles}
    yield f"{PAPERS} control", {**CHUNKED, **_laid(PAPERS), "sample": "control", "cycles": cycles}


def _laid(layout: FolderLayout) -> dict[str, Any]:
    """A layout, with the insertion order that goes with it: the paper inserted by channel."""
    return {"layout": layout, "order": "channel" if layout.by_channel else "time"}


def _settings(fields: Mapping[str, Any], plan: Plan) -> SnapshotSettings:
    smaller = {name: value for name, value in (plan.small or {}).items() if fields.get(name) != 0}
    return SnapshotSettings.model_validate({**fields, **smaller})


# --- the record ------------------------------------------------------------------------------------------------------


class Measured(Model):
    """A run of the workload: its part, database, condition, and the round of it, from 0."""

    part: str
    backend: str
    name: str
    round: int
    run: SnapshotsRun


class Counted(Model):
    """A figure that is counted beside the workload: bytes or blocks."""

    part: str
    backend: str
    name: str
    what: str
    value: float


class Writing(Model):
    """Commits of a daemon that writes triggers, with nobody beside it or with snapshot readers.

    rate: triggers committed a second. p50_ms, p99_ms: from a trigger's closing to its commit acknowledged, of the last
    seconds of the block. efficiency: of the readers beside it.
    """

    backend: str
    name: str
    round: int
    rate: float
    p50_ms: float | None
    p99_ms: float | None
    efficiency: float | None


class Record(Model):
    """All of it. commands: what repeats each part, by part. caches: of the servers in MiB, by part."""

    date: str
    machine: dict[str, str]
    commands: dict[str, str]
    caches: dict[str, int]
    servers: dict[str, str]
    measured: tuple[Measured, ...]
    counted: tuple[Counted, ...] = ()
    writing: tuple[Writing, ...] = ()
    notes: tuple[str, ...] = ()

    def and_then(self, later: "Record") -> "Record":
        """These figures, with those that the later record has in their place, by part and database."""
        parts = {(each.part, each.backend) for each in later.measured}
        written = {each.backend for each in later.writing}
        return later.model_copy(
            update={
                "commands": self.commands | later.commands,
                "caches": self.caches | later.caches,
                "servers": self.servers | later.servers,
                "measured": (
                    *(each for each in self.measured if (each.part, each.backend) not in parts),
                    *later.measured,
                ),
                "counted": (*(each for each in self.counted if (each.part, each.backend) not in parts), *later.counted),
                "writing": (*(each for each in self.writing if each.backend not in written), *later.writing),
                "notes": tuple(dict.fromkeys((*self.notes, *later.notes))),
            }
        )
