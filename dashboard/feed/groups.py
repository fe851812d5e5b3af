"""Groups together: the figures of the whole logger, and which groups are in trouble."""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.api.model import Model
from schemas.api.status import GroupStatus, Latency, Status
from schemas.states import InstrumentState

WHOLE = ""
"""The name under which the figures of all groups together travel, where there are several: no group has it."""

SIDE_BY_SIDE_MOST = 8
"""Groups that the page shows side by side: a button and a grid each. Of more somebody opens one."""

OUTSTANDING = 1.1
"""So many times the mean of all groups the worst has to be, to be named."""

NAMED_MOST = 3
"""Groups in trouble that the heading names."""


def with_whole(status: Status) -> dict[str, GroupStatus]:
    """Return the groups by name; of several also the whole logger, first and under the name WHOLE."""
    return ({WHOLE: whole(status)} if len(status.groups) > 1 else {}) | status.groups


def whole(status: Status) -> GroupStatus:
    """Return all groups as if they were one: counts and rates are sums, latencies and times left are of the worst."""
    groups = list(status.groups.values())
    drained = [group.drained_in_s for group in groups]
    fills = [group.full_in_s for group in groups if group.full_in_s is not None]
    risks = [group.at_risk_ms for group in groups]
    summed: GroupStatus = _sum(groups)
    return summed.model_copy(
        update={
            "run": max(group.run for group in groups),
            "layout": _shared([group.layout for group in groups]),
            "durability": _shared([group.durability for group in groups]),
            "at_risk_ms": None if None in risks else max(risk for risk in risks if risk is not None),
            "triggers": _sum([group.triggers for group in groups]).model_copy(update={"newest": None}),
            "readings": _sum([group.readings for group in groups]),
            "dead_letters": _sum([group.dead_letters for group in groups]),
            "commit_ms": _worst([group.commit_ms for group in groups]),
            "states": "".join(group.states for group in groups),
            "full_in_s": min(fills, default=None),
            "drained_in_s": None if None in drained else max(one for one in drained if one is not None),
            "backpressure": any(group.backpressure for group in groups),
        }
    )


def slowest_ms(latency: Latency) -> float:
    """Return the p99; where too few triggers were committed for one, the longest; 0 without any."""
    return (latency.p99 if latency.is_p99_known else latency.max) or 0.0


def worst_of(status: Status) -> dict[str, str]:
    """Return the groups whose commits are slowest, that wait most and miss most; empty where none stands out."""
    by: dict[str, dict[str, float]] = {
        "slow": {name: slowest_ms(group.commit_ms) for name, group in status.groups.items()},
        "waits": {name: group.triggers.waiting for name, group in status.groups.items()},
        "misses": {name: group.missing_now or 0 for name, group in status.groups.items()},
    }
    return {what: _outstanding(figures) for what, figures in by.items()}


def _outstanding(figures: Mapping[str, float]) -> str:
    name = max(figures, key=figures.__getitem__)
    return name if figures[name] * len(figures) > OUTSTANDING * sum(figures.values()) else ""


def trouble(status: Status, name: str) -> tuple[int, str]:
    """Return how grave the trouble of a group is, 0 for none, and its state in words."""
    group = status.groups[name]
    limit_ms, quiet_s = status.limits.get("commit_p99_ms"), status.limits.get("quiet_s")
    gone = group.count(InstrumentState.SILENT) + group.count(InstrumentState.NEVER)
    missing, unaccounted = group.count(InstrumentState.MISSING), abs(group.readings.unaccounted)
    is_quiet = quiet_s is not None and group.folder is None and (group.quiet_s or 0) > quiet_s
    is_slow = limit_ms is not None and status.store.available and slowest_ms(group.commit_ms) > limit_ms
    found = [
        (unaccounted, f"{unaccounted:,} unaccounted for"),
        (int(group.backpressure), "senders held back"),
        (group.dead_now, f"{group.dead_now:,} dead"),
        (int(is_quiet), "no readings"),
        (gone, f"{gone:,} silent"),
        (int(is_slow), "commits slow"),
        (group.desynchronised_now, f"{group.desynchronised_now:,} out of step"),
        (missing, f"{missing:,} missing"),
    ]
    there = [(1000 * (len(found) - place) + min(999, n), words) for place, (n, words) in enumerate(found) if n]
    if not there:
        return 0, "no trigger lately" if group.count(InstrumentState.IDLE) else "ok"
    return there[0][0], ", ".join(words for _, words in there[:2])


def groups_section(troubles: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
    """Return the section of the stream about several groups: how many are in trouble, and the worst of these."""
    if len(troubles) < 2:
        return {"many": False}
    found = {name: grave for name, (grave, _) in troubles.items() if grave}
    worst = sorted(found, key=lambda name: -found[name])
    more = f" and {len(worst) - NAMED_MOST} more" if len(worst) > NAMED_MOST else ""
    words = f"{len(worst)} in trouble: {', '.join(worst[:NAMED_MOST])}{more}" if worst else "none in trouble"
    return {"many": True, "words": f"{len(troubles)} groups, {words}", "bad": worst}


def _sum(models: Sequence[Any]) -> Any:
    """Return a model whose counts are the sums of those of some models; what is no count is that of the first."""
    first: Model = models[0]
    fields = type(first).model_fields
    return first.model_copy(update={name: _total([getattr(model, name) for model in models]) for name in fields})


def _total(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if known and isinstance(known[0], dict) and all(isinstance(one, int) for value in known for one in value.values()):
        return {key: sum(value.get(key, 0) for value in known) for key in dict.fromkeys(k for v in known for k in v)}
    is_count = known and isinstance(known[0], int | float) and not isinstance(known[0], bool)
    return sum(known) if is_count else values[0]


def _worst(latencies: Sequence[Latency]) -> Latency:
    worst = max(latencies, key=slowest_ms)
    greatest = {
        name: max((value for one in latencies if (value := getattr(one, name)) is not None), default=None)
        for name in ("p50", "max")
    }
    return worst.model_copy(update=greatest)


def _shared(values: Sequence[Any]) -> str:
    return " and ".join(dict.fromkeys(map(str, values)))
