"""The fields of a reader workload in a form: which of them a kind takes, and what is suggested for it."""

from typing import Any

from dash import no_update

from dashboard.tabs.forms import Field
from schemas.api.status import Status
from schemas.config.workloads import OWN_FIELDS, QUESTIONS, SPANS_S, Workload, WorkloadKind

FIELDS = (
    ("kind", "Asks for"),
    ("group", "Group"),
    ("clients", "Clients"),
    ("period_s", "Period, s"),
    ("offset_s", "Between clients, s"),
    ("deadline_s", "Deadline, s"),
    ("readings", "Readings"),
    ("triggers", "Triggers"),
    ("stretch_s", "Time range, s"),
    ("step_s", "Step of the means, s"),
    ("radius_deg", "Radius, degrees"),
)
OWN = {name for names in OWN_FIELDS.values() for name in names}

PERIODS_S: dict[WorkloadKind, tuple[float, float]] = {
    WorkloadKind.NEWEST: (1, 0.1),
    WorkloadKind.ORBIT: (1, 0.1),
    WorkloadKind.TREND: (1, 0.5),
    WorkloadKind.HISTORY: (10, 0),
    WorkloadKind.SNAPSHOT: (5, 1),
    WorkloadKind.WINDOW: (2, 0.5),
    WorkloadKind.SCAN: (60, 0),
    WorkloadKind.RANDOM: (10, 0),
    WorkloadKind.LIGHT_CURVE: (1, 0),
    WorkloadKind.CONE: (1, 0),
}
"""Period that the forms suggest: of a workload by itself, which is its deadline, too, and in an experiment, where most
clients ask again as soon as they have their answer: that is the load."""


def workload_fields(
    kind: WorkloadKind = WorkloadKind.NEWEST, status: Status | None = None, *, in_experiment: bool = False
) -> list[Field]:
    """The fields but for the name, filled with what is suggested for a kind."""
    options, group = group_options(status)
    suggested = {"kind": kind.value, "group": group} | values_of(kind, in_experiment=in_experiment)
    unused = does_not_take(kind, status)
    offered = {"group": [(one["value"], one["label"]) for one in options]}
    return [
        Field(name=name, label=label, value=suggested.get(name), offered=offered.get(name), hidden=name in unused)
        for name, label in FIELDS
    ]


def words_of(kind: WorkloadKind) -> str:
    """What a client of a kind asks for."""
    return f"{kind.value}: {QUESTIONS[kind]}"


def values_of(kind: WorkloadKind, *, in_experiment: bool = False) -> dict[str, Any]:
    """What is suggested for a kind, by field."""
    alone, loaded = PERIODS_S[kind]
    values: dict[str, Any] = {name: Workload.model_fields[name].default for name in OWN_FIELDS.get(kind, ())}
    if "stretch_s" in values:
        values["stretch_s"] = SPANS_S[kind]
    return {"period_s": loaded if in_experiment else alone, "deadline_s": alone} | values


def does_not_take(kind: WorkloadKind, status: Status | None) -> set[str]:
    """The fields that do not apply to a kind; where there is one group alone it needs no choice."""
    alone = status is None or len(status.groups) < 2
    return OWN - set(OWN_FIELDS.get(kind, ())) | ({"group"} if alone or kind.is_of_visits else set())


def group_options(status: Status | None) -> tuple[list[dict[str, str]], str | None]:
    """The groups that can be chosen, and the first."""
    names = [] if status is None else list(status.groups)
    return [{"value": name, "label": name} for name in names], names[0] if names else None


def suggested(kind: WorkloadKind, ids: list[dict[str, Any]], *, in_experiment: bool = False) -> list[Any]:
    """The `value` of each field of a form once a kind is chosen; what a kind suggests nothing for stays as it is."""
    values = values_of(kind, in_experiment=in_experiment)
    return [values.get(str(named["field"]), no_update) for named in ids]
