"""Settings of a run that differ from the configuration's, and the times of visits that follow from settings."""

import datetime
import json
from collections.abc import Mapping
from typing import Any

from schemas.config.visits import VisitsConfig
from schemas.visits.survey import DAY_NS, Survey
from schemas.visits.tables import IndexMode


def with_changes(settings: VisitsConfig, changes: Mapping[str, Any]) -> VisitsConfig:
    """Settings with some fields changed, those of tables within (`survey`) one by one; all is checked again.

    Raises:
        pydantic.ValidationError: they do not fit together.
    """
    tree: dict[str, Any] = settings.model_dump(mode="json", by_alias=True)
    for key, value in changes.items():
        tree[key] = {**tree[key], **value} if isinstance(value, dict) and isinstance(tree.get(key), dict) else value
    if tree["index_mode"] != IndexMode.LAST_OBJECT_TABLE and "last_update" not in changes:
        tree["last_update"] = None  # it was of another mode's table
    # Strictly, and by way of JSON, as the file is checked: `"visits": "480"` does not pass.
    return VisitsConfig.model_validate_json(json.dumps(tree), strict=True)


# --- when visits are -------------------------------------------------------------------------------------------------
# One each `visit_interval_s` from dusk to dawn, night after night. Each night begins with a visit at dusk. All of it is
# arithmetic of int64 nanoseconds, exact for any visit.


def dusk_ns(survey: Survey) -> int:
    """Time of visit 0: dusk of the first night, in ns."""
    first = datetime.date.fromisoformat(survey.first_night) - datetime.date(1970, 1, 1)
    return first.days * DAY_NS + survey.dusk_h * 3_600_000_000_000


def time_of(survey: Survey, visit: int) -> int:
    """When a visit is, in ns; the first is visit 0."""
    night, number = divmod(visit, survey.visits_a_night)
    return dusk_ns(survey) + night * DAY_NS + number * survey.visit_interval_ns


def gap_ns(survey: Survey, visit: int) -> int:
    """From a visit to the next one, in ns: the interval, or after a night's last visit until the next dusk."""
    return time_of(survey, visit + 1) - time_of(survey, visit)


def visits_in(survey: Survey, stretch_ns: int) -> int:
    """How many visits there are in a span of time that begins with a dusk; 0 in one that is not positive."""
    nights, rest = divmod(max(stretch_ns, 0), DAY_NS)
    return nights * survey.visits_a_night + min(survey.visits_a_night, -(-rest // survey.visit_interval_ns))


def first_at(survey: Survey, time_ns: int) -> int:
    """First visit at a time or later."""
    return visits_in(survey, time_ns - dusk_ns(survey))
