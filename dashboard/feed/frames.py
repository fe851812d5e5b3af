"""What a browser is sent: a status snapshot made small.

A frame is a plain dict. `points` holds one row of COLUMNS a group and changes with every frame; everything else is
cut into sections, and a section travels only in the frames in which it changed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboard.feed.groups import WHOLE, groups_section, trouble, with_whole
from dashboard.feed.sentences import group_words
from dashboard.words import coarse, count, number
from schemas.api.conditions import ConditionsStatus
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.status import DiskStatus, GroupStatus, ReaderStatus, Status, StoreStatus
from schemas.api.visits import VisitsStatus
from schemas.states import ConditionsState, DaemonState

COLUMNS: tuple[str, ...] = (
    "received",
    "committed",
    "p50",
    "p99",
    "waiting",
    "open",
    "missing",
    "absent",
    "written",
    "longest",
    "reads",
    "rows_read",
    "readers",
    "read_p99",
)
"""What is charted, by position in a point.

received, committed: triggers closed and committed a second. p50, p99: commit latency in ms, NaN when nothing was
committed lately; p99 is the longest where too few were committed for a p99. waiting, open: triggers. missing:
instruments missing a trigger (mean). absent: instruments in state missing, silent or never. written: readings committed
a second. longest: the longest commit latency lately, in ms. reads, rows_read: answers and rows a second of the group's
reader workloads. readers: clients of theirs that may ask. read_p99: the longest p99 among them, in ms, NaN without an
answer lately.
"""

PATHS: dict[str, str] = {
    "commit_ms.p50": "p50",
    "commit_ms.p99": "p99",
    "commit_ms.max": "longest",
    "readings.commit_rate": "written",
    "triggers.waiting": "waiting",
    "triggers.open": "open",
    "missing_now": "absent",
    "missing_a_trigger": "missing",
}
"""Columns by other names: those that these figures have in the API's status."""

READS_WINDOW_S = (1.0, 5.0)
"""Least and most of a window in which answers are counted."""

READS_LEAST = 4
"""Answers that a window is to have, where it need not be longer for that."""

LAST_VISIT = {"visit", "visit_s", "select_s", "store_s", "dia_s", "ra", "decl", "tiles", "objects"}
"""What travels of the newest visit."""

Sections = dict[str, Any]


def point(group: GroupStatus, readers: Sequence[ReaderStatus] = ()) -> list[float | None]:
    """One row of COLUMNS, rounded to what a chart can show; `readers` are the workloads that read the group."""
    triggers, latency = group.triggers, group.commit_ms
    return [
        round(triggers.rate, 3),
        round(triggers.commit_rate, 3),
        _rounded(latency.p50),
        _rounded(latency.p99 if latency.is_p99_known else latency.max),
        triggers.waiting,
        triggers.open,
        _rounded(group.missing_a_trigger),
        group.missing_now,
        round(group.readings.commit_rate, 1),
        _rounded(latency.max),
        round(sum(reader.rate for reader in readers), 3),
        round(sum(reader.row_rate for reader in readers), 1),
        sum(reader.admitted for reader in readers),
        _rounded(max((one.latency_ms.p99 for one in readers if one.latency_ms.p99 is not None), default=None)),
    ]


class _Totals(NamedTuple):
    at_s: float
    cycles: int
    rows: int


