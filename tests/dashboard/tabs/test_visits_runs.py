import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI

from daemon.workloads.visits.archive import rows_of
from daemon.workloads.visits.figures import curves
from dashboard.feed.client import Daemon, DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.runs import newer
from dashboard.tabs.visits import runs as runs_
from dashboard.tabs.visits.charts import SERIES, STEPS
from dashboard.tabs.visits.runs import OF_VISIT, VisitRuns, following, has_grown
from schemas.api.visits import TIMES, Visits, VisitsFigures, VisitsRun
from schemas.config.visits import VisitsConfig
from tests.page.served import FIGURES, snapshot
from tests.page.served_visits import visit_routes
from tests.page.stage import free_port
from tests.page.visits import STATUS, measures
from tests.support.listening import eventually

SETTINGS = VisitsConfig.model_validate({"survey": {"scale": 0.02}})
LIVE, OVER = STATUS["id"], "20251231T120000Z"


def answered(visits: int, points: int = 900) -> bytes:
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


def figures(visits: int, points: int = 900) -> VisitsFigures:
    return VisitsFigures.model_validate_json(answered(visits, points))


def test_the_page_knows_what_the_daemon_answers() -> None:
    found = figures(300)
    assert found.visits == 300
    assert {*OF_VISIT, *(name for name, _, _ in SERIES)} <= found.columns.keys()
    assert {name for name, _, _ in STEPS} == set(TIMES)
    assert {name: len(means) for name, means in found.parts.items()} == dict.fromkeys(TIMES, len(found.boxes))
    assert found.settings.survey.scale == 0.02
    assert figures(0).boxes == []
    answer = Visits.model_validate({"status": STATUS, "past": [], "settings": SETTINGS})
    assert Visits.model_validate_json(answer.model_dump_json(by_alias=True)).settings.schema_name == "triggerlog_visits"


def test_points_stand_as_they_did_until_they_are_thinned() -> None:
    first = following(None, figures(300), ("running", 300))
    assert first.same == 0
    more = following(first, figures(320), ("running", 320))
    assert (more.stamp, more.same) == (first.stamp + 1, 300)
    assert following(more, figures(320, points=60), ("running", 321)).same == 0


@pytest.mark.parametrize(
    ("was", "at", "has"),
    [
        (("running", 4000), ("running", 4000), False),
        (("running", 4000), ("running", 4009), False),
        (("running", 4000), ("running", 4010), True),
        (("running", 0), ("running", 1), True),
        (("running", 4000), ("finished", 4000), True),
        (("kept", 0), ("kept", 0), False),
    ],
)
def test_a_chart_shows_a_400th_more_visits_and_another_state(
    was: tuple[str, int], at: tuple[str, int], has: bool
) -> None:
    assert has_grown(was, at) is has


class Stand:
    """A served daemon, and what the page knows of its runs."""

    def __init__(self, runs: VisitRuns, hub: Hub, served: dict[str, Any], counted: dict[str, int]) -> None:
        self.runs = runs
        self.served = served
        self.counted = counted
        self._hub = hub

    def status(self, **changes: Any) -> None:
        """Have the stream tell of the run under way."""
        self.served["visits"] = STATUS | changes
        self._hub.take(snapshot(1, time.time_ns(), visits=self.served["visits"]))


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    served, counted = dict(FIGURES), {"visits": 0}
    app = FastAPI()
    app.include_router(visit_routes(served, counted))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started, 60)
    api = DaemonApi(Daemon(url=f"http://127.0.0.1:{port}"))
    hub = Hub(daemon=api.url, build="0")
    yield Stand(VisitRuns(hub, api), hub, served, counted)
    await api.close()
    server.should_exit = True
    await serving


async def test_the_daemon_is_asked_once_however_many_look_and_again_when_there_is_more(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_, "EVERY_S", 0.0)
    stand.status(done=300, here=300)
    stand.served["shown_visits"] = 300
    assert await asyncio.gather(*(stand.runs.asked({}) for _ in range(5))) == [""] * 5
    assert stand.counted["visits"] == 1
    known = stand.runs.known(LIVE)
    assert known is not None
    assert await stand.runs.asked({}) == ""
    assert stand.runs.known(LIVE) is known
    stand.served["shown_visits"] = 340
    stand.status(done=340, here=340)
    assert await stand.runs.asked({}) == ""
    grown = stand.runs.known(LIVE)
    assert grown is not None
    assert (grown.stamp, grown.same, stand.counted["visits"]) == (known.stamp + 1, 300, 2)


async def test_the_address_names_a_run_else_it_is_the_one_under_way_or_the_newest(stand: Stand) -> None:
    view: dict[str, Any] = {"visits": None}
    assert await stand.runs.asked(view) == ""
    assert stand.runs.shown({"view": view, "dead": False}).id == ""
    stand.served["past_visits"] = [OVER, f"{OVER}-2"]
    stand.status()
    assert await stand.runs.asked(view | {"visits": f"{OVER}-2"}) == ""
    shown = stand.runs.shown({"view": view | {"visits": f"{OVER}-2"}, "dead": False})
    assert (shown.live, shown.is_busy, shown.kept and shown.kept.problem) == (None, True, "it was stopped on request")
    assert shown.last is not None
    assert shown.last.visit == 699
    stand.status(state="finished")
    shown = stand.runs.shown({"view": view, "dead": False})
    assert (shown.id, shown.kept, shown.live is not None, shown.is_busy) == (LIVE, None, True, False)


async def test_what_cannot_be_had_is_said_in_one_line(stand: Stand) -> None:
    problem = await stand.runs.asked({"visits": "20010101T000000Z"})
    assert problem.startswith("The run 20010101T000000Z cannot be shown: nothing is kept here of visits")
    stand.status(id="20270101T000000Z")
    stand.served["visits"] = None  # it has only begun: there are no figures
    assert await stand.runs.asked({}) == ""
    nobody = DaemonApi(Daemon(url=f"http://127.0.0.1:{free_port()}"))
    assert (await VisitRuns(Hub(daemon="", build="0"), nobody).asked({})).startswith("Visits are unknown: the daemon")
    await nobody.close()


async def test_no_more_figures_are_held_than_somebody_looks_at(stand: Stand) -> None:
    names = [f"202512{10 + number}T120000Z" for number in range(runs_.MOST + 1)]
    stand.served["past_visits"] = names
    for name in names:
        assert await stand.runs.asked({"visits": name}) == ""
    assert [stand.runs.known(name) is not None for name in names] == [False, *[True] * runs_.MOST]


def test_of_two_ticks_the_later_one_has_what_is_chosen() -> None:
    old, new = {"at": 1.0, "view": {"visits": None}}, {"at": 2.0, "view": {"visits": OVER}}
    assert newer(old, new) == newer(new, old) == newer(new, None) == new
    assert newer({"at": 2.0, "view": {}}, new) == {"at": 2.0, "view": {}}, "the first is set first"
    assert newer(None, None) is None
