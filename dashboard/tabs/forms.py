"""Forms made of the models that the API checks, those of reader workloads among them; each word is written once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import dash_mantine_components as dmc
from dash import ALL, html, no_update
from pydantic import BaseModel, ValidationError

from dashboard.tabs.parts import aria, data
from schemas.api.status import Status
from schemas.checking.fields import bare, choices, constraint, keys, sections_of
from schemas.checking.problems import problems
from schemas.config.workloads import OWN_FIELDS, QUESTIONS, SPANS_S, Workload, WorkloadKind

M = TypeVar("M", bound=BaseModel)
TIME = {"input": {"type": "datetime-local", "step": 1}}
"""Attributes of an input whose value is a date and a time, without a zone."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form.

    name: of the model's field; `outer.inner` for a field of a section inside. value: what stands there at first, in
    place of the model's default. offered: (value, words) of what can be chosen, where the model does not say it.
    hidden: whether it does not apply at first. is_time: whether it is filled in as a date and a time (`zone.time_ns`).
    has_focus: whether a choice has the focus once it is put in.
    """

    name: str
    label: str
    value: Any = None
    hint: str | None = None
    offered: Sequence[tuple[str, str]] | None = field(default=None)
    hidden: bool = False
    is_time: bool = False
    has_focus: bool = False


def fields(*described: tuple[str, str]) -> list[Field]:
    """Fields from (name, label)."""
    return [Field(name=name, label=label) for name, label in described]


def field_id(form: str, name: Any, number: Any = None) -> dict[str, Any]:
    """The id of a field's input, or with ALL of all inputs of a form. number: of a set, if there are several."""
    return {"form": form, "field": name} | ({} if number is None else {"set": number})


def box_id(form: str, name: Any, number: Any = None) -> dict[str, Any]:
    """The id of what a field stands in, which is `hidden` where the field does not apply."""
    return {"box": form, "field": name} | ({} if number is None else {"set": number})


def form(name: str, model: type[BaseModel], shown: Sequence[Field], button: str, *beside: Any) -> Any:
    """A form with a button `NAME-send` and a place for the outcome, `NAME-outcome`.

    beside: what stands by the button.
    """
    send = html.Button(button, id=f"{name}-send", className="primary", type="button")
    return html.Div(
        [
            html.Div(inputs(name, model, shown), className="fields"),
            html.Div([send, *beside, outcome(f"{name}-outcome")], className="order-row"),
        ],
        id=f"{name}-form",
        className="order",
        role="form",
        **aria(button),
    )


def outcome(name: str) -> Any:
    """Where it is said what has become of an order."""
    return html.Span("", id=name, className="outcome", role="status")


def inputs(name: str, model: type[BaseModel], shown: Sequence[Field], number: int | None = None) -> list[Any]:
    """The inputs of some fields."""
    return [
        html.Div(
            [_input(name, model, one, number), *([html.Span(one.hint, className="hint")] if one.hint else [])],
            id=box_id(name, one.name, number),
            hidden=one.hidden,
            className="field",
            **data(field=one.name),
        )
        for one in shown
    ]


def _input(form: str, model: type[BaseModel], shown: Field, number: int | None) -> Any:
    described = _described(model, shown.name)
    annotation = described.annotation
    value = shown.value if shown.value is not None else _default(described)
    common: dict[str, Any] = {"id": field_id(form, shown.name, number), "label": shown.label, "size": "sm"}
    offered = shown.offered
    if offered is None and (choice := choices(annotation)):
        offered = [(one, one.replace("_", " ")) for one in choice]
    if offered is not None:
        options = [{"value": given, "label": words} for given, words in offered]
        focused = {"attributes": {"input": {"autoFocus": True}}} if shown.has_focus else {}
        return dmc.Select(
            **common, **focused, value=value, data=options, allowDeselect=False, checkIconPosition="right"
        )
    if shown.is_time:
        return dmc.TextInput(**common, value="", attributes=TIME)
    if bare(annotation) in (int, float):
        step = constraint(annotation, described, "multiple_of") or 1
        return dmc.NumberInput(
            **common,
            value="" if value is None else value,
            step=step,
            allowDecimal=bare(annotation) is float,
            # The model says what is wrong with a number: it would be changed without a word.
            clampBehavior="none",
            hideControls=True,
        )
    return dmc.TextInput(**common, value="" if value is None else str(value), autoComplete="off")


def _described(model: type[BaseModel], name: str) -> Any:
    outer, _, inner = name.partition(".")
    described = keys(model)[outer]
    return _described(sections_of(described.annotation)[0], inner) if inner else described


def _default(described: Any) -> Any:
    value = None if described.is_required() else described.default
    return value.value if isinstance(value, Enum) else value


def taken(values: Sequence[Any], ids: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was filled in, by field, as the model takes it; what is empty is left out."""
    given: dict[str, Any] = {}
    for value, named in zip(values, ids, strict=True):
        name = str(named["field"])
        if value in (None, ""):
            continue
        *outer, inner = name.split(".")
        place = given
        for step in outer:
            place = place.setdefault(step, {})
        place[inner] = value.strip() if isinstance(value, str) else value
    return given


def without(given: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """What was filled in but for some fields."""
    return {name: value for name, value in given.items() if name not in names}


def checked(model: type[M], given: Mapping[str, Any]) -> tuple[M | None, dict[str, str]]:
    """The model of what was filled in, or what is wrong with it by field (`""`: with all of it)."""
    try:
        return model.model_validate(given), {}
    except ValidationError as error:
        found = problems(model, error.errors())
        return None, {("" if one.field.startswith("(") else one.field): f"{one.problem}; {one.fix}" for one in found}


def errors(ids: Sequence[Mapping[str, Any]], wrong: Mapping[str, str]) -> list[str | None]:
    """The `error` of each input of a form."""
    return [wrong.get(str(named["field"])) for named in ids]


def elsewhere(ids: Sequence[Mapping[str, Any]], wrong: Mapping[str, str]) -> str:
    """What is wrong that stands at no input, for the form's outcome."""
    known = {str(named["field"]) for named in ids}
    return " ".join(f"{name}: {words}" if name else words for name, words in wrong.items() if name not in known)


EVERY = ALL
"""Of a form's fields, in the ids of a callback."""


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