class ReadRates:
    """Answers and rows a second of each reader workload, of its totals, as soon as they change.

    The window is a second, and up to five where so few answers come that it would show them one by one. The status
    itself has means over ten seconds, which draw a workload that is on and off in turn as triangles.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[_Totals]] = {}

    def take(self, status: Status) -> dict[str, ReaderStatus]:
        """Return the workloads of a snapshot with the rates of now in place of their means."""
        now_s = status.time_ns / 1e9
        self._seen = {name: self._since(name, now_s, reader) for name, reader in status.readers.items()}
        return {name: reader.model_copy(update=_rates(self._seen[name])) for name, reader in status.readers.items()}

    def _since(self, name: str, now_s: float, reader: ReaderStatus) -> list[_Totals]:
        before = self._seen.get(name, [])
        if before and (reader.cycles < before[-1].cycles or now_s <= before[-1].at_s):
            before = []  # it was started again, or the clock was set back
        kept = [one for one in before if now_s - one.at_s <= READS_WINDOW_S[1] + READS_WINDOW_S[0]]
        return [*kept, _Totals(now_s, reader.cycles, reader.rows)]


def _rates(seen: list[_Totals]) -> dict[str, float]:
    shortest_s, longest_s = READS_WINDOW_S
    fastest = max(_over(seen[: place + 1], shortest_s)["rate"] for place in range(len(seen)))
    return _over(seen, min(longest_s, max(shortest_s, READS_LEAST / fastest)) if fastest else shortest_s)


def _over(seen: list[_Totals], window_s: float) -> dict[str, float]:
    """Return the rates up to the newest of some totals, over a window; of a shorter time where none is older."""
    last = seen[-1]
    first = next((one for one in reversed(seen) if last.at_s - one.at_s >= window_s), seen[0])
    seconds = max(last.at_s - first.at_s, window_s)
    return {"rate": (last.cycles - first.cycles) / seconds, "row_rate": (last.rows - first.rows) / seconds}


def points(status: Status, readers: Mapping[str, ReaderStatus] | None = None) -> dict[str, list[float | None]]:
    """A point a group, by name; of several groups one of all together. readers: in place of those of the status."""
    reading = (status.readers if readers is None else readers).values()
    return {
        name: point(group, [one for one in reading if name in (WHOLE, one.group)])
        for name, group in with_whole(status).items()
    }


def sections(status: Status) -> Sections:
    """Everything of a snapshot that is not charted, cut so that what seldom changes seldom travels."""
    troubles = {name: trouble(status, name) for name in status.groups}
    cut: Sections = {
        "head": {
            "logger": status.logger,
            "version": status.version,
            "state": STATES[status.state],
            "epoch": str(status.epoch),
            "groups": list(status.groups),
            "started_ms": round(status.time_ns / 1e6 - status.uptime_s * 1e3, -3),
        },
        "together": groups_section(troubles),
        "store": _store(status.store),
        "limits": status.limits,
        "disk": _disk(status.disk) if status.disk is not None and status.disk.total_bytes else None,
        "readers": {name: reader.model_dump() for name, reader in status.readers.items()},
        "governor": None if status.governor is None else status.governor.model_dump(),
        "experiment": None if status.experiment is None else status.experiment.model_dump(),
        "visits": None if status.visits is None else _visits(status.visits),
        "snapshots": None if status.snapshots is None else _snapshots(status.snapshots),
        "conditions": None if status.conditions is None else _conditions(status.conditions),
        "sources": [source.model_dump(exclude={"received", "bytes"}) for source in status.sources],
        "events": [event.model_dump(exclude={"time_ns"}) | {"t": event.time_ns / 1e6} for event in status.events],
    }
    for name, group in with_whole(status).items():
        cut[f"group/{name}"] = {
            "run": group.run,
            "instruments": group.instruments,
            "layout": group.layout,
            "durability": group.durability,
            "at_risk_ms": group.at_risk_ms,
            "backpressure": group.backpressure,
            "journal_mib": round(group.journal_mib, 1),
        }
        cut[f"outlook/{name}"] = {
            "full_in_s": _estimate(group.full_in_s),
            "drained_in_s": _estimate(group.drained_in_s),
        }
        if name != WHOLE:
            cut[f"states/{name}"] = group.states
            cut[f"slips/{name}"] = {slip.instrument: f"{slip.instrument}: {slip}" for slip in group.slips}
        cut[f"totals/{name}"] = _totals(group)
        grave, state = troubles.get(name, (0, ""))
        cut[f"words/{name}"] = group_words(status, name, group) | {"trouble": grave, "state": state}
    return cut


def changed(now: Sections, before: Sections) -> Sections:
    """The sections that differ from before; one that is gone is None."""
    differing = {key: section for key, section in now.items() if key not in before or before[key] != section}
    return differing | dict.fromkeys(before.keys() - now.keys())


def _totals(group: GroupStatus) -> dict[str, Any]:
    readings = group.readings
    return {
        "received": readings.received,
        "committed": readings.committed,
        "duplicate": readings.duplicate,
        "refused": sum(readings.refused.values()),
        "reasons": readings.refused,
        "aside": sum(readings.aside.values()),
        "aside_reasons": readings.aside,
        "lost": sum(readings.lost.values()),
        "lost_how": readings.lost,
        "dead": readings.dead,
        "dead_now": group.dead_now,
        "dead_letters": group.dead_letters.readings,
        "waiting": readings.waiting,
        "assembling": readings.assembling,
        "unaccounted": readings.unaccounted,
        "at_risk": readings.at_risk,
        "late": readings.late,
        "complete": group.triggers.complete,
        "incomplete": group.triggers.incomplete,
        "skipped": group.triggers.skipped,
        # As text: a browser would round it.
        "newest": None if group.triggers.newest is None else count(group.triggers.newest),
    }


def _store(store: StoreStatus) -> dict[str, Any]:
    """What seldom changes, with each shortfall in one line."""
    shortfall = {durability.value: str(found) for durability, found in store.shortfall.items()}
    words = {
        "words": f"{store.product} {store.version}{', embedded' if store.embedded else ''}",
        "title": "\n".join([store.target, *(f"{name} = {value}" for name, value in store.settings.items())]),
    }
    return store.model_dump(exclude={"away_s", "commits", "shortfall"}) | {"shortfall": shortfall} | words


STATES = {
    DaemonState.STARTING: "starting",
    DaemonState.RUNNING: "running",
    DaemonState.STORE_AWAY: "database away",
    DaemonState.STOPPING: "stopping",
}


def _disk(disk: DiskStatus) -> dict[str, Any]:
    """In GiB, to what a header shows: bytes would travel with every frame."""
    total, free = _digits(disk.total_bytes / 2**30), _digits(disk.free_bytes / 2**30)
    # As df says it: of what those who are not root may use.
    used = disk.used_bytes / max(1, disk.used_bytes + disk.free_bytes)
    words = {
        "words": f"{math.ceil(100 * used)} % used",
        "title": f"Disk of the state folder: {number(free)} of {number(total)} GiB free",
    }
    return {"total_gib": total, "free_gib": free} | words


def _visits(run: VisitsStatus) -> dict[str, Any]:
    """The status of visits with the seconds of the newest visit alone: the charts show the rest."""
    last = None if run.last is None else run.last.model_dump(include=LAST_VISIT)
    further = {"last": last, "remaining_s": _estimate(run.remaining_s), "active": run.is_active}
    return run.model_dump(exclude={"last"}) | further


def _snapshots(run: SnapshotsStatus) -> dict[str, Any]:
    """What changes whenever something of a run does: the page's process draws the rest, a figure a client, from it."""
    moved = [run.figures.cycles, run.loading.rows, *run.progress, *run.read]
    return {"id": run.id, "state": run.state, "phase": run.phase, "moved": sum(moved)}


def _conditions(server: ConditionsStatus) -> dict[str, Any]:
    """The figures of the tiles, to what these show."""
    asked = server.memory_hits + server.database_reads
    return {
        "state": server.state.value.replace("_", " "),
        "address": server.address,
        "problem": server.problem,
        "running": server.running,
        "processes": server.processes,
        "wrong": server.state is not ConditionsState.RUNNING,
        "rate": round(server.rate, 1),
        "p50_ms": _rounded(server.p50_ms),
        "p99_ms": _rounded(server.p99_ms),
        "from_memory": round(server.memory_hits / asked, 3) if asked else None,
        "asked": asked,
        "not_modified": server.not_modified,
        "tags": server.tags_in_memory,
        "intervals": server.intervals_in_memory,
        "memory_mib": _digits(server.memory_mib),
        "limit_mib": server.memory_limit_mib,
    }


def _digits(value: float) -> float:
    return float(f"{value:.3g}")


def _estimate(seconds: float | None) -> float | None:
    return None if seconds is None else coarse(seconds)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
