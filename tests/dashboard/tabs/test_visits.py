import json
import time

import numpy as np

from daemon.workloads.visits.curves import curves
from daemon.workloads.visits.series import rows_of
from dashboard.tabs.visits.routes import DRAWN, Shown
from schemas.api.visits import TIMES, Visits, VisitsFigures, VisitsRun
from schemas.config.visits import VisitsConfig
from tests.page.visits import STATUS, measures

SETTINGS = VisitsConfig.model_validate({"survey": {"scale": 0.02}})


def told(visits: int, points: int = 900) -> bytes:
    """What the daemon answers of a run with so many visits."""
    columns = measures(visits) | {"resumed": [False] * visits}
    rows = rows_of({name: np.array(column) for name, column in columns.items()})
    run = VisitsRun(
        id="20260101T000000Z",
        began_ns=time.time_ns(),
        ended_ns=time.time_ns(),
        settings=SETTINGS,
        product="postgresql",
        version="18.1",
        server={},
        visits=(),
    )
    return json.dumps(curves(run, rows, points)).encode()


def test_the_page_knows_what_the_daemon_answers() -> None:
    figures = VisitsFigures.model_validate_json(told(300))
    assert figures.visits == 300
    assert set(DRAWN) <= figures.columns.keys()
    assert {name: len(means) for name, means in figures.parts.items()} == dict.fromkeys(TIMES, len(figures.boxes))
    assert figures.settings.survey.scale == 0.02
    assert VisitsFigures.model_validate_json(told(0)).boxes == []
    answer = Visits.model_validate({"status": STATUS, "past": [], "settings": SETTINGS})
    assert Visits.model_validate_json(answer.model_dump_json(by_alias=True)).settings.schema_name == "triggerlog_visits"


def test_a_browser_is_sent_the_points_that_came_since_and_all_once_they_are_thinned() -> None:
    shown = Shown()
    shown.take(VisitsFigures.model_validate_json(told(300)))
    first = shown.since(0)
    assert (first["from"], len(first["columns"]["visit"])) == (0, 300)
    assert shown.since(first["stamp"]) == {"stamp": first["stamp"]}
    shown.take(VisitsFigures.model_validate_json(told(320)))
    more = shown.since(first["stamp"])
    assert (more["from"], more["columns"]["visit"]) == (300, list(range(300, 320)))
    assert shown.since(first["stamp"] - 1)["from"] == 0
    shown.take(VisitsFigures.model_validate_json(told(320, points=60)))
    assert shown.since(more["stamp"])["from"] == 0
