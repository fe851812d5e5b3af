"""The daemon is asked of experiments once, however many look, and for what is new alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.tabs.interference.callbacks import Seen, clicked_dose, clicked_time, stamp_of
from dashboard.tabs.interference.measured import Experiments, of_record
from schemas.marks import Mark
from tests.page.experiments import UNDER_WAY, experiments_told, record_of

DOSES, PLAIN = "20260101T000000Z", "20251231T120000Z-P"


class Told:
    """A daemon that tells of experiments that never were. asked: how often by path; since: samples known, as asked."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {"under_way": None, "experiment": None, "past": []}
        self.asked: Counter[str] = Counter()
        self.since: list[int] = []
        self.is_here = True

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/interference")
        self.asked[path] += 1
        if not self.is_here:
            raise httpx.ConnectError("refused")
        if not path:
            given = {name: int(value) for name, value in request.url.params.items()}
            self.since.append(given["after"])
            told = experiments_told(self.figures, given["after"], given["blocks"], bool(given["past"]))
            return httpx.Response(200, json=told)
        if path[1:] not in self.figures["past"]:
            return httpx.Response(404, json={"detail": "nothing is kept here of it"})
        return httpx.Response(200, text=record_of(path[1:]).model_dump_json())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest_asyncio.fixture
async def experiments(told: Told, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Experiments]:
    api = DaemonApi(Daemon(url="http://daemon"))
    await api.close()
    api._http = httpx.AsyncClient(base_url="http://daemon/api/v1", transport=httpx.MockTransport(told))
    yield Experiments(api)
    await api.close()


def at_once(experiments: Experiments) -> None:
    """Let the next question be asked now."""
    for entry in experiments._answers._entries.values():
        entry.until_s = 0.0


async def test_the_daemon_is_asked_once_however_many_look(experiments: Experiments, told: Told) -> None:
    told.figures["past"] = [DOSES, PLAIN]
    known = await asyncio.gather(*(experiments.known(is_running=False) for _ in range(20)))
    shown = await asyncio.gather(*(experiments.shown(known[0], None, None) for _ in range(20)))
    assert told.asked == {"": 1, f"/{DOSES}": 1}
    assert {one.id for one, _ in shown if one} == {DOSES}


async def test_one_that_runs_is_asked_for_what_is_new(experiments: Experiments, told: Told) -> None:
    told.figures["under_way"] = 2
    first = await experiments.known(is_running=True)
    told.figures["under_way"] = 4
    at_once(experiments)
    second = await experiments.known(is_running=True)
    assert first.live is not None
    assert second.live is not None
    assert told.since == [0, len(first.live.samples)]
    whole = record_of(f"{UNDER_WAY}-P")
    assert second.live.blocks == whole.blocks[:4]
    assert second.live.samples == whole.timeline[: len(second.live.samples)]
    assert len(second.live.samples) > len(first.live.samples)
    before, after = [(await experiments.shown(known, None, UNDER_WAY))[0] for known in (first, second)]
    assert before is not None
    assert after is not None
    assert (before.id, before.doses, stamp_of(before) == stamp_of(after)) == (UNDER_WAY, [4], False)


def test_an_experiment_has_the_marks_of_the_chosen_group_and_of_all() -> None:
    hub = Hub(daemon="http://daemon", build="b")
    hub.marks = tuple(Mark(id=uuid4(), time_ns=1, text=group or "all", group=group) for group in (None, "bpm", "mag"))
    seen = Seen(hub, DaemonApi(Daemon(url="http://daemon")))
    shown, tick = of_record(record_of(PLAIN)), {"view": {"group": "mag"}}
    assert [mark.text for mark in seen.marks_of(shown, tick)[1]] == ["all", "mag"]
    assert stamp_of(shown, seen.marks(tick)) != stamp_of(shown, seen.marks({"view": {"group": "bpm"}}))


async def test_the_one_to_show_is_what_the_address_names_or_what_runs_or_ran_last(
    experiments: Experiments, told: Told
) -> None:
    nothing = await experiments.known(is_running=False)
    assert await experiments.shown(nothing, None, None) == (None, "")
    assert await experiments.shown(nothing, None, UNDER_WAY) == (None, ""), "it is starting"
    told.figures |= {"past": [DOSES, PLAIN], "under_way": 2}
    at_once(experiments)
    experiments._past_until_s = 0.0
    known = await experiments.known(is_running=True)
    assert known.version > nothing.version
    assert [known.wanted(PLAIN, UNDER_WAY), known.wanted(None, UNDER_WAY)] == [PLAIN, UNDER_WAY]
    chosen, problem = await experiments.shown(known, PLAIN, UNDER_WAY)
    assert chosen is not None
    assert (chosen.id, chosen.result is None, problem) == (PLAIN, False, "")


async def test_one_that_nobody_knows_is_asked_for_once(experiments: Experiments, told: Told) -> None:
    known = await experiments.known(is_running=False)
    for name, why in (
        ("20010101T000000Z", "nothing is kept here of it"),
        ("../status", "it is no id of an experiment"),
    ):
        for _ in range(3):
            shown, problem = await experiments.shown(known, name, None)
            assert (shown, problem) == (None, f"The experiment {name} cannot be shown: {why}.")
    assert told.asked == {"": 1, "/20010101T000000Z": 1}


async def test_a_daemon_that_is_gone_is_told_and_asked_again(experiments: Experiments, told: Told) -> None:
    told.is_here = False
    with pytest.raises(DaemonUnavailable, match="cannot be reached"):
        await experiments.known(is_running=False)
    told.is_here = True
    assert (await experiments.known(is_running=False)).past == []


def test_a_click_on_a_chart_names_the_readers_it_met() -> None:
    assert clicked_time({"points": [{"x": 1.0}, {"x": 1.0, "customdata": 0}]}) == 0
    assert clicked_time({"points": [{"x": 1.0, "customdata": None}]}) is None
    assert clicked_dose({"points": [{"x": 4, "y": 12.0}]}) == 4
