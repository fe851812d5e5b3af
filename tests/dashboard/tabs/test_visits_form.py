import pytest

from dashboard.tabs.forms import checked, taken, without
from dashboard.tabs.visits.layout import COUNTS_WITH, FIRST, MORE, unused, values_of, whole
from schemas.checking.fields import choices, keys
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import LastUpdate

IDS = [{"field": one.name} for one in (*FIRST, *MORE)]
NAMES = [one["field"] for one in IDS]
CONFIGURED = VisitsConfig.model_validate({"survey": {"scale": 0.02}}).model_dump(mode="json", by_alias=True)


def test_fields_that_are_offered_in_words_have_all_choices_of_the_configuration() -> None:
    described = keys(VisitsConfig)
    for one in FIRST:
        if one.offered is not None:
            assert {value for value, _ in one.offered if value} == {*choices(described[one.name].annotation)}
    assert {update.value for update in LastUpdate} == {*choices(described["last_update"].annotation)}


def test_a_field_counts_with_one_choice_of_another_alone() -> None:
    assert {*COUNTS_WITH} <= {*NAMES}
    assert unused({"index_mode": "partitioned", "workers": "one"}) == ("last_columns", "last_update", "processes")
    assert unused({"index_mode": "last_object_table", "workers": "persistent"}) == ("pixel_level", "period_days")
    assert {*unused({"index_mode": "baseline", "workers": "fork"})} == {*COUNTS_WITH}


def test_the_form_begins_with_the_configuration() -> None:
    values = dict(zip(NAMES, values_of(CONFIGURED, IDS), strict=True))
    assert (values["visits"], values["survey.scale"], values["last_update"]) == (24_000, 0.02, "")
    assert values["schema"] == "triggerlog_visits"
    given = without(taken([*values.values()], IDS), unused(values))
    assert given["survey"] == {"scale": 0.02, "seed": 1}
    assert "last_update" not in given
    settings, wrong = checked(VisitsConfig, whole(given, CONFIGURED))
    assert (settings, wrong) == (VisitsConfig.model_validate(CONFIGURED), {})


@pytest.mark.parametrize(
    ("field", "value", "at"), [("survey.scale", 2, "survey.scale"), ("visits", 0, "visits"), ("schema", "", None)]
)
def test_what_is_wrong_is_said_at_its_field(field: str, value: object, at: str | None) -> None:
    values = [value if name == field else given for name, given in zip(NAMES, values_of(CONFIGURED, IDS), strict=True)]
    _, wrong = checked(VisitsConfig, whole(taken(values, IDS), CONFIGURED))
    assert [*wrong] == ([] if at is None else [at])


def test_the_rest_of_the_survey_is_as_the_configuration_has_it() -> None:
    configured = VisitsConfig.model_validate({"survey": {"scale": 1.0, "interval_s": 900.0}})
    tree = configured.model_dump(mode="json", by_alias=True)
    _, wrong = checked(VisitsConfig, whole({"visits": 900_000}, tree))
    assert [*wrong] == ["visits"], "40 visits a night are 22,500 nights"
    assert checked(VisitsConfig, whole({"visits": 900_000}, None))[1] == {}
