"""When visits are: one each `visit_interval_s` from dusk to dawn, night after night.

Each night begins with a visit at dusk. All of it is arithmetic of int64 nanoseconds, exact for any visit.
"""

import datetime

from schemas.visits.survey import DAY_NS, Survey


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
