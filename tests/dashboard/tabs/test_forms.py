"""Forms are the models that the API checks: their fields, limits, defaults and words."""

from typing import Any

from dashboard.tabs.forms import (
    FIELDS,
    Field,
    checked,
    does_not_take,
    elsewhere,
    errors,
    field_id,
    fields,
    inputs,
    suggested,
    taken,
    without,
    workload_fields,
)
from dashboard.zone import time_ns
from schemas.config.visits import VisitsConfig
from schemas.config.workloads import OWN_FIELDS, GovernorConfig, Workload, WorkloadKind
from schemas.marks import Mark
from tests.page.served import snapshot


def ids(*names: str) -> list[dict[str, Any]]:
    return [field_id("f", name) for name in names]


def made(model: Any, *shown: Field) -> list[Any]:
    return [box.children[0] for box in inputs("f", model, shown)]


def test_an_input_is_of_the_kind_of_its_field_and_has_its_default() -> None:
    name, kind, clients, period = made(
        Workload, *fields(*((one, one) for one in ("name", "kind", "clients", "period_s")))
    )
    assert (type(name).__name__, name.value) == ("TextInput", "")
    assert [one["value"] for one in kind.data] == [one.value for one in WorkloadKind]
    assert (clients.value, clients.allowDecimal) == (1, False)
    assert (period.value, period.allowDecimal) == (1.0, True)


def test_a_field_of_a_section_inside_is_found_by_its_path() -> None:
    (scale,) = made(VisitsConfig, Field(name="survey.scale", label="Scale"))
    assert scale.value == VisitsConfig.model_fields["survey"].get_default(call_default_factory=True).scale
    assert taken([0.5], ids("survey.scale")) == {"survey": {"scale": 0.5}}


def test_what_is_empty_is_left_out() -> None:
    given = taken([" shift ", "", None, 0], ids("name", "clients", "group", "offset_s"))
    assert given == {"name": "shift", "offset_s": 0}
    assert without(taken(["scan", 3], ids("kind", "readings")), ["readings"]) == {"kind": "scan"}


def test_a_time_is_filled_in_as_one_and_is_utc() -> None:
    (at,) = made(Mark, Field(name="time_ns", label="When", is_time=True))
    assert (at.value, at.attributes["input"]["type"]) == ("", "datetime-local")
    assert time_ns("2025-11-24T16:00") == time_ns("2025-11-24T16:00:00.000") == 1_764_000_000 * 10**9
    assert time_ns("1969-12-31T23:59:59.5") == -(10**9) // 2


def test_what_is_wrong_stands_at_its_field_and_says_the_fix() -> None:
    given = {"name": "a b", "kind": "scan", "clients": 0, "period_s": 1}
    found, wrong = checked(Workload, given)
    assert found is None
    assert wrong["clients"] == "0 is out of range; use 1 to 256"
    assert set(wrong) == {"name", "clients"}
    assert errors(ids("kind", "clients"), wrong) == [None, wrong["clients"]]
    assert elsewhere(ids("kind", "clients"), wrong) == f"name: {wrong['name']}"


def test_what_fields_say_together_stands_at_one_of_them() -> None:
    given = {"name": "a", "kind": "history", "stretch_s": 10, "step_s": 60}
    found, wrong = checked(Workload, given)
    assert (found, wrong) == (None, {"step_s": "longer than the 10 s asked for; give a shorter step"})


def test_a_form_that_is_right_is_the_model() -> None:
    found, wrong = checked(GovernorConfig, {"commit_p99_ms": 25, "backlog_triggers": None})
    assert (found, wrong) == (GovernorConfig(commit_p99_ms=25.0), {})


def test_a_kind_of_workload_takes_its_own_fields_alone() -> None:
    status = snapshot(1, 1_000_000_000, groups={"bpm": 4, "blm": 4})
    own = {name for names in OWN_FIELDS.values() for name in names}
    for kind in WorkloadKind:
        unused = does_not_take(kind, status)
        assert unused == own - set(OWN_FIELDS.get(kind, ())) | ({"group"} if kind.is_of_visits else set())
    assert "group" in does_not_take(WorkloadKind.SCAN, snapshot(1, 1_000_000_000)), "there is one group alone"


def test_what_is_suggested_for_each_kind_is_a_workload() -> None:
    assert [one.name for one in workload_fields()] == [name for name, _ in FIELDS]
    for kind in WorkloadKind:
        for in_experiment in (False, True):
            named = ids("period_s", "deadline_s", *OWN_FIELDS.get(kind, ()))
            values = suggested(kind, named, in_experiment=in_experiment)
            found, wrong = checked(Workload, {"name": "w", "kind": kind.value} | taken(values, named))
            assert (found is not None, wrong) == (True, {})
