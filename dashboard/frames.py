"""What a browser is sent: a status snapshot made small.

A frame is a plain dict. `points` holds one row of COLUMNS a group and changes with every frame; everything else is
cut into sections, and a section travels only in the frames in which it changed.
"""

from typing import Any

from dashboard.slips import by_name
from schemas.status import GroupStatus, Status

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
)
"""What is charted, by position in a point.

received, committed: triggers closed and committed a second. p50, p99: commit latency in ms, NaN when nothing was
committed lately. waiting, open: triggers. missing: instruments missing a trigger (mean). absent: instruments in state
missing, silent or never. written: readings committed a second.
longest: the longest commit latency lately, in ms.
"""

Sections = dict[str, Any]


def point(group: GroupStatus) -> list[float | None]:
    """One row of COLUMNS, rounded to what a chart can show."""
    triggers, latency = group.triggers, group.commit_ms
    return [
        round(triggers.rate, 3),
        round(triggers.commit_rate, 3),
        _rounded(latency.p50),
        _rounded(latency.p99),
        triggers.waiting,
        triggers.open,
        round(group.missing_a_trigger, 3),
        group.missing_now,
        round(group.readings.commit_rate, 1),
        _rounded(latency.max),
    ]


def points(status: Status) -> dict[str, list[float | None]]:
    """A point a group, by name."""
    return {name: point(group) for name, group in status.groups.items()}


def sections(status: Status) -> Sections:
    """Everything of a snapshot that is not charted, cut so that what seldom changes seldom travels."""
    cut: Sections = {
        "head": {
            "logger": status.logger,
            "version": status.version,
            "state": status.state.value,
            "epoch": str(status.epoch),
            "started_ms": round(status.time_ns / 1e6 - status.uptime_s * 1e3, -3),
        },
        "store": status.store.model_dump(exclude={"away_s", "commits"}),
        "limits": status.limits,
        "sources": [source.model_dump(exclude={"received", "bytes"}) for source in status.sources],
        "events": [event.model_dump(exclude={"time_ns"}) | {"t": event.time_ns / 1e6} for event in status.events],
    }
    for name, group in status.groups.items():
        cut[f"group/{name}"] = {
            "run": group.run,
            "instruments": group.instruments,
            "layout": group.layout,
            "durability": group.durability,
            "at_risk_ms": group.at_risk_ms,
            "backpressure": group.backpressure,
            "journal_mib": round(group.journal_mib, 1),
        }
        cut[f"outlook/{name}"] = {"full_in_s": _coarse(group.full_in_s), "drained_in_s": _coarse(group.drained_in_s)}
        cut[f"states/{name}"] = group.states
        cut[f"slips/{name}"] = by_name(group)
        cut[f"totals/{name}"] = _totals(group)
    return cut


def changed(now: Sections, before: Sections) -> Sections:
    """The sections that differ from before; one that is gone is None."""
    differing = {key: section for key, section in now.items() if key not in before or before[key] != section}
    return differing | dict.fromkeys(before.keys() - now.keys())


def _totals(group: GroupStatus) -> dict[str, Any]:
    readings = group.readings
    return {
        "received": readings.received,
        "recovered": readings.recovered,
        "committed": readings.committed,
        "duplicate": readings.duplicate,
        "refused": sum(readings.refused.values()),
        "reasons": readings.refused,
        "dead": readings.dead,
        "dead_letters": group.dead_letters.readings,
        "waiting": readings.waiting,
        "assembling": readings.assembling,
        "unaccounted": readings.unaccounted,
        "at_risk": readings.at_risk,
        "late": readings.late,
        "complete": group.triggers.complete,
        "incomplete": group.triggers.incomplete,
        "newest": group.triggers.newest,
    }


def _coarse(seconds: float | None) -> float | None:
    """Two digits: nobody needs more of what is reckoned ahead, and it travels with fewer frames."""
    return None if seconds is None else float(f"{seconds:.2g}")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
